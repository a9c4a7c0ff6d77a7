"""Bias correction: the mean error of each channel is taken out of the bias that it ends in.

Strictly in sequence: what a node is off is seen when all before it are corrected, else each
takes out what others did already. A Q/DQ graph runs piece after piece on some samples; each
piece ends in a sum with a bias. Every other sample says what a channel is off on the mean, and
as much of that is taken out as is not chance, 1 - variance / (n mean**2); the others say
whether it is less off then.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from calibration import Samples
from calibration.pieces import Draft, Parts, drafted
from opsets.fixed_point import Int64
from qpasses.ir.choices import BiasCorrection
from qpasses.ir.graph import Graph
from qpasses.ir.interchange import prepared_model
from qpasses.ir.progress import Progress
from qpasses.ir.record import MOST_CORRECTED, Record
from qpasses.place.stored_weights import BIAS_LIMIT
from qpasses.recover.biases import Bias, Home, Means, homes, means_of
from qpasses.recover.channel_means import add_means
from qpasses.recover.judge import Judge
from qpasses.recover.on_samples import each_of, session_of

SAMPLES = 32
"""So many say what biases are off, spread evenly."""

FEWEST = 8
"""Fewer say nothing, and are not asked."""

NUMBERS = 64 << 20
"""So many, of sums with a bias, are looked at: a second. Models that have more on each of
``FEW`` samples are left alone where nobody asks for more than what costs little."""

FEW = 16

MOST_NODES = 512

MOST_WEIGHTS = 64 << 20
"""Pieces hold theirs several times over while they are loaded: of 2 GiB they take 22."""


@dataclass(frozen=True)
class Expected:
    """The means of the sums that biases are added to, in the float graph, on ``samples``."""

    homes: Sequence[Home] = ()
    means: Mapping[str, Means] = field(default_factory=dict)
    samples: Samples | None = None
    reason: str = ""


@dataclass(frozen=True)
class Corrected:
    """How biases were corrected, by the name of the node whose products they are added to.

    ``asked``: what the user asked for, ``how``: what was done, or the ``reason`` why nothing
    was; ``sqnr_db``: on so many samples ``held_back``, without and with it.
    """

    asked: BiasCorrection = "none"
    how: BiasCorrection = "none"
    steps: Mapping[str, Int64] = field(default_factory=dict)
    held_back: int = 0
    sqnr_db: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""

    def as_json(self) -> dict[str, Any] | None:
        """``bias_correction`` of a report; None where it was not asked for."""
        if self.asked == "none":
            return None
        return {
            "asked": self.asked,
            "chosen": self.how,
            "nodes": len(self.steps),
            "held_back": self.held_back,
            "sqnr_db": dict(self.sqnr_db),
            "reason": self.reason,
        }


def expect(
    graph: Graph,
    matrices: Collection[str],
    how: BiasCorrection,
    samples: Samples,
    sizes: Mapping[str, Sequence[int]],
    progress: Progress,
) -> Expected:
    """Run the float ``graph`` for what its sums are, of the ``matrices`` by name.

    ``samples``: those that may choose; ``sizes``: of tensors, as far as they are known. Raises
    ModelError where it cannot be run.
    """
    found = homes(graph, matrices)
    if not found:
        return Expected(reason="no products have a bias")
    count = min(SAMPLES, len(samples))
    if how == "auto":
        if unknown := [each.sum.name for each in found if each.sum.name not in sizes]:
            return Expected(
                reason=f"the size of {unknown[0]!r} is not known: ask for in-sequence"
            )
        if _weights(graph, matrices) > MOST_WEIGHTS:
            return Expected(
                reason="weights of this size take much memory: ask for in-sequence"
            )
        numbers = sum(prod(sizes[each.sum.name]) for each in found)
        count = min(count, NUMBERS // max(numbers, 1))
        if count < min(FEW, len(samples)) or len(found) > MOST_NODES:
            return Expected(reason="a graph of this size takes long: ask for in-sequence")
    if count < FEWEST:
        return Expected(reason=f"fewer than {FEWEST} samples are left for it: give more")
    chosen = samples.spread(count)
    return Expected(found, means_of(graph, found, chosen, progress), chosen)


def _weights(graph: Graph, matrices: Collection[str]) -> int:
    """How many weights these nodes have."""
    return sum(prod(node.inputs[1].shape) for node in graph.nodes if node.name in matrices)


def correct_biases(
    graph: Graph, how: BiasCorrection, expected: Expected, judge: Judge, progress: Progress
) -> Corrected:
    """Correct what the Q/DQ ``graph`` stores; by ``auto`` not if ``judge`` sees it lose.

    Raises ModelError where it cannot be run.
    """
    if expected.samples is None:
        return Corrected(how, reason=expected.reason)
    before = judge.before(graph) if how == "auto" else None
    if how == "auto" and before is None:
        return Corrected(how, reason="there is nothing to judge by")
    biases = [each for each in map(Bias.of, expected.homes) if each is not None]
    stored = [each.codes for each in biases]
    steps = _correct(graph, biases, expected.means, expected.samples, progress)
    found = Corrected(how, "in-sequence", steps)
    behind = judge.sqnr_db(graph) if how == "auto" else None
    if before is None or behind is None:
        return found
    means = {"without": float(before.mean()), "with": float(behind.mean())}
    found = replace(found, held_back=len(judge.samples), sqnr_db=means)
    if behind.mean() > before.mean():
        return found
    for each, codes in zip(biases, stored, strict=True):
        each.store(codes)
    return replace(found, how="none", steps={})


def _correct(
    graph: Graph,
    biases: Sequence[Bias],
    expected: Mapping[str, Means],
    samples: Samples,
    progress: Progress,
) -> dict[str, Int64]:
    """Correct one after the other; by the node that multiplies the steps that were added."""
    model = prepared_model(graph)
    by_sum = {each.home.sum.name: each for each in biases}
    drafts = drafted(model, _cuts(model, by_sum))
    advance = progress("correct biases", len(drafts))
    values: list[dict[str, Any]] = [dict(feed) for _, feed in samples]
    parts, found = Parts(model), dict[str, Int64]()
    for draft in drafts:
        written = [name for node in draft.nodes for name in node.output]
        ends = [by_sum[name] for name in written if name in by_sum]
        rows = _run(parts.of(draft), draft, ends, values, samples)
        for each, column in zip(ends, zip(*rows, strict=True), strict=True):
            off = expected[each.home.node.name] - np.array(column, np.float64)
            steps = _steps(off, each)
            if not steps.any():
                continue
            each.store((each.codes + steps).astype(np.int32))
            found[each.home.matrix.name] = steps
            rank, axis = each.home.layout
            row = (steps * each.steps).astype(np.float32)
            row = row.reshape([-1 if k == axis else 1 for k in range(rank)])
            name = each.home.sum.name
            for known in values if name in draft.handed_on else ():
                known[name] = known[name] + row
        advance()
    return found


def _cuts(model: onnx.ModelProto, ends: Mapping[str, Bias]) -> list[range]:
    """The places of the nodes up to each that gives one of the ``ends``."""
    behind = [k + 1 for k, node in enumerate(model.graph.node) if node.output[0] in ends]
    return [range(*each) for each in zip([0, *behind], behind, strict=False)]


def _run(
    model: onnx.ModelProto,
    draft: Draft,
    ends: Sequence[Bias],
    values: Sequence[dict[str, Any]],
    samples: Samples,
) -> list[list[NDArray[Any]]]:
    """Run a piece on the values of each sample, which gain what it hands on.

    Returned are the means of its ends.
    """
    means = add_means(model, {each.home.sum.name: each.home.layout for each in ends})
    names = [*draft.handed_on, *means]
    session = session_of(model, names, threads=1)

    def run(place: int) -> list[NDArray[Any]]:
        known, name = values[place], samples.name(place)
        given = session.run(names, {each: known[each] for each in draft.read}, name)
        for each in draft.ended:
            del known[each]
        known.update(zip(draft.handed_on, given, strict=False))
        return given[len(draft.handed_on) :]

    return each_of(len(values), run)


def _steps(off: Means, bias: Bias) -> Int64:
    """Whole steps of each channel: what to add, as it is ``off`` on each sample."""
    choosing, agreeing = off[0::2], off[1::2]
    mean = choosing.mean(axis=0)
    chance = choosing.var(axis=0, ddof=1) / len(choosing)
    kept = 1 - np.divide(chance, mean**2, out=np.ones_like(mean), where=mean != 0)
    most = MOST_CORRECTED * bias.y_steps
    moved = np.clip(mean * np.maximum(kept, 0), -most, most)
    gained = agreeing**2 - (agreeing - moved) ** 2
    chance = 2 * gained.std(axis=0, ddof=1) / np.sqrt(len(agreeing))
    steps: Int64 = np.trunc(np.where(gained.mean(axis=0) > chance, moved, 0) / bias.steps)
    fits = np.abs(bias.codes + steps) <= BIAS_LIMIT
    return np.where(fits, steps, 0).astype(np.int64)


def note_correction(graph: Graph, record: Record, corrected: Corrected) -> None:
    """Record of integer nodes by how much their biases were corrected."""
    for node in graph.nodes:
        entry = record.nodes.get(node.name)
        if entry is not None and entry.source and entry.source[0] in corrected.steps:
            entry.correction = corrected.steps[entry.source[0]].tolist()
