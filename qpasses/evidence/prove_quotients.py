"""Quotients of words: a proved bound, and the body on inputs made to find it wrong.

Body and meaning round the same exact quotient (opsets/division.py), so that they can only
differ by a mistake in the statements. What a divisor's own rounding moves is not counted here:
it is stored as any other tensor is.
"""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.op import Constants
from opsets.qpasses_v1 import OPS
from opsets.word_products import furthest
from qpasses.evidence.bodies import body_of
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.problems import problem_of
from qpasses.evidence.thresholds import end_levels
from qpasses.ir.graph import Node
from qpasses.ir.record import Record
from qpasses.ir.runtime import run_op

_STEPS = 1 << 13
"""So many steps of the result are looked at, on both sides, and where they are ties."""

_SMALL = 2
"""Divisors up to here, of either sign and 0, are looked at beside every numerator."""


def quotients(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """IntDiv: each code beside any other, the ends, 0 and small divisors, sides of steps."""
    entry, body, op = record.nodes[node.name], body_of(node, record), OPS[node.op]
    attributes = {name: node.attrs[name] for name in op.attributes}
    ratio, problem = entry.quotient_scale(), problem_of(node, given, record)
    wrong = unlike = count = 0
    if not problem:
        operands = _operands(given)
        arrays = [{**given, **operands}[name] for name in op.inputs]
        meaning = op.reference(*arrays, **attributes).astype(np.int64)
        for optimize in (False, True):
            found = run_op(node.op, body, arrays, attributes, optimize=optimize)
            wrong += int((found != meaning).sum())
        real = _real(given, operands, ratio)
        unlike, count = int((meaning != real).sum()), meaning.size
    bound = quotient_bound(given, ratio)
    low, high = end_levels(given["a_zero"])
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="bounded",
        domain=count,
        mismatches=wrong,
        body=body.overload,
        reference_moved=unlike,
        reference_max_lsb=int(bound + 1),
        accumulator=(low, high),
        bound=bound,
        problem=problem,
    )


def quotient_bound(given: Constants, ratio: Fraction) -> float:
    """How far a quotient is from the real one of the same levels, in steps of y, at most.

    Before it is rounded, and where the real one or ours is no code that y saturates at. By
    level 0 both are the same end, and of a divisor of size 1 the multiplier's error is whole.
    """
    ours = Fraction(int(given["multiplier"].reshape(())), 1 << int(given["shift"].reshape(())))
    zero = int(given["y_zero"])
    last = max(abs(int(given[name]) - zero) for name in ("y_min", "y_max")) + 1
    reach = Fraction(furthest(given["a_zero"]))
    if min(ours, ratio) > 0:
        reach = min(reach, last / min(ours, ratio))
    return float(abs(ours - ratio) * reach)


def _real(given: Constants, operands: Constants, ratio: Fraction) -> Int64:
    """The stored quotients of real arithmetic, in double; of 0 by 0 the zero point."""
    a, b = (operands[name].astype(np.float64) - float(given[f"{name}_zero"]) for name in "ab")
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = np.rint(np.nan_to_num(a * float(ratio) / b, posinf=np.inf, neginf=-np.inf))
    levels = levels + float(given["y_zero"])
    levels = np.clip(levels, float(given["y_min"]), float(given["y_max"]))
    return np.asarray(levels, np.int64)


def _operands(given: Constants) -> dict[str, NDArray[Any]]:
    rng, zeros = np.random.default_rng(0), [int(given[f"{name}_zero"]) for name in "ab"]
    limits = [np.iinfo(given[f"{name}_zero"].dtype) for name in "ab"]

    def anywhere(which: int, count: int) -> Int64:
        return rng.integers(limits[which].min, limits[which].max, count, endpoint=True)

    every = [np.arange(each.min, each.max + 1) for each in limits]
    ends = [np.array([each.min, each.max]) for each in limits]
    small = np.arange(-_SMALL, _SMALL + 1) + zeros[1]
    beside = np.concatenate([small, ends[1]])
    pairs = [
        (every[0], anywhere(1, len(every[0]))),
        (anywhere(0, len(every[1])), every[1]),
        *((np.tile(every[0], len(beside)), np.repeat(beside, len(every[0]))),),
        *((np.repeat(ends[0], len(every[1])), np.tile(every[1], len(ends[0]))),),
        _beside_steps(given, anywhere(1, _STEPS), zeros),
    ]
    found = [np.concatenate(side) for side in zip(*pairs, strict=True)]
    return {
        name: np.clip(codes, each.min, each.max).astype(each.dtype)
        for name, codes, each in zip("ab", found, limits, strict=True)
    }


def _beside_steps(given: Constants, b: Int64, zeros: list[int]) -> tuple[Int64, Int64]:
    """Numerators at steps of y and next to these, of any divisors and of small ones."""
    m, shift = (int(given[name].reshape(())) for name in ("multiplier", "shift"))
    low, high, zero = (int(given[name]) for name in ("y_min", "y_max", "y_zero"))
    steps = np.linspace(low, high, len(b)).astype(np.int64) - zero
    levels = [
        ((2 * step - 1) * (code - zeros[1]) << shift) // (2 * m) if m else 0
        for step, code in zip(steps.tolist(), b.tolist(), strict=True)
    ]
    reach = 1 << 17
    near = np.clip(np.array(levels, object), -reach, reach).astype(np.int64) + zeros[0]
    return np.concatenate([near - 1, near, near + 1]), np.tile(b, 3)
