"""Samples: .npy and .npz files as feeds for a model, read one at a time and checked."""

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from opsets.errors import DataError, ModelError

Feed = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class InputSpec:
    """A graph input: name, numpy type, and shape with None where a dimension is free."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name!r}: {self.dtype}[{sizes}]"


@dataclass(frozen=True)
class Samples:
    """Named feeds, read from disk while iterating; may be iterated any number of times."""

    names: Sequence[str]
    sources: Sequence["_Source"]
    specs: Sequence[InputSpec]

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[tuple[str, Feed]]:
        for name, source in zip(self.names, self.sources, strict=True):
            yield name, _checked(source.read(self.specs), self.specs, name)

    def first(self, count: int) -> "Samples":
        """The first ``count`` samples (fewer if there are fewer)."""
        return Samples(self.names[:count], self.sources[:count], self.specs)


@dataclass(frozen=True)
class _File:
    path: Path

    def read(self, specs: Sequence[InputSpec]) -> dict[str, NDArray[Any]]:
        arrays = _load(self.path, specs)
        for spec in specs:
            array = arrays.get(spec.name)
            if array is not None and array.ndim == len(spec.shape) - 1:
                arrays[spec.name] = array[None]  # one picture without its batch dimension
        return arrays


@dataclass(frozen=True)
class _Stack:
    arrays: Mapping[str, NDArray[Any]]
    index: int

    def read(self, specs: Sequence[InputSpec]) -> dict[str, NDArray[Any]]:
        return {
            name: np.array(array[self.index], order="C") for name, array in self.arrays.items()
        }


_Source = _File | _Stack


def input_specs(model: onnx.ModelProto) -> list[InputSpec]:
    """The inputs a feed must give (initializers listed as inputs are not among them)."""
    given = {tensor.name for tensor in model.graph.initializer}
    specs = []
    for value in model.graph.input:
        if value.name in given:
            continue
        tensor = value.type.tensor_type
        if not tensor.elem_type:
            raise ModelError(
                f"input {value.name!r} is not a tensor: such models cannot be fed"
            )
        dims = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        specs.append(InputSpec(value.name, dtype, tuple(dims)))
    return specs


def open_samples(path: Path, specs: Sequence[InputSpec], limit: int | None = None) -> Samples:
    """The samples at ``path``, in natural order of their names, at most ``limit``.

    A folder holds one feed per .npy or .npz file; a single file holds samples stacked along
    the first axis. A .npz names its arrays after the inputs, a .npy serves a model with one
    input. Raises DataError if there is nothing to read; iterating raises it, naming sample and
    input, for a sample that cannot be read or does not fit.
    """
    if limit is not None and limit < 1:
        raise DataError(f"the number of samples must be at least 1, got {limit}")
    if path.is_dir():
        files = sorted(filter(_is_sample, path.iterdir()), key=_natural)
        if not files:
            raise DataError(f"{path}: no .npy or .npz files in this folder")
        return Samples([f.name for f in files], [_File(f) for f in files], specs).first(
            limit or len(files)
        )
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if not _is_sample(path):
        raise DataError(f"{path}: samples are .npy or .npz files, or a folder of them")
    return _stacked(path, specs, limit)


def _is_sample(path: Path) -> bool:
    return path.suffix.lower() in (".npy", ".npz") and path.is_file()


def _stacked(path: Path, specs: Sequence[InputSpec], limit: int | None) -> Samples:
    arrays = _load(path, specs)
    _check_names(arrays, specs, str(path))
    counts = {}
    for spec in specs:
        arrays[spec.name] = stacked = _as_stack(arrays[spec.name], spec, path)
        counts[spec.name] = len(stacked)
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name!r} {count}" for name, count in counts.items())
        raise DataError(f"{path}: the inputs have different numbers of samples: {listed}")
    total = min(counts.values(), default=0)
    if total == 0:
        raise DataError(f"{path}: holds no samples")
    chosen = range(min(total, limit or total))
    return Samples(
        [f"{path.name}[{i}]" for i in chosen], [_Stack(arrays, i) for i in chosen], specs
    )


def _as_stack(array: NDArray[Any], spec: InputSpec, path: Path) -> NDArray[Any]:
    """[samples, *input shape]: the batch dimension of the input is split off where needed."""
    if array.ndim == len(spec.shape) + 1:
        return array
    if array.ndim != len(spec.shape) or array.ndim == 0:
        raise DataError(
            f"{path}: input {spec.name!r} has shape {list(array.shape)}, expected "
            f"samples of {spec} stacked along the first axis"
        )
    batch = spec.shape[0] or 1
    if len(array) % batch:
        raise DataError(
            f"{path}: input {spec.name!r} has {len(array)} rows, which is no "
            f"multiple of the model's batch size {batch}"
        )
    return array.reshape(-1, batch, *array.shape[1:])


def _load(path: Path, specs: Sequence[InputSpec]) -> dict[str, NDArray[Any]]:
    try:
        # a .npy is read as it is needed, the arrays of a .npz whole
        content = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(content, np.ndarray):
            if not specs:
                raise DataError(f"{path}: the model has no inputs to feed")
            if len(specs) != 1:
                names = ", ".join(repr(spec.name) for spec in specs)
                raise DataError(
                    f"{path}: the model has {len(specs)} inputs ({names}): use .npz "
                    "files with one array per input"
                )
            return {specs[0].name: content}
        with content:
            return {name: content[name] for name in content.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError) as error:
        raise DataError(
            f"{path}: cannot be read as numpy.save or numpy.savez write it: "
            f"{str(error).splitlines()[0]}"
        ) from error


def _check_names(arrays: Feed, specs: Sequence[InputSpec], name: str) -> None:
    expected = {spec.name for spec in specs}
    listed = "; ".join(map(str, specs))
    for extra in sorted(arrays.keys() - expected):
        raise DataError(f"{name}: the model has no input {extra!r} (inputs: {listed})")
    for missing in sorted(expected - arrays.keys()):
        raise DataError(f"{name}: no array for input {missing!r} (inputs: {listed})")


def _checked(feed: dict[str, NDArray[Any]], specs: Sequence[InputSpec], name: str) -> Feed:
    _check_names(feed, specs, name)
    for spec in specs:
        array = feed[spec.name]
        if array.dtype != spec.dtype:
            raise DataError(
                f"{name}: input {spec.name!r} is {array.dtype}, the model takes {spec.dtype}"
                f" (numpy: .astype(np.{spec.dtype}))"
            )
        fits = len(array.shape) == len(spec.shape) and all(
            want is None or want == have
            for want, have in zip(spec.shape, array.shape, strict=True)
        )
        if not fits:
            raise DataError(
                f"{name}: input {spec.name!r} has shape {list(array.shape)}, the "
                f"model takes {spec}"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise DataError(f"{name}: input {spec.name!r} holds NaN or infinite values")
    return feed


def _natural(path: Path) -> list[tuple[int, int, str]]:
    """Numbers in a name sort by value: 2.npy before 10.npy."""
    return [
        (0, int(part), "") if part.isdigit() else (1, 0, part)
        for part in re.findall(r"\d+|\D+", path.name)
    ]
