"""TFLite files of one UNIDIRECTIONAL_SEQUENCE_LSTM, and random ones to run."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from qpasses.emit.tflite.flatbuffer import (
    FileContent,
    FileOperator,
    FileTensor,
    Scales,
    packed,
)
from tests.support.lstm_kernels import GATES, Gate, Lstm, float32

_NAMES = dict(zip(GATES, ("input", "forget", "cell", "output"), strict=True))


def written(lstm: Lstm, steps: int, batch: int, *, time_major: bool = True) -> bytes:
    """The file."""
    hidden, width = len(lstm.gates["i"].w), len(lstm.gates["i"].w[0])
    element, tensors = "i16" if lstm.wide else "i8", list[FileTensor]()

    def add(name: str, shape: Sequence[int], kind: str, **given: Any) -> int:
        tensors.append(FileTensor(name, tuple(shape), kind, **given))
        return len(tensors) - 1

    def constant(name: str, values: Any, dtype: str, scale: float) -> int:
        array = np.array(values, dtype)
        return add(name, array.shape, _KINDS[dtype], values=array, meaning=Scales((scale,)))

    lead = (steps, batch) if time_major else (batch, steps)
    x, h = (Scales((lstm.x_scale,), (lstm.x_zero,)), Scales((lstm.h_scale,), (lstm.h_zero,)))
    cell = Scales((2.0**lstm.cell_power,))
    places = [add("x", (*lead, width), element, meaning=x)]
    for part in "wr":
        for name in GATES:
            gate = lstm.gates[name]
            scale = getattr(gate, f"{part}_scale")
            title = f"{part}_{_NAMES[name]}"
            places.append(constant(title, getattr(gate, part), "int8", scale))
    places += [-1] * 3
    bias = "int64" if lstm.wide else "int32"
    for name in GATES:
        gate = lstm.gates[name]
        scale = float32(gate.w_scale * lstm.x_scale)
        places.append(constant(f"bias_{_NAMES[name]}", gate.bias, bias, scale))
    places += [-1] * 2
    places.append(add("h", (batch, hidden), element, meaning=h, is_kept=True))
    places.append(add("c", (batch, hidden), "i16", meaning=cell, is_kept=True))
    places += [-1] * 4
    y = add("y", (*lead, hidden), element, meaning=h)
    between = [add(f"between_{k}", (0,), "i16", meaning=Scales((2.0**-12,))) for k in range(4)]
    between.append(add("between_4", (0,), element, meaning=h))
    operator = FileOperator(
        *("UNIDIRECTIONAL_SEQUENCE_LSTM", 3, places, [y]),
        "UnidirectionalSequenceLSTMOptions",
        {
            "fusedActivationFunction": "ActivationFunctionType.TANH",
            "cellClip": lstm.clip * 2.0**lstm.cell_power,
            "timeMajor": time_major,
        },
        between,
    )
    return packed(FileContent(tensors, [operator], [("x", 0)], [("y", y)], {}))


_KINDS = {"int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64"}


def any_lstm(
    rng: np.random.Generator,
    *,
    wide: bool = False,
    loud: float = 1.0,
    powers: Sequence[int] = range(-15, -8),
) -> Lstm:
    """A random one; ``loud``: how far its sums of gates reach, about; ``powers``: of cells."""
    width, hidden = (int(rng.integers(1, 9)) for _ in range(2))
    x_scale = float32((10 ** rng.uniform(-2.5, -1)) / (256 if wide else 1))
    h_scale = float32(rng.uniform(0.5, 2.5) / (65535 if wide else 255))
    lowest = -(1 << 15) if wide else -128
    codes = (0, 0) if wide else tuple(int(each) for each in rng.integers(-128, 128, 2))
    scale = loud * 8.0 / np.sqrt(width + hidden)
    gates = {}
    for name in GATES:
        w = rng.integers(-128, 128, (hidden, width)).tolist()
        r = rng.integers(-128, 128, (hidden, hidden)).tolist()
        w_scale = float32(scale * rng.uniform(0.5, 2) / 128 / -lowest / x_scale)
        r_scale = float32(scale * rng.uniform(0.1, 1) / 128)
        most = int(min(4 / (w_scale * x_scale), 2**30))
        bias = rng.integers(-most, most + 1, hidden).tolist()
        gates[name] = Gate(w, r, bias, w_scale, r_scale)
    power = int(rng.choice(powers))
    clip = 32767 if rng.random() < 0.8 else int(rng.integers(1, 32768))
    return Lstm(gates, x_scale, codes[0], h_scale, codes[1], power, clip, wide)


def any_codes(rng: np.random.Generator, lstm: Lstm, steps: int, batch: int) -> Any:
    """Stored x [T, B, I], some of it extreme."""
    limits = np.iinfo(np.int16 if lstm.wide else np.int8)
    shape = steps, batch, len(lstm.gates["i"].w[0])
    found = rng.integers(limits.min, limits.max + 1, shape)
    if rng.random() < 0.3:
        found = np.where(rng.random(shape) < 0.5, limits.min, limits.max)
    return found.astype(limits.dtype)
