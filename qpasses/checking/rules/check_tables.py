"""Tables: Lut, LutPerChannel and LutPair, every entry computed again."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import ROUNDINGS
from opsets.hard_swish import hard_swish_levels
from opsets.rounding import requantize
from opsets.target import Target
from qpasses.checking.arithmetic import Floats, bytes_of, real_values, shifted, stored_values
from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    unlike,
    unlike_attributes,
)
from qpasses.checking.rules.check_clamps import bounds_of, clamps_behind, stored_bounds
from qpasses.checking.rules.check_constants import operand
from qpasses.checking.rules.check_functions import recorded_function
from qpasses.checking.rules.check_multipliers import rule_pair
from qpasses.ir.function import Function
from qpasses.ir.graph import Node, Tensor, constant, rank
from qpasses.ir.record import AnyQuantization, ChannelQuantization, Quantization, scales_of


def no_tables(site: Site) -> Iterator[str]:
    """Any of these nodes, for a target that has none."""
    yield f"is a table: target {site.settings.target.name!r} has none"


def lut(site: Site) -> Iterator[str]:
    """One function of one tensor, of clamps at another scale, or another scale alone."""
    yield from unlike_attributes(site.node.attrs, {})
    if site.entry.function:
        yield from _function(site, "table")
        return
    chain, source = site.chain, site.inputs["x"]
    if chain:
        clamps_behind(site)
        x = site.operand(source, chain[0].inputs[0])
    else:
        x = site.stored(source)
    low, high = bounds_of(chain)
    bounds = [None if np.isinf(end) else end for end in (low, high)]
    yield from unlike("the recorded bounds", [*site.entry.bounds], bounds)
    yield from check_record(site, {"x": [x.scale], "y": [site.y.scale]})
    first, last = stored_bounds(site.y, chain)
    target, numbers = site.settings.target, list[int]()
    levels = [_rescaled(int(code), x, site.y) for code in bytes_of(x)]
    if target.rescaling == "requantized":
        pair = rule_pair(x.scale / site.y.scale, target, elementwise=True)
        levels, numbers = _requantized(x, site.y, pair, target.rounding), [*pair]
    yield from unlike("the recorded multiplier and shift", [*site.entry.requantizes], numbers)
    entries = [min(max(level, first), last) for level in levels]
    yield from unlike("table", site.given["table"], np.array(entries, site.y.dtype))


def _rescaled(code: int, x: Quantization, y: Quantization) -> int:
    """A code of x as the nearest level of y, half to even."""
    return round(Fraction(x.scale) * (code - x.zero_point) / Fraction(y.scale)) + y.zero_point


def _requantized(
    x: Quantization, y: Quantization, pair: tuple[int, int], rounding: str
) -> list[int]:
    """What a multiplier and a shift make of each code of x, before it saturates."""
    codes = bytes_of(x).astype(np.int64) - x.zero_point
    if rounding not in ROUNDINGS:
        return [int(n) for n in requantize(codes, *pair, rounding) + y.zero_point]
    multiplier, shift = pair
    found = shifted(codes * (multiplier << max(-shift, 0)), max(shift, 0), rounding)
    return [int(level) + y.zero_point for level in found]


def lut_per_channel(site: Site) -> Iterator[str]:
    """A function whose constants, or the tensors it reads and gives, differ along one axis."""
    if not site.chain:
        raise DifferenceError("its record names no node of the float model")
    axes: set[int] = set()
    for node in site.chain:
        around = [rank(tensor) for tensor in (*node.outputs, *node.inputs)]
        dims = max((each for each in around if each is not None), default=None)
        if dims is None:
            raise DifferenceError(f"the rank of what {node.name!r} writes is not known")
        for value in [v for v in map(constant, node.inputs) if v is not None]:
            axes |= {dims - value.ndim + i for i, size in enumerate(value.shape) if size > 1}
    read = site.pair.meaning(site.inputs["x"]).stored
    stored = [each for each in (read, site.any_y) if isinstance(each, ChannelQuantization)]
    axes |= {each.axis for each in stored}
    if len(axes) != 1:
        raise DifferenceError("neither constants nor tensors differ along one axis")
    yield from unlike_attributes(site.node.attrs, {"axis": max(axes)})
    yield from _function(site, "tables")


def _function(site: Site, name: str) -> Iterator[str]:
    source = site.inputs["x"]
    real = site.pair.float_tensors.get(site.pair.meaning(source).real)
    if real is None or not site.chain:
        raise DifferenceError(f"the float model has no {source.name!r} behind its nodes")
    x, y = site.any_operand(source, real), site.any_y
    if name == "table" and not (isinstance(x, Quantization) and isinstance(y, Quantization)):
        raise DifferenceError("one table for channels with scales of their own")
    function = recorded_function(site, [real])
    yield from check_record(site, {"x": scales_of(x), "y": scales_of(y)})
    expected = _hard_swish(function, x, y, site.settings.target)
    if expected is not None:
        yield from unlike("the recorded undefined codes", *_lists(site, np.array([])))
        yield from unlike(name, site.given[name], expected)
        return
    ends = _by_channel(x)
    codes = bytes_of(ends[0])
    counts = {function.channels, *(len(scales_of(each)) for each in (x, y))} - {0, 1}
    if len(counts) > 1:
        raise DifferenceError(f"its channels are {' and '.join(map(str, sorted(counts)))}")
    real_rows = [real_values(codes, each, site.settings.target) for each in ends]
    count = max(counts, default=function.channels)
    values = np.stack(real_rows * (count // len(ends))) if count else real_rows[0]
    found = function.computed_by(site.settings.target.table_rules, values)
    rows = found.reshape(-1, 256)
    missing = np.isnan(rows)
    low, high = x.limits
    undefined = codes[missing.any(axis=0) & (codes >= low) & (codes <= high)]
    yield from unlike("the recorded undefined codes", *_lists(site, undefined))
    filled = np.stack([_filled(row, codes) for row in rows]).reshape(found.shape)
    ends = _by_channel(y)
    if isinstance(y, ChannelQuantization):
        stored = [_stored(row, site, one) for row, one in zip(filled, ends, strict=True)]
        yield from unlike(name, site.given[name], np.stack(stored))
    else:
        yield from unlike(name, site.given[name], _stored(filled, site, ends[0]))


def _hard_swish(
    function: Function, x: AnyQuantization, y: AnyQuantization, target: Target
) -> NDArray[Any] | None:
    """The table of a HardSwish in int16, for such a target and scales that it takes."""
    if target.hard_swish != "int16" or function.ops != ["HardSwish"]:
        return None
    if not isinstance(x, Quantization) or not isinstance(y, Quantization):
        return None
    codes = bytes_of(x).astype(np.int64) - x.zero_point
    levels = hard_swish_levels(codes, x.scale, y.scale)
    if levels is None:
        return None
    return np.array(
        [min(max(int(n) + y.zero_point, y.limits[0]), y.limits[1]) for n in levels], y.dtype
    )


def _by_channel(meaning: AnyQuantization) -> list[Quantization]:
    """That of each channel, or the one of all."""
    if isinstance(meaning, Quantization):
        return [meaning]
    return [*map(meaning.channel, range(len(meaning.scales)))]


def _stored(values: Floats, site: Site, y: Quantization) -> NDArray[Any]:
    """Codes of y, divided and rounded as the target does it with what its tables hold."""
    target, floats = site.settings.target, values.dtype.type
    rounding, scale = target.table_rounding, floats(y.scale)
    is_divided = target.table_quotient == "divided"
    if rounding == "half_to_even" and is_divided:
        return stored_values(values, y)
    with np.errstate(over="ignore"):
        size = np.abs(values) / scale if is_divided else np.abs(values) * (floats(1) / scale)
    size = np.minimum(size, 1e6)
    rest, whole = np.modf(size)
    away = {"half_away": True, "half_up": values > 0, "half_to_even": whole % 2 == 1}[rounding]
    goes_up = (rest > 1 / 2) | ((rest == 1 / 2) & away)
    levels = np.where(values < 0, -1, 1) * (whole + goes_up) + y.zero_point
    return np.asarray(np.clip(levels, *y.limits), y.dtype)


def _lists(site: Site, undefined: NDArray[Any]) -> tuple[list[int], list[int]]:
    return list(site.entry.undefined), sorted(undefined.tolist())


def _filled(row: Floats, codes: NDArray[Any]) -> Floats:
    """Where there is no result, that of the nearest code that has one, the lower of two."""
    defined = np.flatnonzero(~np.isnan(row))
    if not len(defined):
        raise DifferenceError("its function is not defined for any code")
    known = codes[defined].astype(np.int64)
    result = row.copy()
    for place in np.flatnonzero(np.isnan(row)):
        away = np.abs(known - int(codes[place]))
        result[place] = row[defined[np.lexsort((known, away))[0]]]
    return result


def _two_tensors(chain: Sequence[Node]) -> list[Tensor]:
    """What the last node of ``chain`` computes with; what makes its divisor are the others."""
    *before, last = chain
    theirs = list(last.inputs)
    if len(theirs) != 2 or (before and last.op != "Div"):
        raise DifferenceError("its record names no node of two tensors")
    if before:
        made = {id(each.outputs[0]) for each in before}
        read = {id(t): t for each in before for t in each.inputs if constant(t) is None}
        leaves = [t for i, t in read.items() if i not in made and not t.is_empty()]
        if len(leaves) != 1 or theirs[1] is not before[-1].outputs[0] or id(theirs[0]) in made:
            raise DifferenceError("its record names nodes that make no divisor of one tensor")
        theirs[1] = leaves[0]
    return theirs


def lut_pair(site: Site) -> Iterator[str]:
    """A function of two tensors, on all pairs of codes."""
    yield from unlike_attributes(site.node.attrs, {})
    theirs = _two_tensors(site.chain)
    a, b = (operand(site, site.inputs[n], t) for n, t in zip("ab", theirs, strict=True))
    y, function = site.y, recorded_function(site, theirs)
    yield from check_record(site, {"a": [a.scale], "b": [b.scale], "y": [y.scale]})
    first, second = bytes_of(a), bytes_of(b)
    target = site.settings.target
    rows, columns = real_values(first, a, target), real_values(second, b, target)
    reals = np.repeat(rows, 256), np.tile(columns, 256)
    grids = (each.reshape(256, 256) for each in reals)
    found = function.computed_by(target.table_rules, *grids)
    missing = np.isnan(found)
    occur = [(q.limits[0] <= c) & (c <= q.limits[1]) for c, q in ((first, a), (second, b))]
    undefined = first[missing[:, occur[1]].any(axis=1) & occur[0]]
    yield from unlike("the recorded undefined codes", *_lists(site, undefined))
    entries = _stored(np.where(missing, found.dtype.type(0), found), site, y)
    yield from unlike("table", site.given["table"], entries.reshape(-1))
