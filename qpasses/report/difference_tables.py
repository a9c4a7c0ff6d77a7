"""Two models beside one another, as tables in a terminal."""

from typing import Any

from rich.console import Console

from qpasses.checking.difference import Difference, Unlike
from qpasses.report.fitted_tables import Column, print_fitted
from qpasses.report.wording import counted


def print_difference(console: Console, found: Difference) -> None:
    """Sizes of both, what differs, and the nodes that one has alone."""
    columns = [Column(""), Column("file", folds=True)]
    columns += [Column(name, right=True) for name in ("nodes", "bytes", "weights", "tables")]
    rows = [
        [
            side,
            each.path,
            *(f"{n:,}" for n in (each.nodes, each.file, each.weights, each.tables)),
        ]
        for side, each in (("one", found.one), ("other", found.other))
    ]
    print_fitted(console, columns, rows)
    console.print()
    if found.same_float_model is False:
        console.print("[yellow]warning[/]: they are of different float models")
    unlike = [["", *_cells(each)] for each in found.ends]
    for node in found.nodes:
        name = node.one if node.one == node.other else f"{node.one} / {node.other}"
        unlike += [[name, *_cells(each)] for each in node.unlike]
    if unlike:
        names = Column("node", folds=True), Column("differs", folds=True)
        values = (Column(name, wraps=True) for name in ("one", "other", "how many"))
        print_fitted(console, [*names, *values], unlike)
        console.print()
    if found.alone:
        columns = [Column("in"), Column("node", folds=True), Column("op")]
        columns.append(Column("within, in the other", folds=True))
        rows = [[each.side, each.name, each.op, each.within or "-"] for each in found.alone]
        print_fitted(console, columns, rows, "In one alone")
        console.print()
    if found.is_same:
        console.print("the same: no node differs")
    else:
        alone = f"{len(found.alone):,} in one alone"
        console.print(f"{counted(len(found.nodes), 'node')} unlike, {alone}", highlight=False)


def _cells(each: Unlike) -> list[str]:
    values = ("-" if value is None else _text(value) for value in (each.one, each.other))
    many = f"{each.differ:,} of {each.size:,}" if each.size > 1 else ""
    return [each.what, *values, many]


def _text(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)
