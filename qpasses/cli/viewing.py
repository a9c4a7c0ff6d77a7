"""Netron: the graph in a browser, each node with what is known of it."""

import logging
import os
import sys
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from opsets.errors import UsageError

_DISPLAYS = "DISPLAY", "WAYLAND_DISPLAY", "BROWSER"
"""On Linux a browser needs one of these; those of terminals draw no graphs."""


def view(model: Path, input_shape: Sequence[str], port: int | None) -> None:
    """Show ``model`` until interrupted, in a browser, or at ``port`` for one elsewhere.

    Raises UsageError if Netron, a browser or the port is missing.
    """
    try:
        import netron
    except ModuleNotFoundError as error:
        raise UsageError("there is no Netron here: pip install 'qpasses[view]'") from error
    if port is None and not _has_browser():
        raise UsageError(
            f"there is no browser here: --serve 8080 shows {model} at http://localhost:8080, "
            "which `ssh -L 8080:localhost:8080 HOST` brings to another machine"
        )
    from qpasses.api import annotate

    with TemporaryDirectory() as folder:
        file = Path(folder) / f"{model.stem}.onnx"
        annotate(model, file, input_shape=input_shape)
        logging.getLogger("netron.server").setLevel(logging.WARNING)
        try:
            host, chosen = netron.start(str(file), ("localhost", port), browse=port is None)
        except OSError as error:
            raise UsageError(
                f"port {port} cannot be served: {error.strerror}: choose another"
            ) from error
        click.echo(f"{model} at http://{host}:{chosen}, until interrupted (Ctrl-C)")
        netron.wait()


def _has_browser() -> bool:
    if sys.platform.startswith("linux") and not any(map(os.environ.get, _DISPLAYS)):
        return False
    with suppress(webbrowser.Error):
        return webbrowser.get() is not None
    return False
