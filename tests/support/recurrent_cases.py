"""Random legal nodes of the recurrent ops, and what each means in plain loops."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from opsets.recurrence import WHOLE
from opsets.recurrent_bodies import SMALL
from tests.support.op_loops import exact_level
from tests.support.op_nodes import (
    Case,
    codes,
    generator,
    middle_of_words,
    node_rounding,
    output_ends,
    rounding,
)

word_types = st.sampled_from([np.dtype(each) for each in (np.uint8, np.int8, np.int16)])
"""Types of inputs and outputs: bytes and words."""

INT16 = np.dtype(np.int16)


def _table(rng, dtype):
    """A rising table, one of noise, or one of few values."""
    limits, places = np.iinfo(dtype), np.arange(1 << 16).astype(np.uint16).view(np.int16)
    kind = rng.choice(["rising", "noise", "few"])
    if kind == "rising":
        squashed = np.tanh(places / rng.choice([2000, 9000]))
        level = squashed * limits.max if limits.min < 0 else (squashed + 1) / 2 * limits.max
        return np.rint(level).astype(dtype)
    if kind == "few":
        ends = np.array([limits.min, 0, 1, limits.max], dtype)
        return ends[rng.integers(0, 4, 1 << 16)]
    return rng.integers(limits.min, limits.max, 1 << 16, dtype, endpoint=True)


def _gate_table(rng):
    return _table(rng, rng.choice([INT16, np.dtype(np.uint16)]))


def _scale(rng, count, reach, goal):
    """Multipliers and shifts that take integers up to ``reach`` to about ``goal``."""
    bits = int(rng.choice([1, 8, 16]))
    multiplier = rng.integers(1 << (bits - 1), 1 << bits, count)
    away = int(reach).bit_length() + bits - int(goal).bit_length()
    shift = np.clip(away - rng.integers(-2, 4, count), 1, 61)
    return [multiplier.astype(np.int32), shift.astype(np.int32)]


def _reach(zero):
    limits = np.iinfo(zero.dtype)
    return max(int(limits.max) - int(zero), int(zero) - int(limits.min), 1)


@dataclass(frozen=True)
class Sizes:
    """Of a node: its sequences, and the units of its state."""

    steps: int
    batch: int
    inputs: int
    hidden: int


def _lengths(rng, sizes, kind):
    if kind == "all":
        return np.array([WHOLE], np.int32)
    size = sizes.batch if kind == "each" else 1
    return rng.integers(0, sizes.steps + 2, size).astype(np.int32)


class Parts:
    """What all recurrent ops have: sequences, and sums of so many gates."""

    def __init__(self, rng, gates, sizes, types, lengths="all", whole=True):
        x_type, y_type = types
        self.rng, self.hidden = rng, sizes.hidden
        x_zero = middle_of_words(rng, x_type)
        y_zero, y_min, y_max = output_ends(rng, y_type)
        if y_type == INT16:
            y_zero = np.zeros_like(y_zero)
        rows = gates * sizes.hidden
        shapes = [(size, rows) for size in (sizes.inputs, sizes.hidden)]
        w, r = (codes(rng, shape, np.array(0, np.int8), 128) for shape in shapes)
        bias = rng.integers(-1000, 1000, rows, np.int32, endpoint=True)
        x_scale = _scale(rng, rows, _reach(x_zero) * sizes.inputs * 127, 1 << 14)
        h_scale = _scale(rng, rows, _reach(y_zero) * sizes.hidden * 127, 1 << 14)
        self.x = codes(rng, (sizes.steps, sizes.batch, sizes.inputs), x_zero)
        self.lengths = _lengths(rng, sizes, lengths)
        self.ends = [y_zero, y_min, y_max]
        self.sums = [x_zero, w, r, bias, *x_scale, *h_scale]
        self._shape = (1, sizes.batch, sizes.hidden) if whole else (1, 1, 1)

    def initial(self, zero):
        """A state before the first step, of the type of ``zero``."""
        return codes(self.rng, self._shape, zero)


FORMS = [
    *({}, {"saturates_state": 1}, {"product_rounding": "tflite_double"}),
    {"saturates_state": 1, "product_rounding": "tflite_double"},
]
"""Attributes of an LSTM that it may have besides its rounding."""


def lstm(parts, attributes, sees=False, fine=True, narrow=False, form=0):
    """``sees``: through peepholes; ``fine``: scales of one multiplier; ``narrow``: cells;
    ``form``: which of FORMS.
    """
    attributes = attributes | FORMS[form]
    sees = sees and "saturates_state" not in attributes
    rng, ends, hidden = parts.rng, parts.ends, parts.hidden
    word = np.array(0, INT16)
    p_scale = _scale(rng, 3 * hidden, 1 << 15, 1 << 13)
    p_scale[0] *= rng.choice([-1, 1], 3 * hidden).astype(np.int32) * sees
    c_scale = np.array([1, 1], np.int32), np.array([15, rng.integers(14, 24)], np.int32)
    if not fine:
        c_scale = _scale(rng, 2, 1 << 30, 1 << 14)
    c_ends = [np.array(-32768, INT16), np.array(32767, INT16)]
    if narrow:
        c_ends = [np.array(end, INT16) for end in sorted(rng.integers(-(1 << 15), 1 << 15, 2))]
    multiplier, shift = _scale(rng, 1, 1 << 30, _reach(ends[0]))
    inputs = [
        *(parts.x, parts.initial(ends[0]), parts.initial(word), parts.lengths, *parts.sums),
        *(*p_scale, _gate_table(rng), *(_table(rng, INT16) for _ in "gh")),
        *(*c_scale, *c_ends, multiplier[0], shift[0], *ends),
    ]
    return Case(inputs, attributes)


def gru(parts, attributes, is_last=1, fine=True, whole=True):
    """``is_last``: resets sums; ``fine``: scales of one multiplier; ``whole``: tables of 16
    bits without a sign.
    """
    rng, ends, hidden = parts.rng, parts.ends, parts.hidden
    r_bias = rng.integers(-1000, 1000, 3 * hidden, np.int32, endpoint=True)
    goal = 1 << 14 if is_last else _reach(ends[0])
    reset = _scale(rng, 1, 1 << 31, goal)
    blend = np.array([1, 1], np.int32), np.array([15, 15], np.int32)
    if not fine:
        blend = _scale(rng, 2, 1 << 30, 1 << 14)
    shown = _scale(rng, 1, 1 << 15, _reach(ends[0]))
    f_table, one = _table(rng, np.dtype(np.uint16)), np.array(65535, np.int32)
    if not whole:  # a product with one - z has to fit int32
        f_table, one = _table(rng, INT16) // 2, np.array(rng.integers(1, 1 << 15), np.int32)
    inputs = [
        *(parts.x, parts.initial(np.array(0, INT16)), parts.lengths, *parts.sums),
        *(r_bias, f_table, _table(rng, INT16), one, reset[0][0], reset[1][0]),
        *(*blend, shown[0][0], shown[1][0], *ends),
    ]
    return Case(inputs, attributes | {"linear_before_reset": is_last})


def rnn(parts, attributes):
    zero = parts.ends[0]
    table = _table(parts.rng, zero.dtype)
    first = [parts.x, parts.initial(zero), parts.lengths]
    return Case([*first, *parts.sums, table, zero], attributes)


# Of any of these nodes.


@st.composite
def recurrent(draw, gates):
    """The parts of a node, and its attributes."""
    rng = draw(generator)
    hidden = st.sampled_from([1, 2, 3, 4, *8 * [SMALL + 2]])  # few of these are exact
    sizes = Sizes(*(draw(st.integers(low, 4)) for low in (0, 1, 1)), draw(hidden))
    x_type, y_type = draw(word_types), draw(word_types)
    if x_type.itemsize == y_type.itemsize == 1:
        y_type = x_type
    words = INT16 in (x_type, y_type)
    usual = rounding if words else st.one_of(rounding, node_rounding)
    attributes = {"rounding": draw(usual)}
    whole, lengths = draw(st.booleans()), draw(st.sampled_from(["all", "all", "each", "one"]))
    return Parts(rng, gates, sizes, (x_type, y_type), lengths, whole), attributes


@st.composite
def int_lstm(draw):
    made, sees = draw(recurrent(4)), not draw(st.integers(0, 3))
    form = draw(st.sampled_from([0] * 6 + [*range(len(FORMS))]))
    return lstm(*made, sees, draw(st.booleans()), draw(st.booleans()), form)


@st.composite
def int_gru(draw):
    made, is_last = draw(recurrent(3)), draw(st.integers(0, 1))
    return gru(*made, is_last, draw(st.booleans()), draw(st.booleans()))


@st.composite
def int_rnn(draw):
    return rnn(*draw(recurrent(1)))


# In plain loops.


def _word(value):
    return min(max(value, -32768), 32767)


def _entry(table, place):
    return int(table[place % 65536])


class _Sums:
    """The sums of gates of one node, on numbers."""

    def __init__(self, x, x_zero, w, r, bias, x_m, x_s, h_m, h_s, rounding):
        self.x, self.x_zero, self.w, self.r, self.bias = x, int(x_zero), w, r, bias
        self.x_scale, self.h_scale, self.rounding = (x_m, x_s), (h_m, h_s), rounding

    def level(self, value, multiplier, shift):
        return exact_level(int(value), int(multiplier), int(shift), self.rounding)

    def of_input(self, step, place, row):
        levels = [int(code) - self.x_zero for code in self.x[step, place]]
        total = sum(n * int(w) for n, w in zip(levels, self.w[:, row], strict=True))
        return _word(self.level(total + int(self.bias[row]), *(s[row] for s in self.x_scale)))

    def of_state(self, levels, row, bias=0):
        total = sum(n * int(r) for n, r in zip(levels, self.r[:, row], strict=True))
        return self.level(total + int(bias), *(s[row] for s in self.h_scale))


def _results(x, hidden, dtypes):
    steps, batch, _ = x.shape
    first = np.zeros((steps, 1, batch, hidden), dtypes[0])
    return [first, *(np.zeros((1, batch, hidden), dtype) for dtype in dtypes[1:])]


def _first(initial, place, hidden):
    row = initial[0][place if initial.shape[1] > 1 else 0]
    return [int(row[k if len(row) > 1 else 0]) for k in range(hidden)]


def _started(initial, lengths, place, hidden, zero=0):
    none = [int(zero)] * hidden
    return _first(initial, place, hidden) if _length(lengths, place) > 0 else none


def _length(lengths, place):
    return int(lengths[place if len(lengths) > 1 else 0])


def plain_lstm(
    x,
    h0,
    c0,
    lengths,
    x_zero,
    w,
    r,
    bias,
    xm,
    xs,
    hm,
    hs,
    pm,
    ps,
    *rest,
    rounding,
    product_rounding=None,
    saturates_state=0,
):
    f_table, g_table, h_table, cm, cs, c_min, c_max, ym, ys, zero, low, high = rest
    sums, hidden = _Sums(x, x_zero, w, r, bias, xm, xs, hm, hs, rounding), len(r)
    y, y_h, y_c = _results(x, hidden, (zero.dtype, zero.dtype, np.int16))
    zero = int(zero)

    def level(value, multiplier, shift):
        return exact_level(
            int(value), int(multiplier), int(shift), product_rounding or rounding
        )

    for place in range(x.shape[1]):
        h = _started(h0, lengths, place, hidden, zero)
        c = _started(c0, lengths, place, hidden)
        for step in range(len(x)):
            y[step, 0, place] = zero
            if step >= _length(lengths, place):
                continue
            old_h, old_c = [code - zero for code in h], c
            h, c = [], []
            for unit in range(hidden):

                def total(gate, cell=None, seen=0, at=(step, place, unit), old_h=old_h):
                    *place, unit = at
                    row = gate * hidden + unit
                    state = sums.of_state(old_h, row)
                    found = sums.of_input(*place, row)
                    found += _word(state) if saturates_state else state
                    if cell is not None:
                        hole = seen * hidden + unit
                        found += sums.level(cell, pm[hole], ps[hole])
                    return _word(found)

                was = old_c[unit]
                i, f = _entry(f_table, total(0, was, 0)), _entry(f_table, total(2, was, 2))
                g = _entry(g_table, total(3))
                kept = level(f * was, cm[0], cs[0]) + level(i * g, cm[1], cs[1])
                c.append(min(max(kept, int(c_min)), int(c_max)))
                shown = _entry(f_table, total(1, c[-1], 1)) * _entry(h_table, c[-1])
                h.append(min(max(level(shown, ym, ys) + zero, int(low)), int(high)))
            y[step, 0, place] = h
        y_h[0, place], y_c[0, place] = h, c
    return y, y_h, y_c


def plain_gru(x, h0, lengths, x_zero, w, r, bias, xm, xs, hm, hs, r_bias, *rest, **attributes):
    f_table, g_table, one, rm, rs, bm, bs, ym, ys, zero, low, high = rest
    is_last, rounding = attributes["linear_before_reset"], attributes["rounding"]
    sums, hidden = _Sums(x, x_zero, w, r, bias, xm, xs, hm, hs, rounding), len(r)
    y, y_h = _results(x, hidden, (zero.dtype, np.int16))
    zero = int(zero)

    def level(value, multiplier, shift):
        code = sums.level(value, multiplier, shift) + zero
        return min(max(code, int(low)), int(high)) - zero

    for place in range(x.shape[1]):
        h = _started(h0, lengths, place, hidden)
        for step in range(len(x)):
            y[step, 0, place] = zero
            if step >= _length(lengths, place):
                continue
            seen = [level(each, ym, ys) for each in h]

            def total(gate, unit, at=(step, place), seen=seen):
                row = gate * hidden + unit
                state = sums.of_state(seen, row, r_bias[row])
                return _entry(f_table, _word(sums.of_input(*at, row) + state))

            resets = [total(1, unit) for unit in range(hidden)]
            after = [level(k * was, rm, rs) for k, was in zip(resets, h, strict=True)]
            new = []
            for unit, was in enumerate(h):
                row = 2 * hidden + unit
                if is_last:
                    state = _word(sums.of_state(seen, row, r_bias[row]))
                    state = sums.level(resets[unit] * state, rm, rs)
                else:
                    state = sums.of_state(after, row, r_bias[row])
                n = _entry(g_table, _word(sums.of_input(step, place, row) + state))
                z = total(0, unit)
                parts = ((int(one) - z) * n, z * was)
                levels = [sums.level(*each) for each in zip(parts, bm, bs, strict=True)]
                new.append(_word(sum(levels)))
            h = new
            y[step, 0, place] = [level(each, ym, ys) + zero for each in h]
        y_h[0, place] = h
    return y, y_h


def plain_rnn(x, h0, lengths, x_zero, w, r, bias, xm, xs, hm, hs, table, zero, *, rounding):
    sums, hidden = _Sums(x, x_zero, w, r, bias, xm, xs, hm, hs, rounding), len(r)
    y, y_h = _results(x, hidden, (zero.dtype, zero.dtype))
    for place in range(x.shape[1]):
        h = _started(h0, lengths, place, hidden, zero)
        for step in range(len(x)):
            y[step, 0, place] = zero
            if step >= _length(lengths, place):
                continue
            levels = [code - int(zero) for code in h]
            totals = [
                sums.of_input(step, place, row) + sums.of_state(levels, row)
                for row in range(hidden)
            ]
            h = [_entry(table, _word(each)) for each in totals]
            y[step, 0, place] = h
        y_h[0, place] = h
    return y, y_h


RECURRENT_CASES = {"IntLstm": int_lstm(), "IntGru": int_gru(), "IntRnn": int_rnn()}
RECURRENT_PLAIN = {"IntLstm": plain_lstm, "IntGru": plain_gru, "IntRnn": plain_rnn}
