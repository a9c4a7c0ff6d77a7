"""Functions and chains as tables against their Q/DQ sandwich, in nanoseconds per element.

`make bench` runs it. Each function becomes one integer node by `quantize`; the same node then
runs with every body that is equal to its table: the lookup, the float function between
DequantizeLinear and QuantizeLinear (the sandwich, which onnxruntime fuses where it can), its
own quantized kernels. The last column is the body that `quantize` chose.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
from rich.console import Console
from rich.progress import track
from rich.table import Table

from opsets.errors import DataError
from qpasses.api import quantize
from qpasses.emit.integer import emit_integer
from qpasses.emit.overloads import with_bodies
from qpasses.emit.provenance import Provenance
from qpasses.evidence.bodies import form, made_bodies
from qpasses.ir.elementwise import UNARY
from qpasses.ir.interchange import import_graph
from qpasses.ir.metadata import read_record
from qpasses.ir.runtime import IR_VERSION, OPSET
from qpasses.ir.stages import CLAMPING
from tests.bench.interleaved import interleaved

SHAPE = (1, 32, 56, 56)
LOOKUP, SANDWICH = "onnxruntime", "onnxruntime_float"

CHAINS = {
    "SiLU": "s = Sigmoid (x) y = Mul (x, s)",
    "HardSwish (Add, Clip, Mul, Div)": """
        three = Constant <value = float {3}> () six = Constant <value = float {6}> ()
        zero = Constant <value = float {0}> ()
        a = Add (x, three) b = Clip (a, zero, six) c = Mul (x, b) y = Div (c, six)""",
    "HardSigmoid times x": "s = HardSigmoid <alpha = 0.1666667> (x) y = Mul (x, s)",
    "HardSwish times x": "s = HardSwish (x) y = Mul (x, s)",
    "Mish (Softplus, Tanh, Mul)": "a = Softplus (x) b = Tanh (a) y = Mul (x, b)",
    "GELU (Div, Erf, Add, Mul, Mul)": """
        root = Constant <value = float {1.4142135}> () one = Constant <value = float {1}> ()
        half = Constant <value = float {0.5}> ()
        a = Div (x, root) b = Erf (a) c = Add (b, one) d = Mul (x, c) y = Mul (d, half)""",
}


def functions() -> dict[str, str]:
    """Name to nodes: every function of one number, then the chains."""
    single = {op: f"y = {op} (x)" for op in sorted(UNARY - CLAMPING - {"Clip"})}
    return single | CHAINS


RANGES = (-4, 4), (0.1, 4), (1, 4), (-0.9, 0.9)
"""Of the inputs: the first on which the function is finite."""


def integer_model(nodes: str) -> onnx.ModelProto:
    """The function from stored input to stored output."""
    header = f'<ir_version: {IR_VERSION}, opset_import: ["" : {OPSET}]>'
    sizes = ", ".join(map(str, SHAPE))
    text = f"{header} g (float[{sizes}] x) => (float[{sizes}] y) {{ {nodes} }}"
    rng, problem = np.random.default_rng(0), None
    for low, high in RANGES:
        feed = {"x": rng.uniform(low, high, SHAPE).astype(np.float32)}
        try:
            made = quantize(onnx.parser.parse_model(text), [feed], integer_io=True).model
        except DataError as error:  # NaN or infinite
            problem = error
            continue
        assert made is not None
        return made
    raise problem or DataError("no range was tried")


def bodies(made: onnx.ModelProto) -> tuple[dict[str, onnx.ModelProto], str]:
    """By form, the integer model of one table with each equal body; the chosen form."""
    graph, record = import_graph(made), read_record(made)[0]
    (node,) = graph.nodes
    entry = record.nodes[node.name]
    chosen = form(entry.overload)
    models = {LOOKUP: with_bodies(with_bodies(made, "portable"), "onnxruntime")}
    for body in made_bodies(node, record):
        if entry.costs.get(form(body.overload)) is not None or form(body.overload) == SANDWICH:
            entry.overload = body.overload
            models[form(body.overload)] = emit_integer(graph, record, Provenance("", "", {}))
    return models, chosen


def nanoseconds(
    models: Mapping[str, onnx.ModelProto], stored: np.ndarray, threads: int, rounds: int
) -> dict[str, float]:
    """Per element, the median of interleaved rounds."""
    runners = {}
    for name, model in models.items():
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4
        runners[name] = ort.InferenceSession(model.SerializeToString(), options)
    (given,) = (value.name for value in next(iter(runners.values())).get_inputs())

    runs = [partial(each.run, None, {given: stored}) for each in runners.values()]
    times = np.median(interleaved(runs, rounds), axis=0) / stored.size * 1e9
    return dict(zip(runners, times.tolist(), strict=True))


def show(rows: Sequence[tuple[str, ...]], rounds: int) -> None:
    """One line for each function."""
    title = f"ns per element of {list(SHAPE)}, 1 / 2 threads, median of {rounds} rounds"
    table = Table(title=title)
    table.add_column("function")
    for name in ("table", "sandwich", "chosen", "chosen / sandwich"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("body")
    for row in rows:
        table.add_row(*row, end_section=row[0] == "ThresholdedRelu")
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="default: %(default)s")
    parser.add_argument("functions", nargs="*", metavar="NAME", help="default: all")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    stored = rng.integers(0, 256, SHAPE, np.uint8)
    rows = []
    wanted = {k: v for k, v in functions().items() if k in (options.functions or [k])}
    for name, nodes in track(wanted.items(), "tables", transient=True):
        models, chosen = bodies(integer_model(nodes))
        found = [nanoseconds(models, stored, threads, options.rounds) for threads in (1, 2)]
        ratios = [each[chosen] / each[SANDWICH] for each in found]
        cells = [
            " / ".join(f"{each[form]:.2f}" for each in found)
            for form in (LOOKUP, SANDWICH, chosen)
        ]
        rows.append((name, *cells, " / ".join(f"{r:.2f}" for r in ratios), chosen))
    show(rows, options.rounds)


if __name__ == "__main__":
    main()
