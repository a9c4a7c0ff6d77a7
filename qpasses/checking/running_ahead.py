"""Running ahead: a thread makes what is asked for one by one, before it is asked for.

onnxruntime runs without Python's lock, so that samples run while Python checks numbers.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import Condition, Thread
from typing import Generic, TypeVar

MOST_AHEAD = 128 << 20
"""So many bytes wait to be asked for at most, or else one item."""

Item = TypeVar("Item")


class Ahead(Generic[Item]):
    """``items`` in their order, made by a thread; what it raises is raised behind the last.

    ``size`` tells the bytes of one. ``close`` ends the thread, at the latest when it has made
    what it is at.
    """

    def __init__(self, items: Iterable[Item], size: Callable[[Item], int]) -> None:
        self._items, self._size = items, size
        self._made: deque[tuple[Item, int]] = deque()
        self._waiting = 0
        self._is_ended = self._is_closed = False
        self._error: BaseException | None = None
        self._changed = Condition()
        self._thread = Thread(target=self._make, name="ahead")
        self._thread.start()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        with self._changed:
            self._changed.wait_for(lambda: self._made or self._is_ended)
            if self._made:
                item, size = self._made.popleft()
                self._waiting -= size
                self._changed.notify_all()
                return item
        if self._error is not None:
            raise self._error
        raise StopIteration

    def close(self) -> None:
        """Make no more, and forget what was made."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()
        self._made.clear()

    def _make(self) -> None:
        try:
            for item in self._items:
                if not self._kept(item):
                    break
        except BaseException as error:  # raised where the item is asked for, which waits
            self._error = error
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    def _kept(self, item: Item) -> bool:
        """Keep ``item`` once there is room for it; not if nobody will ask for it."""
        size = self._size(item)
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._has_room(size))
            if self._is_closed:
                return False
            self._made.append((item, size))
            self._waiting += size
            self._changed.notify_all()
            return True

    def _has_room(self, size: int) -> bool:
        return not self._made or self._waiting + size <= MOST_AHEAD
