"""Programs that are called: where they are, and what they say if they fail."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from opsets.errors import ModelError, UsageError
from qpasses.emit.tosa.emit import TosaProgram

Arrays = Sequence[NDArray[Any]]

_SHOWN = 400
"""So many characters of what a program says are shown."""


class Runner(Protocol):
    """What runs TOSA; ``title``: as it is spoken of, ``key``: in a report."""

    title: str
    key: str

    def prepared(self, program: TosaProgram, place: Path) -> Path:
        """What ``run`` takes, made of a program, beside ``place``. Raises ModelError."""

    def run(self, prepared: Path, given: Arrays, results: int, folder: Path) -> Arrays:
        """So many ``results`` of the inputs that are ``given``. Raises ModelError."""


def tool(name: str, option: str, install: str) -> Path:
    """Where a program is. Raises UsageError, saying how to ``install`` it."""
    beside = Path(sys.executable).parent / name
    found = beside if beside.is_file() else shutil.which(name)
    if found is None:
        raise UsageError(f"--with {option} needs the program {name}: {install}")
    return Path(found)


def called(what: str, command: Sequence[object]) -> None:
    """Raises ModelError, with what the program says, if it fails."""
    try:
        done = subprocess.run([*map(str, command)], capture_output=True, check=False)
    except OSError as error:
        raise ModelError(f"{what}: {command[0]}: {error.strerror}") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).decode(errors="replace").split())
        raise ModelError(f"{what} (exit {done.returncode}): {said[:_SHOWN]}")


def results_of(title: str, paths: Sequence[Path]) -> Arrays:
    """What a program wrote. Raises ModelError where it did not."""
    try:
        return [np.load(path) for path in paths]
    except (OSError, ValueError) as error:
        raise ModelError(f"{title} ended well, and wrote no results: {error}") from error
