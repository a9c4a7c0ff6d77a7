"""Files that appear whole or not at all."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from opsets.errors import UsageError


def check_outputs(outputs: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Raise UsageError if an output cannot be written or would replace another file here."""
    given, written = list(inputs), set[Path]()
    for path in outputs:
        place = path.resolve()
        if place in written:
            raise UsageError(f"{path}: is written already: choose another name")
        written.add(place)
        try:
            if path.exists() and any(_is_same(path, other) for other in given):
                raise UsageError(f"{path}: is an input: choose another name")
            _check_writable(path)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error


def _is_same(path: Path, other: Path) -> bool:
    """Whether both lead to one file, which ``path`` does."""
    return other.exists() and path.samefile(other)


def _check_writable(path: Path) -> None:
    folder = path.parent
    if path.is_dir():
        raise UsageError(f"{path}: is a folder, a file name is needed")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: is not an ordinary file")
    if not folder.is_dir():
        raise UsageError(f"{path}: the folder {folder} does not exist")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def write_whole(path: Path, content: bytes) -> None:
    """Write to a temporary name beside ``path`` and move it into place.

    Raises UsageError if the disk refuses; then nothing is left behind and an older file stays.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            Path(temporary).chmod(0o666 & ~_umask())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
