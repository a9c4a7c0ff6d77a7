"""How the weights of a Q/DQ graph are rounded: as asked, or as held-back samples tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from calibration import Samples
from qpasses.evidence.bodies import constants_of
from qpasses.ir.choices import WeightRounding
from qpasses.ir.graph import Graph
from qpasses.ir.interchange import prepared_model
from qpasses.ir.progress import Progress
from qpasses.ir.record import Record, digest_of
from qpasses.recover.kept_sums import keep_sums
from qpasses.recover.matrices import Codes, Matrix, matrices_of
from qpasses.recover.on_samples import (
    Decibels,
    gains,
    held_back,
    moments_on,
    outputs_on,
    sqnr_db,
    walks,
)
from qpasses.recover.second_order import least_error

SAMPLES = 32
"""So many samples choose weights, spread evenly."""


@dataclass(frozen=True)
class Rounded:
    """How weights were rounded, of the ``nodes`` by name.

    ``asked``: what the user asked for, ``how``: what was done. ``sqnr_db``: on so many samples
    ``held_back``, what each way to round gives at the outputs, where that was asked.
    """

    asked: WeightRounding = "nearest"
    how: WeightRounding = "nearest"
    nodes: frozenset[str] = frozenset()
    held_back: int = 0
    sqnr_db: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any] | None:
        """``weight_rounding`` of a report; None where the nearest codes were asked for."""
        if self.asked == "nearest":
            return None
        return {
            "asked": self.asked,
            "chosen": self.how,
            "nodes": len(self.nodes),
            "held_back": self.held_back,
            "sqnr_db": dict(self.sqnr_db),
        }


def round_weights(
    graph: Graph,
    how: WeightRounding,
    weights: Mapping[str, NDArray[Any]],
    source: onnx.ModelProto,
    samples: Samples,
    progress: Progress,
) -> Rounded:
    """Round what ``graph`` stores of the real ``weights``, given by node.

    ``source``: the float model, beside which held-back ones of the ``samples`` judge if it is
    to be found ``how``. Raises ModelError where a model cannot be run.
    """
    matrices = matrices_of(graph, weights)
    if how == "auto":
        return _judged(graph, matrices, source, samples, progress)
    _round(graph, how, matrices, samples, progress)
    return Rounded(how, how, frozenset(each.node.name for each in matrices))


def _judged(
    graph: Graph,
    matrices: Sequence[Matrix],
    source: onnx.ModelProto,
    samples: Samples,
    progress: Progress,
) -> Rounded:
    """The rounding that gains most on samples that chose nothing; the nearest by default."""
    names = frozenset(each.node.name for each in matrices)
    judges, others = held_back(samples)
    if not len(judges) or not matrices:
        return Rounded("auto", "nearest", names)
    expected = list(outputs_on(source, judges))
    ways: tuple[WeightRounding, ...] = ("nearest", "sum-preserving", "second-order")
    nearest = [each.codes for each in matrices]
    found, kept = dict[WeightRounding, Decibels](), dict[str, list[Codes]]()
    for way in ways:
        _store(matrices, nearest)
        _round(graph, way, matrices, others, progress)
        gained = sqnr_db(expected, outputs_on(prepared_model(graph), judges))
        if gained is None:
            break
        found[way], kept[way] = gained, [each.codes for each in matrices]
    better = [way for way in found if gains(found["nearest"], found[way])]
    best: WeightRounding = "nearest"
    if better:
        best = max(better, key=lambda way: found[way].mean())
    _store(matrices, kept.get(best, nearest))
    means: dict[str, float] = {way: float(each.mean()) for way, each in found.items()}
    return Rounded("auto", best, names, len(judges), means)


def _store(matrices: Sequence[Matrix], codes: Sequence[Codes]) -> None:
    for each, its in zip(matrices, codes, strict=True):
        each.store(its)


def _round(
    graph: Graph,
    how: WeightRounding,
    matrices: Sequence[Matrix],
    samples: Samples,
    progress: Progress,
) -> None:
    """Round the nearest codes, which are stored, ``how`` it is said."""
    if how == "sum-preserving":
        for each in matrices:
            each.store(_with_kept_sums(each))
    elif how == "second-order":
        _choose(graph, matrices, samples.spread(SAMPLES), progress)


def _with_kept_sums(matrix: Matrix) -> Codes:
    nearest = matrix.by_channel(matrix.codes)
    made = np.empty(nearest.shape, np.int64)
    for part in matrix.parts():
        quotients, codes = matrix.quotients(part), nearest[part].astype(np.int64)
        kernels = (*codes.shape[:2], prod(codes.shape[2:]))
        kept = keep_sums(quotients.reshape(kernels), codes.reshape(kernels), matrix.ends)
        made[part] = kept.reshape(codes.shape)
    return matrix.as_stored(made)


def _choose(
    graph: Graph, matrices: Sequence[Matrix], samples: Samples, progress: Progress
) -> None:
    parts = walks(matrices)
    advance = progress("round weights", len(parts) * len(samples))
    for walk in parts:
        sums = moments_on(graph, walk, samples, advance)
        for each, moments in zip(walk, sums, strict=True):
            rows = (each.groups, -1, each.size)
            quotients = each.quotients(slice(None)).reshape(rows)
            each.store(each.as_stored(least_error(quotients, moments.mean, each.ends)))


def note_rounding(graph: Graph, record: Record, rounded: Rounded) -> None:
    """Record of integer nodes how their weights were rounded, if that was asked for."""
    if rounded.asked == "nearest":
        return
    for node in graph.nodes:
        entry = record.nodes.get(node.name)
        if entry is None or not rounded.nodes.intersection(entry.source[:1]):
            continue
        chosen = rounded.how == "second-order"
        entry.weights = digest_of(constants_of(node)["w"]) if chosen else rounded.how
