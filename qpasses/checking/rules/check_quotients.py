"""IntDiv: the quotient of two tensors, some of 16 bits, and how its divisor is stored."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from opsets.realised import quotient_rounding
from opsets.target import Target
from qpasses.checking.arithmetic import codes_of, real_values
from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    is_integer,
    unlike,
    unlike_attributes,
)
from qpasses.checking.rules.check_clamps import check_end, clamps_behind
from qpasses.checking.rules.check_constants import meaning_of_words, operand
from qpasses.checking.rules.check_multipliers import expected_pair
from qpasses.ir.function import Function
from qpasses.ir.graph import Node, is_graph_output, producer
from qpasses.ir.record import Quantization

_OF_ONE_FUNCTION = ("Lut", "Lut16", "LutInterpolated")
_OTHER_FORMS = ("quantize_multiplier", "quantize_multiplier_single", "tosa")
_SHIFTS = range(1, 47)
_LARGEST_IN_DOUBLE = 21


def int_div(site: Site) -> Iterator[str]:
    """Div of two tensors, or of a tensor and a constant."""
    site.is_op("Div")
    yield from check_end(site, clamps_behind(site))
    theirs = site.first.inputs
    if len(theirs) != 2:
        raise DifferenceError(f"{site.first.name!r} has {len(theirs)} operands")
    a, b = (operand(site, site.inputs[n], t) for n, t in zip("ab", theirs, strict=True))
    y, target = site.y, site.settings.target
    kinds = {each.dtype for each in (a, b, y)}
    if "int16" not in kinds or len(kinds) > 2:
        raise DifferenceError("no node has operands and a result of such types")
    for name, meaning in (("a_zero", a), ("b_zero", b)):
        yield from unlike(name, site.given[name], meaning.zero)
    yield from check_record(site, {"a": [a.scale], "b": [b.scale], "y": [y.scale]})
    yield from unlike_attributes(site.node.attrs, {"rounding": quotient_rounding(target)})
    scale = Fraction(a.scale) / (Fraction(b.scale) * Fraction(y.scale))
    for name, value in zip(("multiplier", "shift"), _pair(scale, target), strict=True):
        yield from unlike(name, site.given[name], np.array(value, np.int32))
    yield from _unlike_divisor(site, b)


def _pair(scale: Fraction, target: Target) -> tuple[int, int]:
    """The nearest of the target's bits whose shift is 21 at most; or by a rule of its own."""
    if "Div" in target.byte_ops:
        raise DifferenceError("its target divides integers of 8 bits alone")
    if target.word_multiplier is None and target.multiplier in _OTHER_FORMS:
        raise DifferenceError("its target multiplies 16 bits in another form")
    shifts = range(target.min_shift, target.max_shift + 1)
    if target.multiplier != "nearest" or shifts != range(1, 62) or target.elementwise:
        multiplier, shift = expected_pair(scale, target, elementwise=True)
        if shift not in _SHIFTS:
            raise DifferenceError(f"its target shifts a quotient by {shift}")
        return multiplier, shift
    bits = target.multiplier_bits
    if scale >= 1 << bits - 2:
        raise DifferenceError(f"its scale is beyond multipliers of {bits} bits")
    shift = _LARGEST_IN_DOUBLE
    while shift > 1 and round(scale * (1 << shift)) > 1 << bits:
        shift -= 1
    multiplier = round(scale * (1 << shift))
    return (multiplier // 2, shift - 1) if multiplier == 1 << bits else (multiplier, shift)


def _unlike_divisor(site: Site, b: Quantization) -> Iterator[str]:
    """A divisor that the quotient alone reads is stored as its largest result asks for.

    But where a quantized original says how, or it is made of what is divided.
    """
    pair, table = site.pair, producer(site.inputs["b"])
    if table is None or not is_integer(table) or table.op not in _OF_ONE_FUNCTION:
        return
    entry = pair.record.nodes[table.name]
    nodes = [pair.float_nodes[name] for name in entry.source if name in pair.float_nodes]
    read, end = (tensor.name for tensor in site.first.inputs)
    is_apart = pair.meaning(table.inputs[0]).real == read or end in pair.known.written
    if not entry.function or is_apart or not _is_inside(site, nodes):
        return
    x = site.stored(table.inputs[0])
    codes, target = codes_of(x), site.settings.target
    inside = codes[(codes >= x.limits[0]) & (codes <= x.limits[1])]
    function = Function.from_text(entry.function)
    found = function.computed_by(target.table_rules, real_values(inside, x, target))
    expected = meaning_of_words(np.append(found[np.isfinite(found)], 0), site.settings)
    yield from unlike("the recorded scale of its divisor", b.scale, expected.scale)
    yield from unlike("the type of its divisor", b.dtype, expected.dtype)


def _is_inside(site: Site, nodes: Sequence[Node]) -> bool:
    """Whether nothing but ``nodes`` and the Div reads what they write."""
    inside, graph = {*map(id, nodes), id(site.first)}, site.pair.real
    ends = [tensor for node in nodes for tensor in node.outputs]
    return all(
        inside.issuperset(map(id, end.outputs)) and not is_graph_output(graph, end)
        for end in ends
    )
