"""TableSoftmax: two tables of exponentials."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from opsets.qpasses_v1.table_softmax import LARGEST_NUMERATOR
from opsets.realised import quotient_rounding
from qpasses.checking.clamps import check_end, clamps_behind
from qpasses.checking.meaning import DifferenceError, Site, unlike, unlike_attributes
from qpasses.checking.products import check_record
from qpasses.evidence.softmax import exponentials
from qpasses.graph import Node, rank


def row_length(site: Site, node: Node, axis: int) -> int:
    """How many codes a row has: for the recorded sizes, or whatever the input."""
    shape = site.pair.sizes.get(node.inputs[0].name) or node.inputs[0].shape
    if not shape or not isinstance(size := shape[axis], int):
        raise DifferenceError(f"how long the rows of {node.name!r} are is not known")
    return max(1, size)


def table_softmax(site: Site) -> Iterator[str]:
    """Softmax along one axis, with the largest of a row subtracted."""
    site.is_op("Softmax")
    node, clamps = site.first, clamps_behind(site)
    if site.settings.softmax_nodes == "float" or site.settings.softmax != "table":
        yield "is unlike what the recorded settings say of Softmax"
    dims = rank(node.inputs[0])
    if not dims:
        raise DifferenceError(f"the rank of what {node.name!r} reads is not known")
    axis = int(node.attrs.get("axis", -1)) % dims - dims
    expected = {
        "axis": axis,
        "published": 0,
        "rounding": quotient_rounding(site.settings.target),
    }
    yield from unlike_attributes(site.node.attrs, expected)
    x, y = site.operand(site.inputs["x"], node.inputs[0]), site.y
    yield from check_end(site, clamps)
    length = row_length(site, node, axis)
    yield from check_record(site, {"x": [x.scale], "y": [y.scale]}, length)
    largest = ((1 << (site.settings.softmax_bits - 1)) - 1) // length
    real = [largest * each for each in exponentials(x.scale)]
    shares = [min(each / Fraction(y.scale), Fraction(LARGEST_NUMERATOR)) for each in real]
    for name, values, dtype in (
        ("denominators", real, np.int32),
        ("numerators", shares, np.int64),
    ):
        table = np.array([round(value) for value in values], dtype)
        yield from unlike(name, site.given[name], table)
