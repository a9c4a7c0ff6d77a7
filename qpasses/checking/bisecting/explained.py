"""Which rule explains what a device stored: all of it, or the largest share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.declaration import Scaling
from opsets.fixed_point import Int64
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.checking.bisecting.node_sums import Sums, Values, arguments_of, joined, sums_of
from qpasses.checking.bisecting.other_rules import Rule, codes_by, rules_for
from qpasses.ir.graph import Node, constant
from qpasses.ir.record import NodeRecord

FEW = 2000
"""On so many codes that differ, and as many others, rules are tried first."""

_BEST = 5
"""So many of those that explain most of these are tried on all."""


@dataclass(frozen=True)
class Explanation:
    """``rules`` that give every code of the device, those nearest to the node's own.

    Where there is none ``best`` is the one that gives the largest ``share`` of all codes, if
    that is more than the node's own, ``own_share``. ``table``: of a node that looks codes up,
    by code its entry and the device's, where these differ.
    """

    rules: Sequence[str] = ()
    best: str = ""
    share: float = 0.0
    own_share: float = 0.0
    table: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The fields."""
        entries = [[code, *pair] for code, pair in self.table.items()]
        return {**vars(self), "rules": [*self.rules], "table": entries}


@dataclass(frozen=True)
class Case:
    """What a node read, as the device has it, what it should give and what the device has."""

    values: Values
    expected: NDArray[Any]
    found: NDArray[Any]


def explained(node: Node, entry: NodeRecord | None, cases: Sequence[Case]) -> Explanation:
    """What explains ``cases``, some samples in which what ``node`` writes differs."""
    found = np.concatenate([each.found.ravel() for each in cases]).astype(np.int64)
    expected = np.concatenate([each.expected.ravel() for each in cases]).astype(np.int64)
    own = float(np.mean(found == expected))
    if entry is None or node.domain != DOMAIN:
        return Explanation(own_share=own)
    if table := _other_entries(node, cases):
        return Explanation(own_share=own, table=table)
    parts = [sums_of(node, entry, each.values) for each in cases]
    known = [each for each in parts if each is not None]
    if known and len(known) == len(parts):
        return _by_rules(joined(known), found, expected, own)
    return _by_words(node, cases, found, own)


def _by_rules(sums: Sums, found: Int64, expected: Int64, own: float) -> Explanation:
    places = some(found != expected)
    few, wanted = sums.at(places), found[places]
    scores, exact = list[tuple[int, Rule]](), list[Rule]()
    for rule in rules_for(sums):
        departures = rule.departures(sums.rounding)
        if departures == 0 or (exact and departures > exact[0].departures(sums.rounding)):
            continue
        codes = codes_by(rule, few)
        if codes is None:
            continue
        score = int(np.count_nonzero(codes == wanted))
        scores.append((score, rule))
        if score == len(wanted) and _share(rule, sums, found) == 1:
            exact.append(rule)
    if exact:
        return Explanation([*map(str, exact)], str(exact[0]), 1.0, own)
    likely = sorted(scores, key=lambda each: -each[0])[:_BEST]
    return _best([(_share(rule, sums, found), str(rule)) for _, rule in likely], own)


def some(differs: NDArray[np.bool_]) -> Int64:
    """Places of a few codes that differ, and of others, at even distances."""
    places = [np.flatnonzero(each) for each in (differs, ~differs)]
    return np.concatenate([each[:: max(1, -(-len(each) // FEW))] for each in places])


def _share(rule: Rule, sums: Sums, found: Int64) -> float:
    codes = codes_by(rule, sums)
    return 0.0 if codes is None else float(np.mean(codes == found))


def _best(shares: Sequence[tuple[float, str]], own: float) -> Explanation:
    share, name = max(shares, key=lambda each: each[0], default=(0.0, ""))
    return Explanation((), name, share, own) if share > own else Explanation(own_share=own)


def _by_words(node: Node, cases: Sequence[Case], found: Int64, own: float) -> Explanation:
    """By the other roundings that a node of this op may have."""
    shares = list(_shares_of_words(node, cases, found))
    if exact := [name for share, name in shares if share == 1]:
        return Explanation(exact, exact[0], 1.0, own)
    return _best(shares, own)


def _shares_of_words(
    node: Node, cases: Sequence[Case], found: Int64
) -> Iterator[tuple[float, str]]:
    op = OPS[node.op]
    for word in op.roundings:
        if word != node.attrs.get("rounding"):
            attributes = node.attrs | {"rounding": word}
            made = [
                op.reference(*arguments_of(node, each.values), **attributes).ravel()
                for each in cases
            ]
            yield float(np.mean(np.concatenate(made) == found)), word


def _other_entries(node: Node, cases: Sequence[Case]) -> dict[int, tuple[int, int]]:
    """Where a table has other entries: none where what was stored follows from no table."""
    data = [tensor for tensor in node.inputs if constant(tensor) is None]
    if OPS[node.op].scaling is not Scaling.TABLE or len(data) != 1:
        return {}
    rows = [
        np.stack(
            [each.values[data[0].name].ravel(), each.expected.ravel(), each.found.ravel()]
        )
        for each in cases
        if each.values[data[0].name].shape == each.found.shape
    ]
    if not rows:
        return {}
    triples = np.unique(np.concatenate(rows, axis=1).astype(np.int64), axis=1).T
    entries = {int(code): (int(ours), int(theirs)) for code, ours, theirs in triples}
    if len(entries) < len(triples):
        return {}
    return {code: pair for code, pair in entries.items() if pair[0] != pair[1]}
