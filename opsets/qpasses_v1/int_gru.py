"""IntGru: a GRU over whole sequences, its state an integer of 16 bits."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import SWITCH, TWICE
from opsets.declaration import Constant, Constraint, Data, Scaling, Shape, Shift, ends
from opsets.fragments import Fragment, fragment, joined
from opsets.loops import loop
from opsets.op import Attributes, Constants, Op
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
from opsets.recurrent_arithmetic import Arithmetic
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
    states_of,
    sums_are_exact,
)
from opsets.rounding import INT32_MAX, NodeRounding, requantize

_TWO = fragment("""
two (r) => (two_parts) {
    part      = Shape <end = 1> (r)
    double    = Add (part, part)
    two_parts = Concat <axis = 0> (double, part)
}
""")

_X_APART = fragment("""
x_apart (x_gates, two_parts) => (x_zr, x_n) {
    x_zr, x_n = Split <axis = -1> (x_gates, two_parts)
}
""")

_H_APART = fragment("""
h_apart (h_gates, two_parts) => (h_zr, h_n) {
    h_zr, h_n = Split <axis = -1> (h_gates, two_parts)
}
""")

_ROWS = fragment("""
rows (r, two_parts) => (r_zr, r_n) {
    r_zr, r_n = Split <axis = -1> (r, two_parts)
}
""")

_SCALES = fragment("""
scales (h_multiplier, h_shift, wide_r_bias, two_parts) => (m_zr, m_n, s_zr, s_n, b_zr, b_n) {
    b_zr, b_n = Split <axis = 0> (wide_r_bias, two_parts)
    m_zr, m_n = Split <axis = 0> (h_multiplier, two_parts)
    s_zr, s_n = Split <axis = 0> (h_shift, two_parts)
}
""")

_Z_AND_R = fragment("""
z_and_r (opened) => (z, reset) {
    z, reset  = Split <axis = -1, num_outputs = 2> (opened)
}
""")

_BLEND_SCALES = fragment("""
blend_scales (b_multiplier, b_shift) => (m_new, m_old, s_new, s_old) {
    m_new, m_old = Split <axis = 0, num_outputs = 2> (b_multiplier)
    s_new, s_old = Split <axis = 0, num_outputs = 2> (b_shift)
}
""")

_REST = fragment("""
rest (wide_one, z) => (not_z) {
    not_z     = Sub (wide_one, z)
}
""")


def _reset_first(by: Arithmetic, rounding: NodeRounding) -> Fragment:
    """``n_sums`` where the state is reset before it is multiplied."""
    return joined(
        TIMES(one="reset", another="h", product="reset_h"),
        by.rounded("reset_h", "reset_multiplier", "reset_shift", "reset_level", rounding),
        by.store("reset_level", "reset_code"),
        by.of_state(rounding, True)(
            state="reset_code",
            weights="r_n",
            multiplier="m_n",
            shift="s_n",
            state_bias="b_n",
            level="n_gates",
        ),
        ADDED(one="x_n", another="n_gates", both="n_sums"),
    ).only("n_sums")


def _reset_last(by: Arithmetic, rounding: NodeRounding) -> Fragment:
    """``n_sums`` where the sums of the state are reset."""
    return joined(
        by.word("h_n", "word_n"),
        TIMES(one="reset", another="word_n", product="reset_n"),
        by.rounded("reset_n", "reset_multiplier", "reset_shift", "n_gates", rounding),
        ADDED(one="x_n", another="n_gates", both="n_sums"),
    ).only("n_sums")


def _step(by: Arithmetic, rounding: NodeRounding, is_last: bool) -> Fragment:
    if is_last:
        sums = joined(
            by.of_state(rounding, True)(
                state="code",
                weights="r",
                multiplier="h_multiplier",
                shift="h_shift",
                state_bias="wide_r_bias",
                level="h_gates",
            ),
            _H_APART,
        ).only("h_zr", "h_n")
        new = _reset_last(by, rounding)
    else:
        sums = joined(
            by.of_state(rounding, True)(
                state="code",
                weights="r_zr",
                multiplier="m_zr",
                shift="s_zr",
                state_bias="b_zr",
                level="h_zr",
            ),
        ).only("h_zr")
        new = _reset_first(by, rounding)
    return joined(
        _X_APART,
        sums,
        ADDED(one="x_zr", another="h_zr", both="zr_sums"),
        by.word("zr_sums", "zr_words"),
        by.entry("f_table", "zr_words", "opened"),
        _Z_AND_R,
        new,
        by.word("n_sums", "n_words"),
        by.entry("g_table", "n_words", "n"),
        _REST,
        TIMES(one="not_z", another="n", product="part_n"),
        by.rounded("part_n", "m_new", "s_new", "new_part", rounding),
        TIMES(one="z", another="h", product="part_h"),
        by.rounded("part_h", "m_old", "s_old", "old_part", rounding),
        ADDED(one="new_part", another="old_part", both="blend"),
        by.word("blend", "new_h"),
        by.rounded("new_h", "y_multiplier", "y_shift", "level", rounding),
        by.store("level", "new_code"),
    ).only("new_code", "new_h")


def _statements(
    is_last: bool, by: Arithmetic, rounding: NodeRounding, _is_portable: bool, ending: bool
) -> Fragment:
    step = joined(_step(by, rounding, is_last), carried(("code", "h"), "padding", ending))
    states = states_of(("code", "h"), ending)
    elements = {"x_gates": "all_gates"} | ({"live": "all_live"} if ending else {})
    through = loop(step, states, elements, {"given": "states"})
    before = [] if is_last else [_ROWS, _SCALES]
    return joined(
        by.ends(),
        *([LIVE] if ending else []),
        by.gates_of_inputs(rounding),
        FIRST(initial="initial_h", first="narrow_h"),
        by.wide("narrow_h", "given_h"),
        first("given_h", "none", "first_h", ending),
        by.rounded("first_h", "y_multiplier", "y_shift", "first_level", rounding),
        by.store("first_level", "first_code"),
        *(by.wide(f"{each}_table", f"wide_{each}_table") for each in "fg"),
        by.wide("one", "wide_one"),
        by.wide("r_bias", "wide_r_bias"),
        _TWO,
        _BLEND_SCALES,
        *before,
        through(f_table="wide_f_table", g_table="wide_g_table"),
        by.code("states", "all_steps"),
        ALL,
        by.short("last_h", "short_h"),
        LAST(last_step="short_h", state="y_h"),
    ).only("y", "y_h")


def _is_exact_in_double(constants: Constants, _attributes: Attributes) -> bool:
    """Whether no product of the node, times its multiplier, leaves what double holds."""
    f, g = (largest_entry(constants[f"{each}_table"]) for each in "fg")
    word, one = -WORD.min, abs(int(constants["one"]))
    new, old = np.abs(constants["b_multiplier"].astype(np.int64)).tolist()
    reset, shown = (abs(int(constants[f"{each}_multiplier"])) for each in ("reset", "y"))
    largest = max((one + f) * g * new, f * word * max(old, reset), word * shown)
    return largest < EXACT and sums_are_exact(constants)


def _resets_last(_constants: Constants, attributes: Attributes) -> bool:
    """Whether `linear_before_reset` is 1."""
    return bool(attributes.get("linear_before_reset"))


def _resets_first(constants: Constants, attributes: Attributes) -> bool:
    """Whether `linear_before_reset` is 0."""
    return not _resets_last(constants, attributes)


def _blend_fits(constants: Constants, _attributes: Attributes, _shape: Shape) -> bool:
    f, g = (constants[f"{each}_table"].astype(np.int64) for each in "fg")
    rests = int(constants["one"]) - np.array([f.min(), f.max()])
    return bool(np.abs(rests).max() * np.abs(g).max() <= INT32_MAX)


BLEND_FITS = Constraint("a product of one - z and n fits int32", _blend_fits)


def reference(
    x: NDArray[Any],
    initial_h: NDArray[np.int16],
    sequence_lens: NDArray[np.int32],
    x_zero: NDArray[Any],
    w: NDArray[np.int8],
    r: NDArray[np.int8],
    bias: NDArray[np.int32],
    x_multiplier: NDArray[np.int32],
    x_shift: NDArray[np.int32],
    h_multiplier: NDArray[np.int32],
    h_shift: NDArray[np.int32],
    r_bias: NDArray[np.int32],
    f_table: NDArray[Any],
    g_table: NDArray[Any],
    one: NDArray[np.int32],
    reset_multiplier: NDArray[np.int32],
    reset_shift: NDArray[np.int32],
    b_multiplier: NDArray[np.int32],
    b_shift: NDArray[np.int32],
    y_multiplier: NDArray[np.int32],
    y_shift: NDArray[np.int32],
    y_zero: NDArray[Any],
    y_min: NDArray[Any],
    y_max: NDArray[Any],
    *,
    linear_before_reset: int,
    rounding: NodeRounding,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Stored x [T, B, I] -> y [T, 1, B, H], and the last state y_h [1, B, H], int16.

    Rows of w [I, 3 H] and r [H, 3 H] are of the gates z, r, n, as ONNX has them.
    ``initial_h`` broadcasts to [1, B, H], ``sequence_lens`` to [B].
    """
    steps, batch, _ = x.shape
    hidden = r.shape[0]
    sums = Sums(w, r, bias, x_multiplier, x_shift, h_multiplier, h_shift, rounding)
    of_inputs = sums.of_inputs(x, x_zero)
    h = first_state(initial_h, sequence_lens, 0, batch, hidden)
    lengths = np.broadcast_to(sequence_lens, batch)[:, None]
    y = np.full((steps, 1, batch, hidden), y_zero)
    of_zr, of_n = slice(2 * hidden), slice(2 * hidden, None)
    zero = int(y_zero)

    def levels(product: NDArray[Any], multiplier: Any, shift: Any) -> NDArray[np.int64]:
        level = requantize(product, multiplier, shift, rounding)
        return np.clip(level + zero, int(y_min), int(y_max)) - zero

    seen = levels(h, y_multiplier, y_shift)
    for step in range(steps):
        x_zr, x_n = of_inputs[step][:, of_zr], of_inputs[step][:, of_n]
        zr = x_zr + sums.of_state(seen, of_zr, r_bias[of_zr])
        z, reset = np.split(look_up(f_table, saturated(zr)), 2, axis=-1)
        if linear_before_reset:
            h_n = saturated(sums.of_state(seen, of_n, r_bias[of_n]))
            n_part = requantize(reset * h_n, reset_multiplier, reset_shift, rounding)
        else:
            after = levels(reset * h, reset_multiplier, reset_shift)
            n_part = sums.of_state(after, of_n, r_bias[of_n])
        n = look_up(g_table, saturated(x_n + n_part))
        blended = ((int(one) - z) * n, z * h)
        new, old = (
            requantize(product, multiplier, shift, rounding)
            for product, multiplier, shift in zip(blended, b_multiplier, b_shift, strict=True)
        )
        live = step < lengths
        h = np.where(live, saturated(new + old), h)
        seen = levels(h, y_multiplier, y_shift)
        y[step, 0] = np.where(live, seen + zero, zero)
    return y, h[None].astype(np.int16)


INT_GRU = Op(
    name="IntGru",
    inputs={
        "x": Data("X"),
        "initial_h": Data("int16"),
        "sequence_lens": Data("int32"),
        "x_zero": Constant("X"),
        **gates("3 H"),
        "r_bias": Constant("int32", ("3 H",)),
        "f_table": Constant("G", PLACES),
        "g_table": Constant("int16", PLACES),
        "one": Constant("int32", limits=range(1, 1 << 16)),
        "reset_multiplier": Constant("int32"),
        "reset_shift": Shift(),
        "b_multiplier": Constant("int32", (2,)),
        "b_shift": Shift(dims=(2,)),
        "y_multiplier": Constant("int32"),
        "y_shift": Shift(),
        **ends("Y"),
    },
    outputs={"y": Data("Y"), "y_h": Data("int16")},
    attributes={"linear_before_reset": SWITCH, "rounding": TWICE},
    reference=reference,
    bodies=[
        *bodies(
            partial(_statements, False), _is_exact_in_double, _resets_first, "_reset_first"
        ),
        *bodies(partial(_statements, True), _is_exact_in_double, _resets_last),
    ],
    evidence="bounded",
    scaling=Scaling.RECURRENT,
    constraints=[rows_of(3, r_bias=3), BLEND_FITS],
    laws={
        "steps behind the end of a sequence change nothing": padding_changes_no_step(reference)
    },
    formula="Of each step, with the codes u = clamp(round(h * y_multiplier / 2**y_shift) + "
    "y_zero, y_min, y_max) of the state h, for the gates z, r, n: a = clamp16(round((sum "
    "over k of (x[k] - x_zero) * w[k] + bias) * x_multiplier / 2**x_shift)), where "
    "clamp16 saturates to 16 bits, and b = round((sum over k of (u[k] - y_zero) * r[k] + "
    "r_bias) * h_multiplier / 2**h_shift). z, r = f_table[clamp16(a + b)], and n = "
    "g_table[clamp16(a + b')]: with `linear_before_reset` b' = round(r * clamp16(b) * "
    "reset_multiplier / 2**reset_shift), without b' is b of the codes clamp(round(r * h *"
    " reset_multiplier / 2**reset_shift) + y_zero, y_min, y_max) in place of u. The new h"
    " = clamp16(round((one - z) * n * b_multiplier[0] / 2**b_shift[0]) + round(z * h * "
    "b_multiplier[1] / 2**b_shift[1])), its u is y of the step. Tables are ordered by the"
    " 16 bits of what they are asked. A sequence that has ended, by `sequence_lens`, "
    "keeps its state, and its y is y_zero; without any step its state is 0, in codes of y"
    " y_zero.",
    source="Source: ONNX GRU.",
)
