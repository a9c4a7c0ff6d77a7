"""IntLstm: an LSTM over whole sequences, its states integers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import TWICE, Integer, Text
from opsets.declaration import Constant, Constraint, Data, Scaling, Shift, ends
from opsets.fragments import Fragment, fragment, joined
from opsets.loops import loop
from opsets.op import Attributes, Body, Constants, Guard, Op, all_of
from opsets.portable import portable_overload, rounds
from opsets.recurrence import (
    PLACES,
    WORD,
    Sums,
    first_state,
    gates,
    look_up,
    padding_changes_no_step,
    rows_of,
    saturated,
)
from opsets.recurrent_arithmetic import FACTOR, INTEGER, Arithmetic, in_double
from opsets.recurrent_bodies import (
    ADDED,
    ALL,
    EXACT,
    FIRST,
    LAST,
    LIVE,
    TIMES,
    bodies,
    carried,
    first,
    largest_entry,
    of_hidden,
    states_of,
    sums_are_exact,
)
from opsets.rounding import NODE_ROUNDINGS, NodeRounding, requantize

_TABLES = fragment("""
tables (wide_f_table, wide_g_table, r) => (both_tables, row, low_row, high_row) {
    # one table for sums s of i, o, f at s, for those of g at s + 65536; Gather takes what is
    # below 0 from the end
    f_up, f_down = Split <axis = 0, num_outputs = 2> (wide_f_table)
    g_up, g_down = Split <axis = 0, num_outputs = 2> (wide_g_table)
    both_tables = Concat <axis = 0> (f_up, g_down, g_up, f_down)
    hidden    = Shape <end = 1> (r)
    three     = Constant <value = int64[1] {3}> ()
    others    = Mul (hidden, three)
    zero_far  = Constant <value = double {0}> ()
    far       = Constant <value = double {65536}> ()
    near_row  = Expand (zero_far, others)
    far_row   = Expand (far, hidden)
    row       = Concat <axis = 0> (near_row, far_row)
    lowest    = Constant <value = double {-32768}> ()
    highest   = Constant <value = double {32767}> ()
    low_row   = Add (row, lowest)
    high_row  = Add (row, highest)
}
""")
"""What a step in double looks entries up in."""

_FACTORS = fragment("""
factors (new_factor, shown_factor, old_factor, r) => (factors) {
    # of i, o, f and g
    size      = Shape <end = 1> (r)
    whole     = Constant <value = double {1}> ()
    of_i      = Expand (new_factor, size)
    of_o      = Expand (shown_factor, size)
    of_f      = Expand (old_factor, size)
    of_g      = Expand (whole, size)
    factors   = Concat <axis = 0> (of_i, of_o, of_f, of_g)
}
""")
"""What entries of gates are multiplied with: the products are whole in smaller steps."""

_FURTHER = fragment("""
further (all_gates, row) => (placed_gates) {
    placed_gates = Add (all_gates, row)
}
""")

_OPENED = fragment("""
opened (sums, low_row, high_row, both_tables, factors) => (i, o, f, g) {
    not_over  = Min (sums, high_row)
    place     = Max (not_over, low_row)
    index     = Cast <to = 6> (place)                                      # 6 is INT32
    entries   = Gather <axis = 0> (both_tables, index)
    opened    = Mul (entries, factors)
    i, o, f, g = Split <axis = -1, num_outputs = 4> (opened)
}
""")

_FOUR = fragment("""
four (sums) => (s_i, s_o, s_f, s_g) {
    s_i, s_o, s_f, s_g = Split <axis = -1, num_outputs = 4> (sums)
}
""")

_PEEPHOLES = fragment("""
peepholes (p_multiplier, p_shift) => (m_i, m_o, m_f, n_i, n_o, n_f) {
    m_i, m_o, m_f = Split <axis = 0, num_outputs = 3> (p_multiplier)
    n_i, n_o, n_f = Split <axis = 0, num_outputs = 3> (p_shift)
}
""")

_CELL_SCALES = fragment("""
cell_scales (c_multiplier, c_shift) => (m_old, m_new, n_old, n_new) {
    m_old, m_new = Split <axis = 0, num_outputs = 2> (c_multiplier)
    n_old, n_new = Split <axis = 0, num_outputs = 2> (c_shift)
}
""")


@dataclass(frozen=True)
class _Form:
    """What nodes may have besides their rounding: see the attributes of the op."""

    products: NodeRounding | None = None
    saturates: bool = False

    @property
    def guard(self) -> Guard:
        """Whether a node has this form."""

        def takes(_constants: Constants, attributes: Attributes) -> bool:
            given = attributes.get("product_rounding"), attributes.get("saturates_state")
            return given == (self.products, int(self.saturates) or None)

        named = [f"product_rounding is {self.products}"] * bool(self.products)
        named += ["saturates_state is 1"] * self.saturates
        takes.__doc__ = f"Whether {' and '.join(named) or 'sums and products round alike'}."
        return takes

    @property
    def name(self) -> str:
        """Of its bodies, behind the others' names."""
        return "_saturating" * self.saturates + "_twice" * bool(self.products)


_USUAL = _Form()

_TWICE: NodeRounding = "tflite_double"
_OTHERS = _Form(saturates=True), _Form(_TWICE), _Form(_TWICE, saturates=True)
"""Those of microcontrollers."""


def _sum(one: str, another: str, both: str) -> Fragment:
    return ADDED(one=one, another=another, both=both)


def _gate(by: Arithmetic, which: str, rounding: NodeRounding, cell: str) -> Fragment:
    """A gate that sees the ``cell`` through its peephole."""
    seen, total, place = (f"{name}_{which}" for name in ("seen", "total", "place"))
    return joined(
        by.rounded(cell, f"m_{which}", f"n_{which}", seen, rounding),
        _sum(f"s_{which}", seen, total),
        by.word(total, place),
        by.entry("f_table", place, which),
    ).only(which)


def _cell(by: Arithmetic, rounding: NodeRounding) -> Fragment:
    """``new_c`` of the gates and the old ``c``."""
    return joined(
        TIMES(one="f", another="c", product="f_c"),
        by.rounded("f_c", "m_old", "n_old", "old_part", rounding),
        TIMES(one="i", another="g", product="i_g"),
        by.rounded("i_g", "m_new", "n_new", "new_part", rounding),
        _new_cell(by),
    ).only("new_c")


def _new_cell(by: Arithmetic) -> Fragment:
    limited = by.clamp(value="sum_c", low="c_low", high="c_high", clamped="new_c")
    return (_sum("old_part", "new_part", "sum_c") + limited).only("new_c")


def _any_step(by: Arithmetic, rounding: NodeRounding, form: _Form) -> Fragment:
    """One step of any node; the gates see the cell through peepholes."""
    products, levels = form.products or rounding, "h_levels" if form.saturates else "h_gates"
    return joined(
        of_hidden(by, rounding, levels),
        *([by.word("h_levels", "h_gates")] if form.saturates else []),
        _sum("x_gates", "h_gates", "sums"),
        _FOUR,
        _gate(by, "i", rounding, "c"),
        _gate(by, "f", rounding, "c"),
        by.word("s_g", "place_g"),
        by.entry("g_table", "place_g", "g"),
        _cell(by, products),
        _gate(by, "o", rounding, "new_c"),
        by.entry("h_table", "new_c", "squashed"),
        TIMES(one="o", another="squashed", product="shown"),
        by.rounded("shown", "y_multiplier", "y_shift", "level", products),
        by.store("level", "new_h"),
    ).only("new_h", "new_c")


def _short_step(by: Arithmetic, rounding: NodeRounding) -> Fragment:
    """One step in double without peepholes, of few nodes: each takes half a microsecond."""
    return joined(
        of_hidden(by, rounding, "h_gates"),
        _sum("x_gates", "h_gates", "sums"),
        _OPENED,
        TIMES(one="f", another="c", product="f_c"),
        in_double("f_c", "old_part", rounding),
        TIMES(one="i", another="g", product="i_g"),
        in_double("i_g", "new_part", rounding),
        _new_cell(by),
        by.entry("h_table", "new_c", "squashed"),
        TIMES(one="o", another="squashed", product="shown"),
        in_double("shown", "level", rounding),
        by.store("level", "new_h"),
    ).only("new_h", "new_c")


def _before_short_steps() -> Fragment:
    """What short steps read: tables and factors, and what inputs give to places in them."""
    factors = [
        FACTOR(multiplier="m_new", shift="n_new", factor="new_factor"),
        FACTOR(multiplier="m_old", shift="n_old", factor="old_factor"),
        FACTOR(multiplier="y_multiplier", shift="y_shift", factor="shown_factor"),
    ]
    return joined(*factors, _FACTORS, _TABLES, _FURTHER)


def _statements(
    by: Arithmetic,
    rounding: NodeRounding,
    is_portable: bool,
    ending: bool,
    form: _Form = _USUAL,
) -> Fragment:
    """All statements of a body."""
    step = _any_step(by, rounding, form) if is_portable else _short_step(by, rounding)
    whole = joined(step, carried(("h", "c"), "padding", ending))
    gates_read = "all_gates" if is_portable else "placed_gates"
    elements = {"x_gates": gates_read} | ({"live": "all_live"} if ending else {})
    through = loop(whole, states_of(("h", "c"), ending), elements, {"given": "states"})
    tables = {
        f"{each}_table": f"wide_{each}_table" for each in ("fgh" if is_portable else "h")
    }
    return joined(
        by.ends(),
        *([LIVE] if ending else []),
        by.gates_of_inputs(rounding),
        FIRST(initial="initial_h", first="code_h"),
        by.state("code_h", "given_h"),
        first("given_h", "padding", "first_h", ending),
        FIRST(initial="initial_c", first="narrow_c"),
        by.wide("narrow_c", "given_c"),
        first("given_c", "none", "first_c", ending),
        *(by.wide(f"{each}_table", f"wide_{each}_table") for each in "fgh"),
        by.wide("c_min", "c_low"),
        by.wide("c_max", "c_high"),
        _CELL_SCALES,
        _PEEPHOLES if is_portable else _before_short_steps(),
        through(**tables),
        by.code("states", "all_steps"),
        ALL,
        by.code("last_h", "last_code"),
        LAST(last_step="last_code", state="y_h"),
        by.short("last_c", "short_c"),
        LAST(last_step="short_c", state="y_c"),
    ).only("y", "y_h", "y_c")


def _bodies_of_others() -> list[Body]:
    """Portable ones, of which there is one for each rounding of sums."""
    return [
        Body(
            portable_overload(rounding).replace("portable", f"portable{form.name}", 1),
            "portable",
            _statements(INTEGER, rounding, True, True, form),
            all_of(rounds(rounding), form.guard),
        )
        for form in _OTHERS
        for rounding in NODE_ROUNDINGS
    ]


def _is_exact_in_double(constants: Constants, _attributes: Attributes) -> bool:
    """Whether no product of the node, times its multiplier, leaves what double holds, and it
    has no peepholes.
    """
    f, g, h = (largest_entry(constants[f"{each}_table"]) for each in "fgh")
    word = -WORD.min
    old, new = np.abs(constants["c_multiplier"].astype(np.int64)).tolist()
    shown = abs(int(constants["y_multiplier"]))
    largest = max(f * word * old, f * g * new, f * h * shown)
    return (
        largest < EXACT and sums_are_exact(constants) and not constants["p_multiplier"].any()
    )


def reference(
    x: NDArray[Any],
    initial_h: NDArray[Any],
    initial_c: NDArray[np.int16],
    sequence_lens: NDArray[np.int32],
    x_zero: NDArray[Any],
    w: NDArray[np.int8],
    r: NDArray[np.int8],
    bias: NDArray[np.int32],
    x_multiplier: NDArray[np.int32],
    x_shift: NDArray[np.int32],
    h_multiplier: NDArray[np.int32],
    h_shift: NDArray[np.int32],
    p_multiplier: NDArray[np.int32],
    p_shift: NDArray[np.int32],
    f_table: NDArray[Any],
    g_table: NDArray[Any],
    h_table: NDArray[Any],
    c_multiplier: NDArray[np.int32],
    c_shift: NDArray[np.int32],
    c_min: NDArray[np.int16],
    c_max: NDArray[np.int16],
    y_multiplier: NDArray[np.int32],
    y_shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    rounding: NodeRounding,
    product_rounding: NodeRounding | None = None,
    saturates_state: int | None = None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Stored x [T, B, I] -> y [T, 1, B, H], and the last states y_h, y_c [1, B, H].

    Rows of w [I, 4 H] and r [H, 4 H] are of the gates i, o, f, g, as ONNX has them; those of
    p [3 H] of i, o, f. ``initial_h``, in codes of y, and ``initial_c`` broadcast to
    [1, B, H], ``sequence_lens`` to [B].
    """
    steps, batch, _ = x.shape
    hidden = r.shape[0]
    sums = Sums(w, r, bias, x_multiplier, x_shift, h_multiplier, h_shift, rounding)
    of_inputs = sums.of_inputs(x, x_zero)
    sizes = batch, hidden
    h = first_state(initial_h, sequence_lens, int(y_zero), *sizes)
    c = first_state(initial_c, sequence_lens, 0, *sizes)
    lengths = np.broadcast_to(sequence_lens, batch)[:, None]
    y = np.full((steps, 1, batch, hidden), y_zero)
    products = product_rounding or rounding
    peepholes = list(zip(np.split(p_multiplier, 3), np.split(p_shift, 3), strict=True))

    def gate(total: NDArray[Any], cell: NDArray[Any], which: int) -> NDArray[Any]:
        total = total + requantize(cell, *peepholes[which], rounding)
        return look_up(f_table, saturated(total))

    for step in range(steps):
        of_h = sums.of_state(h - y_zero.astype(np.int64))
        totals = of_inputs[step] + (saturated(of_h) if saturates_state else of_h)
        of_i, of_o, of_f, of_g = np.split(totals, 4, axis=-1)
        i, f, g = gate(of_i, c, 0), gate(of_f, c, 2), look_up(g_table, saturated(of_g))
        old, new = (
            requantize(product, multiplier, shift, products)
            for product, multiplier, shift in zip(
                (f * c, i * g), c_multiplier, c_shift, strict=True
            )
        )
        new_c = np.clip(old + new, int(c_min), int(c_max))
        shown = gate(of_o, new_c, 1) * look_up(h_table, new_c)
        level = requantize(shown, y_multiplier, y_shift, products)
        new_h = np.clip(level + int(y_zero), int(y_min), int(y_max))
        live = step < lengths
        c, h = np.where(live, new_c, c), np.where(live, new_h, h)
        y[step, 0] = np.where(live, new_h, int(y_zero))
    return y, h[None].astype(y_zero.dtype), c[None].astype(np.int16)


_SEES_OR_SATURATES = Constraint(
    "no peepholes with saturates_state",
    lambda constants, attributes, _shape: (
        not attributes.get("saturates_state") or not constants["p_multiplier"].any()
    ),
)

INT_LSTM = Op(
    name="IntLstm",
    inputs={
        "x": Data("X"),
        "initial_h": Data("Y"),
        "initial_c": Data("int16"),
        "sequence_lens": Data("int32"),
        "x_zero": Constant("X"),
        **gates("4 H"),
        "p_multiplier": Constant("int32", ("3 H",)),
        "p_shift": Shift(dims=("3 H",)),
        "f_table": Constant("G", PLACES),
        "g_table": Constant("int16", PLACES),
        "h_table": Constant("int16", PLACES),
        "c_multiplier": Constant("int32", (2,)),
        "c_shift": Shift(dims=(2,)),
        "c_min": Constant("int16"),
        "c_max": Constant("int16"),
        "y_multiplier": Constant("int32"),
        "y_shift": Shift(),
        **ends("Y"),
    },
    outputs={"y": Data("Y"), "y_h": Data("Y"), "y_c": Data("int16")},
    attributes={
        "product_rounding": Text((_TWICE,), required=False),
        "rounding": TWICE,
        "saturates_state": Integer(1, 1, required=False),
    },
    reference=reference,
    bodies=[
        *bodies(_statements, _is_exact_in_double, _USUAL.guard),
        *_bodies_of_others(),
    ],
    evidence="bounded",
    scaling=Scaling.RECURRENT,
    constraints=[rows_of(4, p_multiplier=3, p_shift=3), _SEES_OR_SATURATES],
    laws={
        "steps behind the end of a sequence change nothing": padding_changes_no_step(reference)
    },
    formula="Of each step, for the gates i, o, f, g: s = clamp16(clamp16(round((sum over k of "
    "(x[k] - x_zero) * w[k] + bias) * x_multiplier / 2**x_shift)) + round((sum over k of "
    "(h[k] - y_zero) * r[k]) * h_multiplier / 2**h_shift)), where clamp16 saturates to 16"
    " bits; to those of i and f round(c * p_multiplier / 2**p_shift) is added within, to "
    "that of o the same of the new c. i, o, f = f_table[s], g = g_table[s]. The new c = "
    "clamp(round(f * c * c_multiplier[0] / 2**c_shift[0]) + round(i * g * c_multiplier[1]"
    " / 2**c_shift[1]), c_min, c_max); the new h = clamp(round(o * h_table[c] * "
    "y_multiplier / 2**y_shift) + y_zero, y_min, y_max), which is y of the step. Tables "
    "are ordered by the 16 bits of what they are asked. With `saturates_state` the second of"
    " the two levels of s is clamped to 16 bits as the first is; with `product_rounding` the "
    "products of gates, cells and table entries are rounded so, sums of gates as `rounding` "
    "says. A sequence that has ended, by "
    "`sequence_lens`, keeps its states, and its y is y_zero; without any step states are "
    "0, in codes of y y_zero.",
    source="Source: ONNX LSTM. With the tables and numbers of a kernel, without peepholes, it"
    " is CMSIS-NN's arm_lstm_unidirectional_s8 and LiteRT's LSTM of 8 bits; with "
    "`saturates_state` TensorFlow Lite Micro's, of 16 bits with `product_rounding` too.",
)
