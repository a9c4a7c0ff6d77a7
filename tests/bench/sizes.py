"""What graphs of thousands of nodes cost: each command, over what onnx and onnxruntime take.

``python -m tests.bench.sizes --nodes 20000 convs relus`` prints for each shape what quantize,
verify and inspect take, commands of their own, and over what reading the model, onnx's checker
and shape inference and one session of onnxruntime take.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

from calibration.silent import ort
from tests.bench.child import cost_of
from tests.bench.large_graphs import SHAPE, SHAPES

NODES = 2000


def seconds_of_others(path: Path) -> float:
    """Of reading, checking, inferring shapes and one session."""
    start = time.perf_counter()
    model = onnx.load(path)
    onnx.checker.check_model(model)
    onnx.shape_inference.infer_shapes(model, data_prop=True)
    ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return time.perf_counter() - start


def row_of(name: str, nodes: int, folder: Path) -> list[str]:
    """The shape, its size, what others take, what the commands take, and over the others."""
    model, integer, data = (folder / f"{name}{end}" for end in (".onnx", ".int8.onnx", ".npz"))
    onnx.save(SHAPES[name](nodes), model)
    np.savez(data, x=np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32))
    others = seconds_of_others(model)
    commands = (
        ("quantize", model, "--data", data, "-o", integer),
        ("verify", integer, "--against", model, "--data", data),
        ("inspect", integer),
    )
    costs = [cost_of(*each) for each in commands]
    shown = [f"{each.seconds:.1f} ({each.seconds / others:.1f})" for each in costs]
    return [name, f"{nodes:,}", f"{others:.1f}", *shown, f"{costs[0].megabytes:.0f}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", choices=[[], *SHAPES], metavar="SHAPE")
    parser.add_argument("--nodes", type=int, default=NODES)
    given = parser.parse_args()
    rows = Table("shape", "nodes", "others s", "quantize s", "verify s", "inspect s", "MB")
    with tempfile.TemporaryDirectory() as folder:
        for name in given.shapes or SHAPES:
            row = row_of(name, given.nodes, Path(folder))
            print(*row, file=sys.stderr, flush=True)
            rows.add_row(*row)
    Console(width=120).print(rows)


if __name__ == "__main__":
    main()
