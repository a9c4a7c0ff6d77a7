"""What a device stored beside the exact integers, as tables in a terminal."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape

from qpasses.checking.bisecting.bisection import SHOWN_DIFFERENCES, Bisection, Tensor
from qpasses.report.fitted_tables import Column, listed, print_fitted
from qpasses.report.wording import counted

_ENTRIES = 6
"""So many entries of a table are shown."""


def print_bisection(console: Console, found: Bisection) -> None:
    """The nodes that differ, what explains each, what inherits it, and what is not there."""
    for remark in found.remarks:
        console.print(f"[yellow]note[/]: {escape(remark)}", highlight=False)
    for each in found.of("unread"):
        console.print(
            f"[yellow]unread[/]: {each.name} {escape(each.remarks[0])}", highlight=False
        )
    for text, names in _notes(found).items():
        shown = f"{listed(names)}: {text}"
        console.print(f"note: {escape(shown)}", highlight=False)
    if found.faults:
        _print_faults(console, found)
    _print_missing(console, found)
    _print_verdict(console, found)


def _notes(found: Bisection) -> Mapping[str, list[str]]:
    """What is said of tensors that are right, and of which."""
    notes: dict[str, list[str]] = {}
    for each in found.tensors:
        for text in each.remarks if each.status in ("equal", "inherits") else ():
            notes.setdefault(text, []).append(each.name)
    return notes


def _print_faults(console: Console, found: Bisection) -> None:
    columns = [Column("node", folds=True), Column("op"), Column("tensor", 1, folds=True)]
    columns += [Column("differ", right=True), Column("of", 2, right=True)]
    columns += [
        Column("by at most", right=True),
        Column("device's code minus ours: how many", 3),
    ]
    rows = [
        [
            *(each.node or "-", each.op or "input", each.name),
            *(f"{each.differing:,}", f"{each.codes:,}", f"{each.largest:,}"),
            _histogram(each),
        ]
        for each in found.faults
    ]
    print_fitted(console, columns, rows, "Not what the node gives for what the device fed it")
    console.print()
    for each in found.faults:
        for text in (*_explanation(each, _rules_of(each, found)), *each.remarks):
            console.print(f"{escape(each.node or each.name)}: {escape(text)}", highlight=False)
    console.print()


def _histogram(tensor: Tensor) -> str:
    frequent = tensor.differences.most_common(SHOWN_DIFFERENCES)
    shown = [f"{apart:+d}: {count:,}" for apart, count in sorted(frequent)]
    others = tensor.differing - sum(count for _, count in frequent)
    return ", ".join([*shown, *([f"others: {others:,}"] if others else [])])


def _rules_of(tensor: Tensor, found: Bisection) -> Sequence[str]:
    """Those that explain its node together with others."""
    return found.rules or found.by_op.get(tensor.op, ())


def _explanation(tensor: Tensor, together: Sequence[str]) -> Sequence[str]:
    """What there is to say of a tensor beside what explains it ``together`` with others."""
    found = tensor.explanation
    said = []
    if len(tensor.nodes) > 1:
        said.append(
            f"the fault is in one of {listed(tensor.nodes, 6)}, which lie between what "
            f"is known, {listed(tensor.starts)}, and {tensor.name}"
        )
    if found is None or not {*together}.isdisjoint(found.rules):
        return said
    if found.rules:
        return [*said, f"explained, all of it, by {' or '.join(found.rules)}"]
    if found.table:
        entries = [
            f"{code}: {theirs}, not {ours}" for code, (ours, theirs) in found.table.items()
        ]
        count = counted(len(entries), "other entry").replace("entrys", "entries")
        return [*said, f"explained by a table with {count}: {listed(entries, _ENTRIES)}"]
    if found.best:
        return [
            *said,
            f"no rule explains all; the nearest, {found.best}, gives {found.share:.2%} "
            f"of the codes, the node's own {found.own_share:.2%}",
        ]
    return [*said, "no other rule of rounding gives more of these codes than the node's own"]


def _print_missing(console: Console, found: Bisection) -> None:
    if missing := found.of("missing"):
        names = listed([each.name for each in missing], 6)
        are = "is" if len(missing) == 1 else "are"
        text = f"{counted(len(missing), 'tensor')} {are} not in the dump: {names}"
        console.print(f"[yellow]note[/]: {escape(text)}", highlight=False)


def _print_verdict(console: Console, found: Bisection) -> None:
    compared = [each for each in found.tensors if each.codes]
    where = f"{counted(len(compared), 'tensor')} of {counted(len(found.samples), 'sample')}"
    if found.verdict == "equal":
        console.print(f"equal: {where}", highlight=False)
        return
    if found.verdict == "unread":
        console.print(f"what could be read is equal: {where}", highlight=False)
        return
    if found.rules:
        console.print(
            f"one rule explains every node: {' or '.join(found.rules)}", highlight=False
        )
    else:
        for op, rules in found.by_op.items():
            if rules:
                text = f"one rule explains every {op}: {' or '.join(rules)}"
                console.print(text, highlight=False)
    if inherits := found.of("inherits"):
        names = listed([each.name for each in inherits])
        console.print(f"only inherited: {escape(names)}", highlight=False)
    if found.faults:
        first = found.faults[0]
        what = f"node {first.node!r} ({first.op})" if first.node else f"input {first.name!r}"
        text = f"differs first at {what}; {where} were compared"
        console.print(escape(text), highlight=False)
    else:
        console.print(f"all that differs is inherited; {where} were compared", highlight=False)
