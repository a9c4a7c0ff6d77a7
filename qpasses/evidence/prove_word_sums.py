"""Sums of products with 16 bits at an end: too many steps to look at each of every channel."""

from fractions import Fraction

import numpy as np

from opsets.fixed_point import Int64
from opsets.op import Constants
from opsets.qpasses_v1 import OPS
from opsets.rounding import requantize
from opsets.word_products import EXACT, LARGEST, largest_multiplier
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.problems import problem_of
from qpasses.evidence.thresholds import Interval, levels, meaning_thresholds
from qpasses.ir.graph import Node
from qpasses.ir.record import Record

_STEPS = 1 << 10
"""So many steps of each channel are looked at, on both sides, the outermost ones too."""

_PLANES_BITS = 38
"""Sums of so many bits have planes below 2**30, so that int32 holds them and ``_BIAS``."""

_BIAS = 1 << 30


def word_sums(
    node: Node, given: Constants, record: Record, reachable: Interval
) -> NodeEvidence:
    """A bound for every sum, and the kernel of the body where it is most likely to be wrong.

    Each product with a multiplier is a whole number that double holds, so that both round the
    same quotient; sums and multipliers that are larger are a problem of the node.
    """
    entry, rounding = record.nodes[node.name], node.attrs["rounding"]
    channels = len(reachable.low)
    multiplier, shift = (
        np.broadcast_to(given[name].astype(np.int64), (channels,))
        for name in ("multiplier", "shift")
    )
    points = _points(node, given, reachable, multiplier, shift)
    body = OPS[node.op].overload(entry.overload)
    kernel, wrong, problem = body.kernel, 0, ""
    pair = multiplier[:, None], shift[:, None]
    meaning = requantize(points, *pair, rounding)
    if kernel is None:  # as a body of other nodes has none
        problem = f"body {entry.overload!r} does not compute such a node"
    else:
        wrong = int((kernel(points, *pair) != meaning).sum())
    ratios = [Fraction(each) for each in entry.real_scales()] * (
        channels // len(entry.real_scales())
    )
    ends = int(given["y_min"]), int(given["y_max"])
    ours = np.clip(meaning + int(given["y_zero"]), *ends)
    real = np.rint(points * np.array([[float(each)] for each in ratios]))
    gaps = np.abs(ours - np.clip(real + int(given["y_zero"]), *ends).astype(np.int64))
    bound = _bound(ratios, multiplier, shift, reachable)
    low, high = int(reachable.low.min()), int(reachable.high.max())
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="bounded",
        domain=points.size,
        mismatches=wrong,
        body=entry.overload,
        reference_moved=int((gaps > 0).sum()),
        reference_max_lsb=int(bound + 1),
        channels=channels,
        accumulator=(low, high),
        bound=bound,
        problem=problem_of(node, given, record)
        or problem
        or _too_large(given, reachable, body.flavour == "portable"),
    )


def some_steps(given: Constants) -> Int64:
    """The steps of the output that are looked at: at even distances."""
    steps = levels(*(int(given[name]) for name in ("y_zero", "y_min", "y_max")))
    places = np.linspace(0, len(steps) - 1, min(_STEPS, len(steps))).astype(np.int64)
    return np.asarray(steps[places])


def _points(
    node: Node, given: Constants, reachable: Interval, multiplier: Int64, shift: Int64
) -> Int64:
    """[C, P]: sums on both sides of steps, and the ends of what each channel reaches."""
    steps = some_steps(given)
    there = meaning_thresholds(multiplier, shift, steps, node.attrs["rounding"])
    found = np.concatenate([there, there - 1], axis=1)
    low, high = reachable.low[:, None], reachable.high[:, None]
    return np.concatenate([np.clip(found, low, high), low, high], axis=1)


def _bound(
    ratios: list[Fraction], multiplier: Int64, shift: Int64, reachable: Interval
) -> float:
    """How far a scaled sum is from the real one at most, in steps of y, of all channels."""
    largest = np.maximum(np.abs(reachable.low), np.abs(reachable.high)).tolist()
    pairs = zip(multiplier.tolist(), shift.tolist(), strict=True)
    errors = (
        abs(Fraction(m, 1 << s) - ratio) * most
        for (m, s), ratio, most in zip(pairs, ratios, largest, strict=True)
    )
    return float(max(errors, default=Fraction(0)))


def _too_large(given: Constants, reachable: Interval, is_portable: bool) -> str:
    """What no plane, or no number of the body, holds, or nothing."""
    reads_words = given["x_zero"].dtype == np.int16
    biases = np.abs(given.get("bias", np.zeros(0)).astype(np.int64))
    is_held = not reads_words or not (biases > _BIAS).any()
    if not is_held or not reachable.fits(_PLANES_BITS if reads_words else 32):
        return "the accumulator can leave int32" + " in its planes" * reads_words
    products = abs(reachable.farthest()[1]) * largest_multiplier(given)
    return (
        "" if products <= (LARGEST if is_portable else EXACT) else "its products are too large"
    )
