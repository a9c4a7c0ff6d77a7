"""Samples from Python: objects with get_next() as onnxruntime has them, and iterables."""

import pickle
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Protocol, TypeGuard

import numpy as np

from calibration.array_names import ArrayNames
from calibration.inputs import Arrays, Feed, InputSpec, Value, fitted, only_input
from calibration.source import Source
from opsets.errors import DataError


class Reader(Protocol):
    """What onnxruntime.quantization.CalibrationDataReader is."""

    def get_next(self) -> object:
        """The next feed, a dict of arrays by input name; None at the end."""


def is_reader(data: object) -> TypeGuard[Reader]:
    """Whether ``data`` gives feeds by ``get_next()``."""
    return callable(getattr(data, "get_next", None))


_one_at_a_time = RLock()
"""Samples are read in threads too: a user's sequence may seek in a file and then read."""


@dataclass(frozen=True)
class Listed(Source):
    """Feeds of a list or another sequence, which stay where they are."""

    feeds: Sequence[object]
    specs: Sequence[InputSpec]
    naming: ArrayNames

    @property
    def place(self) -> str:
        """Of what kind of sequence."""
        return f"of a {type(self.feeds).__name__}"

    def __len__(self) -> int:
        return len(self.feeds)

    def name(self, index: int) -> str:
        """``data[3]``."""
        return f"data[{index}]"

    def read(self, index: int) -> Arrays:
        """The element as arrays by input name."""
        name = self.name(index)
        with _one_at_a_time:
            given = self.feeds[index]
        return _arrays(given, self.naming, self.specs, name)


@dataclass(frozen=True, eq=False)
class Spool(Source):
    """Feeds that were given once, kept in files for as long as this object lives."""

    title: str
    kind: str
    folder: Path
    count: int

    @property
    def place(self) -> str:
        """Of what kind of object."""
        return f"of a {self.kind}"

    def __len__(self) -> int:
        return self.count

    def name(self, index: int) -> str:
        """``get_next()[3]`` or ``data[3]``."""
        return f"{self.title}[{index}]"

    def read(self, index: int) -> Arrays:
        """What was kept."""
        with (self.folder / str(index)).open("rb") as stream:
            arrays: Arrays = pickle.load(stream)
        return arrays


_END = object()
"""What no iterable gives."""


def from_reader(
    data: Reader, specs: Sequence[InputSpec], limit: int | None, naming: ArrayNames
) -> Spool:
    """The feeds that ``get_next()`` gives before None, at most ``limit``: see ``_spool``."""
    return _spool(data.get_next, None, ("get_next()", "data reader"), specs, limit, naming)


def from_iterable(
    data: Iterable[object],
    specs: Sequence[InputSpec],
    limit: int | None,
    naming: ArrayNames,
) -> Spool:
    """The feeds of one iteration, at most ``limit``: see ``_spool``."""
    pull = partial(next, iter(data), _END)
    return _spool(pull, _END, ("data", type(data).__name__), specs, limit, naming)


def _spool(
    pull: Callable[[], object],
    end: object,
    names: tuple[str, str],
    specs: Sequence[InputSpec],
    limit: int | None,
    naming: ArrayNames,
) -> Spool:
    """Put what ``pull`` gives before ``end`` into a temporary folder, one feed at a time.

    Raises DataError for the first feed that does not fit; what ``pull`` raises comes through.
    """
    title, kind = names
    folder = Path(tempfile.mkdtemp(prefix="qpasses-"))
    count = 0

    def keep(given: object) -> bool:
        """Whether there was one; ``given`` is let go before the next is asked for."""
        if given is end:
            return False
        where = f"{title}[{count}]"
        arrays = _arrays(given, naming, specs, where)
        feed = fitted(arrays, specs, where)
        _write(folder / str(count), feed, where)
        return True

    try:
        while count != limit and keep(pull()):
            count += 1
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    kept = Spool(title, kind, folder, count)
    weakref.finalize(kept, shutil.rmtree, folder, ignore_errors=True)
    return kept


def _arrays(
    given: object, naming: ArrayNames, specs: Sequence[InputSpec], where: str
) -> Arrays:
    """A feed as values by input name; DataError for anything else."""
    matched = naming.matched(_by_name(given, specs, where), specs, where)
    return {name: _value(value, name, where) for name, value in matched.items()}


def _by_name(given: object, specs: Sequence[InputSpec], where: str) -> Mapping[str, object]:
    """What a feed gives by name, of whatever type; DataError for anything else."""
    is_sequence = len(specs) == 1 and specs[0].is_sequence
    if isinstance(given, np.ndarray | np.generic) or (is_sequence and isinstance(given, list)):
        spec = only_input(specs, where, "a dict with one array per input")
        return {spec.name: given}
    if not isinstance(given, Mapping):
        raise DataError(
            f"{where}: is of type {type(given).__name__}, expected a dict of numpy arrays "
            "by input name (or one array, for a model with one input)"
        )
    return given


def _value(given: object, name: object, where: str) -> Value:
    """An array; for a sequence a list of them, for what is absent None."""
    if given is None:
        return None
    if _is_array(given):
        return np.asarray(given)
    if isinstance(given, list | tuple) and all(map(_is_array, given)):
        return [np.asarray(each) for each in given]
    raise DataError(
        f"{where}: input {name!r} is of type {type(given).__name__}, expected a numpy array "
        "(for a sequence: a list of them)"
    )


def _is_array(given: object) -> bool:
    return isinstance(given, np.ndarray | np.generic)


def _write(path: Path, feed: Feed, where: str) -> None:
    try:
        with path.open("wb") as stream:
            pickle.dump(feed, stream)
    except OSError as error:
        raise DataError(
            f"{where}: cannot be kept in {path.parent}: {error.strerror} "
            "(TMPDIR names another place)"
        ) from error
