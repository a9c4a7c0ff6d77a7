"""LSTM: UNIDIRECTIONAL_SEQUENCE_LSTM, whose numbers are derived from scales once more.

Time comes first. Its states are variables, which start at nothing: a state that comes in, or a
last cell that goes out, has no place in the file. Cells are clipped at -32767, as CMSIS-NN
does it whatever a file says.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.lstm_forms import CELL_END, GATE_STEP, LSTM_FORMS, OPEN, LstmForm
from opsets.multipliers import Pair
from opsets.recurrence import WHOLE, WORD
from opsets.rounding import requantize, wraps
from opsets.word_products import furthest
from qpasses.emit.layouts import in_order
from qpasses.emit.operations import RefusedError, Value
from qpasses.emit.tflite.flatbuffer import Scales
from qpasses.emit.tflite.litert_arithmetic import ROUNDING, single
from qpasses.emit.tflite.tflite_lowering import Given, TfliteLowering, UnlikeRuntimeError
from qpasses.ir.graph import Node
from qpasses.ir.record import Quantization

_COLUMNS = 0, 2, 3, 1
"""Input, forget, cell and output gate, as columns of i, o, f and g."""

_PEEPHOLES, _PROJECTION, _NORMS = [None] * 3, [None] * 2, [None] * 4
"""Operands that are left out."""


def int_lstm(to: TfliteLowering, node: Node) -> None:
    """One direction of a sequence."""
    form, given, program = LSTM_FORMS[to.runtime.target.lstm], to.constants(node), to.program
    x, x_scales = to.codes_of(node, "x", in_order(3))
    y, cell = to.written(node), to.record.tensors.get(str(node.outputs[2].name))
    is_wide = to.has_words(node, "x", "y")
    if not isinstance(cell, Quantization):
        raise RefusedError("the model does not say the scale of its cells")
    _check_form(to, node, given, is_wide, form)
    rows = to.record.nodes[str(node.name)].scales
    scales = [_of_gates(rows[part]) for part in "wr"]
    _check_numbers(to, given, (x_scales, y), scales, is_wide)
    _check_cells(to, given, cell, form)
    _check_saturation(to, node, given, form)
    steps, batch, _ = x.shape
    hidden = len(given["r"])
    states = [
        program.fresh((batch, hidden), x.element, y, is_kept=True),
        program.fresh((batch, hidden), "i16", Scales((cell.scale,)), is_kept=True),
    ]
    operands: list[Value | None] = [x, *_matrices(to, given, scales), *_PEEPHOLES]
    operands += _biases(to, given, x_scales, scales[0], is_wide)
    operands += [*_PROJECTION, *states, *_NORMS]
    between = [program.fresh((0,), "i16", Scales((GATE_STEP,))) for _ in _COLUMNS]
    between.append(program.fresh((0,), x.element, y))
    codes = program.fresh((steps, batch, hidden), x.element, y)
    numbers = {
        "fusedActivationFunction": "ActivationFunctionType.TANH",
        "cellClip": CELL_END * cell.scale,
        "timeMajor": True,
    }
    options = "UnidirectionalSequenceLSTMOptions"
    program.append(_NAME, _VERSION, operands, codes, options, numbers, between)
    to.write(node.outputs[0], program.reshape(codes, (steps, 1, batch, hidden)))
    if to.is_wanted(node.outputs[1]):
        to.write(node.outputs[1], program.slice(codes, (steps - 1, 0, 0), (1, batch, hidden)))
    if to.is_wanted(node.outputs[2]):
        raise RefusedError("its last cell is read, which the operator does not give")


_NAME, _VERSION = "UNIDIRECTIONAL_SEQUENCE_LSTM", 3


def _of_gates(scales: Sequence[float]) -> list[float]:
    """One for each, as columns lie. Raises RefusedError where rows differ within a gate."""
    rows = np.array(scales, np.float64).reshape(4, -1)
    if (rows != rows[:, :1]).any() or (rows != rows.astype(np.float32)).any():
        raise RefusedError(
            "the weights of a gate have several scales, or one that is no float32: the "
            "operator has one for each gate"
        )
    return [float(each) for each in rows[:, 0]]


def _check_form(
    to: TfliteLowering, node: Node, given: Given, is_wide: bool, form: LstmForm
) -> None:
    """Raise RefusedError for what the operator does not have."""
    if is_wide and not form.words:
        raise RefusedError(f"{to.runtime.title} has the operator for 8 bits alone")
    zero = int(given["y_zero"])
    for name, nothing in (("initial_h", zero), ("initial_c", 0), ("p_multiplier", 0)):
        if name not in given:
            raise RefusedError(
                f"its {name} comes from outside: the operator starts without a state"
            )
        if (given[name] != nothing).any():
            raise RefusedError(f"its {name} is not zero, the operator has none")
    if (given.get("sequence_lens", np.zeros(1)) != WHOLE).any():
        raise RefusedError("sequences that end early, of which the operator knows nothing")
    limits = np.iinfo(given["y_zero"].dtype)
    ends = int(given["y_min"]), int(given["y_max"])
    if ends != (limits.min, limits.max):
        raise RefusedError("its state has not all codes of its type")
    low, high = int(given["c_min"]), int(given["c_max"])
    if (low, high) != (-CELL_END, CELL_END):
        raise UnlikeRuntimeError((low, high), (-CELL_END, CELL_END), to.runtime)
    rounding = to.runtime.word_rounding if is_wide else ROUNDING
    ours = node.attrs["rounding"], node.attrs.get("product_rounding", node.attrs["rounding"])
    if ours != (rounding, ROUNDING):
        raise UnlikeRuntimeError(ours, (rounding, ROUNDING), to.runtime)


def _check_numbers(
    to: TfliteLowering,
    given: Given,
    ends: tuple[Scales, Scales],
    scales: Sequence[Sequence[float]],
    is_wide: bool,
) -> None:
    """Raise UnlikeRuntimeError unless the runtime derives the multipliers of the node."""
    by, hidden = to.runtime, len(given["r"])
    derive = by.of_words if is_wide else by.pair
    for name, codes, of_gates in zip(("x", "h"), ends, scales, strict=True):
        pairs = [derive("IntLstm", (codes.scale, each), GATE_STEP) for each in of_gates]
        _compare(to, given, name, [each for each in pairs for _ in range(hidden)])
    _compare(to, given, "y", [by.pair("IntLstm", (OPEN, OPEN), ends[1].scale)])
    if is_wide:
        return
    for name, weights, bias in (("x", "w", given["bias"]), ("h", "r", np.zeros(1, np.int64))):
        reach = _reach(given, weights) + np.abs(bias.astype(np.int64))
        wrapped = wraps(reach, given[f"{name}_shift"], ROUNDING)
        if wrapped.any() or (reach > np.iinfo(np.int32).max).any():
            raise RefusedError("its sums leave the 32 bits that the runtime has")


def _reach(given: Given, weights: str) -> NDArray[np.int64]:
    """How far the products of each column of ``weights`` reach."""
    zero = given["x_zero" if weights == "w" else "y_zero"]
    sizes = np.abs(given[weights].astype(np.int64)).sum(axis=0)
    return np.asarray(sizes * furthest(zero), np.int64)


def _compare(to: TfliteLowering, given: Given, name: str, theirs: Sequence[Pair]) -> None:
    ours = np.stack([given[f"{name}_{part}"].reshape(-1) for part in ("multiplier", "shift")])
    unlike = (np.array(theirs, np.int64) != ours.T).any(axis=1)
    if unlike.any():
        at = int(unlike.argmax())
        raise UnlikeRuntimeError(tuple(ours[:, at].tolist()), theirs[at], to.runtime)


def _check_cells(to: TfliteLowering, given: Given, cell: Quantization, form: LstmForm) -> None:
    """Raise RefusedError unless tables and numbers of cells are those of the kernel."""
    powers = [each for each in form.powers if cell.scale == 2.0**each]
    if not powers or cell.zero_point:
        raise RefusedError(f"the operator has no cells in steps of {cell.scale:.6g}")
    _compare(to, given, "c", form.cells(powers[0]))
    tables = {"f": form.sigmoid(), "g": form.tanh(_GATE_POWER), "h": form.tanh(powers[0])}
    for name, table in tables.items():
        if not np.array_equal(given[f"{name}_table"], table):
            raise UnlikeRuntimeError(f"another {name}_table", "its own", to.runtime)


_GATE_POWER = int(np.log2(GATE_STEP))


def _check_saturation(to: TfliteLowering, node: Node, given: Given, form: LstmForm) -> None:
    """Raise UnlikeRuntimeError where what a state gives saturates otherwise, or may."""
    saturates = bool(node.attrs.get("saturates_state"))
    if saturates == form.saturates_state:
        return
    reach, pair = _reach(given, "r"), (given["h_multiplier"], given["h_shift"])
    ends = [requantize(sign * reach, *pair, node.attrs["rounding"]) for sign in (-1, 1)]
    if ends[0].min() < WORD.min or ends[1].max() > WORD.max:
        words = {True: "saturated alone", False: "added whole"}
        ours, theirs = words[saturates], words[form.saturates_state]
        raise UnlikeRuntimeError(f"state sums {ours}", f"sums {theirs}", to.runtime)


def _matrices(
    to: TfliteLowering, given: Given, scales: Sequence[Sequence[float]]
) -> list[Value]:
    """Weights of inputs, then of states, a row for each unit."""
    found = []
    for part, of_gates in zip("wr", scales, strict=True):
        gates = np.split(given[part].T, 4)
        found += [
            to.program.stored(np.ascontiguousarray(gates[k]), Scales((of_gates[k],)))
            for k in _COLUMNS
        ]
    return found


def _biases(
    to: TfliteLowering,
    given: Given,
    x: Scales,
    scales: Sequence[float],
    is_wide: bool,
) -> list[Any]:
    gates = np.split(given["bias"].astype(np.int64 if is_wide else np.int32), 4)
    return [
        to.program.stored(gates[k], Scales((single(single(x.scale) * single(scales[k])),)))
        for k in _COLUMNS
    ]


LOWERINGS = {"IntLstm": int_lstm}
