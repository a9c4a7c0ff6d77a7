"""Values of a walk: large ones lie in a file, so that memory does not grow with the graph."""

import tempfile
from collections.abc import Iterator, MutableMapping
from threading import Lock
from typing import Any

import numpy as np

from opsets.errors import UsageError

LARGE = 1 << 18
"""Arrays of fewer bytes stay in memory."""


class Kept(MutableMapping[str, Any]):
    """Values by name; what is large is read anew each time that it is asked for.

    Raises UsageError where there is no room for it.
    """

    def __init__(self) -> None:
        try:
            file = tempfile.TemporaryFile(prefix="qpasses-", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"no folder for temporary files: {error}") from error
        self._file = file  # which `close` closes
        self._end, self._lock = 0, Lock()
        self._known: dict[str, Any] = {}

    def __setitem__(self, name: str, value: Any) -> None:
        is_large = (
            isinstance(value, np.ndarray)
            and value.nbytes >= LARGE
            and not value.dtype.hasobject
        )
        self._known[name] = self._written(value) if is_large else value

    def _written(self, values: Any) -> "_Place":
        content = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
        with self._lock:
            place = _Place(self._end, values.dtype, values.shape)
            self._file.seek(place.begin)
            try:
                while content:
                    content = content[self._file.write(content) :]
            except OSError as error:
                raise UsageError(
                    f"{tempfile.gettempdir()}: values of a sample cannot be kept there "
                    f"({error.strerror}): let TMPDIR name a folder with more room"
                ) from error
            self._end = self._file.tell()
        return place

    def same(self, name: str, other: str) -> None:
        """Let ``name`` be what ``other`` is."""
        self._known[name] = self._known[other]

    def __getitem__(self, name: str) -> Any:
        value = self._known[name]
        if not isinstance(value, _Place):
            return value
        found = np.empty(value.shape, value.dtype)
        content = found.reshape(-1).view(np.uint8).data
        with self._lock:
            self._file.seek(value.begin)
            while content and (count := self._file.readinto(content)):
                content = content[count:]
        assert not content, "a temporary file was cut"
        return found

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def close(self) -> None:
        """Let the file go."""
        self._known.clear()
        self._file.close()


class _Place:
    """Of an array in the file."""

    def __init__(self, begin: int, dtype: Any, shape: tuple[int, ...]) -> None:
        self.begin, self.dtype, self.shape = begin, dtype, shape
