"""Labels: what a metric is to find in the samples, one entry for each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from calibration import Samples
from calibration.images import Pictures
from calibration.readers import Spool
from opsets.argument_kinds import shown
from opsets.errors import UsageError
from opsets.ordinary_files import check_ordinary

FOLDERS = "folders"
"""Labels are the places of class folders, sorted by name."""

_WHERE = "labels (--labels)"
_ARRAY = "labels"


@dataclass(frozen=True)
class Labels:
    """``entries``: of all samples that the data hold, whichever of them are chosen."""

    entries: list[Any] | NDArray[Any]

    def of(self, samples: Samples) -> list[Any] | NDArray[Any]:
        """Those of ``samples``, in their order."""
        if isinstance(self.entries, np.ndarray):
            found: NDArray[Any] = self.entries[list(samples.chosen)]
            return found
        return [self.entries[index] for index in samples.chosen]


def given_labels(given: Any, samples: Samples) -> Labels:
    """From a file, a list, an array, or the class folders of ``samples``.

    Raises UsageError, also if there is not one for each sample.
    """
    if isinstance(given, str) and given == FOLDERS:
        return Labels(_of_folders(samples))
    entries, count = _entries(given), len(samples.source)
    cut = isinstance(samples.source, Spool) and len(entries) > count  # an iterator, as far
    if len(entries) != count and not cut:
        raise UsageError(
            f"{_WHERE}: there are {len(entries)}, for {count} samples {samples.source.place}: "
            "one is needed for each of them, in their order, also for those that are left out"
        )
    return Labels(entries)


def _entries(given: Any) -> list[Any] | NDArray[Any]:
    if isinstance(given, str | Path):
        return _of_file(Path(given))
    if isinstance(given, np.ndarray):
        return _with_rows(given)
    if isinstance(given, Iterable) and not isinstance(given, Mapping | bytes | bytearray):
        return list(given)
    raise UsageError(
        f"{_WHERE}: the path of a .npy or .npz file, {FOLDERS!r}, a list or an array is "
        f"needed, got {shown(given)}"
    )


def _of_file(path: Path) -> NDArray[Any]:
    try:
        check_ordinary(path)
        content = np.load(path, allow_pickle=False)
    except OSError as error:
        reason = (error.strerror or "cannot be read as .npy or .npz").lower()
        raise UsageError(f"{_WHERE}: {path}: {reason}") from error
    except (ValueError, EOFError, BadZipFile) as error:
        raise UsageError(f"{_WHERE}: {path}: cannot be read as .npy or .npz") from error
    if isinstance(content, np.ndarray):
        return _with_rows(content)
    with content:
        if _ARRAY not in content.files:
            held = ", ".join(map(repr, content.files)) or "nothing"
            raise UsageError(f"{_WHERE}: {path}: holds {held}, no array {_ARRAY!r}")
        try:
            return _with_rows(content[_ARRAY])
        except (OSError, ValueError, EOFError, BadZipFile) as error:
            raise UsageError(f"{_WHERE}: {path}: {_ARRAY!r} cannot be read") from error


def _with_rows(array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim == 0:
        raise UsageError(f"{_WHERE}: one for each sample is needed, got a single number")
    return array


def _of_folders(samples: Samples) -> NDArray[Any]:
    source = samples.source
    places = []
    if isinstance(source, Pictures):
        places = [PurePath(source.name(index)).parent for index in range(len(source))]
    classes = sorted({*places})
    if len(classes) < 2:
        raise UsageError(
            f"{_WHERE}: {FOLDERS!r} needs pictures in a folder for each class, two at least, "
            f"and there are {len(source)} samples {source.place}"
        )
    numbers = {each: number for number, each in enumerate(classes)}
    return np.array([numbers[each] for each in places])
