"""Nanoseconds per element of each op: compiled kernel, body, onnxruntime's float op, a copy.

`make bench` runs it. Each graph of one op becomes one integer node by `quantize`, without the
edges. Elements are those of the first input; a copy moves as many bytes.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnx.parser
from rich.console import Console
from rich.progress import track
from rich.table import Table

from qpasses.api import quantize
from qpasses.ir.runtime import IR_VERSION, OPSET
from tests.bench.interleaved import interleaved
from tests.bench.latency import runner

_WINDOW = "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]"
_TWICE = "s = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> ()"
_AXES = "a = Constant <value_ints = [2, 3]> ()"
_NORM = "w = ConstantOfShape <value = float[1] {1}> (n) b = ConstantOfShape (n)"

PICTURE = "1, 64, 56, 56"
GRAPHS = {
    "Add": (f"[{PICTURE}] x, float[{PICTURE}] z", "y = Add (x, z)"),
    "Add, rows": (f"[{PICTURE}] x, float[64, 1, 1] z", "y = Add (x, z)"),
    "Mul": (f"[{PICTURE}] x, float[{PICTURE}] z", "y = Mul (x, z)"),
    "HardSwish": (f"[{PICTURE}] x", "y = HardSwish (x)"),
    "Softmax, 98": ("[4, 98, 98] x", "y = Softmax (x)"),
    "Softmax, 1000": ("[16, 1000] x", "y = Softmax (x)"),
    "LogSoftmax, 1000": ("[16, 1000] x", "y = LogSoftmax (x)"),
    "LayerNormalization, 64": (
        "[1, 98, 64] x",
        f"n = Constant <value_ints = [64]> () {_NORM} y = LayerNormalization (x, w, b)",
    ),
    "LayerNormalization, 768": (
        "[1, 98, 768] x",
        f"n = Constant <value_ints = [768]> () {_NORM} y = LayerNormalization (x, w, b)",
    ),
    "InstanceNormalization": (
        f"[{PICTURE}] x",
        f"n = Constant <value_ints = [64]> () {_NORM} y = InstanceNormalization (x, w, b)",
    ),
    "ReduceMean": (f"[{PICTURE}] x", f"{_AXES} y = ReduceMean (x, a)"),
    "ReduceSum, last axis": (
        "[64, 3136] x",
        "o = Constant <value_ints = [-1]> () y = ReduceSum (x, o)",
    ),
    "AveragePool": (f"[{PICTURE}] x", f"y = AveragePool <{_WINDOW}> (x)"),
    "AveragePool, all cells": (
        f"[{PICTURE}] x",
        f"y = AveragePool <{_WINDOW}, count_include_pad = 1> (x)",
    ),
    "Resize, linear": ("[1, 64, 28, 28] x", f'{_TWICE} y = Resize <mode = "linear"> (x, , s)'),
    "MatMul": ("[4, 98, 64] x, float[4, 64, 98] z", "y = MatMul (x, z)"),
}
"""Name to the inputs and the nodes."""

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_SEQUENCES = [
    *(("LSTM", 64, 1, size) for size in (32, 64, 128, 256, 512)),
    *(("LSTM", 16, 8, size) for size in (32, 128, 512)),
    *((op, 64, 1, size) for op in ("GRU", "RNN") for size in (32, 128, 512)),
    *((op, 16, 8, 128) for op in ("GRU", "RNN")),
]
"""Ops, steps, sequences, and their inputs, which are as many as units of the state."""

GRAPHS |= {
    f"{op}, {steps} steps of {batch} x {size}": (
        f"[{steps}, {batch}, {size}] x",
        f"y = {op} <hidden_size = {size}> (x, w, w)",
    )
    for op, steps, batch, size in _SEQUENCES
}


def graphs(inputs: str, nodes: str) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The float graph, and the integer one without edges; w: weights of a recurrent node."""
    header = f'<ir_version: {IR_VERSION}, opset_import: ["" : {OPSET}]>'
    made = onnx.parser.parse_model(f"{header} g (float{inputs}) => (float y) {{ {nodes} }}")
    made.graph.output[0].type.tensor_type.ClearField("shape")
    rng = np.random.default_rng(0)
    for node in made.graph.node:
        if node.op_type in _GATES:
            size = node.attribute[0].i
            weights = rng.normal(size=(1, _GATES[node.op_type] * size, size)) / size**0.5
            stored = onnx.numpy_helper.from_array(weights.astype(np.float32), "w")
            made.graph.initializer.append(stored)
    made = onnx.shape_inference.infer_shapes(made)
    feeds = [
        _feed(made, lambda shape: np.asarray(rng.normal(size=shape), np.float32)) for _ in "12"
    ]
    integer = quantize(made, feeds, integer_io=True).model
    assert integer is not None
    return made, integer


def _feed(model: onnx.ModelProto, draw: Callable[..., np.ndarray]) -> dict[str, np.ndarray]:
    sizes = {each.name: each.type.tensor_type.shape.dim for each in model.graph.input}
    return {name: draw([dim.dim_value for dim in dims]) for name, dims in sizes.items()}


def nanoseconds(inputs: str, nodes: str, rounds: int) -> list[float]:
    """Per element: kernel, body, float, copy; medians of interleaved rounds."""
    real, integer = graphs(inputs, nodes)
    rng = np.random.default_rng(0)
    stored = _feed(integer, lambda shape: rng.integers(0, 256, shape, np.uint8))
    floats = _feed(real, lambda shape: np.asarray(rng.normal(size=shape), np.float32))
    (first, *_) = stored.values()
    runners = [runner(integer, 1, True), runner(integer, 1, False), runner(real, 1, False)]
    runs = zip(runners, [stored, stored, floats], strict=True)
    work: list[Callable[[], Any]] = [partial(each.run, None, feed) for each, feed in runs]
    work.append(partial(np.copyto, np.empty_like(first), first))
    times = interleaved(work, rounds)
    return [float(each) / first.size * 1e9 for each in np.median(times, axis=0)]


def show(rows: Sequence[tuple[str, list[float]]], rounds: int) -> None:
    """One line for each op."""
    table = Table(title=f"ns per element, one thread, median of {rounds} rounds")
    table.add_column("op")
    for name in ("kernel", "body", "float", "copy", "kernel / body", "kernel / float"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, found in rows:
        kernel, body, real, _ = found
        cells = [f"{each:.3f}" for each in found]
        table.add_row(name, *cells, f"{kernel / body:.2f}", f"{kernel / real:.2f}")
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="default: %(default)s")
    parser.add_argument("ops", nargs="*", metavar="NAME", help="default: all")
    options = parser.parse_args()
    wanted = {name: each for name, each in GRAPHS.items() if name in (options.ops or [name])}
    rows = [
        (name, nanoseconds(*each, options.rounds))
        for name, each in track(wanted.items(), "kernels", transient=True)
    ]
    show(rows, options.rounds)


if __name__ == "__main__":
    main()
