"""Files that appear whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from opsets.errors import UsageError

Content = Iterable[bytes | memoryview]
"""What a file is to hold, one part behind the other."""


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
    """``write_together`` for one file."""
    write_together({path: [content]})


def write_together(contents: Mapping[Path, Content]) -> None:
    """Write each file to a temporary name beside its own, then move all into place.

    Raises UsageError if the disk refuses one; then nothing is left behind and older files
    stay. Of all but the last an older file is copied, in case a later one cannot be moved.
    """
    with ExitStack() as leftovers, ExitStack() as undo:
        staged = {
            path: _staged(path, content, leftovers) for path, content in contents.items()
        }
        for count, (path, temporary) in enumerate(staged.items(), 1):
            with refusals(path):
                if count < len(staged):
                    undo.callback(_way_back(path, leftovers))
                temporary.replace(path)
        undo.pop_all()


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """Raise UsageError, naming ``path``, for what the disk refuses."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def _staged(path: Path, content: Content, leftovers: ExitStack) -> Path:
    """A new file beside ``path`` that holds ``content``, removed with ``leftovers``."""
    with refusals(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        leftovers.callback(temporary.unlink, missing_ok=True)
        with os.fdopen(handle, "wb") as stream:
            stream.writelines(content)
        temporary.chmod(usual_mode(0o666))
    return temporary


def _way_back(path: Path, leftovers: ExitStack) -> Callable[[], object]:
    """What makes ``path`` again what it is now."""
    if not path.exists():
        return partial(path.unlink, missing_ok=True)
    before = _staged(path, [], leftovers)
    with refusals(path):
        shutil.copy2(path, before)
    return partial(before.replace, path)


def usual_mode(wanted: int) -> int:
    """The rights of what is newly made, of those ``wanted``."""
    mask = os.umask(0)
    os.umask(mask)
    return wanted & ~mask
