"""What each op means in plain loops over integers."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product
from math import floor, prod

import numpy as np

from opsets.fixed_point import Rounding
from opsets.rounding import NodeRounding

LAST = {"tflite_double": "half_away", "ruy": "half_up"}


def exact_round(value: Fraction, rounding: Rounding) -> int:
    """The oracle of every rounding in the tests: real arithmetic, no bit tricks."""
    half = Fraction(1, 2)
    if rounding == "half_to_even":
        return round(value)
    if rounding == "half_up":
        return floor(value + half)
    return floor(value + half) if value >= 0 else -floor(half - value)


def exact_two_steps(acc: int, m: int, shift: int, last: str) -> int:
    """The oracle of two roundings: TFLite's common.h on gemmlowp's fixedpoint.h, by line."""
    left, right = max(31 - shift, 0), max(shift - 31, 0)
    acc = (acc << left) & 0xFFFFFFFF
    acc -= (acc >> 31) << 32
    nudged = acc * m + ((1 << 30) if acc * m >= 0 else 1 - (1 << 30))
    high = abs(nudged) // (1 << 31) * (-1 if nudged < 0 else 1)  # C's division truncates
    if last == "half_up":  # ruy
        return (high + (1 << right >> 1)) >> right
    mask = (1 << right) - 1
    return (high >> right) + ((high & mask) > (mask >> 1) + (high < 0))


def exact_level(acc: int, m: int, shift: int, rounding: NodeRounding) -> int:
    """``acc * m / 2**shift`` as a node rounds it."""
    if rounding in LAST:
        return exact_two_steps(acc, m, shift, LAST[rounding])
    value = Fraction(acc * m, 1 << shift)  # which double holds
    return exact_round(value, rounding.removesuffix("_in_double"))


# In plain loops, an op is the shape of its output and a function from a position to the code.


def _clamped(acc, m, s, ends, rounding, rest=0):
    y_zero, y_min, y_max = map(int, ends)
    level = (
        exact_level(acc * m + rest, 1, s, rounding)
        if rest
        else exact_level(acc, m, s, rounding)
    )
    return min(max(level + y_zero, y_min), y_max)


def _scale_of(channel, m, s):
    return int(m[channel % m.size]), int(s[channel % s.size])


def _plain_requantize(acc, m, s, *ends, axis, rounding):
    def code_at(*at):
        return _clamped(int(acc[at]), *_scale_of(at[axis], m, s), ends, rounding)

    return acc.shape, code_at


def _windows(size, kernel, strides, dilations, pads, auto_pad):
    """Per dimension: the number of windows and the first cell of the first (may be < 0)."""
    for i, (n, k) in enumerate(zip(size, kernel, strict=True)):
        reach = (k - 1) * dilations[i] + 1
        if auto_pad.startswith("SAME"):
            count = len(range(0, n, strides[i]))
            missing = max((count - 1) * strides[i] + reach - n, 0)
            yield count, -((missing + (auto_pad == "SAME_LOWER")) // 2)
        else:
            before, after = pads[i], pads[len(kernel) + i]
            yield len(range(-before, n + after - reach + 1, strides[i])), -before


def _plain_conv(
    x, x_zero, w, w_zero, bias, m, s, *ends, rounding, bias_rests=None, **geometry
):
    size, kernel, group = x.shape[2:], w.shape[2:], geometry.get("group", 1)
    strides = geometry.get("strides", [1] * len(kernel))
    gaps = geometry.get("dilations", [1] * len(kernel))
    pads = geometry.get("pads", [0] * (2 * len(kernel)))
    windows = _windows(size, kernel, strides, gaps, pads, geometry.get("auto_pad", "NOTSET"))
    counts, starts = zip(*windows, strict=True)

    def code_at(sample, m_index, *at):
        acc, first = int(bias[m_index]), m_index // (len(w) // group) * w.shape[1]
        for channel, *offset in np.ndindex(w.shape[1:]):
            moves = zip(starts, at, strides, offset, gaps, strict=True)
            cell = [start + i * stride + o * gap for start, i, stride, o, gap in moves]
            if all(0 <= c < n for c, n in zip(cell, size, strict=True)):
                zero = x_zero[first + channel] if np.ndim(x_zero) else x_zero
                level = int(x[sample, first + channel, *cell]) - int(zero)
                acc += level * (int(w[m_index, channel, *offset]) - int(w_zero))
        rest = bias_rests[m_index] if bias_rests else 0
        return _clamped(acc, *_scale_of(m_index, m, s), ends, rounding, rest)

    return (len(x), len(w), *counts), code_at


def _plain_gemm(
    x, x_zero, w, w_zero, bias, m, s, *ends, rounding, leading=None, bias_rests=None
):
    def code_at(*at):
        *row, n = at
        acc = int(bias[n])
        for k in range(len(w)):
            acc += (int(x[*row, k]) - int(x_zero)) * (int(w[k, n]) - int(w_zero))
        rest = bias_rests[n] if bias_rests else 0
        return _clamped(acc, *_scale_of(n, m, s), ends, rounding, rest)

    return (*x.shape[:-1], w.shape[1]), code_at


def _read(operand, at):
    aligned = zip(at[len(at) - operand.ndim :], operand.shape, strict=True)
    return int(operand[tuple(i % n for i, n in aligned)])


def _plain_mat_mul(a, a_zero, b, b_zero, m, s, *ends, inner, rounding):
    del inner  # says for how many products there is a proof

    def code_at(*at):
        *stack, row, column = at
        acc = 0
        for k in range(a.shape[-1]):
            left = _read(a, (*stack, row, k)) - int(a_zero)
            acc += left * (_read(b, (*stack, k, column)) - int(b_zero))
        return _clamped(acc, int(m[0]), int(s[0]), ends, rounding)

    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return (*stack, a.shape[-2], b.shape[-1]), code_at


def _plain_add(a, a_zero, b, b_zero, m_a, m_b, s, *ends, rounding):
    def code_at(*at):
        left, right = _read(a, at) - int(a_zero), _read(b, at) - int(b_zero)
        return _clamped(left * int(m_a) + right * int(m_b), 1, int(s), ends, rounding)

    return np.broadcast_shapes(a.shape, b.shape), code_at


def _plain_rescale(x, x_zero, m, s, *ends, rounding):
    def code_at(*at):
        return _clamped(int(x[at]) - int(x_zero), int(m), int(s), ends, rounding)

    return x.shape, code_at


def _plain_cast(x, x_min, x_max, m, s, *ends, of, rounding):
    def code_at(*at):
        number = min(max(int(x[at]), int(x_min)), int(x_max))
        return _clamped(number, int(m), int(s), ends, rounding)

    return x.shape, code_at


def _plain_sub(a, a_zero, b, b_zero, m_a, m_b, s, *ends, rounding):
    def code_at(*at):
        left, right = _read(a, at) - int(a_zero), _read(b, at) - int(b_zero)
        return _clamped(left * int(m_a) - right * int(m_b), 1, int(s), ends, rounding)

    return np.broadcast_shapes(a.shape, b.shape), code_at


def _plain_mul(a, a_zero, b, b_zero, m, s, *ends, rounding):
    def code_at(*at):
        product = (_read(a, at) - int(a_zero)) * (_read(b, at) - int(b_zero))
        return _clamped(product, int(m), int(s), ends, rounding)

    return np.broadcast_shapes(a.shape, b.shape), code_at


def _plain_div(a, a_zero, b, b_zero, m, s, *ends, rounding):
    y_zero, y_min, y_max = map(int, ends)

    def code_at(*at):
        level, divisor = _read(a, at) - int(a_zero), _read(b, at) - int(b_zero)
        if divisor:
            quotient = Fraction(level * int(m), divisor << int(s))
            found = y_zero + exact_round(quotient, rounding)
        else:
            found = y_zero if not level else y_max if level > 0 else y_min
        return min(max(found, y_min), y_max)

    return np.broadcast_shapes(a.shape, b.shape), code_at


def _plain_p_relu(x, x_zero, m, s, slope_m, slope_s, *ends, rounding):
    def code_at(*at):
        level = int(x[at]) - int(x_zero)
        scale = (m, s) if level >= 0 else (slope_m, slope_s)
        return _clamped(level, *(_read(each, at) for each in scale), ends, rounding)

    return x.shape, code_at


def _plain_coded_p_relu(x, x_zero, m, s, codes, slope_m, slope_s, *ends, rounding):
    def code_at(*at):
        level = int(x[at]) - int(x_zero)
        if level >= 0:
            return _clamped(level, int(m), int(s), ends, rounding)
        scale, shift = _read(slope_m, at), _read(slope_s, at)
        found = exact_level(level * _read(codes, at), abs(scale), shift, rounding)
        y_zero, y_min, y_max = map(int, ends)
        return min(max((-found if scale < 0 else found) + y_zero, y_min), y_max)

    return x.shape, code_at


def _plain_rescaled(sign, a, a_zero, b, b_zero, left, *numbers, rounding):
    of_a, of_b, of_y = (tuple(map(int, numbers[i : i + 2])) for i in (0, 2, 4))

    def code_at(*at):
        first = (_read(a, at) - int(a_zero)) * 2 ** int(left)
        second = (_read(b, at) - int(b_zero)) * 2 ** int(left)
        total = exact_level(first, *of_a, rounding)
        total += sign * exact_level(second, *of_b, rounding)
        return _clamped(total, *of_y, numbers[6:], rounding)

    return np.broadcast_shapes(a.shape, b.shape), code_at


def _plain_pair(a, b, table):
    def code_at(*at):
        return int(table[_read(a, at) % 256 * 256 + _read(b, at) % 256])

    return np.broadcast_shapes(a.shape, b.shape), code_at


def _plain_interpolated(x, table, shift, *ends, rounding):
    def code_at(*at):
        before = (int(x[at]) + 32768) // 128
        behind = Fraction((int(x[at]) + 32768) % 128, 128)
        entry = int(table[before]) * (1 - behind) + int(table[before + 1]) * behind
        return _clamped(int(entry * 128), 1, int(shift), ends, rounding)

    return x.shape, code_at


def _plain_interpolated_channels(x, tables, *numbers, axis, rounding):
    tables_of = [_plain_interpolated(x, row, *numbers, rounding=rounding)[1] for row in tables]
    return x.shape, lambda *at: tables_of[at[axis]](*at)


def _plain_channels(x, tables, axis):
    return x.shape, lambda *at: int(tables[at[axis], int(x[at]) % 256])


def _plain_reduce(x, x_zero, m, s, *ends, axes, keepdims, mean, rounding):
    places = [axis + x.ndim for axis in axes]
    sizes = [range(n) if i in places else [0] for i, n in enumerate(x.shape)]
    kept = [1 if i in places else n for i, n in enumerate(x.shape)]
    cells = prod(x.shape[i] for i in places) if mean == 1 else 1

    def code_at(*at):
        at = list(at)
        full = at if keepdims else [0 if i in places else at.pop(0) for i in range(x.ndim)]
        acc = 0
        for step in product(*sizes):
            cell = tuple(a + b for a, b in zip(full, step, strict=True))
            acc += int(x[cell]) - int(x_zero)
        y_zero, y_min, y_max = map(int, ends)
        if mean != 1:
            return _clamped(acc, int(m), int(s), ends, rounding)
        level = exact_round(Fraction(acc * int(m), cells << int(s)), rounding)
        return min(max(level + y_zero, y_min), y_max)

    left = [n for i, n in enumerate(x.shape) if i not in places]
    return tuple(kept if keepdims else left), code_at


def _plain_resize(
    x, x_zero, indices, coefficients, m, s, *ends, dims, x_sizes, y_sizes, rounding
):
    leading, resized = x.shape[: x.ndim - dims], y_sizes[3 - dims :]
    starts = [sum(y_sizes[:axis]) for axis in range(3 - dims, 3)]

    def code_at(*at):
        columns = [start + i for start, i in zip(starts, at[len(leading) :], strict=True)]
        acc = 0
        for corner in product((0, 1), repeat=dims):
            taps = list(zip(corner, columns, strict=True))
            cell = (*at[: len(leading)], *(int(indices[tap]) for tap in taps))
            acc += (int(x[cell]) - int(x_zero)) * prod(int(coefficients[tap]) for tap in taps)
        return _clamped(acc, int(m[0]), int(s[0]), ends, rounding)

    return (*leading, *resized), code_at


def _plain_softmax(x, denominators, numerators, *ends, axis, published, rounding):
    def code_at(*at):
        row = []
        for i in range(x.shape[axis]):
            cell = list(at)
            cell[axis] = i
            row.append(int(x[tuple(cell)]))
        largest = 0 if published else max(row)
        index = [(code if published else largest - code) % 256 for code in row]
        total = sum(int(denominators[i]) for i in index) or 1
        share = Fraction(int(numerators[index[at[axis]]]), total)
        y_zero, y_min, y_max = map(int, ends)
        level = floor(share) if published else exact_round(share, rounding)
        return min(max(level + y_zero, y_min), y_max)

    return x.shape, code_at


def _plain_softmax16(x, high, low, multiplier, shift, *ends, axis, rounding):
    def code_at(*at):
        row, here = _row(x, at, axis), int(x[at])
        far = [max(row) - code for code in (*row, here)]
        *terms, term = (
            floor(Fraction(int(high[d // 256]) * int(low[d % 256]), 2**22) + Fraction(1, 2))
            for d in far
        )
        share = Fraction(term * int(multiplier), (sum(terms) or 1) * 2 ** int(shift))
        y_zero, y_min, y_max = map(int, ends)
        return min(max(exact_round(share, rounding) + y_zero, y_min), y_max)

    return x.shape, code_at


def _plain_log_softmax(
    x, denominators, distances, octaves, logarithms, *ends, axis, fraction_bits, rounding
):
    def code_at(*at):
        row = _row(x, at, axis)
        total = sum(int(denominators[max(row) - code]) for code in row)
        total = min(max(total, 1), 2**41 - 1)
        octave = total.bit_length() - 1
        place = floor(Fraction(total, 2**octave) * 256) - 256
        rest = floor((Fraction(total, 2**octave) * 256 % 1) * 2**20)
        rise = int(logarithms[place + 1]) - int(logarithms[place])
        log = (
            int(octaves[octave]) + int(logarithms[place]) + floor(Fraction(rise * rest, 2**20))
        )
        depth = int(distances[max(row) - int(x[at])]) + log
        y_zero, y_min, y_max = map(int, ends)
        level = exact_round(Fraction(-depth, 2**fraction_bits), rounding)
        return min(max(level + y_zero, y_min), y_max)

    return x.shape, code_at


def _plain_layer_norm(
    x,
    x_zero,
    m,
    offset,
    s,
    epsilon,
    *ends,
    axis,
    cells,
    centered,
    root_bits,
    factor_bits,
    norm_bits,
    rounding,
):
    n = cells

    def code_at(*at):
        row = [int(code) - int(x_zero) for code in x[at[: x.ndim + axis]].flat]
        total = sum(row) * centered
        variance = n * sum(code * code for code in row) - total * total
        own = _read(epsilon, at) if np.ndim(epsilon) else int(epsilon)
        radicand, root, left_out = variance * 4**root_bits + own, 1, 0
        while radicand >= 1 << 62:
            radicand, left_out = radicand // 4, left_out + 1
        while root < 1 << 31 and (root + 1) ** 2 <= radicand:  # by halves of a first guess
            step = 1
            while (root + 2 * step) ** 2 <= radicand:
                step *= 2
            root += step
        distance = n * (int(x[at]) - int(x_zero)) - total
        product = distance * (2**factor_bits // root)
        normal = exact_round(
            Fraction(product, 2 ** (factor_bits - root_bits - norm_bits + left_out)),
            "half_to_even",
        )
        total = normal * _read(m, at) + _read(offset, at)
        return _clamped(total, 1, int(s), ends, rounding)

    return x.shape, code_at


def _row(x, at, axis):
    return [
        int(x[(*at[: axis % x.ndim], k, *at[axis % x.ndim + 1 :])])
        for k in range(x.shape[axis])
    ]


def _shifted(x, x0, n):
    u = max(x + floor(Fraction(x, 2)) - floor(Fraction(x, 16)), n * x0)
    q = floor(Fraction(u, x0))
    return floor((Fraction(u - x0 * q, 2) - x0) * 2 ** min(n - q, 40))


def _plain_shiftmax(x, m, s, *ends, axis, x0, fraction_bits, output_bits, rounding):
    def code_at(*at):
        row = _row(x, at, axis)
        terms = [_shifted(each - max(row), x0, fraction_bits) for each in row]
        own = _shifted(int(x[at]) - max(row), x0, fraction_bits)
        share = own * ((2**31 - 1) // min(sum(terms), 2**31 - 1)) // 2 ** (32 - output_bits)
        return _clamped(share, int(m), int(s), ends, rounding)

    return x.shape, code_at


def _plain_gemmlowp_softmax(x, exponentials, *ends, axis):
    """Python's integers; what has been multiplied is divided with ties up."""

    def high(a, b):
        return (a * b + 2**30) >> 31

    def code_at(*at):
        row = _row(x, at, axis)
        terms = [int(exponentials[max(row) - each]) for each in row]
        total = min(max(sum((term + 2048) // 4096 for term in terms), 2**19), 2**28 - 1)
        k = total.bit_length() - 20
        half = (total << (12 - k)) // 2
        root = 1515870810 + high(half, -1010580540)
        for _ in range(3):
            root += 4 * high(root, 2**29 - high(half, root))
        own = high(min(2 * root, 2**31 - 1), int(exponentials[max(row) - int(x[at])]))
        zero, low, high_end = (int(each) for each in ends)
        return min(max((own + 2 ** (22 + k)) // 2 ** (23 + k) + zero, low), high_end)

    return x.shape, code_at


def _plain_shift_gelu(x, x_zero, m, s, *ends, axis, x0, fraction_bits, output_bits, rounding):
    def code_at(*at):
        top = max(_row(x, at, axis)) - int(x_zero)
        code = int(x[at]) - int(x_zero)
        own, other = (_shifted(each, x0, fraction_bits) for each in (code - top, -top))
        factor = (2**31 - 1) // min(own + other, 2**31 - 1)
        product = code * (own * factor // 2 ** (32 - output_bits))
        return _clamped(product, int(m), int(s), ends, rounding)

    return x.shape, code_at


def _plain_i_layer_norm(x, x_zero, offset, m, s, *ends, cells, rounding):
    def code_at(*at):
        row = [each - int(x_zero) for each in _row(x, at, -1)]
        mean = round(Fraction(sum(row), cells))
        spread, root = sum((each - mean) ** 2 for each in row), 1 << 16
        for _ in range(10):
            root = (root + spread // root) // 2
        normal = floor(Fraction((row[at[-1]] - mean) * ((2**31 - 1) // root), 2))
        total = (normal + int(offset[at[-1]])) * int(m[at[-1]])
        return _clamped(total, 1, int(s[at[-1]]), ends, rounding)

    return x.shape, code_at


def _plain_i_bert_softmax(
    x, em, es, m, s, *ends, axis, x0, b, c, fraction_bits, output_bits, rounding
):
    def term(distance):
        u = max(distance, fraction_bits * x0)
        q = floor(Fraction(u, x0))
        r = u - x0 * q
        exact = max(r * (r + b) + c, 0) * 2 ** (fraction_bits - q)
        return round(Fraction(exact * int(em), 2 ** int(es)))

    def code_at(*at):
        row = _row(x, at, axis)
        total = max(sum(term(each - max(row)) for each in row), 1)
        share = term(int(x[at]) - max(row)) * (2**32 // total) // 2 ** (32 - output_bits)
        return _clamped(share, int(m), int(s), ends, rounding)

    return x.shape, code_at


def _plain_i_bert_gelu(x, x_zero, m, s, *ends, b, c, one, fraction_bits, rounding):
    def code_at(*at):
        code = int(x[at]) - int(x_zero)
        sign = (code > 0) - (code < 0)
        erf = floor(Fraction(sign * ((min(abs(code), -b) + b) ** 2 + c), 2**fraction_bits))
        return _clamped(-code * (erf + one), int(m), int(s), ends, rounding)

    return x.shape, code_at


def _plain_pool(x, x_zero, m, s, *ends, channels, rounding, **geometry):
    window = geometry.pop("spatial_shape", None) or geometry["kernel_shape"]
    ones, no_bias = np.ones((channels, 1, *window), int), np.zeros(channels, int)
    inputs = [x, x_zero, ones, 0, no_bias, m, s, *ends]
    return _plain_conv(*inputs, rounding=rounding, group=channels, **geometry)


def _plain_counted_pool(
    x,
    x_zero,
    m,
    s,
    *ends,
    channels,
    kernel_shape,
    dilations,
    pads,
    strides,
    uncounted_pads,
    rounding,
):
    dims = len(kernel_shape)
    sizes = x.shape[2:]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel_shape, dilations, strict=True)]
    out = [
        (sizes[i] + pads[i] + pads[i + dims] - reach[i]) // strides[i] + 1 for i in range(dims)
    ]

    def code_at(batch, channel, *at):
        acc = cells = 0
        for tap in product(*map(range, kernel_shape)):
            place = [at[i] * strides[i] + tap[i] * dilations[i] - pads[i] for i in range(dims)]
            if all(0 <= place[i] < sizes[i] for i in range(dims)):
                acc += int(x[(batch, channel, *place)]) - int(x_zero)
            cells += all(
                uncounted_pads[i] - pads[i]
                <= place[i]
                < sizes[i] + pads[i + dims] - uncounted_pads[i + dims]
                for i in range(dims)
            )
        y_zero, y_min, y_max = map(int, ends)
        level = exact_round(Fraction(acc * int(m), max(cells, 1) << int(s)), rounding)
        return min(max(level + y_zero, y_min), y_max)

    return (x.shape[0], channels, *out), code_at


def _plain_max_pool(x, *, kernel_shape, strides, dilations, pads):
    size = x.shape[2:]
    windows = _windows(size, kernel_shape, strides, dilations, pads, "NOTSET")
    counts, starts = zip(*windows, strict=True)

    def code_at(sample, channel, *at):
        found = [-32768]
        for offset in product(*map(range, kernel_shape)):
            moves = zip(starts, at, strides, offset, dilations, strict=True)
            cell = [start + i * stride + o * gap for start, i, stride, o, gap in moves]
            if all(0 <= c < n for c, n in zip(cell, size, strict=True)):
                found.append(int(x[(sample, channel, *cell)]))
        return max(found)

    return (*x.shape[:2], *counts), code_at


def _plain_extreme(x, *, axes, keepdims, which):
    gone = {axis % x.ndim for axis in axes}
    shape = [1 if k in gone else n for k, n in enumerate(x.shape)]
    kept = [k for k in range(x.ndim) if keepdims or k not in gone]

    def code_at(*at):
        place = dict(zip(kept, at, strict=True))
        cells = [range(n) if k in gone else [place[k]] for k, n in enumerate(x.shape)]
        found = [int(x[cell]) for cell in product(*cells)]
        return max(found) if which == "largest" else min(found)

    return tuple(shape[k] for k in kept), code_at


def _plain_where(condition, a, b):
    def code_at(*at):
        return _read(a if _read(condition, at) else b, at)

    return np.broadcast_shapes(condition.shape, a.shape, b.shape), code_at


def _plain_shuffle(x, *, split, perm, joined):
    sizes = [len(x), *split[1:]]
    turned = [sizes[axis] for axis in perm]
    made = (len(x), *joined[1:])

    def code_at(*at):
        place = np.unravel_index(np.ravel_multi_index(at, made), turned)
        before = [int(place[perm.index(axis)]) for axis in range(len(perm))]
        return int(x.reshape(sizes)[tuple(before)])

    return made, code_at


def _plain_pad(x, fill, *, pads, mode):
    before, behind = pads[: x.ndim], pads[x.ndim :]

    def place(cell, size):
        if mode == "edge":
            return min(max(cell, 0), size - 1)
        if mode == "reflect":
            return -cell if cell < 0 else 2 * (size - 1) - cell if cell >= size else cell
        return cell

    def code_at(*at):
        cell = [place(i - b, n) for i, b, n in zip(at, before, x.shape, strict=True)]
        inside = all(0 <= c < n for c, n in zip(cell, x.shape, strict=True))
        return int(x[tuple(cell)]) if inside else int(fill)

    return tuple(b + n + e for b, n, e in zip(before, x.shape, behind, strict=True)), code_at


PLAIN: dict[str, Callable[..., tuple[tuple[int, ...], Callable[..., int]]]] = {
    "Requantize": _plain_requantize,
    "LutPerChannel": _plain_channels,
    "LutPair": _plain_pair,
    "Lut16": lambda x, table: (x.shape, lambda *at: int(table[int(x[at]) % 65536])),
    "LutInterpolated": _plain_interpolated,
    "IntDiv": _plain_div,
    "LutInterpolatedPerChannel": _plain_interpolated_channels,
    "IntMul": _plain_mul,
    "IntPRelu": _plain_p_relu,
    "IntCodedPRelu": _plain_coded_p_relu,
    "Lut": lambda x, table: (x.shape, lambda *at: int(table[int(x[at]) % 256])),
    "IntConv": _plain_conv,
    "IntConvPerChannel": _plain_conv,
    "IntGemm": _plain_gemm,
    "IntMatMul": _plain_mat_mul,
    "IntAdd": _plain_add,
    "IntRescale": _plain_rescale,
    "IntCast": _plain_cast,
    "IntSub": _plain_sub,
    "IntRescaledAdd": partial(_plain_rescaled, 1),
    "IntRescaledSub": partial(_plain_rescaled, -1),
    "IntReduce": _plain_reduce,
    "IntResize": _plain_resize,
    "TableSoftmax": _plain_softmax,
    "TableSoftmax16": _plain_softmax16,
    "IntLogSoftmax": _plain_log_softmax,
    "IntLayerNorm": _plain_layer_norm,
    "GemmlowpSoftmax": _plain_gemmlowp_softmax,
    "Shiftmax": _plain_shiftmax,
    "ShiftGelu": _plain_shift_gelu,
    "ILayerNorm": _plain_i_layer_norm,
    "IBertSoftmax": _plain_i_bert_softmax,
    "IBertGelu": _plain_i_bert_gelu,
    "IntAveragePool": _plain_pool,
    "IntCountedAveragePool": _plain_counted_pool,
    "IntMaxPool": _plain_max_pool,
    "IntExtreme": _plain_extreme,
    "IntPad": _plain_pad,
    "IntWhere": _plain_where,
    "IntShuffle": _plain_shuffle,
    "IntGlobalAveragePool": _plain_pool,
}
