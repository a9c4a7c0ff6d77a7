"""LiteRT's interpreter in a process of its own, by any of its resolvers of kernels."""

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opsets.errors import ModelError, UsageError
from qpasses.emit.tflite.flatbuffer import INSTALL
from qpasses.ir.choices import TfliteRuntime

Resolver = Literal["BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "AUTO", "TFLM"]
"""LiteRT's, and TensorFlow Lite Micro's only one."""

REFERENCE: Resolver = "BUILTIN_REF"

JUDGES: Mapping[TfliteRuntime, tuple[Resolver, str]] = {
    "litert": (REFERENCE, f"LiteRT's reference kernels ({REFERENCE})"),
    "tflm": ("TFLM", "TensorFlow Lite Micro's kernels"),
}
"""What has to give the integers of a file, and how it is spoken of."""

OTHERS: Mapping[Resolver, str] = {
    "BUILTIN_WITHOUT_DEFAULT_DELEGATES": "optimized kernels",
    "AUTO": "XNNPACK, the default",
}
"""What else runs, and how it is spoken of."""

_CHILD = Path(__file__).with_name("litert_child.py")

_SHOWN = 300
"""So many characters of what the process said last are shown."""


def check_installed(name: TfliteRuntime) -> None:
    """Raise UsageError, saying how to install it, where what runs files is not."""
    if find_spec("ai_edge_litert") is None or find_spec("flatbuffers") is None:
        raise UsageError(f"--with {name} needs ai-edge-litert: {INSTALL}")
    if name == "tflm" and find_spec("tflite_micro") is None:
        raise UsageError("--with tflm needs tflite-micro: pip install tflite-micro")


class LitertProcess:
    """An interpreter of ``model`` that waits for inputs; ``keep``: of what is between, too.

    To be closed. Raises ModelError where the file cannot be run, also by what ends a process.
    """

    def __init__(self, model: Path, resolver: Resolver, folder: Path, *, keep: bool) -> None:
        self._title = "TensorFlow Lite Micro" if resolver == "TFLM" else f"LiteRT ({resolver})"
        self._given, self._made = (folder / f"{resolver}.{n}.npz" for n in ("given", "made"))
        self._said = folder / f"{resolver}.log"
        with self._said.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", str(_CHILD), str(model), resolver),
                    "1" if keep else "0",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            self._wait("does not load the file")
        except ModelError:
            self.close()
            raise

    def run(
        self, given: Mapping[int, NDArray[Any]], wanted: Sequence[int]
    ) -> Mapping[int, NDArray[Any]]:
        """The tensors at these places. Raises ModelError."""
        np.savez(
            self._given,
            wanted=np.array(wanted, np.int64),
            allow_pickle=False,
            **{str(place): values for place, values in given.items()},
        )
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{self._given}\t{self._made}\n")
            self._process.stdin.flush()
        self._wait("fails")
        with np.load(self._made) as arrays:
            return {int(name): arrays[name] for name in arrays.files}

    def _wait(self, what: str) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line == "\n":
            return
        said = line.strip() or self._last_words()
        raise ModelError(f"{self._title} {what}: {said}")

    def _last_words(self) -> str:
        code = self._process.wait()
        ended = signal.Signals(-code).name if code < 0 else f"exit {code}"
        log = " ".join(self._said.read_text("utf-8", "replace").split())
        return f"its process ended ({ended}): {log[-_SHOWN:] or 'without a word'}"

    def close(self) -> None:
        """End it."""
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        if self._process.poll() is None:
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
