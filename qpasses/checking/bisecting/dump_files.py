"""A device's dump: which of its files holds which tensor of which sample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from calibration.arrays import is_array_file
from calibration.files import files_below, natural
from opsets.errors import DataError, UsageError
from opsets.ordinary_files import check_ordinary
from qpasses.emit.vectors.tensor_names import names_of_dumps

INDEX = "index.json"
"""Beside it, in a folder of vectors, TENSORS holds what a dump holds."""

TENSORS = "tensors"


@dataclass
class DumpedSample:
    """What is there of a sample: by tensor a file, and in a .npz the name of the array."""

    name: str
    places: dict[str, tuple[Path, str]] = field(default_factory=dict)

    def load(self, tensor: str) -> NDArray[Any]:
        """The array. Raises DataError for a file that holds none."""
        path, name = self.places[tensor]
        try:
            check_ordinary(path)
            with path.open("rb") as stream:
                found = np.load(stream, allow_pickle=False)
                return np.asarray(found[name] if name else found)
        except (OSError, ValueError, EOFError, BadZipFile, KeyError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{path}: cannot be read as an array: {reason}") from error


@dataclass(frozen=True)
class Dump:
    """Samples in natural order; ``unknown``: names that are of no stored tensor."""

    samples: Sequence[DumpedSample]
    unknown: Sequence[str]

    def remark(self, names: Sequence[str]) -> str:
        """What to say of unknown names, if there are any."""
        if not self.unknown:
            return ""
        first = self.unknown[0]
        near = get_close_matches(first, [*names_of_dumps(names)], n=1, cutoff=0.6)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        others = f" and {len(self.unknown) - 1:,} more" if len(self.unknown) > 1 else ""
        verb = "are" if others else "is"
        return f"{first!r}{hint}{others} {verb} no stored tensor of the model: left out"


def open_dump(path: Path, names: Sequence[str]) -> Dump:
    """What is at ``path`` of the tensors ``names``; it is read when it is asked for.

    A folder of .npy files is one sample, a folder in it or a .npz a sample each. Raises
    UsageError or DataError where nothing is there, or nothing of these tensors.
    """
    found = _Found(path.name, names_of_dumps(names))
    for file, parts in _files(path):
        found.add(file, parts)
    samples, unknown = found.samples, found.unknown
    if not samples:
        shown = Dump((), unknown).remark(names) or "its .npz files are empty"
        raise DataError(
            f"{path}: holds no stored tensor of the model: {shown}; `qpasses export --to "
            "vectors` writes the names (docs/bisect.md)"
        )
    return Dump([samples[each] for each in sorted(samples, key=natural)], unknown)


@dataclass
class _Found:
    """What is in the dump called ``title``: samples by their place in it, and unknown names.

    ``meant``: the tensor of each name. ``_exact``: the files of a tensor's own name.
    """

    title: str
    meant: Mapping[str, str]
    samples: dict[str, DumpedSample] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    _exact: set[tuple[str, str]] = field(default_factory=set)

    def add(self, file: Path, parts: Sequence[str]) -> None:
        """The arrays of a file, which has ``parts`` as its name inside of the dump."""
        if file.suffix.lower() == ".npz":
            for array in _names_in(file):
                self._put("/".join(parts), array, (file, array))
            return
        starts = (i for i in range(len(parts)) if "/".join(parts[i:]) in self.meant)
        start = next(starts, 0)
        self._put("/".join(parts[:start]), "/".join(parts[start:]), (file, ""))

    def _put(self, sample: str, name: str, place: tuple[Path, str]) -> None:
        """Keep it, a tensor's own name before others. Raises DataError for two."""
        tensor = self.meant.get(name)
        if tensor is None:
            self.unknown.append(name)
            return
        places = self.samples.setdefault(sample, DumpedSample(sample or self.title)).places
        is_exact, was_exact = name == tensor, (sample, tensor) in self._exact
        if tensor in places and is_exact == was_exact:
            raise DataError(
                f"{places[tensor][0]} and {place[0]} both are of tensor {tensor!r}: leave one"
            )
        if is_exact:
            self._exact.add((sample, tensor))
        if is_exact or not was_exact:
            places[tensor] = place


def _files(path: Path) -> list[tuple[Path, Sequence[str]]]:
    """Each file with arrays, and the parts of its name inside of the dump."""
    try:
        check_ordinary(path)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: does not exist") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    if path.is_file():
        if not is_array_file(path.name):
            raise UsageError(f"{path}: a folder, or a .npz or .npy file, is needed")
        return [(path, () if path.suffix.lower() == ".npz" else (path.stem,))]
    if (path / INDEX).is_file() and (path / TENSORS).is_dir():
        path = path / TENSORS
    names = files_below(path, is_array_file)
    if not names:
        raise DataError(f"{path}: holds no .npy and no .npz file")
    return [(path / name, name[: name.rindex(".")].split("/")) for name in names]


def _names_in(file: Path) -> Sequence[str]:
    try:
        with np.load(file, allow_pickle=False) as content:
            return list(content.files)
    except (OSError, ValueError, EOFError, BadZipFile, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{file}: cannot be read as a .npz: {reason}") from error


def paired(dump: Dump, names: Sequence[str]) -> Mapping[str, int]:
    """By sample of the dump, the place of its sample among ``names``.

    By their names if these are all known, else in order. Raises DataError for more than there
    are.
    """
    places = {_short(name): i for i, name in enumerate(names)}
    found = {each.name: places.get(_short(each.name), -1) for each in dump.samples}
    if -1 not in found.values() and len({*found.values()}) == len(found):
        return found
    if len(found) > len(names):
        raise DataError(
            f"the dump holds {len(found)} samples, the data {len(names)}: give the samples "
            "that the device was given"
        )
    return {each.name: i for i, each in enumerate(dump.samples)}


def _short(name: str) -> str:
    return Path(name).name.removesuffix(".npz").removesuffix(".npy")
