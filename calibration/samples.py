"""Samples: feeds for a model, from wherever they are, read one at a time and checked."""

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.array_names import ArrayNames
from calibration.arrays import (
    ArrayFolder,
    Stack,
    is_array_file,
    stacked_array,
    stacked_file,
)
from calibration.files import files_below, files_in
from calibration.images import Pictures, is_picture, pictures
from calibration.inputs import Feed, InputSpec, check_finite, fitted, tensors
from calibration.made_up import MadeUp, is_made_up, is_size_alone, made_up
from calibration.preprocessing import Preprocessing
from calibration.readers import Listed, Spool, from_iterable, from_reader, is_reader
from calibration.source import Source
from calibration.tensors import DataSets, data_sets
from opsets.errors import DataError, UsageError

_BYTES = bytes | bytearray | memoryview
"""Sequences of numbers that are no samples."""


@dataclass(frozen=True)
class Samples:
    """Named feeds, read while iterating; may be iterated any number of times.

    ``chosen`` are the positions in ``source`` of those that are used; ``unbounded`` the inputs
    that may hold NaN and infinity; ``naming`` has said which array is for which input.
    """

    source: Source
    specs: Sequence[InputSpec]
    chosen: Sequence[int]
    unbounded: frozenset[str] = frozenset()
    naming: ArrayNames = field(default_factory=ArrayNames)

    def __len__(self) -> int:
        return len(self.chosen)

    def __iter__(self) -> Iterator[tuple[str, Feed]]:
        for position in range(len(self)):
            yield self.name(position), self.read(position)

    def name(self, position: int) -> str:
        """What errors and reports call the sample."""
        return self.source.name(self.chosen[position])

    def read(self, position: int) -> Feed:
        """The feed of the sample; raises DataError, naming it, if it is damaged or unfit."""
        index = self.chosen[position]
        name = self.source.name(index)
        feed = fitted(self.source.read(index), self.specs, name)
        check_finite(feed, name, self.unbounded)
        return feed

    def bounded(self, names: Collection[str]) -> "Samples":
        """These; of the inputs, those called ``names`` have to be finite."""
        free = frozenset(spec.name for spec in self.specs if spec.name not in names)
        return replace(self, unbounded=free)

    def first(self, skip_bad: bool = False) -> Feed:
        """The feed of the first sample, or of the first good one; DataError if there is none.

        Whether a sample makes a tensor NaN or infinite cannot be told from it alone, nor
        which inputs must be finite: one that holds others will do where there is none without.
        """
        wanted = range(len(self) if skip_bad else min(1, len(self)))
        for samples in (self, self.bounded(())):
            for position in wanted:
                with suppress(DataError):
                    return samples.read(position)
        if not wanted:
            raise DataError("there are no samples")
        return self.bounded(()).read(wanted[-1])

    def endless(self, first: Feed) -> set[str]:
        """The inputs that hold infinity, but no NaN, in each that can be read.

        ``first`` is one of them: where its inputs are finite, the others are not looked at.
        """
        found = {name for name, array in tensors(first).items() if _is_endless(array)}
        for position in range(len(self)):
            if not found:
                break
            with suppress(DataError):
                feed = tensors(self.bounded(()).read(position))
                found = {name for name in found if name in feed and _is_endless(feed[name])}
        return found

    def without(self, names: Collection[str]) -> "Samples":
        """All but those called ``names``."""
        kept = [index for index in self.chosen if self.source.name(index) not in names]
        return replace(self, chosen=kept)

    def excluding(self, patterns: Sequence[str]) -> "Samples":
        """All but those whose whole name matches one of ``patterns``, regular expressions.

        Raises UsageError for a pattern that matches none, or if none is left.
        """
        found = {each: [n for n in self.names if re.fullmatch(each, n)] for each in patterns}
        for pattern, names in found.items():
            if not names:
                raise UsageError(
                    f"samples_to_exclude (--samples-to-exclude): no sample is called "
                    f"{pattern!r}; the first is {re.escape(self.name(0))}"
                )
        kept = self.without({name for names in found.values() for name in names})
        if not len(kept):
            raise UsageError(
                "samples_to_exclude (--samples-to-exclude): all samples are: leave some"
            )
        return kept

    def between(self, start: int, end: int) -> "Samples":
        """Those at the positions from ``start`` up to, but without, ``end``."""
        return replace(self, chosen=self.chosen[start:end])

    def spread(self, count: int) -> "Samples":
        """``count`` samples at even distances, in order (all if there are fewer)."""
        total = len(self)
        if count >= total:
            return self
        return replace(self, chosen=[self.chosen[i * total // count] for i in range(count)])

    @property
    def names(self) -> Sequence[str]:
        """What errors and reports call each sample."""
        return [self.source.name(index) for index in self.chosen]

    @property
    def paths(self) -> Sequence[Path]:
        """The files that hold the data, those of samples that are not chosen too."""
        return self.source.paths

    @property
    def notes(self) -> Sequence[str]:
        """What was decided about arrays of other names, as far as samples were read."""
        return sorted(self.naming.notes)

    @property
    def random(self) -> bool:
        """Whether the numbers are made up."""
        return isinstance(self.source, MadeUp)

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What pictures become, with nothing left open; None where there are none."""
        return self.source.how if isinstance(self.source, Pictures) else None

    @property
    def description(self) -> str:
        """How many of what are used, and where they are: ``8 of 20 pictures in data``."""
        total = len(self.source)
        share = "" if len(self) == total else f"{len(self)} of "
        unit = self.source.unit + ("" if total == 1 else "s")
        return f"{share}{total} {unit} {self.source.place}"


def _is_endless(array: NDArray[Any]) -> bool:
    return array.dtype.kind == "f" and bool(
        np.isinf(array).any() and not np.isnan(array).any()
    )


def open_samples(
    data: str | Path | object,
    specs: Sequence[InputSpec],
    limit: int | None = None,
    preprocessing: Preprocessing | None = None,
    usual: Preprocessing | None = None,
    names: Mapping[str, str] | None = None,
    excluded: Sequence[str] = (),
) -> Samples:
    """The samples that ``data`` holds or gives; at most ``limit``, spread evenly over all.

    ``names``: by input, what its array is called, where that is something else. ``excluded``:
    patterns of the names of samples that are left out.

    ``data`` is one of:

    - a folder with one feed per .npy or .npz file, or one such file with samples stacked
      along the first axis; a .npz names its arrays after the inputs, a .npy serves one input;
    - a folder of pictures, class folders too, or one picture: with ``preprocessing`` only, or
      else with ``usual``, which samples of other kinds pass over;
    - ONNX test data: a folder that holds test_data_set_0 and so on, or one of these;
    - ``random:N``: N samples of made-up numbers, which take of ``preprocessing`` the size;
    - an object with ``get_next()``, or an iterable, that gives dicts of arrays by input name
      (or arrays, for one input). What can be iterated once is kept in temporary files; its
      first ``limit`` feeds are used.

    Raises UsageError, or DataError where there is nothing to read or what there is does not
    fit; iterating raises DataError, naming the sample, for one that is damaged or unfit.
    """
    if limit is not None and limit < 1:
        raise DataError(f"the number of samples must be at least 1, got {limit}")
    naming = ArrayNames(names or {})
    naming.check(specs)
    source = _source(data, specs, limit, (preprocessing, usual), naming)
    if naming.given and not isinstance(source, ArrayFolder | Stack | Listed | Spool):
        raise UsageError(
            "inputs (--inputs): these samples have no arrays with names: leave the option away"
        )
    if len(source) == 0:
        where = data if isinstance(data, str | os.PathLike) else "data"
        raise DataError(f"{where}: holds no samples")
    samples = Samples(source, specs, range(len(source)), naming=naming).excluding(excluded)
    return samples if limit is None else samples.spread(limit)


def _source(
    data: object,
    specs: Sequence[InputSpec],
    limit: int | None,
    preprocessing: tuple[Preprocessing | None, Preprocessing | None],
    naming: ArrayNames,
) -> Source:
    how = preprocessing[0]
    if isinstance(data, str) and not data:
        raise UsageError("data: the path is empty (an unset variable?)")
    if isinstance(data, os.PathLike) or (isinstance(data, str) and not is_made_up(data)):
        return _at_path(Path(data), specs, preprocessing, naming)
    if isinstance(data, str) and (how is None or is_size_alone(how)):
        return made_up(data, specs, how)
    _check_unprocessed(how, data if isinstance(data, str) else "data")
    if isinstance(data, np.ndarray):
        return stacked_array(data, specs)
    if is_reader(data):
        return from_reader(data, specs, limit, naming)
    if isinstance(data, Sequence) and not isinstance(data, _BYTES):
        return Listed(data, specs, naming)
    if isinstance(data, Iterable) and not isinstance(data, Mapping | _BYTES):
        return from_iterable(data, specs, limit, naming)
    raise UsageError(
        f"data of type {type(data).__name__}: give the path of .npy or .npz files, pictures "
        "or ONNX test data, 'random:N', an object with get_next(), or an iterable of feeds"
    )


def _at_path(
    path: Path,
    specs: Sequence[InputSpec],
    preprocessing: tuple[Preprocessing | None, Preprocessing | None],
    naming: ArrayNames,
) -> Source:
    how, usual = preprocessing
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except OSError as error:
        hint = " (random numbers: random:N)" if path.name == "random" else ""
        reason = (error.strerror or "cannot be read").lower()
        raise DataError(f"{path}: {reason}{hint}") from error
    if is_folder:
        return _in_folder(path, specs, preprocessing, naming)
    if is_picture(path.name):
        return pictures(path, [path.name], specs, how or usual)
    _check_unprocessed(how, path)
    if is_array_file(path.name):
        return stacked_file(path, specs, naming)
    raise DataError(f"{path}: samples are .npy or .npz files, pictures, or a folder of them")


def _in_folder(
    folder: Path,
    specs: Sequence[InputSpec],
    preprocessing: tuple[Preprocessing | None, Preprocessing | None],
    naming: ArrayNames,
) -> Source:
    how, usual = preprocessing
    sets, arrays = data_sets(folder), files_in(folder, is_array_file)
    if not sets and not arrays:
        found = files_below(folder, is_picture)
        if not found:
            raise DataError(
                f"{folder}: no .npy or .npz files, pictures or test_data_set_* in this folder"
            )
        return pictures(folder, found, specs, how or usual)
    flat = files_in(folder, is_picture)
    if flat and not sets:
        raise DataError(
            f"{folder}: holds arrays ({arrays[0]}) and pictures ({flat[0]}): which are the "
            "samples? Keep one kind in this folder"
        )
    _check_unprocessed(how, folder)
    if sets:
        return DataSets(folder, sets, specs)
    return ArrayFolder(folder, arrays, specs, naming)


def _check_unprocessed(how: Preprocessing | None, where: object) -> None:
    if how is not None:
        raise UsageError(
            f"{where}: only pictures are preprocessed, these samples are taken as they are: "
            "leave --preprocess and its parts away"
        )
