"""Cautions: what to know before the figures of a report are believed."""

from collections.abc import Collection, Mapping, Sequence
from math import ceil
from typing import Any

from calibration import Samples
from calibration.inputs import tensors
from calibration.rules import Rules
from qpasses.ir.graph import Graph, is_float
from qpasses.ir.settings import Settings
from qpasses.load.digits import large_and_rounded
from qpasses.place.free_sums import free_sum_warnings
from qpasses.place.ranges import EMPTY, Ranges

SLOW_SHARE = 0.1
"""More multiply-accumulates in portable bodies than this are worth a warning."""

LOW_SQNR_DB = 10.0
"""Below this an output is a tenth noise: worth a warning."""

_SHOWN = 5
"""So many names are listed where there are more."""


def data_warnings(
    samples: Samples, calibrated_on_random: bool, compared_on_random: bool
) -> list[str]:
    """What to know of samples: doubtful preprocessing, sizes, made-up numbers."""
    found = list(samples.notes)
    if samples.preprocessing is not None:
        doubts = samples.preprocessing.doubts()
        found += [f"{doubt}: is the scale right (--scale)?" for doubt in doubts]
        if samples.preprocessing.size is None:
            found.append(
                "the model leaves height and width free: each picture has its own size "
                "(--size gives all the same)"
            )
    if calibrated_on_random:
        found.append("calibrated on random numbers: its ranges are not those of real data")
    if compared_on_random:
        found.append("compared on random numbers: the accuracy is not that on real data")
    return found


def digit_warnings(samples: Samples, narrowed: Collection[str]) -> list[str]:
    """Where ``samples`` hold what is lost in inputs ``narrowed`` from float64 to float32."""
    found: dict[str, str] = {}
    for name, feed in samples if narrowed else ():
        for tensor in sorted(narrowed - found.keys()):
            lost = large_and_rounded(tensors(feed)[tensor])
            if lost is not None:
                found[tensor] = (
                    f"input {tensor!r} holds {lost!r} in {name}: float32 has not each number "
                    "around it, and the float model that is compared with is in float32 too: "
                    "subtract what is large before"
                )
        if len(found) == len(narrowed):
            break
    return list(found.values())


def range_warnings(found: Ranges, rules: Rules) -> list[str]:
    """What to know of ranges: skipped samples, no or one value, too few for a percentile."""
    warnings = []
    if found.skipped:
        count = len(found.skipped)
        names = ", ".join(list(found.skipped)[:_SHOWN]) + ", ..." * (count > _SHOWN)
        what = "bad sample was" if count == 1 else "bad samples were"
        warnings.append(f"{count} {what} skipped: {names}")
    warnings += [
        f"tensor {name!r} held no values in any sample: its scale is of what it is joined "
        "with, or 1"
        for name, method in found.methods.items()
        if method == EMPTY
    ]
    warnings += [
        f"tensor {name!r} is {seen.low:g} throughout: do the samples reach it?"
        for name, seen in found.statistics.items()
        if seen.low == seen.high
    ]
    short = {}
    for name, seen in found.statistics.items():
        share = rules.cut_share(name)
        if share and seen.count * share < 1:
            short[name] = ceil(1 / share)
    if short:
        name, needed = max(short.items(), key=lambda each: each[1])
        several = "tensors have" if len(short) > 1 else "tensor has"
        warnings.append(
            f"{len(short)} {several} too few values for the percentile, which leaves the "
            f"extremes: {name!r} has {found.statistics[name].count:,} of {needed:,} "
            "(more samples, or a lower percentile)"
        )
    return warnings


def code_warnings(few_codes: Mapping[str, int], settings: Settings) -> list[str]:
    """Which tensors lose bits to a wider one that they are tied to."""
    return [
        f"tensor {name!r} uses {used} of {settings.codes} codes: it shares the scale of a "
        "wider one"
        for name, used in few_codes.items()
    ]


def growth_warnings(growing: Mapping[str, int], settings: Settings) -> list[str]:
    """Which states hold little of what they are at first."""
    return [
        f"state {name!r} has {used} of {settings.codes} codes at first: it has the scale of "
        f"what iterations make of it (--tensor-types {name}=int16 holds both)"
        for name, used in growing.items()
    ]


def constant_warnings(clipped: Mapping[str, float]) -> list[str]:
    """Which nodes move constants that the range of their result does not hold."""
    return [
        f"node {name!r} moves in {value:g}, beyond the range of its result: it is stored as "
        "the nearest end (an override of the range holds it)"
        for name, value in clipped.items()
    ]


def width_warnings(refused: Mapping[str, str]) -> list[str]:
    """Which tensors were asked for in 16 bits and have 8."""
    return [f"tensor {name!r} stays in 8 bits: {why}" for name, why in refused.items()]


def goal_warnings(wanted: float, reached: float | None, where: str, count: int) -> list[str]:
    """How far ``count`` tensors in 16 bits took the outputs, in dB, where more was wanted."""
    has = "no signal" if reached is None else f"{reached:.1f} dB"
    return [
        f"min_sqnr (--min-sqnr) {wanted:g} dB cannot be met: outputs have {has} on {where}, "
        f"with {count} tensors in 16 bits"
    ]


def kept_warnings(not_kept: Mapping[str, str]) -> list[str]:
    """Which weights of a quantized model are not its own integers any more."""
    if not not_kept:
        return []
    name, reason = next(iter(not_kept.items()))
    what = (
        "the weights of 1 node" if len(not_kept) == 1 else f"weights of {len(not_kept)} nodes"
    )
    return [f"{what} could not be kept, those of {name!r} because {reason}"]


def translation_warnings(notes: Mapping[str, str]) -> list[str]:
    """Which nodes of a quantized model were not taken over exactly as they were, by reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in notes.items():
        by_reason.setdefault(reason, []).append(name)
    found = []
    for reason, names in by_reason.items():
        what = "1 node" if len(names) == 1 else f"{len(names)} nodes"
        shown = ", ".join(map(repr, names[:_SHOWN])) + ", ..." * (len(names) > _SHOWN)
        found.append(f"{what} of the given model ({shown}): {reason}")
    return found


def graph_warnings(
    graph: Graph,
    settings: Settings,
    summary: Mapping[str, Any],
    accuracy: Sequence[Mapping[str, Any]],
) -> list[str]:
    """What to know of a graph: sums of any length, slow bodies, floats, low accuracy."""
    found = free_sum_warnings(graph)
    if settings.emit == "standard":
        found.append("the evidence is of the nodes before they were written out")
    slow = summary["integer_mac_share"] - summary["fast_mac_share"]
    if settings.bodies == "onnxruntime" and slow > SLOW_SHARE:
        found.append(
            f"{slow:.0%} of the multiply-accumulates are in portable bodies, because no "
            "kernel computes them exactly: slow in onnxruntime"
        )
    if settings.integer_io:
        for what, tensors in (("input", graph.inputs), ("output", graph.outputs)):
            found += [
                f"{what} {tensor.name!r} stays float: it is not stored on integers"
                for tensor in tensors
                if is_float(tensor)
            ]
    for output in accuracy:
        sqnr = output["sqnr_db"]
        if sqnr is not None and sqnr < LOW_SQNR_DB:
            found.append(f"output {output['name']!r} is only {sqnr:.1f} dB from float")
        if count := output["unlike_sizes"]:
            found.append(
                f"output {output['name']!r} has other sizes than in float on {count} of the "
                "samples, left out of its accuracy: its sizes follow from values"
            )
    return found
