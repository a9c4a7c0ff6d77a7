"""What a model of gigabytes costs: peak memory and time of each command, over its weights.

``python -m tests.bench.heavy --scale 1`` makes one of 2.1 GiB (Conv, Gemm, MatMul; random
numbers in a file beside it) in a temporary folder and prints the table. Not part of `make
bench`: it takes as much disk and a few minutes.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper
from rich.console import Console
from rich.table import Table

from tests.bench.child import cost_of

CHANNELS, COLUMNS, SIDE = 2048, 8192, 4

JUDGED = 8
"""So many samples: of fewer none are held back."""


@dataclass
class Draft:
    """Nodes and weights that grow together, from x on."""

    nodes: list[NodeProto] = field(default_factory=list)
    weights: list[TensorProto] = field(default_factory=list)
    last: str = "x"

    def add(self, op: str, *shapes: tuple[int, ...], **attributes: Any) -> None:
        """A node that reads what the last one wrote, and random weights of ``shapes``."""
        rng, name = np.random.default_rng(len(self.nodes)), f"t{len(self.nodes)}"
        read = [f"{name}.{place}" for place in range(len(shapes))]
        for each, shape in zip(read, shapes, strict=True):
            values = rng.standard_normal(shape, np.float32)
            values *= np.float32(len(values) ** -0.5)
            self.weights.append(numpy_helper.from_array(values, each))
        node = helper.make_node(op, [self.last, *read], [name], name, **attributes)
        self.nodes.append(node)
        self.last = name


def make(path: Path, scale: float) -> None:
    """Write the model to ``path``, its weights and a folder of samples beside it."""
    draft, channels, columns = Draft(), int(CHANNELS * scale), int(COLUMNS * scale)
    for _ in range(4):
        draft.add("Conv", (channels, channels, 3, 3), (channels,), pads=[1] * 4)
        draft.add("Relu")
    draft.add("Flatten")
    draft.add("Gemm", (columns, channels * SIDE**2), (columns,), transB=1)
    for _ in range(2):
        draft.add("Relu")
        draft.add("MatMul", (columns, columns))
    shape = [1, channels, SIDE, SIDE]
    ends = (("x", shape), (draft.last, [1, columns]))
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, sizes) for n, sizes in ends)
    graph = helper.make_graph(draft.nodes, "heavy", [x], [y], draft.weights)
    imports = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    onnx.save(model, path, save_as_external_data=True, location="weights")
    path.with_suffix("").mkdir()
    for place in range(JUDGED):
        numbers = np.random.default_rng(place).standard_normal(shape, np.float32)
        np.savez(path.with_suffix("") / f"{place}.npz", x=numbers)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    given = parser.parse_args()
    rows = Table("command", "seconds", "MiB", "over the weights")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "heavy.onnx"
        make(model, given.scale)
        size = (model.parent / "weights").stat().st_size / (1 << 20)
        data, integer = model.with_suffix(""), Path(folder) / "heavy.int8.onnx"
        table, qdq = Path(folder) / "heavy.table", Path(folder) / "heavy.qdq.onnx"
        kept, to_qdq = Path(folder) / "heavy.kept.onnx", ("--emit", "qdq", "-o", qdq)
        commands: dict[str, Sequence[object]] = {
            "calibrate": ("calibrate", model, "--data", data, "-o", table),
            "quantize, fast": (
                "quantize",
                model,
                "--data",
                data,
                "--accuracy",
                "fast",
                "-o",
                integer,
            ),
            "quantize": ("quantize", model, "--data", data, "-o", integer),
            "verify": ("verify", integer, "--against", model, "--data", data),
            "inspect": ("inspect", integer),
            "quantize to Q/DQ": ("quantize", model, "--data", data, *to_qdq),
            "integerize that": ("integerize", qdq, "-o", kept),
            "verify against that": ("verify", kept, "--against", qdq, "--data", data),
        }
        for name, command in commands.items():
            cost = cost_of(*command)
            shown = f"{cost.seconds:.0f}", f"{cost.megabytes:.0f}"
            rows.add_row(name, *shown, f"{cost.megabytes / size:.2f}")
    Console(width=120).print(rows)


if __name__ == "__main__":
    main()
