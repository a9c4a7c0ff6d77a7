"""IntRnn: a plain recurrent layer over whole sequences, its state stored integers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import TWICE
from opsets.declaration import Constant, Data, Scaling
from opsets.fragments import Fragment, joined
from opsets.loops import loop
from opsets.op import Attributes, Constants, Op
from opsets.recurrence import (
    PLACES,
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
    FIRST,
    LAST,
    LIVE,
    bodies,
    carried,
    first,
    of_hidden,
    states_of,
    sums_are_exact,
)
from opsets.rounding import NodeRounding


def _statements(
    by: Arithmetic, rounding: NodeRounding, _is_portable: bool, ending: bool
) -> Fragment:
    step = joined(
        of_hidden(by, rounding, "h_gates"),
        ADDED(one="x_gates", another="h_gates", both="sums"),
        by.word("sums", "words"),
        by.entry("f_table", "words", "new_h"),
    ).only("new_h")
    whole = joined(step, carried(("h",), "padding", ending))
    elements = {"x_gates": "all_gates"} | ({"live": "all_live"} if ending else {})
    through = loop(whole, states_of(["h"], ending), elements, {"given": "states"})
    return joined(
        by.zero(),
        *([LIVE] if ending else []),
        by.gates_of_inputs(rounding),
        FIRST(initial="initial_h", first="code_h"),
        by.state("code_h", "given_h"),
        first("given_h", "padding", "first_h", ending),
        by.state("f_table", "states_table"),
        through(f_table="states_table"),
        by.code("states", "all_steps"),
        ALL,
        by.code("last_h", "last_code"),
        LAST(last_step="last_code", state="y_h"),
    ).only("y", "y_h")


def _is_exact_in_double(constants: Constants, _attributes: Attributes) -> bool:
    """Whether no sum of the node, times its multiplier, leaves what double holds."""
    return sums_are_exact(constants)


def reference(
    x: NDArray[Any],
    initial_h: NDArray[Any],
    sequence_lens: NDArray[np.int32],
    x_zero: NDArray[Any],
    w: NDArray[np.int8],
    r: NDArray[np.int8],
    bias: NDArray[np.int32],
    x_multiplier: NDArray[np.int32],
    x_shift: NDArray[np.int32],
    h_multiplier: NDArray[np.int32],
    h_shift: NDArray[np.int32],
    f_table: NDArray[Any],
    y_zero: NDArray[Any],
    *,
    rounding: NodeRounding,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Stored x [T, B, I] -> y [T, 1, B, H], and the last state y_h [1, B, H].

    w [I, H] and r [H, H]; ``initial_h``, in codes of y, broadcasts to [1, B, H],
    ``sequence_lens`` to [B].
    """
    steps, batch, _ = x.shape
    hidden = r.shape[0]
    sums = Sums(w, r, bias, x_multiplier, x_shift, h_multiplier, h_shift, rounding)
    of_inputs = sums.of_inputs(x, x_zero)
    h = first_state(initial_h, sequence_lens, int(y_zero), batch, hidden)
    lengths = np.broadcast_to(sequence_lens, batch)[:, None]
    y = np.full((steps, 1, batch, hidden), y_zero)
    for step in range(steps):
        totals = of_inputs[step] + sums.of_state(h - int(y_zero))
        new_h = look_up(f_table, saturated(totals))
        live = step < lengths
        h = np.where(live, new_h, h)
        y[step, 0] = np.where(live, new_h, int(y_zero))
    return y, h[None].astype(y_zero.dtype)


INT_RNN = Op(
    name="IntRnn",
    inputs={
        "x": Data("X"),
        "initial_h": Data("Y"),
        "sequence_lens": Data("int32"),
        "x_zero": Constant("X"),
        **gates("H"),
        "f_table": Constant("Y", PLACES),
        "y_zero": Constant("Y"),
    },
    outputs={"y": Data("Y"), "y_h": Data("Y")},
    attributes={"rounding": TWICE},
    reference=reference,
    bodies=bodies(_statements, _is_exact_in_double),
    evidence="bounded",
    scaling=Scaling.RECURRENT,
    constraints=[rows_of(1)],
    laws={
        "steps behind the end of a sequence change nothing": padding_changes_no_step(reference)
    },
    formula="Of each step: s = clamp16(clamp16(round((sum over k of (x[k] - x_zero) * w[k] + "
    "bias) * x_multiplier / 2**x_shift)) + round((sum over k of (h[k] - y_zero) * r[k]) *"
    " h_multiplier / 2**h_shift)), where clamp16 saturates to 16 bits; the new h = "
    "f_table[s], by the 16 bits of s, which is y of the step. A sequence that has ended, "
    "by `sequence_lens`, keeps its state, and its y is y_zero; without any step its state"
    " is 0, in codes of y y_zero.",
    source="Source: ONNX RNN.",
)
