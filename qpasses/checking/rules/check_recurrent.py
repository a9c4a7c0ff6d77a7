"""LSTM, GRU and RNN: every number of IntLstm, IntGru and IntRnn again."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.activations import Activation, said
from qpasses.checking.arithmetic import nearest
from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    float_constant,
    stored_as,
    unlike,
    unlike_attributes,
)
from qpasses.checking.rules.check_constants import Matrix, stored_matrix
from qpasses.checking.rules.check_multipliers import expected_rounding
from qpasses.evidence.real_activations import bits_of, in_order, real_values
from qpasses.ir.graph import Tensor, constant, input_at
from qpasses.ir.record import Quantization
from qpasses.ir.recurrent_nodes import activations_of

_NAMES = {"IntLstm": "LSTM", "IntGru": "GRU", "IntRnn": "RNN"}

_ALL_STEPS = (1 << 31) - 1

_TAKES_ALPHA = (
    *("Affine", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh"),
    "ThresholdedRelu",
)
_TAKES_BETA = ("Affine", "HardSigmoid", "ScaledTanh")

_NEAR_HALF = 0.5 + 2.0**-20
"""An entry is the nearest, or one of the two nearest where digits do not tell."""


def recurrent(site: Site, make: "type[Made] | None" = None) -> Iterator[str]:
    """One direction of a recurrent node, from its weights and the scales of its states.

    ``make``: of what its numbers follow, where that is not the nearest to real ones.
    """
    site.is_op(_NAMES[site.node.op])
    node, given = site.first, site.given
    if node.attrs.get("direction", "forward") not in ("forward", b"forward"):
        raise DifferenceError(f"{node.name!r} does not run forward alone")
    if node.attrs.get("input_forget"):
        raise DifferenceError(f"{node.name!r} couples its gates")
    x, y = site.operand(site.inputs["x"], node.inputs[0]), site.y
    states = [_stored(site, tensor) for tensor in site.node.outputs]
    yield from _states(site, states)
    yield from _lengths(site)
    made = (make or Made)(site, x, y, states[-1])
    for name, value in made.numbers().items():
        yield from unlike(name, given[name], value)
    yield from made.tables()
    attributes = made.attributes()
    if node.op == "GRU":
        attributes["linear_before_reset"] = int(node.attrs.get("linear_before_reset", 0))
    yield from unlike_attributes(site.node.attrs, attributes)
    yield from unlike("the recorded activations", site.entry.function, said(made.functions))
    steps = [made.step, made.reset_step] if node.op == "GRU" else [made.step]
    scales = {"x": [x.scale], "y": [y.scale], "gates": [float(each) for each in steps]}
    scales |= {name: made.scales(name) for name in made.matrices}
    sizes, rows = site.pair.sizes.get(node.inputs[0].name), given["r"].shape
    once = prod(sizes[:2]) * (sizes[2] + rows[0]) * rows[1] if sizes else 0
    yield from check_record(site, scales, macs=site.pair.counted.total(node, once))
    ends = {"y_zero": y.zero_point, "y_min": y.limits[0], "y_max": y.limits[1]}
    for name in ends.keys() & given.keys():
        yield from unlike(name, given[name], np.array(ends[name], y.dtype))


def _stored(site: Site, tensor: Tensor) -> Quantization:
    found = stored_as(site.pair, tensor)
    if not isinstance(found, Quantization):
        raise DifferenceError(f"{tensor.name!r} has scales of its channels here")
    return found


def _states(site: Site, states: Sequence[Quantization]) -> Iterator[str]:
    """The states before the first step are stored as those that they become."""
    node, known = site.first, {"initial_h": states[1]}
    if node.op == "LSTM":
        known["initial_c"] = states[2]
    if node.op != "GRU" and states[0] != states[1]:
        yield "its last state is stored otherwise than those of all steps"
    if node.op != "RNN" and (states[-1].dtype != "int16" or states[-1].zero_point):
        yield "the state that it keeps is not stored in 16 bits around 0"
    for place, (name, meaning) in enumerate(known.items(), 5):
        real, ours = input_at(node, place), site.inputs[name]
        values = np.zeros((1, 1, 1), np.float32) if real is None else constant(real)
        if values is None and real is not None:
            if site.operand(ours, real) != meaning:
                yield f"{name} is stored otherwise than what it becomes"
        elif values is not None:
            yield from unlike(name, site.given.get(name), meaning.store_all(values))


def _lengths(site: Site) -> Iterator[str]:
    real, ours = input_at(site.first, 4), site.inputs["sequence_lens"]
    values = np.array([_ALL_STEPS], np.int32) if real is None else constant(real)
    if values is not None:
        yield from unlike("sequence_lens", site.given.get("sequence_lens"), values)
    elif real is not None and site.pair.meaning(ours).real != real.name:
        yield f"reads the lengths {ours.name!r}, not {real.name!r}"


@dataclass
class Made:
    """What the numbers of a node follow from, and the numbers."""

    site: Site
    x: Quantization
    y: Quantization
    cell: Quantization

    def __post_init__(self) -> None:
        node, settings = self.site.first, self.site.settings
        rules, blocks = settings.target, {"LSTM": 4, "GRU": 3, "RNN": 1}[node.op]
        self.functions = _functions(self.site)
        weights = [self._constant(place) for place in (1, 2)]
        rows = weights[0].shape[1]
        self.hidden = rows // blocks
        both = self._constant(3, (1, 2 * rows)).astype(np.float64).reshape(2, rows)
        self.last = bool(node.attrs.get("linear_before_reset"))
        apart = np.zeros(rows, bool)
        if node.op == "GRU" and self.last:
            apart[2 * self.hidden :] = True
        sums = both[0] + np.where(apart, 0.0, both[1]), np.where(apart, both[1], 0.0)
        self.per_channel = bool(settings.per_channel)
        self.per_channel &= rules.matmul_weights == "per_channel"
        self.matrices: dict[str, Matrix] = {}
        sides = zip("wr", weights, sums, (self.x, self.y), strict=True)
        for name, values, bias, scale in sides:
            self.matrices[name] = self.stored(values[0], bias, np.array(scale.scale))
        self.reaches = {
            name: np.abs(matrix.weights.astype(np.int64)).sum(axis=1) * _farthest(codes)
            + np.abs(matrix.bias.astype(np.int64))
            for (name, matrix), codes in zip(
                self.matrices.items(), (self.x, self.y), strict=True
            )
        }
        far = {name: self._far(name) for name in self.matrices}
        self.step = self._step(far["w"] + far["r"])
        resets = self.last and node.op == "GRU"
        rows_apart = far["r"][2 * self.hidden :] if resets else np.zeros(1)
        self.reset_step = max(self.step, _step_of(float(np.max(rows_apart))))

    def _far(self, name: str) -> NDArray[np.float64]:
        """How far the sum of each row reaches, as a real number."""
        codes = self.x if name == "w" else self.y
        steps = codes.scale * self.matrices[name].scale.astype(np.float64)
        return np.asarray(self.reaches[name] * steps)

    def stored(
        self, values: NDArray[Any], bias: NDArray[Any], steps: NDArray[np.float64]
    ) -> Matrix:
        """Weights [rows, n], each row by the rule of the target."""
        rule, op = self.site.settings.target.weights, self.site.first.op
        return stored_matrix(values, bias, 0, steps, self.per_channel, op, rule, False)

    def attributes(self) -> dict[str, Any]:
        """Those that do not come from the float node."""
        return {"rounding": expected_rounding(self.site.settings.target)}

    def scales(self, name: str) -> list[float]:
        """Those of the rows of a matrix."""
        matrix = self.matrices[name]
        rows = matrix.weights.shape[0]
        return [float(each) for each in np.broadcast_to(matrix.scale, (rows,))]

    def _constant(self, place: int, shape: Sequence[int] = ()) -> NDArray[Any]:
        found = float_constant(self.site.first, place)
        if found is None and not shape:
            raise DifferenceError(f"{self.site.first.name!r} has no weights")
        return np.zeros(shape, np.float32) if found is None else found

    def _step(self, far: NDArray[np.float64]) -> Fraction:
        """2**-11 where all functions are beyond -16 and 16 what they are there, else so much
        that no sum saturates that reaches as ``far``.
        """
        gates = self.functions[:2]
        places = np.array([16.0, 32, 64, 512]) * np.array([[-1], [1]])
        values = [_real(each, places) for each in gates]
        if all((np.abs(each - each[:, :1]) <= 2.0**-12).all() for each in values):
            return Fraction(1, 2048)
        return _step_of(float(np.max(far, initial=0)))

    def numbers(self) -> Mapping[str, NDArray[Any]]:
        """All but tables and the ends of y."""
        w, r = self.matrices["w"], self.matrices["r"]
        found: dict[str, NDArray[Any]] = {
            "x_zero": np.array(self.x.zero_point, self.x.dtype),
            "w": np.ascontiguousarray(w.weights.T),
            "r": np.ascontiguousarray(r.weights.T),
            "bias": np.asarray(w.bias, np.int32),
        }
        for name, codes, side in (("w", self.x, "x"), ("r", self.y, "h")):
            steps = [self.step] * len(w.weights)
            if self.last and name == "r":
                steps[2 * self.hidden :] = [self.reset_step] * self.hidden
            scales = [
                Fraction(codes.scale) * Fraction(each) / step
                for each, step in zip(self.scales(name), steps, strict=True)
            ]
            found |= self._pairs(side, scales, self.reaches[name].tolist())
        if self.site.node.op == "IntRnn":
            return found
        return found | (self._lstm() if self.site.node.op == "IntLstm" else self._gru())

    def _lstm(self) -> dict[str, NDArray[Any]]:
        f, g, h = (self._table(name) for name in "fgh")
        cell, word = Fraction(self.cell.scale), 1 << 15
        holes = float_constant(self.site.first, 7)
        real = np.zeros(3 * self.hidden) if holes is None else holes.reshape(-1)
        scales = [Fraction(float(each)) * cell / self.step for each in real]
        found = self._pairs("p", [abs(each) for each in scales], [word] * len(scales))
        signs = np.array([-1 if each < 0 else 1 for each in scales], np.int32)
        found["p_multiplier"] = found["p_multiplier"] * signs
        sides = [(f[0], f[1] * word), (f[0] * g[0] / cell, f[1] * g[1])]
        found |= self._pairs("c", *map(list, zip(*sides, strict=True)))
        found |= self._pair("y", f[0] * h[0] / Fraction(self.y.scale), f[1] * h[1])
        ends = {"c_min": -word, "c_max": word - 1}
        return found | {name: np.array(end, np.int16) for name, end in ends.items()}

    def _gru(self) -> dict[str, NDArray[Any]]:
        f, g = (self._table(name) for name in "fg")
        cell, word, y = Fraction(self.cell.scale), 1 << 15, Fraction(self.y.scale)
        one = int(1 / f[0])
        sides = [(f[0] * g[0] / cell, (one + f[1]) * g[1]), (f[0], f[1] * word)]
        found = self._pairs("b", *map(list, zip(*sides, strict=True)))
        found |= self._pair("y", cell / y, word)
        unit = self.reset_step / self.step if self.last else cell / y
        found |= self._pair("reset", f[0] * unit, f[1] * word)
        bias = np.asarray(self.matrices["r"].bias, np.int32)
        return found | {"one": np.array(one, np.int32), "r_bias": bias}

    def _table(self, name: str) -> tuple[Fraction, int]:
        """The step of a table of this node, and the size of its largest entry."""
        table = self.site.given[f"{name}_table"]
        place = "fgh".index(name)
        step = Fraction(self.cell.scale) if name == "h" else self.step
        bits = bits_of(real_values(self.functions[place], step), table.dtype)
        return Fraction(2) ** -bits, int(np.abs(table.astype(np.int64)).max())

    def tables(self) -> Iterator[str]:
        """Entries that are not the nearest to what the function gives."""
        for place, name in enumerate("fgh"[: len(self.functions)]):
            table = self.site.given[f"{name}_table"]
            step = Fraction(self.cell.scale) if name == "h" else self.step
            values = real_values(self.functions[place], step)
            if self.site.node.op == "IntRnn":
                dtype, (low, high) = np.dtype(self.y.dtype), self.y.limits
                levels = values / np.longdouble(self.y.scale) + self.y.zero_point
            else:
                is_unsigned = name == "f" and values.min() >= 0
                dtype = np.dtype(np.uint16 if is_unsigned else np.int16)
                low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
                levels = values * np.longdouble(2) ** bits_of(values, dtype)
            if table.dtype != dtype:
                yield f"{name}_table is {table.dtype}, expected {dtype}"
                continue
            off = np.abs(in_order(table) - np.clip(levels, low, high))
            if wrong := int((off > _NEAR_HALF).sum()):
                yield f"{wrong} entries of {name}_table are not what the activation gives"

    def _pair(self, name: str, scale: Fraction, reach: int) -> dict[str, NDArray[Any]]:
        found = self._pairs(name, [scale], [reach])
        return {key: value[0] for key, value in found.items()}

    def _pairs(
        self, name: str, scales: Iterable[Fraction], reaches: Iterable[int]
    ) -> dict[str, NDArray[Any]]:
        """Of as many bits as the target has; fewer, 16 at least, for products of 51 bits."""
        found, most = [], self.site.settings.target.multiplier_bits
        for scale, reach in zip(scales, reaches, strict=True):
            free = 51 - (reach - 1).bit_length() if reach > 1 else 51
            found.append(nearest(scale, min(most, max(16, free))))
        pairs = np.array(found, np.int32)
        return {f"{name}_multiplier": pairs[:, 0], f"{name}_shift": pairs[:, 1]}


def _step_of(far: float) -> Fraction:
    """The power of two in which 16 bits reach as ``far``, 2**-11 at least."""
    most, step = Fraction(max(far, 1.0)), Fraction(1, 2048)
    while step * 32767 < most:
        step *= 2
    return step


def _farthest(codes: Quantization) -> int:
    low, high = codes.type_limits
    return max(high - codes.zero_point, codes.zero_point - low)


def _real(function: Activation, x: NDArray[np.float64]) -> NDArray[Any]:
    """The function at multiples of 16, read off its values in steps of 1 / 64."""
    places = np.clip(np.rint(x * 64).astype(np.int64), -32768, 32767) + 32768
    return np.asarray(real_values(function, Fraction(1, 64))[places])


def _functions(site: Site) -> list[Activation]:
    """What the node names, with the numbers that each takes, in order."""
    (given,) = activations_of(site.first)
    alphas, betas, found = list(given.alphas), list(given.betas), []
    for place, name in enumerate(given.names):
        alpha = alphas.pop(0) if name in _TAKES_ALPHA else 0.0
        beta = betas.pop(0) if name in _TAKES_BETA else 0.0
        clip = float(site.first.attrs.get("clip", inf)) if place < 2 else inf
        found.append(Activation(name, alpha, beta, clip))
    return found
