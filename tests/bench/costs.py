"""What onnxruntime's kernels cost on one thread: `make costs` writes costs.toml of evidence/.

By it each table of an integer graph gets the cheapest of the bodies that are equal to it
(qpasses/evidence/costs.py). Float kernels run where they would, between DequantizeLinear and
QuantizeLinear, and once more behind a Neg that keeps onnxruntime from fusing the three; the
time without them is taken off, the larger result counts. The difference of a small and a large
tensor is what an element costs; what a node costs follows from a row of forty.
"""

import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from rich.progress import track

from opsets.op import DOMAIN, Constants
from opsets.qpasses_v1 import OPS
from qpasses.evidence import costs
from qpasses.evidence.costs import TWO
from qpasses.ir.elementwise import COMBINING, ELEMENTWISE
from qpasses.ir.runtime import IR_VERSION, OPSET, opset_imports
from qpasses.ir.stages import LOOKUPS

SMALL, LARGE = 1 << 10, 1 << 18
ROUNDS = 15
BLOCK_SECONDS = 0.01
ROW = 40
"""So many nodes in a row tell what one costs beside its elements."""

WAVE = 61
"""After so many elements the codes repeat."""


RANGES = (-4, 4), (0.1, 4), (1, 4), (-0.9, 0.9)
"""Of what a kernel reads: the first on which it is finite."""


def session_of(
    graph: onnx.GraphProto, functions: Sequence[onnx.FunctionProto] = ()
) -> ort.InferenceSession:
    """``graph`` on one thread, with the functions that its nodes call."""
    model = helper.make_model(
        graph,
        functions=functions,
        opset_imports=opset_imports(OPSET),
        ir_version=IR_VERSION,
    )
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return ort.InferenceSession(model.SerializeToString(), options)


def run_time(
    nodes: list[onnx.NodeProto],
    x: Mapping[str, Any],
    constants: Constants,
    functions: Sequence[onnx.FunctionProto] = (),
) -> float:
    """The fastest of several blocks of runs, in seconds a run."""
    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in x.items()
    ]
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    ends = [onnx.ValueInfoProto(name="y")]
    session = session_of(helper.make_graph(nodes, "kernel", given, ends, tensors), functions)

    def block(repeats: int) -> float:
        start = time.perf_counter()
        for _ in range(repeats):
            session.run(None, x)
        return (time.perf_counter() - start) / repeats

    repeats = max(1, round(BLOCK_SECONDS / min(block(1) for _ in range(5))))
    return min(block(repeats) for _ in range(ROUNDS))


def edges(low: float, high: float) -> Constants:
    """Scales and zero points: x from -``high`` to -``low``, so that Neg gives the range."""
    scale = (high - low) / 255
    return {
        "x_scale": np.array(scale, np.float32),
        "x_zero": np.array(round(high / scale) if low < 0 else 255, np.uint8),
        "y_scale": np.array(0.02, np.float32),
        "y_zero": np.array(7, np.uint8),
    }


def dequantize_to(tensor: str) -> onnx.NodeProto:
    """``tensor`` of stored x."""
    return helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero"], [tensor])


DEQUANTIZE = dequantize_to("real")
NEGATE = helper.make_node("Neg", ["real"], ["x_real"])


def quantized(tensor: str) -> onnx.NodeProto:
    """``tensor`` stored as y."""
    return helper.make_node("QuantizeLinear", [tensor, "y_scale", "y_zero"], ["y"])


def kernel(name: str, size: int = 1) -> tuple[onnx.NodeProto, Constants]:
    """From x_real to y_real, with a constant of ``size`` where the op combines two numbers."""
    constants: dict[str, NDArray[Any]] = {}
    inputs, attributes, domain = ["x_real"], dict[str, Any](), ""
    if name in COMBINING:
        inputs, constants = ["x_real", "c"], {"c": np.full(size, 1.7, np.float32)}
    elif name == "Clip":
        inputs = ["x_real", "low", "high"]
        ends = (("low", 0.2), ("high", 0.7))
        constants = {end: np.array(value, np.float32) for end, value in ends}
    if name == "Mod":
        attributes = {"fmod": 1}
    elif name == "QuickGelu":
        attributes, domain = {"alpha": 1.0}, "com.microsoft"
    return (
        helper.make_node(name, inputs, ["y_real"], domain=domain, **attributes),
        constants,
    )


def range_of(name: str) -> tuple[float, float]:
    """The first of ``RANGES`` on which a kernel is finite."""
    node, constants = kernel(name)
    for low, high in RANGES:
        x = np.linspace(low, high, 64, dtype=np.float32)
        tensors = [numpy_helper.from_array(value, key) for key, value in constants.items()]
        given = [helper.make_tensor_value_info("x_real", onnx.TensorProto.FLOAT, [64])]
        ends = [onnx.ValueInfoProto(name="y_real")]
        graph = helper.make_graph([node], "kernel", given, ends, tensors)
        (y,) = session_of(graph).run(None, {"x_real": x})
        if np.isfinite(y).all():
            return low, high
    raise SystemExit(f"{name} is finite on none of {RANGES}")


def stored_codes(size: int) -> dict[str, NDArray[Any]]:
    """All codes, neighbours alike as in a picture: kernels that branch depend on that."""
    wave = np.sin(np.arange(size) * 2 * np.pi / WAVE)
    return {"x": np.rint(127.5 + 127.5 * wave).astype(np.uint8)}


def by_size(
    nodes: list[onnx.NodeProto], constants: Constants, sizes: Sequence[int] = (SMALL, LARGE)
) -> float:
    """Nanoseconds an element, of nodes from stored x to y, in a function as bodies are."""
    given = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))
        for name, value in constants.items()
    ]
    body = helper.make_function(
        DOMAIN, "Kernel", ["x"], ["y"], [*given, *nodes], opset_imports(OPSET)[:2]
    )
    call = helper.make_node("Kernel", ["x"], ["y"], domain=DOMAIN)
    return an_element(
        {size: run_time([call], stored_codes(size), {}, [body]) for size in sizes}
    )


def float_kernels() -> dict[str, float]:
    """Every kernel that a body in float may run, and its edges."""
    usual = edges(*RANGES[0])
    found = {"DequantizeLinear": by_size([dequantize_to("y")], usual)}
    bare = by_size([DEQUANTIZE, quantized("real")], usual)
    found["QuantizeLinear"] = bare - found["DequantizeLinear"]
    negated = by_size([DEQUANTIZE, NEGATE, quantized("x_real")], usual)
    found["Neg"] = negated - bare
    for name in track(sorted(ELEMENTWISE | {"QuickGelu"}), "kernels", transient=True):
        if name not in found:
            node, constants = kernel(name)
            constants = {**edges(*range_of(name)), **constants}
            behind = [DEQUANTIZE, NEGATE, node, quantized("y_real")]
            between = [dequantize_to("x_real"), node, quantized("y_real")]
            times = by_size(behind, constants) - negated, by_size(between, constants) - bare
            found[name] = max(0.0, *times)
    start = by_size([DEQUANTIZE, NEGATE, quantized("x_real")], usual, [LARGE])
    for name in track(sorted(COMBINING), "combining", transient=True):
        node, constants = kernel(name, LARGE)
        row = [DEQUANTIZE, NEGATE, node, quantized("y_real")]
        seconds = by_size(row, {**edges(*range_of(name)), **constants}, [LARGE])
        found[name + TWO] = max(found[name], seconds - start)
    return found


def quantized_kernels() -> dict[str, float]:
    """The kernels of onnxruntime that hold a table of their own."""
    ends = ["x", "x_scale", "x_zero", "y_scale", "y_zero"]
    return {
        name: by_size(
            [helper.make_node(name, ends, ["y"], domain="com.microsoft")], edges(*RANGES[0])
        )
        for name in ("QLinearSigmoid", "QLinearLeakyRelu")
    }


def tables(size: int) -> Iterator[tuple[str, float]]:
    """Name and seconds of the declared bodies that look entries up, and of a Transpose."""
    rng = np.random.default_rng(0)
    shapes = {"Lut": (256,), "LutPair": (65536,), "LutPerChannel": (32, 256)}
    feature_map = rng.integers(0, 256, (1, 32, size // 256, 8), np.uint8)
    for name in sorted(LOOKUPS):
        given = ["a", "b"] if name == "LutPair" else ["x"]
        attributes: dict[str, Any] = {"axis": 1} if name == "LutPerChannel" else {}
        node = helper.make_node(name, [*given, "table"], ["y"], domain=DOMAIN, **attributes)
        node.overload = "onnxruntime"
        table = rng.integers(0, 256, shapes[name], np.uint8)
        body = OPS[name].function(OPS[name].overload(node.overload), OPSET)
        feed = dict.fromkeys(given, feature_map)
        yield name, run_time([node], feed, {"table": table}, [body])
    there = helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 3, 1])
    yield "Transpose", run_time([there], {"x": feature_map}, {})


def an_element(times: Mapping[int, float]) -> float:
    """Nanoseconds, from the seconds for both sizes; from one, a node's own time included."""
    start = times.get(SMALL, 0.0)
    return max(0.0, (times[LARGE] - start) / (LARGE - SMALL * (SMALL in times)) * 1e9)


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
    found = float_kernels() | quantized_kernels()
    whole: dict[str, dict[int, float]] = {}
    for size in (SMALL, LARGE):
        for name, seconds in tables(size):
            whole.setdefault(name, {})[size] = seconds
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
        *(
            f'"{name}" = {value:.2f}' if TWO in name else f"{name} = {value:.2f}"
            for name, value in sorted(element.items())
        ),
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
