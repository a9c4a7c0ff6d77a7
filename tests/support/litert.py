"""Single-op TFLite models, and what LiteRT's interpreter makes of them in a child process.

Only what tests of the target ``litert`` need: models are written by qpasses/emit.
"""

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

IS_THERE = find_spec("ai_edge_litert") is not None and find_spec("flatbuffers") is not None

needs_litert = pytest.mark.skipif(
    not IS_THERE, reason="ai-edge-litert, or flatbuffers, is not installed"
)

needs_tflm = pytest.mark.skipif(
    not IS_THERE or find_spec("tflite_micro") is None,
    reason="tflite-micro is not installed: pip install tflite-micro",
)

RUNTIMES = [pytest.param("litert", marks=needs_litert), pytest.param("tflm", marks=needs_tflm)]


@dataclass(frozen=True)
class Stored:
    """A tensor: its scales (float32) and zero point, and values where it is constant."""

    shape: Sequence[int]
    scale: Sequence[float] | float | None = None
    zero: int = 0
    dtype: str = "int8"
    values: Any = None
    axis: int = 0


@dataclass(frozen=True)
class SingleOp:
    """One operator: the name and version of its code, options by field, tensors in order.

    Tensors without values are fed, in order, for each of ``feeds``. ``requantized``: what the
    operator reads in place of each input, which a QUANTIZE makes of it, or None.
    """

    code: str
    inputs: Sequence[Stored]
    output: Stored
    feeds: Sequence[Sequence[Any]]
    version: int = 1
    options: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    requantized: Sequence[Stored | None] = ()


@dataclass(frozen=True)
class WholeFile:
    """A file with one input and one output. Variables start anew for each of ``feeds``."""

    content: bytes
    feeds: Sequence[Any]


class _Child:
    """The process that runs operators, of one list after another."""

    def __init__(self) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.litert_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
        )

    def run(self, ops: Sequence[SingleOp | WholeFile], resolver: str) -> list[list[Any]]:
        """What it answers. Raises ChildProcessError."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None and answers is not None
        try:
            pickle.dump((list(ops), resolver), asked)
            asked.flush()
            found: list[list[Any]] = pickle.load(answers)
        except (BrokenPipeError, EOFError) as error:
            code = self._process.wait()
            self._said.seek(0)
            raise ChildProcessError(f"{code}: {self._said.read().decode()[-500:]}") from error
        return found


_children: list[_Child] = []


def interpreted(
    ops: Sequence[SingleOp | WholeFile], resolver: str = "BUILTIN_REF"
) -> list[list[Any]]:
    """The output of each op for each of its feeds; a child process runs all of them.

    ``resolver``: TFLM, for files, is TensorFlow Lite Micro. It is the same one each time.
    Raises ChildProcessError with what it said if it died: some
    kernels abort.
    """
    child = _children.pop() if _children else _Child()
    found = child.run(ops, resolver)
    _children.append(child)
    return found


def float32(value: float) -> float:
    """``value`` as float32 holds it."""
    return float(np.float32(value))
