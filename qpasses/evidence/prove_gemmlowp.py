"""GemmlowpSoftmax: how far from real arithmetic, and onnxruntime itself on many rows."""

from fractions import Fraction

import numpy as np

from opsets.fixed_point import rounding_shift
from opsets.gemmlowp import LARGEST_SUM, LONGEST_ROW, ONE_OF_SUM, SUM_BITS
from opsets.op import Constants
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import body_of
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.problems import headroom, problem_of
from qpasses.evidence.prove_published import differing, rows_of_all_kinds, stored_levels
from qpasses.evidence.prove_softmax import exponentials, worst_sum
from qpasses.ir.graph import Node
from qpasses.ir.record import Record

_LOST = Fraction(1, 1 << 17)
"""What the reciprocal and the last product can take away, in steps of y: see the bound."""


def gemmlowp_softmax(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """A bound for every row, and the body on rows of all kinds."""
    entry, body = record.nodes[node.name], body_of(node, record)
    (x_scale,), (y_scale,) = entry.scales["x"], entry.scales["y"]
    problem, length = problem_of(node, given, record), entry.cells
    if length > LONGEST_ROW:
        problem = problem or f"its rows have more than {LONGEST_ROW} codes"
    attributes = {"axis": node.attrs["axis"]}
    rows = rows_of_all_kinds(given["y_zero"].dtype, length)
    x = rows.reshape(*rows.shape, *[1] * (-attributes["axis"] - 1))
    inputs = [x, *(given[name] for name in list(OPS[node.op].inputs)[1:])]
    meaning = OPS[node.op].reference(*inputs, **attributes)
    real = np.exp((rows - rows.max(axis=1, keepdims=True).astype(np.float64)) * x_scale)
    shares = real / real.sum(axis=1, keepdims=True)
    expected = stored_levels(shares, y_scale, given).reshape(meaning.shape)
    gaps = np.abs(meaning.astype(np.int64) - expected)
    bound, total = _bound(given, x_scale, y_scale, length), ONE_OF_SUM * length
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="bounded",
        domain=rows.size,
        mismatches=0 if problem else differing(node.op, body, inputs, attributes, meaning),
        body=body.overload,
        reference_moved=int((gaps > 0).sum()),
        reference_max_lsb=int(bound + 1),
        accumulator=(0, total),
        headroom_bits=headroom(0, total),
        bound=bound,
        problem=problem,
    )


def _bound(given: Constants, x_scale: float, y_scale: float, length: int) -> float:
    """How far a result is from the exact Softmax at most, in steps of y, before it is rounded.

    For every row of up to ``length`` codes. Let T be the exponentials (31 bits), D the same
    with 19 bits, of which the largest is 1, e the real ones.

    - D summed is off from the real sum, relatively, by ``worst_sum`` of their errors, T from e
      by at most max |T - e|: as in ``softmax_bound``, with shares of 1 at most.
    - The reciprocal: with u = 2**-29, a step of Newton's makes of the relative error f at most
      f**2 + 0.5 (1 + f) u + 2 u, since its products are rounded to u / 2 and 2 u. It starts
      below 1 / 16, so that after three it is below 3.1 u; half of the sum and the saturated
      last doubling add less than u. That is 2**-26 together.
    - The product with T is rounded to 31 bits: 2**-24 of a step at most.

    It is never more than all codes, which is the bound where a sum can saturate.
    """
    span = float(max(int(given["y_max"]) - int(given["y_zero"]), 0))
    terms = given["exponentials"].astype(np.int64)
    short = rounding_shift(terms, SUM_BITS, "half_away").tolist()
    if length * short[0] > LARGEST_SUM or short[0] != ONE_OF_SUM or y_scale != 1 / 256:
        return span
    real = exponentials(x_scale)
    of_sum = [abs(d - ONE_OF_SUM * e) for d, e in zip(short, real, strict=True)]
    largest = max(
        abs(Fraction(t, 1 << 31) - e) for t, e in zip(terms.tolist(), real, strict=True)
    )
    share = worst_sum(of_sum, short, length) + largest
    return min(float(256 * share + _LOST), span)
