"""Files that appear whole or not at all."""

import os
import tempfile
from pathlib import Path

from opsets.errors import UsageError


def check_writable(path: Path) -> None:
    """Raise UsageError now if ``path`` could not be written later."""
    folder = path.parent
    if path.is_dir():
        raise UsageError(f"{path}: is a folder, a file name is needed")
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
