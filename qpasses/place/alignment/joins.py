"""Joins: at which inputs of Concat and Where a table loses less than one scale for all.

Losses are of the first order: each reading of a tensor counts the energy of the rounding noise
in it, relative to that of the tensor. Derivation and figures: docs/decisions/0021.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from calibration import Range, Statistics
from calibration.methods.moments import moments
from qpasses.ir.flow import CARRIED_OUT
from qpasses.ir.graph import Graph, Node, Tensor, is_graph_output
from qpasses.ir.moving import results
from qpasses.ir.patterns import data_inputs
from qpasses.ir.settings import Settings
from qpasses.ir.stages import CLAMPING
from qpasses.place.alignment.groups import align, is_moved_by, joins
from qpasses.place.planning import Plan
from qpasses.place.tensor_parameters import step_of
from qpasses.place.ties import Ties

LEAST_GAIN = 4 / 3
"""By what a table must divide the loss of the two groups it keeps apart: it costs time."""


@dataclass(frozen=True)
class Join:
    """Input ``tensor`` of ``node``, with the loss if both have one scale and by a table.

    ``range``: that of its group on its own, ``joined_range`` of what the node writes;
    ``energies``: what the mean squares of tensors are taken from, ``histograms`` if each
    tensor that is ``concerned`` has one, else ``extremes``: both in one sum would be unfair.
    """

    node: str
    op: str
    tensor: str
    result: str
    range: tuple[float, float]
    joined_range: tuple[float, float]
    tied_loss: float
    table_loss: float
    table: bool
    energies: str

    def as_json(self) -> dict[str, Any]:
        """For a report (docs/report.md)."""
        return {key: value for key, value in asdict(self).items() if key != "result"}


@dataclass(frozen=True)
class _Edge:
    node: Node
    tensor: Tensor
    result: Tensor

    @property
    def pair(self) -> tuple[str, str]:
        return self.tensor.name, self.result.name


def concerned(graph: Graph, chosen: Plan) -> list[str]:
    """The tensors whose mean squares may say where tables are, in graph order.

    They are tied to an end of a Concat or Where, and something reads them that computes.
    """
    ties, ends = Ties(), set[str]()
    for pair in [*chosen.ties, *chosen.clamps]:
        ties.tie(*pair)
    for node in graph.nodes:
        if joins(node) and is_moved_by(graph, chosen, node):
            ends.add(ties.of(node.outputs[0].name))
    return [
        name
        for name, tensor in chosen.tensors.items()
        if ties.of(name) in ends
        and (
            is_graph_output(graph, tensor)
            or not all(is_moved_by(graph, chosen, reader) for reader in tensor.outputs)
        )
    ]


def judge_joins(
    graph: Graph,
    chosen: Plan,
    ranges: Mapping[str, Range],
    statistics: Mapping[str, Statistics],
    settings: Settings,
    wanted: Collection[str] = (),
) -> list[Join]:
    """The inputs of Concat and Where that could have a scale of their own, in graph order.

    All are taken apart first; then, those of the most alike steps first, each is tied again if
    a table does not lower the loss by LEAST_GAIN: n log n in time.
    """
    edges = _edges(graph, chosen, ranges)
    if not edges:
        return []
    own = align(graph, chosen, ranges, wanted, [edge.pair for edge in edges])
    losses = _Losses(graph, chosen, own, ranges, statistics, settings)
    groups = _Groups(chosen, own, {edge.pair for edge in edges}, losses)
    steps = [sorted(map(groups.step, edge.pair)) for edge in edges]
    order = sorted(range(len(edges)), key=lambda i: (steps[i][1] / steps[i][0], i))
    judged = {i: groups.judge(edges[i]) for i in order}
    return [found for i in range(len(edges)) if (found := judged[i]) is not None]


def _edges(graph: Graph, chosen: Plan, ranges: Mapping[str, Range]) -> list[_Edge]:
    """What joining nodes read, each once, where all of their inputs have ranges."""
    found: dict[tuple[str, str], _Edge] = {}
    for node in graph.nodes:
        if joins(node) and is_moved_by(graph, chosen, node):
            inputs = data_inputs(node)
            if all(tensor.name in ranges for tensor in inputs):
                if node.op == CARRIED_OUT:  # the state that is found has one scale with it
                    inputs = inputs[:-1]
                edges = [_Edge(node, tensor, node.outputs[0]) for tensor in inputs]
                found |= {edge.pair: edge for edge in edges}
    return list(found.values())


class _Losses:
    """What noise of 1 in a tensor loses at those who read it.

    ``at``: at what reads the tensor itself; ``beyond``: there, and at what reads what it is
    moved to. Both are sums of the inverse mean squares of what is read.
    """

    def __init__(
        self,
        graph: Graph,
        chosen: Plan,
        own: Mapping[str, Range],
        ranges: Mapping[str, Range],
        statistics: Mapping[str, Statistics],
        settings: Settings,
    ) -> None:
        self._own, self._ranges, self._statistics = own, ranges, statistics
        self.settings = settings
        self._parts: dict[int, tuple[dict[int, int], int]] = {}
        names = {*concerned(graph, chosen)}
        seen = [statistics[name] for name in names if name in statistics]
        counted = bool(seen) and all(each.histogram is not None for each in seen)
        self.energies = "histograms" if counted else "extremes"
        self.at: dict[str, float] = {}
        self.beyond: dict[str, float] = {}
        for name, tensor in reversed(chosen.tensors.items()):
            movers = [
                each
                for each in tensor.outputs
                if is_moved_by(graph, chosen, each) or self._shares(chosen, each, name)
            ]
            reads = len(tensor.outputs) - len(movers) + is_graph_output(graph, tensor)
            asked = reads and name in names
            self.at[name] = reads / square if asked and (square := self._square(name)) else 0.0
            self.beyond[name] = self.at[name] + sum(
                self.share(each, tensor) * self.beyond.get(end.name, 0.0)
                for each in movers
                for end in (each.outputs if each.op in CLAMPING else results(graph, each))
            )

    def _shares(self, chosen: Plan, reader: Node, name: str) -> bool:
        """Whether ``reader`` is an integer Relu or Clip with one scale for both ends."""
        is_clamp = reader.op in CLAMPING and id(reader) in chosen.integer
        return is_clamp and self._own.get(reader.outputs[0].name) == self._own[name]

    def share(self, node: Node, tensor: Tensor) -> float:
        """Which part of what ``node`` writes comes from ``tensor``."""
        if id(node) not in self._parts:  # once for all that a join of thousands reads
            self._parts[id(node)] = self._parts_of(node)
        own, whole = self._parts[id(node)]
        return own.get(id(tensor), 0) / whole

    def _parts_of(self, node: Node) -> tuple[dict[int, int], int]:
        """How much comes from each tensor, by its id, and in all."""
        inputs, own = data_inputs(node), dict[int, int]()
        seen = [self._statistics.get(each.name) for each in inputs]
        counts = [each.count for each in seen if each is not None]
        if len(counts) < len(inputs) or not sum(counts):
            counts = [1] * len(inputs)
        for count, each in zip(counts, inputs, strict=True):
            own[id(each)] = own.get(id(each), 0) + count
        return own, sum(counts)

    def _square(self, name: str) -> float:
        """The mean square of a tensor; without a histogram that of a uniform distribution.

        A tensor without values has no energy.
        """
        if self.energies == "histograms":
            if name not in self._statistics:
                return 0.0
            found = moments(self._statistics[name])
            return found.mean**2 + found.std**2
        low, high = self._ranges[name].low, self._ranges[name].high
        return (low * low + low * high + high * high) / 3


class _Groups:
    """Groups of tensors with one range, the losses at what reads them, and their unions."""

    def __init__(
        self,
        chosen: Plan,
        own: Mapping[str, Range],
        apart: Collection[tuple[str, str]],
        losses: _Losses,
    ) -> None:
        self._losses, self._ties = losses, Ties()
        for first, second in [*chosen.ties, *chosen.clamps]:
            if (first, second) not in apart and own.get(first) == own.get(second):
                self._ties.tie(first, second)
        self._ranges: dict[str, Range] = {}
        self._at: dict[str, float] = {}
        for name in chosen.tensors:
            root = self._ties.of(name)
            self._ranges[root] = own[name].with_zero()
            self._at[root] = self._at.get(root, 0.0) + losses.at[name]

    def step(self, name: str) -> float:
        """Between two codes of the group of ``name``."""
        return self._step(self._ranges[self._ties.of(name)])

    def _step(self, real: Range) -> float:
        return step_of(real, self._losses.settings)

    def judge(self, edge: _Edge) -> Join | None:
        """The losses at ``edge``, whose ends are united if it gets no table.

        None if they are one group already.
        """
        one, other = map(self._ties.of, edge.pair)
        real, joined = self._ranges[one], self._ranges[other]
        if one == other:
            return None
        both = real.union(joined)
        noise, joined_noise, shared = (self._step(r) ** 2 / 12 for r in (real, joined, both))
        beyond = self._losses.share(edge.node, edge.tensor) * self._losses.beyond[edge.pair[1]]
        table = noise * (self._at[one] + beyond) + joined_noise * self._at[other]
        tied = shared * (self._at[one] + self._at[other])
        ends = (real.low, real.high), (joined.low, joined.high)
        wins = table * LEAST_GAIN < tied
        if not wins:
            self._ties.tie(one, other)
            self._ranges[one], self._at[one] = both, self._at[one] + self._at[other]
        return Join(
            edge.node.name,
            edge.node.op,
            *edge.pair,
            *ends,
            tied,
            table,
            wins,
            self._losses.energies,
        )
