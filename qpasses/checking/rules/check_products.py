"""Sums of products: IntConv, IntGemm and IntMatMul."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import cycle
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.real_scales import RealScales
from opsets.rounding import LAST_STEP
from opsets.row_blocks import rows_along
from qpasses.checking.arithmetic import judged_kernel, ruled_multipliers
from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    float_constant,
    unlike,
    unlike_attributes,
)
from qpasses.checking.rules.check_clamps import check_end, clamps_behind
from qpasses.checking.rules.check_constants import (
    Matrix,
    kept_matrix,
    operand,
    stored_matrix,
)
from qpasses.checking.rules.check_multipliers import (
    check_computes,
    expected_pairs,
    expected_rounding,
    has_word_rule,
    nearest_to_sums,
    real_scale,
    scaled_pairs,
    word_pairs,
)
from qpasses.checking.rules.check_rounding import count_far
from qpasses.evidence.thresholds import Interval, levels, real_thresholds
from qpasses.ir.graph import Node, Tensor, constant, input_at
from qpasses.ir.record import (
    MOST_CORRECTED,
    AnyQuantization,
    ChannelQuantization,
    Quantization,
    digest_of,
    in_channels,
    scales_of,
)


def int_conv(site: Site) -> Iterator[str]:
    """Conv: sum((x - x_zero) * w) + bias per output channel."""
    site.is_op("Conv")
    node, clamps = site.first, clamps_behind(site)
    weights = _weights(node)
    dims = weights.ndim - 2
    geometry = {
        "dilations": list(node.attrs.get("dilations") or [1] * dims),
        "group": node.attrs.get("group", 1),
        "kernel_shape": list(weights.shape[2:]),
        "strides": list(node.attrs.get("strides") or [1] * dims),
    }
    if node.attrs.get("auto_pad", "NOTSET") in ("NOTSET", ""):
        geometry["pads"] = list(node.attrs.get("pads") or [0] * (2 * dims))
    else:
        geometry["auto_pad"] = node.attrs["auto_pad"]
    float_constant(node, 2)
    yield from _matrix(site, weights, input_at(node, 2), 0, clamps, geometry)


def int_gemm(site: Site) -> Iterator[str]:
    """Gemm, or MatMul with a constant matrix and the Add of a row behind it."""
    site.is_op("Gemm", "MatMul")
    node, bias, count = site.first, None, 1
    if node.op == "Gemm":
        plain = {"transA": 0, "transB": 0, "alpha": 1.0, "beta": 1.0}
        if any(node.attrs.get(name, value) != value for name, value in plain.items()):
            raise DifferenceError(f"{node.name!r} transposes or scales what it multiplies")
        float_constant(node, 2)
        bias = input_at(node, 2)
    elif len(site.chain) > 1 and site.chain[1].op == "Add":
        bias, count = _row(site), 2
    weights = _weights(node)
    if bias is not None and tuple(bias.shape) != weights.shape[1:]:
        raise DifferenceError(f"the bias of {node.name!r} is not one number per column")
    clamps = clamps_behind(site, count)
    shape = node.inputs[0].shape
    sizes = [n if isinstance(n, int) else -1 for n in (shape or [])[:-1]]
    attributes = {"leading": sizes or [0]}
    yield from _matrix(site, weights, bias, 1, clamps, attributes)


def _weights(node: Node) -> NDArray[Any]:
    weights = float_constant(node, 1)
    if weights is None:
        raise DifferenceError(f"{node.name!r} has no weights")
    return weights


def _row(site: Site) -> Tensor | None:
    """The constant that is added to a product, on either side of it."""
    product, add = site.first.outputs[0], site.chain[1]
    place = next((i for i, tensor in enumerate(add.inputs) if tensor is product), None)
    if place is None:
        raise DifferenceError(f"{add.name!r} does not follow {site.first.name!r}")
    float_constant(add, 1 - place)
    return input_at(add, 1 - place)


def _matrix(
    site: Site,
    weights: NDArray[Any],
    bias: Tensor | None,
    axis: int,
    clamps: Sequence[Node],
    attributes: Mapping[str, Any],
) -> Iterator[str]:
    x, node = site.any_operand(site.inputs["x"], site.first.inputs[0]), site.first
    x_scale = _scales_read(x, node, weights)
    settings, rules = site.settings, site.settings.target
    rule = rules.conv_weights if node.op == "Conv" else rules.matmul_weights
    per_channel = bool(settings.per_channel) and rule == "per_channel"
    matrix = kept_matrix(site, bias, axis, x_scale, per_channel)
    rounding = _rounding(site)
    if matrix is None:
        real = constant(bias)
        keeps_sums = rounding == "sum-preserving"
        matrix = stored_matrix(
            weights, real, axis, x_scale, per_channel, node.op, rules.weights, keeps_sums
        )
        if rounding not in ("nearest", "sum-preserving"):
            matrix = replace(matrix, weights=_chosen(site, weights, matrix, axis))
    if matrix.raised:
        site.pair.raised[node.name] = matrix.raised
    corrected = _corrected(site, matrix, x_scale)
    bias_codes = _moved(corrected, x_scale, matrix.scale, site.any_y)
    for name, value in (
        ("x_zero", _zero_read(x, site.node)),
        ("w", matrix.weights),
        ("w_zero", np.array(matrix.zero, matrix.weights.dtype)),
        ("bias", bias_codes),
    ):
        yield from unlike(name, site.given[name], value)
    yield from unlike("the recorded bias", list(site.entry.bias), list(matrix.real_bias))
    reachable = _reachable(matrix.weights, matrix.zero, bias_codes, axis, x)
    if matrix.scale.size == 1 == max(len(scales_of(each)) for each in (x, site.any_y)):
        reachable = Interval(
            reachable.low.min(keepdims=True), reachable.high.max(keepdims=True)
        )
    scales = {"x": scales_of(x), "w": matrix.scale.tolist()}
    macs = site.pair.counted.of(node, site.pair.sizes)
    yield from check_requantized(site, clamps, attributes, scales, reachable, macs=macs)


def _rounding(site: Site) -> str:
    """How the record says that weights are rounded: by name, or the digest of what is chosen.

    Raises DifferenceError if that is not what was asked for. Nothing is said where the nearest
    codes were, or a quantized model gives them.
    """
    said, asked = site.entry.weights, site.settings.weight_rounding
    is_given = site.pair.known.codes.get(site.first.inputs[1].name) is not None
    if is_given or asked == "nearest":
        known = not said
    elif asked == "second-order":
        known = said not in ("", "nearest", "sum-preserving")
    else:
        known = bool(said) if asked == "auto" else said == asked
    if not known:
        raise DifferenceError(f"its record says {said!r} of its weights, not {asked!r}")
    return said or "nearest"


def _chosen(site: Site, real: NDArray[Any], matrix: Matrix, axis: int) -> NDArray[Any]:
    """Stored weights that samples chose: their digest tells them, and how near they are."""
    found = site.given["w"]
    if found.dtype != matrix.weights.dtype or found.shape != matrix.weights.shape:
        raise DifferenceError(f"its weights are {found.dtype} {list(found.shape)}")
    if digest_of(found) != site.entry.weights:
        raise DifferenceError("its weights are not those that its record has the digest of")
    if far := count_far(found, matrix.weights, real, matrix.scale, axis):
        raise DifferenceError(f"{far} of its weights are two codes or more from the real ones")
    return found


def _corrected(site: Site, matrix: Matrix, x_scale: NDArray[np.float64]) -> NDArray[np.int32]:
    """The stored bias and what its record says that samples added to it.

    Raises DifferenceError if that was not asked for, or is more than a few steps of y.
    """
    steps = list(site.entry.correction)
    if not steps:
        return matrix.bias
    is_given = site.pair.known.codes.get(site.first.inputs[1].name) is not None
    if site.settings.bias_correction == "none" or is_given:
        raise DifferenceError("its record has a correction of biases that nobody asked for")
    if len(steps) != len(matrix.bias):
        raise DifferenceError(f"its record corrects {len(steps)} of {len(matrix.bias)} biases")
    y = scales_of(site.any_y)
    real = np.array(steps) * x_scale * matrix.scale.astype(np.float64)
    if (np.abs(real) > MOST_CORRECTED * np.array(y) * (1 + 2.0**-20)).any():
        raise DifferenceError(f"a bias is corrected by more than {MOST_CORRECTED} steps of y")
    codes: NDArray[np.int32] = (matrix.bias + np.array(steps)).astype(np.int32)
    return codes


def _scales_read(x: AnyQuantization, node: Node, weights: NDArray[Any]) -> NDArray[np.float64]:
    """The scale of what is read, or for each output channel that of the one it is made of."""
    if isinstance(x, Quantization):
        return np.array(x.scale)
    _check_axis(x)
    channels = len(x.scales)
    if node.op != "Conv" or node.attrs.get("group", 1) != channels or weights.shape[1] != 1:
        raise DifferenceError(f"{node.name!r} sums channels with scales of their own")
    return np.repeat(x.scales, len(weights) // channels)


def _check_axis(found: ChannelQuantization) -> None:
    """Raise DifferenceError unless channels lie where a Conv has them."""
    if found.axis != 1:
        raise DifferenceError(f"has scales along axis {found.axis}, its channels lie along 1")


def _zero_read(x: AnyQuantization, node: Node) -> NDArray[Any]:
    """One for each channel where the op takes that, else the one that all have."""
    if isinstance(x, Quantization) or node.op == "IntConvPerChannel":
        return x.zero
    if len({*x.zero_points}) > 1:
        raise DifferenceError("reads channels with zero points of their own")
    return np.array(x.zero[0])


def _moved(
    bias: NDArray[np.int32],
    x_scale: NDArray[np.float64],
    w_scale: NDArray[np.floating[Any]],
    y: AnyQuantization,
) -> NDArray[np.int32]:
    """A stored bias, and what the zero points of channels of y have more than the node's."""
    if isinstance(y, Quantization):
        return bias
    _check_axis(y)
    found = bias.tolist()
    x, w = (np.broadcast_to(each, len(found)).tolist() for each in (x_scale, w_scale))
    for place, (scale, code) in enumerate(zip(y.scales, y.zero_points, strict=True)):
        steps = Fraction(scale) / Fraction(x[place]) / Fraction(w[place])
        found[place] += round(steps * (code - y.zero_point))
    if max(map(abs, found)) >= 1 << 31:
        raise DifferenceError("its bias with zero points of channels leaves int32")
    return np.array(found, np.int32)


def _reachable(
    weights: NDArray[Any], zero: int, added: NDArray[np.int32], axis: int, x: AnyQuantization
) -> Interval:
    """The sums of each channel for any codes of x: the ends at the signs of the weights."""
    sums = []
    for rows in rows_along(weights, axis):
        levels = rows.astype(np.int16) - zero
        sums.append([each.sum(axis=1, dtype=np.int64) for each in (levels, np.abs(levels))])
    total, mass = np.concatenate(sums, axis=1)
    above, below = (mass + total) // 2, (mass - total) // 2
    zeros = np.atleast_1d(x.zero.astype(np.int64))
    zeros = np.repeat(zeros, len(total) // zeros.size)
    low, high = (end - zeros for end in x.type_limits)
    bias = added.astype(np.int64)
    return Interval(above * low - below * high + bias, above * high - below * low + bias)


def int_mat_mul(site: Site) -> Iterator[str]:
    """MatMul of two tensors, or of a tensor and a constant stack of matrices."""
    site.is_op("MatMul")
    node, factor = site.first, _factor(site)
    clamps = clamps_behind(site, 1 if factor is None else 2)
    a, b = (
        operand(site, site.inputs[name], theirs)
        for name, theirs in zip("ab", node.inputs, strict=True)
    )
    for name, meaning in (("a_zero", a), ("b_zero", b)):
        yield from unlike(name, site.given[name], meaning.zero)
    inner = _inner(site)
    ends = [
        inner * (first - a.zero_point) * (second - b.zero_point)
        for first in a.type_limits
        for second in b.type_limits
    ]
    reachable = Interval(np.array([min(ends)], np.int64), np.array([max(ends)], np.int64))
    scales = {"a": [a.scale], "b": [b.scale]} | (
        {} if factor is None else {"factor": [factor]}
    )
    macs = site.pair.counted.of(node, site.pair.sizes)
    yield from check_requantized(site, clamps, {"inner": inner}, scales, reachable, macs=macs)


def _factor(site: Site) -> float | None:
    """The number that the products are multiplied with by the node behind, if it is one."""
    behind = site.chain[1] if len(site.chain) > 1 else None
    if behind is None or behind.op not in ("Mul", "Div"):
        return None
    product = site.first.outputs[0]
    place = next((i for i, tensor in enumerate(behind.inputs) if tensor is product), None)
    if place is None or len(behind.inputs) != 2 or (behind.op == "Div" and place):
        raise DifferenceError(f"{behind.name!r} does not scale {site.first.name!r}")
    number = float_constant(behind, 1 - place)
    if number is None or number.size != 1 or not float(number.reshape(())) > 0:
        raise DifferenceError(f"{behind.name!r} does not multiply with a positive number")
    value = float(number.reshape(()))
    return value if behind.op == "Mul" else 1 / value


def _inner(site: Site) -> int:
    """How many products are summed, for the recorded sizes."""
    for index, axis in ((0, -1), (1, -2)):
        tensor = input_at(site.first, index)
        known = tensor is not None and (site.pair.sizes.get(tensor.name) or tensor.shape)
        if known and isinstance(size := known[axis], int):
            return size
    raise DifferenceError("how many products it sums is not known")


def check_requantized(
    site: Site,
    clamps: Sequence[Node],
    attributes: Mapping[str, Any],
    scales: Mapping[str, Sequence[float]],
    reachable: Interval,
    cells: int = 1,
    macs: int = 0,
) -> Iterator[str]:
    """Attributes, multiplier, shift, zero point, clamps and record of a requantized sum."""
    target, y = site.settings.target, scales_of(site.any_y)
    by_word_rule = has_word_rule(site.node.op, _reads_words(site), target)
    is_scaled = site.node.op == "IntGemm" and target.gemm == "scaled" and not by_word_rule
    rounding = "half_away" if is_scaled else expected_rounding(target, by_word_rule)
    attributes, lacking = {**attributes, "rounding": rounding}, list[int]()
    stated = {name: v for name, v in site.node.attrs.items() if name != "bias_rests"}
    yield from unlike_attributes(stated, attributes)
    yield from check_end(site, clamps)
    yield from check_record(site, {**scales, "y": y}, cells, macs)
    has_words = any(value.dtype == np.int16 for value in site.given.values())
    bits = _sum_bits(site)
    if not reachable.fits(bits):
        raise DifferenceError(f"its accumulator can leave int{bits}")
    bias = site.given.get("bias", np.zeros(0)).astype(np.int64)
    if bits == 38 and (np.abs(bias) > 1 << 30).any():
        raise DifferenceError("its bias can leave int32 beside sums of the lower 8 bits")
    if is_scaled and has_words:
        raise DifferenceError("its target scales sums of 8 bits alone")
    if is_scaled:
        channels = in_channels([*scales.values(), y])
        exact = [real_scale(site.node.op, each, one, target) for *each, one in channels]
        multiplier, shift = scaled_pairs(exact, _steps(site), reachable)
    elif has_words:
        if attributes["rounding"] in LAST_STEP:
            raise DifferenceError("its target rounds twice, which takes sums of 32 bits")
        reach = max(-int(reachable.low.min()), int(reachable.high.max()))
        multiplier, shift = word_pairs(
            site.node.op, scales, y, cells, reach, target, reads_words=_reads_words(site)
        )
    elif target.fast_kernels:
        kernel = judged_kernel(site.node.op, _known(site), attributes, target)
        ratios = _ratios(scales, y, cells)
        rule = ruled_multipliers(ratios, _steps(site), reachable, kernel, target)
        multiplier, shift = rule.multiplier, rule.shift
    else:
        multiplier, shift = expected_pairs(site.node.op, scales, y, cells, target)
        if target.seeks_real_sums:
            rests = _rests(site)
            if len(rests) in (0, len(multiplier)):
                real = real_thresholds(_ratios(scales, y, cells), _steps(site), rests)
                multiplier = nearest_to_sums(
                    multiplier, shift, real, _steps(site), reachable, rests
                )
            factors = cycle(multiplier.tolist())  # one, or one for each channel
            lacking = [round(f * m) for f, m in zip(rests, factors, strict=False)]
    if list(site.node.attrs.get("bias_rests", [])) != (lacking if any(lacking) else []):
        yield "its rests of biases are not those of the real ones"
    for name, value in (("multiplier", multiplier), ("shift", shift)):
        yield from unlike(name, site.given[name], value.astype(np.int32))
    if not (has_words or is_scaled):
        check_computes(multiplier, shift, _steps(site), reachable, target)


def _sum_bits(site: Site) -> int:
    """How many bits the sums of a node may have: those of words are sums of two of int32."""
    if not _reads_words(site):
        return min(site.settings.target.accumulator_bits, 32)
    return 62 if site.node.op == "IntMatMul" else 38


def _reads_words(site: Site) -> bool:
    read = [
        each for name, each in site.given.items() if name in ("x_zero", "a_zero", "b_zero")
    ]
    return any(each.dtype.itemsize > 1 for each in read)


def _rests(site: Site) -> list[Fraction]:
    """What the stored biases lack of those of the record, in their steps; [] for none."""
    real, scales = site.entry.bias, site.entry.scales
    if not real:
        return []
    stored = site.given["bias"].tolist()
    each = scales["w"] * (len(stored) if len(scales["w"]) == 1 else 1)
    return [
        Fraction(value) / (Fraction(scales["x"][0]) * Fraction(w)) - level
        for value, w, level in zip(real, each, stored, strict=True)
    ]


def _known(site: Site) -> dict[str, NDArray[Any]]:
    """The constants before the multiplier, and the clamps."""
    return {name: v for name, v in site.given.items() if name not in ("multiplier", "shift")}


def _steps(site: Site) -> Int64:
    return levels(*(int(site.given[name]) for name in ("y_zero", "y_min", "y_max")))


def _ratios(
    scales: Mapping[str, Sequence[float]], y: Sequence[float], cells: int
) -> RealScales:
    """The products of the operands' scales over cells and the scale of y.

    Most often weights alone have one for each channel.
    """
    others: Sequence[float | Fraction] = scales.get("w", [1.0])
    rest = {name: each for name, each in scales.items() if name != "w"}
    if any(len(each) > 1 for each in (y, *rest.values())):
        channels = in_channels([others, *rest.values(), y])
        others = [prod(map(Fraction, each)) / Fraction(one) for *each, one in channels]
        rest, y = {}, [1.0]
    factor = 1 / (Fraction(y[0]) * cells)
    for (one,) in rest.values():
        factor *= Fraction(one)
    return RealScales(factor, others)
