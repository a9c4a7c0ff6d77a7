"""Folders that appear whole or not at all."""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from opsets.errors import UsageError
from qpasses.emit.whole_files import Content, refusals, usual_mode

Files = Iterable[tuple[str, Content]]
"""Paths inside of a folder, and what these files are to hold; made while they are written."""


def check_folder(path: Path) -> None:
    """Raise UsageError if a new folder cannot be made there."""
    try:
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path}: is a file, the name of a new folder is needed")
        if path.exists() and any(path.iterdir()):
            raise UsageError(f"{path}: is there already, and not empty: choose another name")
        if not path.absolute().parent.is_dir():
            raise UsageError(f"{path}: the folder {path.parent} does not exist")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def write_folder(path: Path, files: Files) -> None:
    """Write ``files`` to a temporary folder beside ``path``, then move it into place.

    Raises UsageError if the disk refuses; then, or if making a file raises, nothing is left.
    """
    with refusals(path):
        staged = Path(tempfile.mkdtemp(dir=path.absolute().parent, prefix=f".{path.name}."))
    try:
        for name, content in files:
            place = staged / name
            with refusals(path):
                place.parent.mkdir(parents=True, exist_ok=True)
                with place.open("wb") as stream:
                    stream.writelines(content)
        with refusals(path):
            staged.chmod(usual_mode(0o777))
            staged.replace(path)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
