"""Float graphs in which a pass can go wrong."""

import numpy as np
import onnx
import pytest

from calibration import Range
from opsets.target import load_target
from qpasses.ir.interchange import import_graph, prepared_model
from qpasses.ir.rewriting import Context, run_passes
from qpasses.ir.runtime import IR_VERSION, OPSET
from qpasses.ir.settings import Settings
from qpasses.ir.shapes import infer_shapes
from qpasses.lowering import INTEGERIZE
from qpasses.place.placement import place
from qpasses.place.planning import plan
from qpasses.prepare import PREPARE
from qpasses.prepare.canonical import prepare
from qpasses.prepare.remove_identity import RemoveIdentity
from tests.support.small_models import model, numbers
from tests.support.stage_checks import (
    CONSTANTS,
    check,
    float32,
    int64,
    net,
    normalization,
    random_feeds,
    run,
    stages,
)

TRAP_CONSTANTS = {
    **CONSTANTS,
    **{
        "rows": int64(4, 8),
        "m": numbers(8, 4),
        "column": numbers(4, 1),
        "full": numbers(4, 4),
    },
    **{"k": numbers(1, 2, 2, 2), "down": np.float32(-2), "least": np.float32(-3e38)},
    **{"infinite": float32(-np.inf, 0), **normalization(4, 0)},
    **{"x_scale": np.float32(3), "uint8_255": np.uint8(100), "fc.weight": numbers(4, 4)},
}


TRAPS = [
    "y = Conv (x, w3) z = Relu (y) => float[] y, float[] z",
    "y = Conv (x, w3) z = Identity (x) => float[] y, float[] z",
    "a = Conv (x, w3) b = Neg (a) y = Add (a, b)",
    "a = Pad (x, grow, least) b = MaxPool <kernel_shape = [2, 1]> (a) y = Conv (b, w)",
    # a tensor of the integer part that only a declined moving node reads
    "a = Conv (x, w3) b = Concat <axis = 0> (a, k) y = Conv (b, w)",
    "l = ReduceMin <keepdims = 0> (x) a = Conv (x, w3) b = Clip (a, l) y = Conv (b, w)",
    "a = Conv (x, w3) b, i = MaxPool <kernel_shape = [1, 1]> (a) y = Conv (b, w) z = Neg (i)"
    " => float[] y, int64[] z",
    # a second output that nothing reads, but that leaves
    "a = Conv (x, w3) y, i = MaxPool <kernel_shape = [1, 1]> (a) => float[] y, int64[] i",
    "a = Conv (x, w3) y, i = Dropout (a) => float[] y, bool[] i",
    # names that the toolkit would give
    "y = Conv (x, w3) z = Mul (x, x_scale) => float[] y, float[] z",
    "x_quantized = Conv (x, w3) y = Conv (x_quantized, w)",
    "[x_quantize] y = Conv (x, w3)",
    "a = Conv (x, w3) y = Clip (a, low) b = Cast <to = 2> (x) z = Max (b, uint8_255)"
    " => float[] y, uint8[] z",
    'f = Flatten <axis = 3> (x) [fc] y = Gemm <transB = 1> (f, "fc.weight")'
    ' z = MatMul (f, "fc.weight") => float[] y, float[] z',
    "a = Sum (x, x, x, x) b = Sum (a, x, a, x) y = Conv (b, w)",
    # biases of a Gemm that are no row
    "f = Reshape (x, rows) y = Gemm (f, m, full)",
    "f = Reshape (x, rows) y = Gemm (f, m, column)",
    "f = Reshape (x, rows) a = Gemm (f, m, full)"
    " y = BatchNormalization (a, gamma, beta, mean, var)",
    "f = Reshape (x, rows) a = Gemm (f, m, column)"
    " y = BatchNormalization (a, gamma, beta, mean, var)",
    # bounds that exclude each other: the last upper one wins
    "a = Conv (x, w3) r = Relu (a) y = Clip (r, down, low)",
    "a = Conv (x, w3) y = Clip (a, high, low)",
    "a = Conv (x, w3, infinite) y = Relu (a)",
    'a = Conv (x, w3) y = Pad <mode = "edge"> (a, grow, high)',
]


def trapped(text):
    body, _, outputs = text.partition(" => ")
    return net([1, 2, 4, 4], body, outputs=outputs or "float[] y", **TRAP_CONSTANTS)


@pytest.mark.thinned
@pytest.mark.parametrize("text", TRAPS)
def test_results_stay_close_to_float(text):
    made = trapped(text)
    feeds = random_feeds(made, 0)
    found = stages(made, feeds)
    check(found, feeds)
    results = (run(each, feeds) for each in (made, found.placed, found.integer))
    for real, placed, integer in zip(*results, strict=True):
        for other in (placed, integer):
            assert np.abs(other.astype(float) - real).max() <= 0.05 * np.abs(real).max()


def test_onnxruntime_runs_the_traps():
    for made in map(trapped, TRAPS):
        run(made, random_feeds(made, 0))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("double", "p = MatMul (x, m) y = Add (p, row)"),
        ("double", "y = Gemm <transB = 1> (x, m)"),
        ("double", "a = Unsqueeze (x, axis) y = BatchNormalization (a, row, row, row, row)"),
        ("int32", "y = MatMul (x, m)"),
    ],
)
def test_prepare_keeps_the_type_of_a_graph(kind, body):
    text = f"g ({kind}[2, 2] x) => ({kind}[] y) {{ {body} }}"
    dtype = {"double": np.float64, "int32": np.int32}[kind]
    weights = {"m": np.ones((2, 2), dtype), "row": np.ones(2, dtype), "axis": int64(2)}
    made = model(text, opset=OPSET, ir_version=IR_VERSION, **weights)
    graph = import_graph(infer_shapes(made))
    run_passes(PREPARE, graph, Context(Settings(load_target("onnx"))))
    run(prepared_model(graph), {"x": np.ones((2, 2), dtype)})


def test_dropout_in_training_mode_is_declined():
    text = "a = Abs (x) y = Dropout (a, half, true)"
    made = net([4], text, half=np.float32(0.5), true=np.array(True))
    graph, context = import_graph(infer_shapes(made)), Context(Settings(load_target("onnx")))
    run_passes([RemoveIdentity()], graph, context)
    assert [node.op for node in graph.nodes] == ["Abs", "Dropout"] and context.record.declined


def test_a_sum_of_one_leaves_no_node():
    made = net([1, 2, 4, 4], "a = Conv (x, w3) b = Sum (a) y = Conv (b, w)", **CONSTANTS)
    graph = prepare(made, random_feeds(made, 0), Context(Settings(load_target("onnx"))))
    assert [node.op for node in graph.nodes] == ["Conv", "Conv"]


def test_shape_arithmetic_is_not_reported_as_declined():
    body = "s = Shape (x) t = Add (s, zero) u = Concat <axis = 0> (t, four) y = Expand (x, u)"
    graph = import_graph(infer_shapes(net([1, 2, 4, 4], body, **CONSTANTS)))
    context = Context(Settings(load_target("onnx")))
    run_passes(INTEGERIZE, graph, context)
    assert context.record.declined == {}


def test_place_makes_a_valid_model():
    made = net([1, 2, 4, 4], "y = Conv (x, w3)", outputs="float[1, 2, 2, 2] y", **CONSTANTS)
    context = Context(Settings(load_target("onnx")))
    graph = prepare(made, None, context)
    chosen = plan(graph, context)
    place(graph, chosen, dict.fromkeys(chosen.tensors, Range(-1, 1)), context)
    onnx.checker.check_model(prepared_model(graph), full_check=True)
