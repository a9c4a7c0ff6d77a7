"""Tables: those of bytes, of channels, of pairs and of 16 bits, every entry computed again."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.collect import cores
from opsets.fixed_point import ROUNDINGS, Int64, Rounding
from opsets.hard_swish import hard_swish_levels
from opsets.realised import has_wide_tables, quotient_rounding
from opsets.rounding import requantize
from opsets.table_rules import FAR, NEAR, NEAR_OF_CHANNELS, SEEN
from opsets.target import Target
from qpasses.checking.arithmetic import (
    Floats,
    bytes_of,
    codes_of,
    real_values,
    shifted,
    stored_values,
)
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
from qpasses.checking.rules.check_multipliers import real_scale, rule_pair
from qpasses.ir.function import Function
from qpasses.ir.graph import Node, Tensor, constant, rank
from qpasses.ir.record import (
    AnyQuantization,
    ChannelQuantization,
    Quantization,
    of_channel,
    scales_of,
)


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
    if "int16" in (x.dtype, site.y.dtype):
        raise DifferenceError("an end has 16 bits: it would be an IntRescale")
    first, last = stored_bounds(site.y, chain)
    target, numbers = site.settings.target, list[int]()
    levels = [_rescaled(int(code), x, site.y) for code in bytes_of(x)]
    if target.rescaling == "requantized":
        op = "Relu" if chain and first >= site.y.zero_point else "Quantize"
        ratio = real_scale(op, (x.scale,), site.y.scale, target)
        pair = rule_pair(ratio, target, elementwise=True)
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
    yield from unlike_attributes(site.node.attrs, {"axis": _axis(site)})
    yield from _function(site, "tables")


def _axis(site: Site) -> int:
    """Along which constants of the chain, or its ends, differ."""
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
    return max(axes)


def wide_lut_per_channel(site: Site) -> Iterator[str]:
    """The same of words: 513 knots for each channel, near enough to its full table."""
    rounding = quotient_rounding(site.settings.target)
    attributes = {"axis": _axis(site), "rounding": rounding}
    yield from unlike_attributes(site.node.attrs, attributes)
    function, x, y = _recorded(site)
    if x.dtype != "int16":
        raise DifferenceError("reads 8 bits: it would be a LutPerChannel")
    yield from _has_words(site)
    yield from check_record(site, {"x": scales_of(x), "y": scales_of(y)})
    counts = {function.channels, *(len(scales_of(each)) for each in (x, y))} - {0, 1}
    if len(counts) != 1:
        raise DifferenceError(f"its channels are {sorted(counts)}")
    codes = codes_of(of_channel(x, 0))
    order = np.argsort(codes)

    def knots(place: int) -> tuple[NDArray[Any], list[int]]:
        own = function.of_channel(place)
        before, behind = (of_channel(each, place) for each in (x, y))
        real, undefined = _filled_results(own, before, site)
        row = _adjusted_knots(own, real[order], before, behind, site)
        entries = _stored(real, site, behind).astype(np.int64)
        gaps = np.abs(_between(codes, row, behind, rounding) - entries)
        gaps = _of_seen(gaps, codes, entries, behind)
        if gaps.max() > NEAR_OF_CHANNELS[y.dtype] and float((gaps**2).mean()) > FAR[y.dtype]:
            raise DifferenceError(
                f"its lines are up to {gaps.max()} steps from the table of channel {place}"
            )
        return row, undefined.tolist()

    with ThreadPoolExecutor(cores()) as threads:
        rows, undefined = zip(*threads.map(knots, range(*counts)), strict=True)
    runs = _runs(np.array(sorted({code for each in undefined for code in each})))
    yield from unlike("the recorded undefined codes", site.entry.undefined, runs)
    yield from unlike("tables", site.given["tables"], np.stack(rows))
    yield from _ends_of_knots(site, of_channel(y, 0))


def wide_lut(site: Site) -> Iterator[str]:
    """One function of one tensor of 16 bits: 513 knots where they are near, else all."""
    function, x, y = _recorded(site)
    if not (isinstance(x, Quantization) and isinstance(y, Quantization)) or function.channels:
        raise DifferenceError("one table for channels that differ")
    if x.dtype != "int16":
        raise DifferenceError("reads 8 bits: it would be a Lut")
    yield from _has_words(site)
    yield from check_record(site, {"x": [x.scale], "y": [y.scale]})
    codes = codes_of(x)
    real, undefined = _filled_results(function, x, site)
    yield from unlike("the recorded undefined codes", site.entry.undefined, _runs(undefined))
    table = _stored(real, site, y)
    rounding = quotient_rounding(site.settings.target)
    knots = _knots(function, real[np.argsort(codes)], x, y, site)
    gaps = np.abs(_between(codes, knots, y, rounding) - table.astype(np.int64))
    if gaps.max() > NEAR[y.dtype]:
        yield from _is(site, "Lut16")
        yield from unlike_attributes(site.node.attrs, {})
        yield from unlike("table", site.given["table"], table)
        return
    yield from _is(site, "LutInterpolated")
    yield from unlike_attributes(site.node.attrs, {"rounding": rounding})
    yield from unlike("table", site.given["table"], knots)
    yield from _ends_of_knots(site, y)


def _ends_of_knots(site: Site, y: Quantization) -> Iterator[str]:
    yield from unlike("shift", site.given["shift"], np.array(7 + _finer(y), np.int32))
    for end, code in zip(("y_zero", "y_min", "y_max"), (_middle(y), *y.limits), strict=True):
        yield from unlike(end, site.given[end], np.array(code, y.dtype))


def _is(site: Site, op: str) -> Iterator[str]:
    if site.node.op != op:
        raise DifferenceError(f"should be a {op}, for what lines between knots are wrong by")
    yield from ()


def _has_words(site: Site) -> Iterator[str]:
    target = site.settings.target
    if not has_wide_tables(target):
        yield f"is a table of 16 bits: target {target.name!r} has none"


def _runs(codes: NDArray[Any]) -> list[list[int]]:
    """The first and the last of each run of them."""
    found: list[list[int]] = []
    for code in sorted(codes.tolist()):
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def _finer(y: Quantization) -> int:
    """How many fraction bits of y knots have."""
    return 0 if y.dtype == "int16" else 8


def _middle(y: Quantization) -> int:
    """The code about which knots of y lie."""
    return 128 if y.dtype == "uint8" else 0


def _knots(
    function: Function, real: Floats, x: Quantization, y: Quantization, site: Site
) -> NDArray[Any]:
    """[513]: ``real``, by code, at every 128th, and the function where no code is any more."""
    meaning = _of_knots(y)
    target = site.settings.target
    beyond = real_values(np.array([1 << 15]), x, target)
    last = function.computed_by(target.table_rules, beyond)
    last = real[-1:] if np.isnan(last).any() else last
    return _stored(np.concatenate([real[::128], last]), site, meaning)


def _of_seen(gaps: Int64, codes: NDArray[Any], entries: Int64, y: Quantization) -> Int64:
    """Those that count, or all where none does: of words what is no headroom."""
    beyond = np.abs(codes.astype(np.int64)) > SEEN
    if y.dtype == "int16":
        beyond |= np.abs(entries) > SEEN
    return gaps if beyond.all() else gaps[~beyond]


def _of_knots(y: Quantization) -> Quantization:
    """What entries of 16 bits mean."""
    zero = (y.zero_point - _middle(y)) * 2 ** _finer(y)
    return Quantization(y.scale / 2 ** _finer(y), zero, "int16")


def _adjusted_knots(
    function: Function, real: Floats, x: Quantization, y: Quantization, site: Site
) -> NDArray[Any]:
    """Each less half of what lines are wrong by in the middles beside it, of both the mean."""
    knots = _knots(function, real, x, y, site).astype(np.int64)
    middles = _stored(real[64::128], site, _of_knots(y)).astype(np.int64)
    twice = knots[:-1] + knots[1:] - 2 * middles
    beside = np.concatenate([twice[:1], twice]) + np.concatenate([twice, twice[-1:]])
    levels = np.rint((8 * knots - beside) / 8)  # float64 holds these quotients
    return np.asarray(np.clip(levels, -(1 << 15), (1 << 15) - 1), np.int16)


def _between(
    codes: NDArray[Any], knots: NDArray[Any], y: Quantization, rounding: Rounding
) -> Int64:
    """What lies on the lines between ``knots`` at each of ``codes``, stored."""
    place = codes.astype(np.int64) + (1 << 15)
    before, part = place >> 7, place & 127
    ends = knots.astype(np.int64)
    total = ends[before] * (128 - part) + ends[before + 1] * part
    level = shifted(total, 7 + _finer(y), rounding)
    return np.asarray(np.clip(level + _middle(y), *y.limits))


def _recorded(site: Site) -> tuple[Function, AnyQuantization, AnyQuantization]:
    """The function of a node of one tensor, and how its ends are stored."""
    source = site.inputs["x"]
    real = site.pair.float_tensors.get(site.pair.meaning(source).real)
    if real is None or not site.chain:
        raise DifferenceError(f"the float model has no {source.name!r} behind its nodes")
    ends = site.any_operand(source, real), site.any_y
    return recorded_function(site, [real]), *ends


def _filled_results(
    function: Function, x: Quantization, site: Site
) -> tuple[Floats, NDArray[Any]]:
    """The result for each code of x, and the codes that have none of their own."""
    codes, target = codes_of(x), site.settings.target
    found = function.computed_by(target.table_rules, real_values(codes, x, target))
    low, high = x.limits
    missing = np.isnan(found) & (low <= codes) & (codes <= high)
    return _filled(found, codes), codes[missing]


def _function(site: Site, name: str) -> Iterator[str]:
    function, x, y = _recorded(site)
    if name == "table" and not (isinstance(x, Quantization) and isinstance(y, Quantization)):
        raise DifferenceError("one table for channels with scales of their own")
    if "int16" in (x.dtype, y.dtype):
        yield from _has_words(site)
        if x.dtype == "int16":
            raise DifferenceError("its table is one of 8 bits")
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
    away = {"half_away": True, "half_up": values > 0, "half_to_even": whole % 2 == 1}
    goes_up = (rest > 1 / 2) | ((rest == 1 / 2) & away.get(rounding, False))
    goes_up &= rounding != "toward_zero"
    levels = np.where(values < 0, -1, 1) * (whole + goes_up) + y.zero_point
    return np.asarray(np.clip(levels, *y.limits), y.dtype)


def _lists(site: Site, undefined: NDArray[Any]) -> tuple[list[Any], list[int]]:
    return list(site.entry.undefined), sorted(undefined.tolist())


def _filled(row: Floats, codes: NDArray[Any]) -> Floats:
    """Where there is no result, that of the nearest code that has one, the lower of two."""
    missing = np.isnan(row)
    defined = np.flatnonzero(~missing)
    if not len(defined):
        raise DifferenceError("its function is not defined for any code")
    if len(defined) == len(row):
        return row
    known = codes[defined].astype(np.int64)
    order = np.argsort(known)
    levels, wanted = known[order], codes[missing].astype(np.int64)
    above = np.searchsorted(levels, wanted)
    below, above = np.maximum(above - 1, 0), np.minimum(above, len(levels) - 1)
    is_lower = np.abs(wanted - levels[below]) <= np.abs(levels[above] - wanted)
    result = row.copy()
    result[missing] = row[defined[order[np.where(is_lower, below, above)]]]
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
