"""Which files of a folder are samples, and in which order."""

import os
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from opsets.errors import DataError

Wanted = Callable[[str], bool]
"""Whether a file is wanted, by its name."""


def has_suffix(name: str, suffixes: Collection[str]) -> bool:
    """Whether a file is of a kind, by its name in any case."""
    return Path(name).suffix.lower() in suffixes


def files_in(folder: Path, wanted: Wanted) -> list[str]:
    """The names of the wanted files of a folder, hidden ones apart, in natural order."""
    _, names = next(_walk(folder))
    return sorted(filter(wanted, names), key=natural)


def files_below(folder: Path, wanted: Wanted) -> list[str]:
    """The same, as relative paths, for a folder and the visible folders inside it."""
    paths = (
        (place / name).relative_to(folder).as_posix()
        for place, names in _walk(folder)
        for name in filter(wanted, names)
    )
    return sorted(paths, key=natural)


def _walk(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Each folder once, however many links lead to it, with the files to be seen in it."""
    seen = set()
    for place, folders, names in os.walk(folder, onerror=_refuse, followlinks=True):
        real = Path(place).resolve()
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = _visible(sorted(folders))
        yield Path(place), _visible(names)


def _visible(names: list[str]) -> list[str]:
    return [name for name in names if not name.startswith(".")]


def _refuse(error: OSError) -> None:
    raise DataError(f"{error.filename}: cannot be read: {error.strerror}") from error


def natural(path: str) -> tuple[list[list[tuple[int, int, str]]], str]:
    """A sorting key by which the numbers in names count: 2.npy comes before 10.npy."""
    parts = [
        [
            (0, int(part), "") if part.isdecimal() else (1, 0, part)
            for part in re.findall(r"\d+|\D+", name)
        ]
        for name in path.split("/")
    ]
    return parts, path  # the path itself decides between 1.npy and 01.npy
