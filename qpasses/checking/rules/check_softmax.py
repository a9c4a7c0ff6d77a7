"""Softmax and LogSoftmax: their tables from scales and the length of rows again."""

from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np

from opsets.qpasses_v1.table_softmax import LARGEST_NUMERATORS
from opsets.realised import quotient_rounding
from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    unlike,
    unlike_attributes,
)
from qpasses.checking.rules.check_clamps import check_end, clamps_behind
from qpasses.evidence.prove_log_softmax import real_tables
from qpasses.evidence.prove_softmax import exponentials
from qpasses.ir.graph import rank


def row_length(site: Site) -> int:
    """How many codes a row has: for the recorded sizes, or whatever the input."""
    node = site.first
    shape = site.pair.sizes.get(node.inputs[0].name) or node.inputs[0].shape
    if not shape or not isinstance(size := shape[int(node.attrs.get("axis", -1))], int):
        raise DifferenceError(f"how long the rows of {node.name!r} are is not known")
    return max(1, size)


def table_softmax(site: Site) -> Iterator[str]:
    """Softmax along one axis, with the largest of a row subtracted."""
    site.is_op("Softmax")
    if site.settings.softmax != "table":
        yield "is unlike what the recorded settings say of Softmax"
    yield from _attributes(site, {"published": 0})
    x, y = site.operand(site.inputs["x"], site.first.inputs[0]), site.y
    length = row_length(site)
    yield from check_record(site, {"x": [x.scale], "y": [y.scale]}, length)
    largest = ((1 << (site.settings.softmax_bits - 1)) - 1) // length
    real = [largest * each for each in exponentials(x.scale)]
    most = Fraction(LARGEST_NUMERATORS[y.zero.dtype.itemsize])
    shares = [min(each / Fraction(y.scale), most) for each in real]
    for name, values, dtype in (
        ("denominators", real, np.int32),
        ("numerators", shares, np.int64),
    ):
        table = np.array([round(value) for value in values], dtype)
        yield from unlike(name, site.given[name], table)


def table_softmax16(site: Site) -> Iterator[str]:
    """The same of codes of 16 bits: exponentials by two bytes, and the steps of y."""
    site.is_op("Softmax")
    if site.settings.softmax != "table":
        yield "is unlike what the recorded settings say of Softmax"
    yield from _attributes(site, {})
    x, y = site.operand(site.inputs["x"], site.first.inputs[0]), site.y
    length = row_length(site)
    yield from check_record(site, {"x": [x.scale], "y": [y.scale]}, length)
    largest = ((1 << (site.settings.softmax_bits - 1)) - 1) // length
    for name, scale, one in (("high", 256 * x.scale, largest), ("low", x.scale, 1 << 22)):
        exact = np.array([round(one * each) for each in exponentials(scale)], np.int32)
        yield from unlike(name, site.given[name], exact)
    # 1 / step = multiplier / 2**shift: as long as products with the largest are below 2**51
    steps, shift = 1 / Fraction(y.scale), 1
    while (steps * 2 ** (shift + 1)).__floor__() < 1 << min(51 - largest.bit_length(), 29):
        shift += 1
    for name, number in (("multiplier", round(steps * 2**shift)), ("shift", shift)):
        yield from unlike(name, site.given[name], np.array(number, np.int32))


def log_softmax(site: Site) -> Iterator[str]:
    """LogSoftmax along one axis, with the logarithm of the sum in steps of y."""
    site.is_op("LogSoftmax")
    x, y = site.operand(site.inputs["x"], site.first.inputs[0]), site.y
    bits = int(site.node.attrs["fraction_bits"])
    # the most, up to 24, with which the logarithm of 1 to 2 is below 2**40 steps
    enough = [n for n in range(1, 25) if Fraction(y.scale) * (1 << 39 - n) >= 1] or [1]
    yield from _attributes(site, {"fraction_bits": enough[-1]})
    length = row_length(site)
    yield from check_record(site, {"x": [x.scale], "y": [y.scale]}, length)
    largest = ((1 << (site.settings.softmax_bits - 1)) - 1) // length
    for name, exact in real_tables(x.scale, y.scale, largest, bits).items():
        table = np.array([round(value) for value in exact], site.given[name].dtype)
        yield from unlike(name, site.given[name], table)


def _attributes(site: Site, others: Mapping[str, int]) -> Iterator[str]:
    """The axis, from the end, the rounding and ``others``; where the codes end."""
    node, dims = site.first, rank(site.first.inputs[0])
    if site.settings.softmax_nodes == "float":
        yield "is unlike what the recorded settings say of Softmax"
    if not dims:
        raise DifferenceError(f"the rank of what {node.name!r} reads is not known")
    axis = int(node.attrs.get("axis", -1)) % dims - dims
    rounding = quotient_rounding(site.settings.target)
    expected = {"axis": axis, "rounding": rounding, **others}
    yield from unlike_attributes(site.node.attrs, expected)
    yield from check_end(site, clamps_behind(site))
