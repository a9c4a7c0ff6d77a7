"""What onnxruntime's kernels cost on one thread: `make costs` writes qpasses/costs.toml.

By it each table of an integer graph gets the cheapest of the bodies that are equal to it
(qpasses/costs.py). Every kernel runs alone, on a small and on a large tensor: the difference
is what an element costs. What a node costs follows from a row of forty of them.
"""

import platform
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from rich.progress import track

from opsets.qpasses_v1 import OPS
from qpasses import costs
from qpasses.elementwise import COMBINING, ELEMENTWISE
from qpasses.runtime import IR_VERSION, OPSET, opset_imports
from qpasses.stages import LOOKUPS

SMALL, LARGE = 1 << 10, 1 << 17
ROUNDS = 15
BLOCK_SECONDS = 0.01
ROW = 40
"""So many nodes in a row tell what one costs beside its elements."""

Constants = Mapping[str, NDArray[Any]]

STORED: Constants = {
    "s": np.array(0.03, np.float32),
    "z": np.array(100, np.uint8),
    "t": np.array(0.02, np.float32),
    "u": np.array(7, np.uint8),
}


def run_time(nodes: list[onnx.NodeProto], x: Mapping[str, Any], constants: Constants) -> float:
    """The fastest of several blocks of runs, in seconds a run."""
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in x.items()
    ]
    graph = helper.make_graph(
        nodes,
        "kernel",
        inputs,
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    calls = [node for node in nodes if node.domain == "qpasses"]
    functions = [
        OPS[node.op_type].function(OPS[node.op_type].overload(node.overload), OPSET)
        for node in calls
    ]
    model = helper.make_model(
        graph,
        functions=functions,
        opset_imports=opset_imports(OPSET),
        ir_version=IR_VERSION,
    )
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = ort.InferenceSession(model.SerializeToString(), options)
    session.run(None, x)
    start = time.perf_counter()
    session.run(None, x)
    repeats = max(1, round(BLOCK_SECONDS / (time.perf_counter() - start)))
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(repeats):
            session.run(None, x)
        best = min(best, (time.perf_counter() - start) / repeats)
    return best


def kernels() -> Iterator[tuple[str, list[onnx.NodeProto], Constants, Any]]:
    """Name, node, constants and input type of everything a body of a table may run."""
    edge = ["x", "s", "z", "t", "u"]
    for name in ("QLinearSigmoid", "QLinearLeakyRelu"):
        node = helper.make_node(name, edge, ["y"], domain="com.microsoft")
        yield name, [node], STORED, np.uint8
    yield (
        "DequantizeLinear",
        [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"])],
        STORED,
        np.uint8,
    )
    yield (
        "QuantizeLinear",
        [helper.make_node("QuantizeLinear", ["x", "t", "u"], ["y"])],
        STORED,
        np.float32,
    )
    for name in sorted(ELEMENTWISE):
        inputs, constants = ["x"], dict[str, NDArray[Any]]()
        if name in COMBINING:
            inputs, constants = ["x", "c"], {"c": np.array(1.7, np.float32)}
        elif name == "Clip":
            inputs = ["x", "low", "high"]
            constants = {
                end: np.array(value, np.float32)
                for end, value in (("low", 0.2), ("high", 0.7))
            }
        attributes: dict[str, Any] = {"fmod": 1} if name == "Mod" else {}
        node = helper.make_node(name, inputs, ["y"], **attributes)
        yield name, [node], constants, np.float32


def tables(size: int) -> Iterator[tuple[str, list[onnx.NodeProto], Constants, dict[str, Any]]]:
    """The declared bodies that look entries up, as wholes, and a Transpose there and back."""
    rng = np.random.default_rng(0)
    shapes = {"Lut": (256,), "LutPair": (65536,), "LutPerChannel": (32, 256)}
    feature_map = rng.integers(0, 256, (1, 32, size // 256, 8), np.uint8)
    for name in sorted(LOOKUPS):
        given = ["a", "b"] if name == "LutPair" else ["x"]
        attributes: dict[str, Any] = {"axis": 1} if name == "LutPerChannel" else {}
        node = helper.make_node(name, [*given, "table"], ["y"], domain="qpasses", **attributes)
        node.overload = "onnxruntime"
        table = rng.integers(0, 256, shapes[name], np.uint8)
        yield name, [node], {"table": table}, dict.fromkeys(given, feature_map)
    there = helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 3, 1])
    yield "Transpose", [there], {}, {"x": feature_map}


def an_element(times: Mapping[int, float]) -> float:
    """Nanoseconds, from the seconds for both sizes."""
    return max(0.0, (times[LARGE] - times[SMALL]) / (LARGE - SMALL) * 1e9)


def a_node() -> float:
    """Nanoseconds of a node on hardly any elements."""
    row = [
        helper.make_node("Neg", [f"t{i}" if i else "x"], [f"t{i + 1}" if i < ROW - 1 else "y"])
        for i in range(ROW)
    ]
    x = {"x": np.ones(4, np.float32)}
    single = [helper.make_node("Neg", ["x"], ["y"])]
    return (run_time(row, x, {}) - run_time(single, x, {})) / (ROW - 1) * 1e9


def measure() -> tuple[float, dict[str, float]]:
    """What ``Costs`` holds."""
    rng, found = np.random.default_rng(0), {}
    for name, nodes, constants, dtype in track([*kernels()], "kernels", transient=True):
        times = {}
        for size in (SMALL, LARGE):
            real = rng.uniform(0.1, 0.9, size).astype(np.float32)
            x = real if dtype is np.float32 else (real * 255).astype(np.uint8)
            times[size] = run_time(nodes, {"x": x}, constants)
        found[name] = an_element(times)
    whole: dict[str, dict[int, float]] = {}
    for size in (SMALL, LARGE):
        for name, nodes, constants, feed in tables(size):
            whole.setdefault(name, {})[size] = run_time(nodes, feed, constants)
    return a_node(), found | {name: an_element(times) for name, times in whole.items()}


def main() -> None:
    """Measure, and write the table."""
    node, element = measure()
    lines = [
        "# Nanoseconds on one thread, by `make costs` (tests/bench/costs.py): of each node",
        "# that runs, and of each element by op type.",
        f"# onnxruntime {ort.__version__}, {platform.machine()}, {_processor()}",
        f"node = {node:.0f}",
        "",
        "[element]",
        *(f"{name} = {value:.2f}" for name, value in sorted(element.items())),
    ]
    Path(costs.__file__).with_name(costs.FILE).write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def _processor() -> str:
    """What Linux calls the processor."""
    info = Path("/proc/cpuinfo")
    named = info.read_text().splitlines() if info.exists() else []
    found = [line.split(":", 1)[1].strip() for line in named if line.startswith("model name")]
    return found[0] if found else platform.processor()


if __name__ == "__main__":
    main()
