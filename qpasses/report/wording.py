"""How counts and names are put in a terminal: what is too long is cut in the middle."""

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

_CUT = "..."

_LEAST = 12
"""So many characters of a name in a table are shown at least, if it has them."""


def counted(count: int, what: str) -> str:
    """``1 sample``, ``2 samples``."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def some(names: Sequence[str], most: int) -> str:
    """The first ``most`` names, and how many more there are."""
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left:,} more" if left > 0 else "")


def fold(name: str, most: int) -> str:
    """``name`` in at most so many characters: its first and its last ones."""
    if len(name) <= most:
        return name
    kept = max(most - len(_CUT), 0)
    head = kept // 2
    return (name[:head] + _CUT + name[len(name) - (kept - head) :])[:most]


def fitting(console: Console, name: str, share: int) -> str:
    """``name``, in a terminal in one ``share``-th of a line at most."""
    return fold(name, max(console.width // share, _LEAST)) if console.is_terminal else name


class Name:
    """A name in a cell of a table: on one line in a terminal, else whole."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        width = len(self._name)
        least = min(width, _LEAST) if console.is_terminal else 1
        return Measurement(least, width).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if console.is_terminal:
            yield Text(fold(self._name, options.max_width), no_wrap=True)
        else:
            yield Text(self._name, overflow="fold")
