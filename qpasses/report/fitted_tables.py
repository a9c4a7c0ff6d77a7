"""Tables as wide as the terminal: names folded in the middle, what matters least left out."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

WIDE = 200
"""Columns from which on everything is shown, names in one piece where they can be."""

_LEAST = 20
"""Columns that a name or a text keeps."""

_GAP = 2


@dataclass(frozen=True)
class Column:
    """A column of a table. Those of higher ``rank`` are left out first, those of 0 never.

    ``folds``: its cells are names, shortened in the middle; ``wraps``: they are texts, which
    go on in the next line; else they are as wide as they are. ``right``: they end together.
    """

    name: str
    rank: int = 0
    folds: bool = False
    wraps: bool = False
    right: bool = False

    def least(self, natural: int) -> int:
        """The columns it needs of the ``natural`` ones."""
        return min(natural, _LEAST) if self.folds or self.wraps else natural


def print_fitted(
    console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]], title: str = ""
) -> None:
    """``rows``, a plain text for each of ``columns``, as the width of ``console`` allows.

    What is left out is said below: --json has it.
    """
    shown, widths = fitting(console.width, columns, rows)
    if title:
        console.print(escape(title), style="italic", highlight=False)
    table = Table(box=None, pad_edge=False)
    for i in shown:
        table.add_column(
            columns[i].name,
            justify="right" if columns[i].right else "left",
            width=widths[i],
            overflow="fold",
        )
    for row in rows:
        cells = [
            "\n".join(folded(line, widths[i]) for line in row[i].split("\n"))
            if columns[i].folds and console.width < WIDE
            else row[i]
            for i in shown
        ]
        table.add_row(*map(Text, cells))
    console.print(table)
    if len(shown) < len(columns):
        left = ", ".join(each.name for i, each in enumerate(columns) if i not in shown)
        console.print(
            f"not shown at this width: {escape(left)} (--json has all)", highlight=False
        )


def fitting(
    width: int, columns: Sequence[Column], rows: Sequence[Sequence[str]]
) -> tuple[list[int], list[int]]:
    """The places of the columns that are shown in so many columns, and the width of each."""
    natural = [
        max(len(line) for text in (each.name, *cells) for line in text.split("\n"))
        for each, cells in zip(columns, _by_column(columns, rows), strict=True)
    ]
    least = [each.least(wide) for each, wide in zip(columns, natural, strict=True)]
    shown = list(range(len(columns)))
    while width < WIDE and sum(least[i] + _GAP for i in shown) - _GAP > width:
        last = max(shown, key=lambda i: columns[i].rank)
        if not columns[last].rank:
            break
        shown.remove(last)
    room = width + _GAP - sum(least[i] + _GAP for i in shown)
    widths = list(least)
    flexible = sorted((i for i in shown if natural[i] > least[i]), key=natural.__getitem__)
    for place, i in enumerate(flexible):
        more = max(0, min(natural[i] - least[i], room // (len(flexible) - place)))
        widths[i] += more
        room -= more
    return shown, widths


def _by_column(
    columns: Sequence[Column], rows: Sequence[Sequence[str]]
) -> list[Sequence[str]]:
    return [[row[i] for row in rows] for i in range(len(columns))]


def folded(text: str, width: int) -> str:
    """``text`` in at most ``width`` columns: beginning and end, where names differ."""
    if len(text) <= width or width < 3:
        return text
    begin = (width - 1) // 2
    return f"{text[:begin]}\N{HORIZONTAL ELLIPSIS}{text[len(text) - (width - 1 - begin) :]}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first of ``names``, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
