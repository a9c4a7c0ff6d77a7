"""Recurrent nets: how far one step is from real arithmetic, and onnxruntime on sequences.

One step is bounded for all codes of its input and its states, beside real arithmetic that
saturates where the node does: sums of inputs and of gates, cells, states. Over many steps
states feed on what they lost before: nothing bounds that but the ends of codes, so sequences
are sampled. Bodies compute integers alone, or doubles that are integers; they are run too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.activations import Activation, read
from opsets.op import Constants
from opsets.qpasses_v1 import OPS
from opsets.rounding import LAST_STEP
from opsets.word_products import LARGEST, furthest
from qpasses.evidence.bodies import body_of
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.problems import problem_of
from qpasses.evidence.real_activations import (
    Long,
    bits_of,
    in_order,
    real_values,
    table_error,
    variation,
)
from qpasses.ir.graph import Node
from qpasses.ir.record import Quantization, Record
from qpasses.ir.runtime import run_op

_STEPS, _ROWS = 12, 4
"""Of the sequences that are run."""

_WORD = 1 << 15


def recurrent(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """A bound of one step, from all entries of tables; sequences through onnxruntime."""
    entry = record.nodes[node.name]
    problem = problem_of(node, given, record) or _overflow(given)
    bound: float | None = None
    if not problem:
        try:
            functions = read(entry.function)
        except ValueError:
            problem = "its record does not say its activations"
        else:
            bound = _BOUNDS[node.op](_Step(node, given, record, functions))
    wrong = 0 if problem else _differing(node, given, record)
    tables = [value for name, value in given.items() if name.endswith("_table")]
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="bounded",
        domain=sum(each.size for each in tables),
        mismatches=wrong,
        body=entry.overload,
        channels=given["r"].shape[1],
        bound=bound,
        problem=problem,
    )


def _overflow(given: Constants) -> str:
    """What is wrong where a product with a multiplier can leave 63 bits."""
    sides = (
        (given["w"], given["x_zero"], given["bias"], given["x_multiplier"]),
        (given["r"], given["y_zero"], given.get("r_bias", 0), given["h_multiplier"]),
    )
    for weights, zero, bias, multiplier in sides:
        reach = np.abs(weights.astype(object)).sum(axis=0) * furthest(zero) + abs(bias)
        if np.max(reach * np.abs(multiplier.astype(object)), initial=0) > LARGEST:
            return "a sum times its multiplier can leave 62 bits"
    return ""


def _differing(node: Node, given: Constants, record: Record) -> int:
    """How many results of onnxruntime differ from the meaning, on sequences of all kinds."""
    body, op, rng = body_of(node, record), OPS[node.op], np.random.default_rng(0)
    wrong = 0
    for kind in ("anywhere", "ends", "near zero"):
        inputs = sequence(op.data, given, kind, rng)
        arrays = [inputs[name] if name in op.data else given[name] for name in op.inputs]
        expected = op.reference(*arrays, **node.attrs)
        for optimize in (False, True):
            found = run_op(node.op, body, arrays, node.attrs, optimize=optimize)
            pairs = zip(found, expected, strict=True)
            wrong += sum(int((one != other).sum()) for one, other in pairs)
    return wrong


def sequence(
    names: Sequence[str], given: Constants, kind: str, rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """What flows in; lengths are all the steps where the node has them, else they differ."""
    hidden, inputs = len(given["r"]), len(given["w"])
    lengths = given.get("sequence_lens", np.array([_STEPS, 1, 0, _STEPS // 2], np.int32))
    rows = lengths.size if lengths.size > 1 else _ROWS
    word = np.array(0, np.int16)
    zeros = {"x": given["x_zero"], "initial_h": given["y_zero"], "initial_c": word}
    if "one" in given:  # the state of a GRU
        zeros["initial_h"] = word
    made = dict[str, NDArray[Any]]()
    for name, zero in zeros.items():
        if name in names:
            shape = (_STEPS, rows, inputs) if name == "x" else (1, rows, hidden)
            made[name] = _codes(shape, zero, kind, rng)
    return made | {"sequence_lens": lengths}


def _codes(
    shape: tuple[int, ...], zero: NDArray[Any], kind: str, rng: np.random.Generator
) -> NDArray[Any]:
    limits = np.iinfo(zero.dtype)
    if kind == "ends":
        return rng.choice(np.array([limits.min, limits.max], zero.dtype), shape)
    low, high = limits.min, limits.max
    if kind == "near zero":
        low, high = max(int(zero) - 2, low), min(int(zero) + 2, high)
    return rng.integers(low, high, shape, zero.dtype, endpoint=True)


@dataclass(frozen=True)
class _Gate:
    """A table: what it stands for, its step, by how much entries are off at most."""

    values: Long
    step: Fraction
    error: float
    size: float
    entry: int

    def off(self, steps: float) -> float:
        """How far an entry is off where its sum is off by so many ``steps``."""
        return variation(self.values, ceil(steps)) + self.error if steps > 0 else self.error


class _Step:
    """One step of a node: its numbers, and how far its sums are off."""

    def __init__(
        self, node: Node, given: Constants, record: Record, functions: Sequence[Activation]
    ) -> None:
        entry = record.nodes[node.name]
        self.given, self.functions, self.attributes = given, functions, node.attrs
        scales = {
            name: [Fraction(each) for each in found] for name, found in entry.scales.items()
        }
        self.x, self.y, self.unit = scales["x"][0], scales["y"][0], scales["gates"][0]
        self.w, self.r = scales["w"], scales["r"]
        self.reset = scales["gates"][-1] / self.unit
        """How many steps of sums those are in which a GRU stores sums that it resets."""
        found = record.tensors[node.outputs[-1].name]
        assert isinstance(found, Quantization), node.name
        self.cell = Fraction(found.scale)
        roundings = node.attrs["rounding"], node.attrs.get("product_rounding")
        self.rounded = 0.75 if {*roundings} & {*LAST_STEP} else 0.5
        self.of_x = self._sums("w", "x", [self.x * each / self.unit for each in self.w])
        self.h_scales = [self.y * each / self.unit for each in self.r]
        if node.attrs.get("linear_before_reset"):
            apart = 2 * len(self.r) // 3
            self.h_scales[apart:] = [each / self.reset for each in self.h_scales[apart:]]
        self.of_h = self._sums("r", "h", self.h_scales)

    @property
    def sums(self) -> float:
        """By how many of their steps sums are off at most: two roundings, two multipliers."""
        return 2 * self.rounded + self.of_x + self.of_h

    def _sums(self, matrix: str, side: str, scales: Sequence[Fraction]) -> float:
        weights = self.given[matrix]
        zero = self.given["x_zero" if matrix == "w" else "y_zero"]
        bias = self.given["bias"] if matrix == "w" else self.given.get("r_bias", np.zeros(1))
        reach = np.abs(weights.astype(np.int64)).sum(axis=0) * furthest(zero) + np.abs(bias)
        most = 1.0 / 2  # what a real bias lacks in steps of its sum
        return max(
            float(int(n) * abs(self.pair(side, k) - scale) + Fraction(most) * scale)
            for k, (n, scale) in enumerate(zip(reach.tolist(), scales, strict=True))
        )

    def pair(self, name: str, place: int | None = None) -> Fraction:
        """A multiplier and its shift as one number."""
        multiplier, shift = (self.given[f"{name}_{each}"] for each in ("multiplier", "shift"))
        if place is not None:
            multiplier, shift = multiplier[place], shift[place]
        return Fraction(int(multiplier), 1 << int(shift))

    def scaled(
        self, name: str, exact: Fraction, reach: int, place: int | None = None
    ) -> float:
        """By how much an integer up to ``reach`` is off that is scaled and rounded."""
        return self.rounded + float(reach * abs(self.pair(name, place) - exact))

    def gate(self, name: str, place: int, step: Fraction | None = None) -> _Gate:
        """The table ``name`` of an activation."""
        table = self.given[f"{name}_table"]
        values = real_values(self.functions[place], self.unit if step is None else step)
        bits = bits_of(values, table.dtype)
        size, entry = float(np.abs(values).max()), int(np.abs(in_order(table)).max())
        error = table_error(table, values, bits)
        return _Gate(values, Fraction(2) ** -bits, error, max(size, entry * 2.0**-bits), entry)

    def limited(self, off: float) -> float:
        """``off`` in steps of y, no more than there are codes."""
        span = float(int(self.given["y_max"]) - int(self.given["y_min"]))
        return min(off / float(self.y), span)


def _lstm(step: _Step) -> float:
    """Of h, in steps of y: what the gates, the cell and its table are off, one after another.

    A product of two that are off by d and e is off by d times the one, e times the other, and
    d times e.
    """
    f, g, h = step.gate("f", 0), step.gate("g", 1), step.gate("h", 2, step.cell)
    holes = np.abs(step.given["p_multiplier"].astype(np.int64)) / np.exp2(
        step.given["p_shift"].astype(np.float64)
    )
    hole = float(holes.max(initial=0))
    sums = step.sums + (1.0 if hole else 0.0)
    cell = float(step.cell)
    off_f, off_g = f.off(sums), g.off(sums)
    kept = step.scaled("c", f.step, f.entry * _WORD, 0)
    new = step.scaled("c", f.step * g.step / step.cell, f.entry * g.entry, 1)
    off_c = (
        cell * (_WORD * off_f + kept + new) + off_f * g.size + off_g * f.size + off_f * off_g
    )
    off_o = f.off(sums + hole * off_c / cell)
    off_h = h.off(off_c / cell)
    shown = step.scaled("y", f.step * h.step / step.y, f.entry * h.entry) - 0.5
    off = off_o * h.size + off_h * f.size + off_o * off_h + shown * float(step.y)
    return step.limited(off)


def _gru(step: _Step) -> float:
    """Of the state, in steps of y; its codes, which sums are made of, are half a step off."""
    f, g = step.gate("f", 0), step.gate("g", 1)
    cell, y, given = float(step.cell), float(step.y), step.given
    codes = 0.5 + float(_WORD * abs(step.pair("y") - step.cell / step.y))
    weights = np.abs(given["r"].astype(np.int64)).sum(axis=0)
    scales = np.array([float(each) for each in step.h_scales])
    seen = float((weights * scales).max(initial=0)) * codes
    off_zr = f.off(step.sums + seen)
    if step.attributes["linear_before_reset"]:
        reset = step.scaled("reset", f.step * step.reset, f.entry * _WORD)
        off_h = float(step.reset) * (off_zr * _WORD + f.size * (step.sums + seen))
        sums = step.sums + reset + off_h
    else:
        reset = step.scaled("reset", f.step * step.cell / step.y, f.entry * _WORD)
        sums = step.sums + (reset + off_zr * _WORD * cell / y) * float(
            (weights * scales).max(initial=0)
        )
    off_n = g.off(sums)
    rest = float(int(given["one"]) * f.step) + f.size
    new = step.scaled(
        "b", f.step * g.step / step.cell, round(rest / float(f.step)) * g.entry, 0
    )
    old = step.scaled("b", f.step, f.entry * _WORD, 1)
    off = cell * (new + old) + off_zr * (g.size + _WORD * cell) + off_n * (rest + off_zr)
    return step.limited(off)


def _rnn(step: _Step) -> float:
    """Of h, in steps of y."""
    values = real_values(step.functions[0], step.unit)
    levels = values / np.longdouble(float(step.y)) + int(step.given["y_zero"])
    table = in_order(step.given["f_table"])
    limits = np.iinfo(step.given["y_zero"].dtype)
    off = np.abs(table - np.clip(levels, limits.min, limits.max)).max()
    inside = variation(np.asarray(levels), ceil(step.sums))
    return min(float(inside + off), float(limits.max - limits.min))


_BOUNDS = {"IntLstm": _lstm, "IntGru": _gru, "IntRnn": _rnn}
