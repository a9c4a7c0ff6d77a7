"""Reading files that are files: a pipe or a device that nobody writes to would never end."""

import stat
from errno import EINVAL
from pathlib import Path


def check_ordinary(path: Path) -> None:
    """Raise OSError, with a reason for users, for what is neither a file nor a folder."""
    if "\0" in str(path):
        raise OSError(EINVAL, "is no path: it has a zero byte", str(path))
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(EINVAL, "is a pipe or a device: save it in an ordinary file", str(path))


def bytes_of(path: Path) -> bytes:
    """What the file holds. Raises OSError."""
    check_ordinary(path)
    return path.read_bytes()


def text_of(path: Path) -> str:
    """What the file holds, as UTF-8. Raises OSError or UnicodeDecodeError."""
    return bytes_of(path).decode("utf-8")
