"""Samples in .npy and .npz files: one per file of a folder, or stacked in one file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.archives import archived, let_go
from calibration.array_names import ArrayNames
from calibration.files import has_suffix
from calibration.inputs import Arrays, InputSpec, check_names, only_input
from calibration.source import Files, Source
from opsets.errors import DataError
from opsets.ordinary_files import check_ordinary


def is_array_file(name: str) -> bool:
    """Whether a file is a .npy or .npz by its name."""
    return has_suffix(name, (".npy", ".npz"))


@dataclass(frozen=True)
class ArrayFolder(Files):
    """A folder with one feed per file."""

    specs: Sequence[InputSpec]
    naming: ArrayNames

    def read(self, index: int) -> Arrays:
        """The arrays of the file, by input."""
        name = self.names[index]
        return self.naming.matched(_load(self.folder / name, self.specs), self.specs, name)


@dataclass(frozen=True)
class Stack(Source):
    """Arrays [samples, *shape of the input], from the file ``path`` or from memory."""

    title: str
    arrays: Mapping[str, NDArray[Any]]
    count: int
    path: Path | None = None

    @property
    def place(self) -> str:
        """In which file, if it is one."""
        return f"in {self.path}" if self.path else "of an array"

    @property
    def paths(self) -> Sequence[Path]:
        """The file, if it is one."""
        return [self.path] if self.path else []

    def __len__(self) -> int:
        return self.count

    def name(self, index: int) -> str:
        """The file's name and the position in the stack."""
        return f"{self.title}[{index}]"

    def read(self, index: int) -> Arrays:
        """A copy of one row of each array."""
        rows: Arrays = {
            name: np.array(array[index], order="C") for name, array in self.arrays.items()
        }
        if self.path:  # views of others are theirs, and may have been written to
            for array in self.arrays.values():
                let_go(array)
        return rows


def stacked_file(path: Path, specs: Sequence[InputSpec], naming: ArrayNames) -> Stack:
    """The samples stacked along the first axis of a .npy or .npz file.

    Raises DataError if the file cannot be read or does not hold so many for each input.
    """
    arrays = naming.matched(_load(path, specs), specs, str(path))
    check_names(arrays, specs, str(path))
    given = [spec for spec in specs if spec.name in arrays]  # what is optional may be absent
    stacks = {spec.name: _as_stack(arrays[spec.name], spec, str(path)) for spec in given}
    counts = {name: len(stack) for name, stack in stacks.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name!r} {count}" for name, count in counts.items())
        raise DataError(f"{path}: the inputs have different numbers of samples: {listed}")
    return Stack(path.name, stacks, min(counts.values(), default=0), path)


def stacked_array(array: NDArray[Any], specs: Sequence[InputSpec]) -> Stack:
    """The samples stacked along the first axis of an array, for a model with one input."""
    spec = only_input(specs, "data", "dicts with one array per input")
    stack = _as_stack(array, spec, "data")
    return Stack("data", {spec.name: stack}, len(stack))


def _as_stack(array: NDArray[Any], spec: InputSpec, where: str) -> NDArray[Any]:
    """[samples, *input shape]: the batch dimension of the input is split off where needed.

    Of a sequence [samples, elements, *shape], of what is optional [samples, *shape].
    """
    if array.ndim == len(spec.shape) + 1 or (spec.holds != "tensor" and array.ndim):
        return array
    if array.ndim != len(spec.shape) or array.ndim == 0:
        raise DataError(
            f"{where}: input {spec.name!r} has shape {list(array.shape)}, expected "
            f"samples of {spec} stacked along the first axis"
        )
    batch = spec.shape[0] or 1
    if len(array) % batch:
        raise DataError(
            f"{where}: input {spec.name!r} has {len(array)} rows, which is no "
            f"multiple of the model's batch size {batch}"
        )
    return array.reshape(len(array) // batch, batch, *array.shape[1:])


_PARSING = Lock()
"""CPython 3.11 now and then refuses to parse two of numpy's headers at the same time."""


def _load(path: Path, specs: Sequence[InputSpec]) -> dict[str, NDArray[Any]]:
    content = _content(path)
    if isinstance(content, dict):
        return content
    instead = ".npz files with one array per input"
    return {only_input(specs, str(path), instead).name: content}


def _content(path: Path) -> NDArray[Any] | dict[str, NDArray[Any]]:
    """The array of a .npy, the arrays of a .npz; what is large is read as it is needed."""
    try:
        check_ordinary(path)
        with _PARSING:
            content = np.load(path, mmap_mode="r", allow_pickle=False)
            if isinstance(content, np.ndarray):
                return content
            with content:
                return archived(path, content)
    except Exception as error:  # numpy raises whatever it stumbles over
        raise DataError(
            f"{path}: cannot be read as numpy.save or numpy.savez write it: {_reason(error)}"
        ) from error


def _reason(error: Exception) -> str:
    """Why numpy cannot read a file, without its advice to load what may run programs."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    text = (str(error) or type(error).__name__).splitlines()[0]
    if "pickle" in text or "Python objects" in text:
        return "it holds text or Python objects, not numbers: save an array of numbers"
    if "mmap length" in text:
        return "it is shorter than it says: was it copied whole?"
    return text
