"""GemmlowpSoftmax: how far from real arithmetic, and onnxruntime itself on many rows."""

from fractions import Fraction

import numpy as np

from opsets.fixed_point import rounding_shift
from opsets.gemmlowp import LARGEST_SUM, LONGEST_ROW, ONE_OF_SUM, SUM_BITS
from opsets.op import Constants
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.prove_published import softmax_evidence
from qpasses.evidence.prove_softmax import exponentials, worst_sum
from qpasses.ir.graph import Node
from qpasses.ir.record import Record

_LOST = Fraction(1, 1 << 17)
"""What the reciprocal and the last product can take away, in steps of y: see the bound."""


def gemmlowp_softmax(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """A bound for every row, and the body on rows of all kinds."""
    entry, attributes = record.nodes[node.name], {"axis": node.attrs["axis"]}
    (x_scale,), (y_scale,) = entry.scales["x"], entry.scales["y"]
    is_long = entry.cells > LONGEST_ROW
    problem = f"its rows have more than {LONGEST_ROW} codes" if is_long else ""
    bound, total = _bound(given, x_scale, y_scale, entry.cells), ONE_OF_SUM * entry.cells
    return softmax_evidence(node, given, record, attributes, bound, total, problem)


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
