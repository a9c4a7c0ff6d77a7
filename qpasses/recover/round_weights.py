"""Weights rounded for what they do to the samples, on the Q/DQ graph."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration import Samples, Session
from qpasses.evidence.bodies import constants_of
from qpasses.ir.graph import Graph, Node, constant, producer
from qpasses.ir.interchange import prepared_model
from qpasses.ir.progress import Progress
from qpasses.ir.record import Record, digest_of
from qpasses.recover.moments import Moments, Windows, matrix_rows
from qpasses.recover.second_order import least_error

SAMPLES = 32
"""So many samples are looked at, spread evenly."""

AT_ONCE = 256 << 20
"""Moments of so many bytes are summed in one walk over the samples."""


@dataclass(frozen=True)
class _Matrix:
    """A node whose weights are rounded: its real ones, the stored ones, how it reads x.

    ``place``: among all of them, which tells how positions are drawn.
    """

    place: int
    node: Node
    real: NDArray[Any]
    stored: Any  # the constant tensor
    scale: NDArray[np.floating[Any]]

    @property
    def windows(self) -> Windows | None:
        """Of a Conv; None for a matrix."""
        if self.node.op != "Conv":
            return None
        return Windows.of(self.node, self.real.shape[2:])

    @property
    def groups(self) -> int:
        """Rows of different groups read different channels."""
        return self.windows.groups if self.windows else 1

    @property
    def size(self) -> int:
        """How many weights a row has."""
        return prod(self.real.shape[1:]) if self.windows else self.real.shape[0]

    @property
    def bytes(self) -> int:
        """Those of its moments."""
        return 8 * self.groups * self.size**2

    def rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """Stored or real weights, or what is one for each, as [groups, rows, size]."""
        rows = values if self.windows else values.T
        return rows.reshape(self.groups, -1, self.size)

    def settle(self, moments: Moments) -> None:
        """Store the codes that lose least."""
        column = [-1, *[1] * (self.real.ndim - 1)] if self.windows else [1, -1]
        scale = np.broadcast_to(self.scale.reshape(column), self.real.shape)
        quotients = self.real.astype(np.float64) / scale.astype(np.float64)
        codes = self.stored.values
        ends = np.iinfo(codes.dtype)
        rows = least_error(self.rows(quotients), moments.mean, (ends.min, ends.max))
        made = rows.reshape(codes.shape if self.windows else codes.shape[::-1])
        made = made if self.windows else made.T
        self.stored.values = np.ascontiguousarray(made.astype(codes.dtype))


def round_weights(
    graph: Graph, weights: Mapping[str, NDArray[Any]], samples: Samples, progress: Progress
) -> list[str]:
    """Round anew what DequantizeLinear nodes store of real ``weights``, by node.

    ``graph`` is a Q/DQ graph, whose inputs of the matrices are looked at on ``samples``.
    Returns the names of the nodes whose weights were chosen.
    """
    matrices = list(_matrices(graph, weights))
    walks, few = list(_walks(matrices)), samples.spread(SAMPLES)
    advance = progress("round weights", len(walks) * len(few))
    for walk in walks:
        moments = [Moments(each.groups, each.size) for each in walk]
        for position, found in enumerate(_inputs(graph, walk, few)):
            for each, sums in zip(walk, moments, strict=True):
                rng = np.random.default_rng([each.place, position])
                x = found[each.node.inputs[0].name]
                if x.size:
                    sums.add(
                        each.windows.rows(x, rng) if each.windows else matrix_rows(x, rng)
                    )
            advance()
        for each, sums in zip(walk, moments, strict=True):
            each.settle(sums)
    return [each.node.name for each in matrices]


def note_chosen(graph: Graph, record: Record, chosen: Collection[str]) -> None:
    """Record of integer nodes that compute the nodes ``chosen`` which weights they have."""
    for node in graph.nodes:
        entry = record.nodes.get(node.name)
        if entry is not None and chosen and entry.source[:1] and entry.source[0] in chosen:
            entry.weights = digest_of(constants_of(node)["w"])


def _matrices(graph: Graph, weights: Mapping[str, NDArray[Any]]) -> Iterator[_Matrix]:
    for place, node in enumerate(graph.nodes):
        real = weights.get(node.name)
        dequantize = None if real is None else producer(node.inputs[1])
        if real is None or dequantize is None or dequantize.op != "DequantizeLinear":
            continue
        stored, scale = dequantize.inputs[:2]
        yield _Matrix(place, node, real, stored, np.asarray(constant(scale)))


def _walks(matrices: Sequence[_Matrix]) -> Iterator[list[_Matrix]]:
    """Those whose moments are summed at once."""
    walk: list[_Matrix] = []
    for each in matrices:
        if walk and sum(one.bytes for one in walk) + each.bytes > AT_ONCE:
            yield walk
            walk = []
        walk.append(each)
    if walk:
        yield walk


def _inputs(
    graph: Graph, walk: Sequence[_Matrix], samples: Samples
) -> Iterator[Mapping[str, NDArray[Any]]]:
    """What the matrices read, sample after sample."""
    model, names = (
        prepared_model(graph),
        list(dict.fromkeys(e.node.inputs[0].name for e in walk)),
    )
    known = {each.name: each for each in (*model.graph.value_info, *model.graph.input)}
    session = Session(model, outputs=[known[name] for name in names])
    for sample, feed in samples:
        yield dict(zip(names, session.run(names, feed, sample), strict=True))
