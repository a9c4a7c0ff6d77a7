"""Sharing: elementwise chains of one function get one table, if what that costs is allowed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from heapq import heappop, heappush
from itertools import combinations
from math import inf, log10
from typing import Any

from calibration import Range
from qpasses.ir.elementwise import takes_multipliers
from qpasses.ir.graph import Graph
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.lowering.integerize_chain import tabulate
from qpasses.place.chains import Chain, find_chains
from qpasses.place.planning import Plan
from qpasses.place.tensor_parameters import activation_parameters
from qpasses.place.ties import Ties


@dataclass(frozen=True)
class Tied:
    """A tensor that shares its range with others now, and what that costs it in decibels."""

    name: str
    range: tuple[float, float]
    shared_range: tuple[float, float]
    loss_db: float


@dataclass(frozen=True)
class Sharing:
    """What came of it: how many tables of chains there are, their bytes, and the price."""

    limit_db: float
    chains: int
    tables: int
    tables_before: int
    bytes: int
    bytes_before: int
    tensors: Sequence[Tied]

    def as_json(self) -> dict[str, Any]:
        """For a report (docs/report.md)."""
        losses = [each.loss_db for each in self.tensors]
        return asdict(self) | {
            "largest_loss_db": max(losses, default=0.0),
            "mean_loss_db": sum(losses) / max(len(losses), 1),
        }


def share(
    graph: Graph, chosen: Plan, ranges: Mapping[str, Range], limit: float, context: Context
) -> tuple[dict[str, Range], Sharing]:
    """The ranges with which chains share tables, and what came of it.

    Sources of chains of one function take the union of their ranges, and so do their ends,
    with all that ``ranges`` ties to them. No tensor gets a step more than ``limit`` decibels
    wider than its own. All ranges that it gives hold zero, as stored ones do.
    """
    settings = context.settings
    own = {name: each.with_zero() for name, each in ranges.items()}
    chains = [
        each
        for each in find_chains(graph, chosen)
        if not takes_multipliers(each.nodes, settings.activation_form, settings.target)
    ]
    groups = Groups.aligned(chosen, own, settings)
    tie_chains(chains, groups, limit)
    shared = {name: groups.range_of(name) for name in own}
    losses = {name: groups.loss(own[name], shared[name]) for name in own}
    widened = {groups.ties.of(name) for name, loss in losses.items() if loss > 0}
    tied = [
        Tied(name, _ends(own[name]), _ends(shared[name]), loss)
        for name, loss in losses.items()
        if groups.ties.of(name) in widened
    ]
    before, after = (_tables(chains, each, settings) for each in (own, shared))
    sizes = len(after), len(before), sum(map(len, after)), sum(map(len, before))
    return shared, Sharing(limit, len(chains), *sizes, tied)


def _ends(real: Range) -> tuple[float, float]:
    return real.low, real.high


@dataclass
class Groups:
    """Tensors that have one range, and the least span that one of them had on its own.

    The span of a range is what its codes span: their step is a fixed part of it.
    """

    settings: Settings
    ties: Ties
    _ranges: dict[str, Range]
    _least: dict[str, float]

    @classmethod
    def aligned(
        cls, chosen: Plan, ranges: Mapping[str, Range], settings: Settings
    ) -> "Groups":
        """Those that ``align`` made: what only moves on, and clamps without a table."""
        ties = Ties()
        for first, second in [*chosen.ties, *chosen.clamps]:
            if first in ranges and ranges[first] == ranges.get(second):
                ties.tie(first, second)
        made = cls(settings, ties, {}, {})
        for name, own in ranges.items():
            made._ranges[ties.of(name)] = own
            made._least[ties.of(name)] = made._span(own)
        return made

    def range_of(self, name: str) -> Range:
        """That of the group of ``name``."""
        return self._ranges[self.ties.of(name)]

    def loss(self, own: Range, shared: Range) -> float:
        """By how many decibels the noise of rounding grows, as the square of the step."""
        return self._decibels(self._span(own), shared)

    def price(self, first: Chain, second: Chain) -> float:
        """The greatest loss of a tensor, once both chains have one source and one end."""
        united = map(self._joined, self._united(first, second))
        return max(self._decibels(least, shared) for shared, least in united)

    def unite(self, first: Chain, second: Chain) -> None:
        """Give both chains one source and one end."""
        for roots in self._united(first, second):
            root, *others = sorted(roots)
            self._ranges[root], self._least[root] = self._joined(roots)
            for other in others:
                self.ties.tie(root, other)

    def _united(self, first: Chain, second: Chain) -> list[set[str]]:
        """The groups that become one, for sources and ends, or both where they overlap."""
        sources = {self.ties.of(each.source) for each in (first, second)}
        ends = {self.ties.of(each.end) for each in (first, second)}
        return [sources | ends] if sources & ends else [sources, ends]

    def _joined(self, roots: set[str]) -> tuple[Range, float]:
        shared = reduce(Range.union, (self._ranges[each] for each in roots))
        return shared, min(self._least[each] for each in roots)

    def _decibels(self, least: float, shared: Range) -> float:
        span = self._span(shared)
        if span == least:
            return 0.0
        return 20 * log10(span / least) if least else inf

    def _span(self, real: Range) -> float:
        return (
            2 * max(-real.low, real.high)
            if self.settings.is_symmetric(real.low)
            else real.width
        )


def tie_chains(chains: Sequence[Chain], groups: Groups, limit: float) -> None:
    """Unite the two chains of one function that cost least, again and again.

    The price of a pair only grows as others are united. So pairs are united in an order of
    prices that does not depend on ``limit``: a higher one only goes on further.
    """
    texts = [each.function.as_text() for each in chains]
    waiting = [
        (0.0, i, j) for i, j in combinations(range(len(chains)), 2) if texts[i] == texts[j]
    ]
    while waiting:
        known, i, j = heappop(waiting)
        price = groups.price(chains[i], chains[j])
        if price > known and price <= limit:
            heappush(waiting, (price, i, j))
        elif price <= limit:
            groups.unite(chains[i], chains[j])


def _tables(
    chains: Sequence[Chain], ranges: Mapping[str, Range], settings: Settings
) -> set[bytes]:
    """The tables of ``chains``, equal ones once."""
    made = set()
    for each in chains:
        x, y = (activation_parameters(ranges[n], settings) for n in (each.source, each.end))
        table, _ = tabulate(each.function, x, y, settings.target.table_rules)
        made.add(table.tobytes())
    return made
