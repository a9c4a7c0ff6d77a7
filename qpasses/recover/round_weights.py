"""How the weights of a Q/DQ graph are rounded: as asked, or as held-back samples tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration import Samples
from qpasses.evidence.bodies import constants_of
from qpasses.ir.choices import WeightRounding
from qpasses.ir.graph import Graph
from qpasses.ir.progress import Progress
from qpasses.ir.record import Record, digest_of
from qpasses.recover.judge import Decibels, Judge, gains
from qpasses.recover.kept_sums import keep_sums
from qpasses.recover.matrices import Codes, Matrix, in_float, matrices_of
from qpasses.recover.on_samples import moments_on, walks
from qpasses.recover.second_moments import Moments
from qpasses.recover.second_order import least_error

SAMPLES = 16
"""So many samples choose weights, spread evenly."""

WIDEST = 64 << 20
"""Second moments of so many bytes, of 2,896 numbers, are the largest that choose weights."""

_ALIKE = 32 << 20
"""Matrices of so many bytes of them are one problem of algebra, if they are alike."""


@dataclass(frozen=True)
class Rounded:
    """How weights were rounded, of the ``nodes`` by name.

    ``asked``: what the user asked for, ``how``: what was done. ``sqnr_db``: on so many samples
    ``held_back``, what each way that was tried gives, and ``UNROUNDED``: at outputs, or before
    those of few numbers. ``wide``: nodes that second order left to their sums.
    """

    asked: WeightRounding = "nearest"
    how: WeightRounding = "nearest"
    nodes: frozenset[str] = frozenset()
    held_back: int = 0
    sqnr_db: Mapping[str, float] = field(default_factory=dict)
    wide: Sequence[str] = ()

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
            "too_wide": list(self.wide) if self.how == "second-order" else [],
        }


def round_weights(
    graph: Graph,
    how: WeightRounding,
    weights: Mapping[str, NDArray[Any]],
    judge: Judge,
    samples: Samples,
    progress: Progress,
) -> Rounded:
    """Round what ``graph`` stores of the real ``weights``, given by node.

    ``judge``: who tells, if it is to be found ``how``; those of the ``samples`` choose that it
    does not judge by then. Raises ModelError where a model cannot be run.
    """
    matrices = matrices_of(graph, weights)
    if how == "auto":
        others = samples.without(set(judge.samples.names))
        found = _judged(graph, matrices, judge, others, progress)
    else:
        _round(graph, how, matrices, samples, progress)
        judge.left(None)
        found = Rounded(how, how)
    names = frozenset(each.node.name for each in matrices)
    return replace(found, nodes=names, wide=[m.node.name for m in matrices if _is_wide(m)])


def _is_wide(matrix: Matrix) -> bool:
    return matrix.moment_bytes > WIDEST


UNROUNDED = "unrounded"
"""Weights in float: what no rounding gains more than."""


def _judged(
    graph: Graph,
    matrices: Sequence[Matrix],
    judge: Judge,
    others: Samples,
    progress: Progress,
) -> Rounded:
    """The rounding that gains most on samples that chose nothing; the nearest by default.

    None is tried when what is left to gain is noise or chance.
    """
    best: WeightRounding = "nearest"
    highest = judge.before(graph) if len(judge.samples) and matrices else None
    if highest is None:
        return Rounded("auto", held_back=len(judge.samples))
    with in_float(matrices):
        limit = judge.sqnr_db(graph)
    found: dict[str, Decibels] = {best: highest}
    if limit is not None:
        found[UNROUNDED] = limit
    nearest = kept = [each.codes for each in matrices]
    for way, times in _WAYS.items():
        if limit is None or not gains(highest, limit, times):
            break
        if way == "second-order" and all(map(_is_wide, matrices)):
            break  # it would keep sums
        _store(matrices, nearest)
        _round(graph, way, matrices, others, progress)
        gained = judge.sqnr_db(graph)
        if gained is None:  # it is infinite
            continue
        found[way] = gained
        if gains(found["nearest"], gained) and gained.mean() > highest.mean():
            best, highest, kept = way, gained, [each.codes for each in matrices]
    _store(matrices, kept)
    judge.left(found[best])
    means = {way: float(each.mean()) for way, each in found.items()}
    return Rounded("auto", best, held_back=len(judge.samples), sqnr_db=means)


_WAYS: Mapping[WeightRounding, int] = {"sum-preserving": 1, "second-order": 2}
"""What may be better than the nearest codes, the cheapest first: it is tried where there is so
many times more to gain than noise. It never gains all."""


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
    """Round the nearest codes, which are stored, ``how`` it is said.

    By second order not the widest, whose moments and time grow with the square of what they
    read, and more: they keep their sums.
    """
    if how == "sum-preserving":
        for each in matrices:
            each.store(_with_kept_sums(each))
    elif how == "second-order":
        apart = [each for each in matrices if _is_wide(each)]
        _round(graph, "sum-preserving", apart, samples, progress)
        fitting = [each for each in matrices if not _is_wide(each)]
        _choose(graph, fitting, samples.spread(SAMPLES), progress)


def _with_kept_sums(matrix: Matrix) -> Codes:
    nearest = matrix.by_channel(matrix.codes)
    made = np.empty_like(nearest)
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
        pairs = sorted(zip(walk, sums, strict=True), key=lambda pair: _shape(pair[0]))
        for _, found in groupby(pairs, lambda pair: _shape(pair[0])):
            alike = [*found]
            many = max(_ALIKE // alike[0][0].moment_bytes, 1)
            for start in range(0, len(alike), many):
                _choose_alike(alike[start : start + many])


def _shape(matrix: Matrix) -> tuple[int, ...]:
    """What matrices have to have in common to be one for the choice of codes."""
    channels = len(matrix.by_channel(matrix.real))
    return matrix.size, channels // matrix.groups, *matrix.ends


def _choose_alike(alike: Sequence[tuple[Matrix, Moments]]) -> None:
    """Choose the codes of matrices of one shape at once, as groups."""
    rows = [
        each.quotients(slice(None)).reshape(each.groups, -1, each.size) for each, _ in alike
    ]
    moments = np.concatenate([each.mean for _, each in alike])
    chosen = least_error(np.concatenate(rows), moments, alike[0][0].ends)
    places = np.cumsum([each.groups for each, _ in alike])
    for (each, _), codes in zip(alike, np.split(chosen, places[:-1]), strict=True):
        each.store(each.as_stored(codes))


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
