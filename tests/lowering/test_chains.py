"""Elementwise chains: one table each, which is what onnxruntime makes of all 256 codes."""

import json
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import qpasses
from opsets.errors import ModelError, QPassesError
from opsets.op import DOMAIN
from qpasses import verify
from qpasses.ir.elementwise import COMBINING, UNARY
from qpasses.ir.function import Function
from qpasses.load.integer_model import read_integer_model
from tests.support.commands import MODEL, Desk, assert_refused
from tests.support.small_models import model, numbers, session
from tests.support.thoroughness import thoroughly

SETTINGS = {
    "uint8": {},
    "int8": {"activation_type": "int8"},
    "symmetric uint8": {"symmetric": True},
    "symmetric int8": {"activation_type": "int8", "symmetric": True},
}
every_setting = pytest.mark.parametrize("setting", SETTINGS)

SHAPE = 1, 2, 4, 4

NUMBERS = {
    "half": np.float32(0.5),
    "two": np.float32(2),
    "three": np.float32(3),
    "six": np.float32(6),
    "sixth": np.float32(1 / 6),
    "zero": np.float32(0),
    "one": np.float32(1),
    "four": np.full((1, 1, 1, 1), 4, np.float32),
    "root2": np.float32(2**0.5),
    "cubic": np.float32(0.044715),
    "outer": np.float32(0.7978846),
    "cube": np.int64(3),
    "w": np.eye(2, dtype=np.float32)[:, :, None, None],
    "v": numbers(3, 2, 1, 1),
    "full": numbers(1, 2, 4, 4),
}


quantize = partial(qpasses.quantize, layout="nchw")


def anywhere(seed):
    return 2 * numbers(*SHAPE, seed=seed)


def between(low, high):
    return lambda seed: np.random.default_rng(seed).uniform(low, high, SHAPE).astype("f4")


ALONE, BETWEEN = "{body}", "x = Conv (i, w) {body} o = Conv (y, v)"
"""A chain from x to y as the whole model, and between two convolutions."""


def net(body, place=ALONE, outputs=None):
    """The model of ``body``, in ONNX's text, which makes y of x."""
    text = place.format(body=body)
    given, result = ("x", "y") if place == ALONE else ("i", "o")
    outputs = outputs or f"float[{'N, 2' if place == ALONE else 'N, 3'}, 4, 4] {result}"
    used = {
        name: v for name, v in NUMBERS.items() if f" {name}," in text or f" {name})" in text
    }
    used |= {name: NUMBERS[name] for name in NUMBERS if f"({name}," in text}
    graph = f"g (float[N, 2, 4, 4] {given}) => ({outputs}) {{ {text} }}"
    return model(graph, opset=20, **used)


def samples(made, values=anywhere):
    name = made.graph.input[0].name
    return [{name: values(seed)} for seed in range(3)]


@dataclass(frozen=True)
class Table:
    """One Lut of an integer model: what it is a table of, and what the record says of it."""

    source: str
    end: str
    x: object
    y: object
    values: np.ndarray
    entry: object


def tables(integer):
    """Every Lut of an emitted model, in order."""
    read = read_integer_model(integer, "made")
    found = []
    for node in read.graph.nodes:
        if node.op == "Lut":
            ends = node.inputs[0].name, node.outputs[0].name
            meanings = [read.record.tensors[name] for name in ends]
            values, entry = node.inputs[1].values, read.record.nodes[node.name]
            names = [name.removesuffix("_quantized") for name in ends]
            found.append(Table(*names, *meanings, values, entry))
    return found


def in_onnxruntime(original, table):
    """DequantizeLinear, the nodes of ``original``, QuantizeLinear: by byte of the code.

    Also where the real result is NaN.
    """
    writers = {name: node for node in original.graph.node for name in node.output}
    needed, waiting = [], [table.end]
    while waiting:
        name = waiting.pop()
        if name in writers and name != table.source and writers[name] not in needed:
            needed.append(writers[name])
            waiting += writers[name].input
    nodes = [node for node in original.graph.node if node in needed]
    constants = [
        numpy_helper.from_array(value, f"{name}_of_test")
        for side, name in ((table.x, "x"), (table.y, "y"))
        for value, name in ((np.float32(side.scale), f"{name}s"), (side.zero, f"{name}z"))
    ]
    parameters = [tensor.name for tensor in constants]
    before = helper.make_node(
        "DequantizeLinear", ["x_of_test", *parameters[:2]], [table.source]
    )
    after = helper.make_node("QuantizeLinear", [table.end, *parameters[2:]], ["y_of_test"])
    stored = {"uint8": onnx.TensorProto.UINT8, "int8": onnx.TensorProto.INT8}
    shape = [256, 1, 1, 1]
    graph = helper.make_graph(
        [before, *nodes, after],
        "g",
        [helper.make_tensor_value_info("x_of_test", stored[table.x.dtype], shape)],
        [
            helper.make_tensor_value_info("y_of_test", stored[table.y.dtype], None),
            helper.make_tensor_value_info(table.end, onnx.TensorProto.FLOAT, None),
        ],
        [*constants, *original.graph.initializer],
    )
    made = helper.make_model(graph, opset_imports=original.opset_import, ir_version=8)
    codes = np.arange(256, dtype=np.uint8).view(table.x.dtype).reshape(shape)
    found, real = session(made, optimize=False).run(None, {"x_of_test": codes})
    return found.ravel(), np.isnan(real.ravel())


def check_tables(original, integer):
    """Each table holds what onnxruntime computes, where that is defined; else a neighbour."""
    found = tables(integer)
    for table in found:
        expected, missing = in_onnxruntime(original, table)
        assert table.values.dtype == expected.dtype
        codes = np.arange(256, dtype=np.uint8).view(table.x.dtype).astype(int)
        assert list(table.entry.undefined) == sorted(codes[missing].tolist())
        defined = np.sort(codes[~missing])
        nearest = defined[np.abs(codes[:, None] - defined).argmin(axis=1)]  # the lower of two
        assert table.values.tolist() == expected[nearest & 255].tolist()
    return found


def quantized(made, values=anywhere, **settings):
    """``made``, integer only and verified, its tables those of onnxruntime."""
    feeds = samples(made, values)
    result = quantize(made, feeds, **settings)
    assert (result.verdict, result.report["summary"]["because"]) == ("ok", [])
    edges = {"QuantizeLinear", "DequantizeLinear"}
    outer = {node.op_type for node in result.model.graph.node if node.domain != DOMAIN}
    assert outer <= edges | {"Clip", "MaxPool"}
    assert all(each.reference_max_lsb <= 1 for each in result.evidence)
    check_tables(made, result.model)
    checked = verify(result.model, made, feeds)
    assert (checked.verdict, checked.report["summary"]["problems"]) == ("ok", [])
    return result


def ops_of(result):
    """The integer nodes, without those at the edges."""
    nodes = result.model.graph.node
    return [
        n.op_type for n in nodes if "quantizeL" not in n.op_type and "Quant" not in n.op_type
    ]


# Every op

SOME_UNARY = {
    **{op: (f"{op} (x)", anywhere) for op in sorted(UNARY)},
    "Acos": ("Acos (x)", between(-0.99, 0.99)),
    "Acosh": ("Acosh (x)", between(1, 5)),
    "Asin": ("Asin (x)", between(-0.99, 0.99)),
    "Atanh": ("Atanh (x)", between(-0.9, 0.9)),
    "Celu": ("Celu <alpha = 0.7> (x)", anywhere),
    "Elu": ("Elu <alpha = 0.7> (x)", anywhere),
    "Gelu, tanh": ('Gelu <approximate = "tanh"> (x)', anywhere),
    "HardSigmoid": ("HardSigmoid <alpha = 0.3, beta = 0.4> (x)", anywhere),
    "LeakyRelu": ("LeakyRelu <alpha = 0.1> (x)", anywhere),
    "Log": ("Log (x)", between(0.1, 5)),
    "Reciprocal": ("Reciprocal (x)", between(0.2, 4)),
    "Shrink": ("Shrink <bias = 0.5, lambd = 1.5> (x)", anywhere),
    "Sqrt": ("Sqrt (x)", between(0, 5)),
    "ThresholdedRelu": ("ThresholdedRelu <alpha = 0.7> (x)", anywhere),
}
del SOME_UNARY["Relu"], SOME_UNARY["Clip"]  # no table on their own

SOME_COMBINING = {
    "Add": (["Add (x, three)", "Add (three, x)", "Add (x, x)"], anywhere),
    "Div": (["Div (x, three)", "Div (three, x)", "Div (x, x)"], between(0.2, 4)),
    "Max": (["Max (x, half)", "Max (half, x)", "Max (x, x, zero)", "Max (x)"], anywhere),
    "Mean": (["Mean (x, half)", "Mean (half, x, two)", "Mean (x, x)"], anywhere),
    "Min": (["Min (x, half)", "Min (half, x)", "Min (x, x, zero)", "Min (x)"], anywhere),
    "Mod": ([f"Mod <fmod = 1> ({e})" for e in ("x, two", "two, x", "x, x")], between(0.5, 4)),
    "Mul": (["Mul (x, half)", "Mul (half, x)", "Mul (x, x)", "Mul (x, four)"], anywhere),
    "PRelu": (["PRelu (x, half)", "PRelu (x, x)"], anywhere),
    "Pow": (["Pow (x, half)", "Pow (x, cube)", "Pow (two, x)", "Pow (x, x)"], between(0, 3)),
    "Sub": (["Sub (x, three)", "Sub (three, x)", "Sub (x, x)"], anywhere),
    "Sum": (["Sum (x, three)", "Sum (half, x, x)", "Sum (x, x, x, two)"], anywhere),
}
EVERY = [
    *SOME_UNARY.values(),
    *[(body, values) for bodies, values in SOME_COMBINING.values() for body in bodies],
]
FOLDED = {"Add (x, three)", "Add (three, x)", "Sum (x, three)"}
"""What a convolution before them takes into its bias, if nobody else reads it."""


def of_one_range(every):
    """Ops that read the same x: one model computes them all, each from x to its own output."""
    groups = {}
    for op, values in every:
        groups.setdefault(values, []).append(op)
    pairs = [(ops, values) for values, ops in groups.items()]
    return pytest.mark.parametrize(("ops", "values"), pairs, ids=[ops[0] for ops, _ in pairs])


def side_by_side(ops, step, place=ALONE, channels=2):
    """A model of ``step`` for each op: the first writes o0, the next o1..., all outputs."""
    lines = [step.format(op=op, i=i) for i, op in enumerate(ops)]
    ends = [f"float[N, {channels}, 4, 4] o{i}" for i in range(len(ops))]
    return net(" ".join(lines), place, ", ".join(ends))


def test_every_elementwise_op_has_a_case():
    assert {name.split(",")[0] for name in SOME_UNARY} == UNARY - {"Relu", "Clip"}
    assert SOME_COMBINING.keys() == COMBINING


@pytest.mark.thinned
@every_setting
@of_one_range(EVERY)
def test_an_op_from_input_to_output_is_one_table(ops, values, setting):
    result = quantized(side_by_side(ops, "o{i} = {op}"), values, **SETTINGS[setting])
    assert ops_of(result) == ["Lut"] * len(ops)
    ends = {(table.source, table.end) for table in tables(result.model)}
    assert ends == {("x", f"o{i}") for i in range(len(ops))}


@pytest.mark.thinned
@of_one_range([each for each in EVERY if each[0] not in FOLDED])
def test_an_op_between_convolutions_is_one_table(ops, values):
    step = "y{i} = {op} o{i} = Conv (y{i}, v)"
    made = side_by_side(ops, step, "x = Conv (i, w) {body}", channels=3)
    result = quantized(made, values)
    assert sorted(ops_of(result)) == ["IntConv"] * (len(ops) + 1) + ["Lut"] * len(ops)
    ends = {(table.source, table.end) for table in tables(result.model)}
    assert ends == {("x", f"y{i}") for i in range(len(ops))}


@pytest.mark.parametrize("op", sorted(FOLDED))
def test_a_sum_between_convolutions_is_in_the_bias_of_the_first(op):
    assert op in dict(EVERY)
    assert ops_of(quantized(net(f"y = {op}", BETWEEN))) == ["IntConv", "IntConv"]


# Several ops

CHAINS = {
    "SiLU": "s = Sigmoid (x) y = Mul (x, s)",
    "HardSwish written out": "a = Add (x, three) c = Clip (a, zero, six) p = Mul (x, c)"
    " y = Div (p, six)",
    "HardSwish by HardSigmoid": "s = HardSigmoid <alpha = 0.1666667, beta = 0.5> (x)"
    " y = Mul (s, x)",
    "Mish written out": "p = Softplus (x) t = Tanh (p) y = Mul (x, t)",
    "Mish by Exp and Log": "e = Exp (x) a = Add (one, e) l = Log (a) t = Tanh (l)"
    " y = Mul (x, t)",
    "GELU by Erf": "d = Div (x, root2) e = Erf (d) a = Add (e, one) p = Mul (x, a)"
    " y = Mul (p, half)",
    "GELU by Tanh": "c = Pow (x, three) k = Mul (c, cubic) q = Add (x, k) u = Mul (q, outer)"
    " t = Tanh (u) a = Add (one, t) h = Mul (half, x) y = Mul (h, a)",
    "HardSwish times x": "s = HardSwish (x) y = Mul (s, x)",
    "Softsign written out": "a = Abs (x) p = Add (a, one) y = Div (x, p)",
    "three ways that meet": "s = Sin (x) c = Cos (x) a = Mul (s, c) b = Sub (s, c)"
    " d = Max (a, b, x) y = Min (d, two)",
    "Relu at the start": "r = Relu (x) y = Sqrt (r)",
    "Clip at the start": "r = Clip (x, half, six) y = Log (r)",
    "two clamps at the start": "r = Clip (x, , two) s = Relu (r) y = Exp (s)",
    "Relu in the middle": "a = Sin (x) r = Relu (a) y = Exp (r)",
    "Clip in the middle": "a = Mul (x, three) r = Clip (a, half, six) y = Reciprocal (r)",
    "Relu at the end": "a = Tanh (x) y = Relu (a)",
    "Clip at the end": "a = Neg (x) y = Clip (a, zero, two)",
    "clamps all over": "r = Relu (x) a = Sub (r, half) s = Relu (a) b = Mul (s, a)"
    " y = Clip (b, , two)",
    "Relus of two steps": "n = Neg (x) r = Relu (n) m = Mul (x, three) s = Relu (m)"
    " y = Sub (s, r)",
    "a constant of it all": "a = Sub (x, x) y = Add (a, three)",
}
every_chain = pytest.mark.parametrize("chain", CHAINS)


@pytest.mark.thinned
@every_chain
@every_setting
def test_a_chain_is_one_table(chain, setting):
    made = net(CHAINS[chain])
    result = quantized(made, **SETTINGS[setting])
    (table,) = tables(result.model)
    assert (table.source, table.end) == ("x", "y")
    is_one_node = chain.startswith("GELU")  # recognized
    assert len(table.entry.source) == (1 if is_one_node else len(made.graph.node))
    assert ops_of(result) == ["Lut"]


@pytest.mark.thinned
@every_chain
def test_a_chain_between_convolutions_is_one_table(chain):
    assert ops_of(quantized(net(CHAINS[chain], BETWEEN))) == ["IntConv", "Lut", "IntConv"]


@pytest.mark.parametrize("bodies", ["onnxruntime", "portable"])
def test_the_integer_graph_computes_what_the_table_says(bodies):
    made = net(CHAINS["SiLU"])
    result = quantized(made, integer_io=True, bodies=bodies)
    (table,) = tables(result.model)
    codes = np.arange(256, dtype=np.uint8).reshape(8, 2, 4, 4)
    for optimize in (False, True):
        (name,) = (value.name for value in result.model.graph.input)
        (found,) = session(result.model, optimize=optimize).run(None, {name: codes})
        assert found.ravel().tolist() == table.values.tolist()


BRANCHES = {
    "a gate that leaves": "s = Sigmoid (x) y = Mul (x, s) z = Conv (s, v)",
    "a step that leaves": "s = Sigmoid (x) y = Exp (s) z = Conv (s, v)",
    "two results of one tensor": "y = Sin (x) z = Cos (x)",
    "a step that is an output": "z = Tanh (x) y = Neg (z)",
    "a gate that is an output": "z = Sigmoid (x) y = Mul (z, x)",
    "a clamp that is an output": "z = Relu (x) y = Exp (z)",
    "a clamp that others read": "r = Relu (x) y = Exp (r) z = Conv (r, v)",
    "a sum of two Relus": "r = Relu (x) n = Neg (x) s = Relu (n) m = Mul (s, half)"
    " y = Sub (r, m) z = Conv (y, v)",
    "steps that a Concat reads": "s = Sin (x) t = Cos (s) y = Concat <axis = 1> (s, t)"
    " z = Neg (y)",
    "steps that meet behind a pool": "s = Sin (x) t = Cos (x)"
    " m = MaxPool <kernel_shape = [1, 1]> (s) y = Add (m, t) z = Conv (y, v)",
}


@pytest.mark.thinned
@pytest.mark.parametrize("branch", BRANCHES)
def test_what_others_read_of_a_chain_is_stored_and_nothing_stays_float(branch):
    outputs = "float[A, B, C, D] y, float[E, F, G, H] z"
    made = net(BRANCHES[branch], "x = Conv (i, w) {body}", outputs)
    feeds = samples(made)
    result = quantize(made, feeds)
    assert (result.verdict, result.report["summary"]["because"]) == ("ok", [])
    assert check_tables(made, result.model) or branch == "a gate that leaves"
    assert verify(result.model, made, feeds).verdict == "ok"
    floats = session(made).run(None, feeds[0])
    for real, found in zip(floats, session(result.model).run(None, feeds[0]), strict=True):
        assert np.abs(real - found).max() <= 0.03 * np.ptp(real)


def test_two_results_of_an_input_are_two_tables_of_it():
    made = net("y = Sin (x) z = Cos (x)", outputs="float[N, 2, 4, 4] y, float[N, 2, 4, 4] z")
    ends = [(table.source, table.end) for table in tables(quantized(made).model)]
    assert sorted(ends) == [("x", "y"), ("x", "z")]


@pytest.mark.parametrize("clamp", ["Relu ({})", "Clip ({}, half, two)"])
def test_a_relu_or_clip_alone_needs_no_table(clamp):
    result = quantized(net(f"y = {clamp.format('x')}", BETWEEN))
    assert ops_of(result) == ["IntConv", "IntConv"]
    pooled = f"p = MaxPool <kernel_shape = [1, 1]> (x) y = {clamp.format('p')}"
    same = {"calibration_overrides": ["y=-4,4", "p=-4,4"]}
    result = quantized(net(pooled, BETWEEN), **same)
    assert ops_of(result) == ["IntConv", "MaxPool", "Clip", "IntConv"]


# What is no chain

LOOK_ALIKES = {
    "LRN": ("y = LRN <size = 3> (x)", ["1 LRN in float"], ""),
    "a scalar of the shape": (
        "a = Size (x) b = Cast <to = 1> (a) y = Div (x, b)",
        ["1 Cast in float", "1 Div in float"],
        "Div of two tensors",
    ),
    "numbers in double precision": (
        "a = Cast <to = 11> (x) b = Sin (a) y = Cast <to = 1> (b)",
        ["2 Cast in float", "1 Sin in float"],
        "Sin of other types than float32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LOOK_ALIKES)
def test_what_looks_like_a_chain_stays_float_for_a_reason(case):
    body, because, reason = LOOK_ALIKES[case]
    made = net(body, BETWEEN)
    feeds = samples(made)
    result = quantize(made, feeds)
    assert (result.verdict, result.report["summary"]["because"]) == ("incomplete", because)
    declined = read_integer_model(result.model, "made").record.declined
    assert any(reason in each for each in declined.values()) or not reason
    assert verify(result.model, made, feeds).verdict == "incomplete"


def test_a_product_of_two_tensors_is_no_table_of_one():
    body = "m = MaxPool <kernel_shape = [2, 2], pads = [0, 0, 1, 1]> (x) y = Mul (x, m)"
    assert "Lut" not in ops_of(quantized(net(body, BETWEEN)))


@pytest.mark.parametrize("opset", [17, 21])
def test_numbers_of_constant_nodes_are_float32(opset):
    text = """g (float[N, 3, 4, 4] x) => (float[N, 3, 4, 4] y) {
        a = Conv (x, w) k = Constant <value_float = 2.5> () s = Mul (a, k) y = Conv (s, w)
    }"""
    made = model(text, opset=opset, w=numbers(3, 3, 1, 1))
    samples = [{"x": numbers(2, 3, 4, 4, seed=seed)} for seed in range(3)]
    result = quantize(made, samples)
    assert verify(result.model, made, samples).verdict == result.verdict == "ok"


def test_a_constant_tensor_is_added_and_not_tabulated():
    result = quantized(net("y = Add (x, full)", BETWEEN))
    assert ops_of(result) == ["IntConv", "IntAdd", "IntConv"]


def test_integers_are_left_alone():
    body = "s = Shape (x) n = Neg (s) a = Abs (n) y = Reshape (x, a)"
    feeds = samples(made := net(body, BETWEEN))
    result = quantize(made, feeds)
    assert "Lut" not in ops_of(result)
    assert {"Neg", "Abs"} <= set(ops_of(result))
    assert verify(result.model, made, feeds).verdict == result.verdict


@pytest.mark.parametrize(
    "leave",
    [{"nodes_to_exclude": ["t"]}, {"op_types_to_quantize": ["Conv", "Sigmoid", "Exp"]}],
)
def test_a_node_that_is_to_stay_float_does_and_breaks_the_chain(leave):
    made = net("s = Sigmoid (x) t = Tanh (s) y = Exp (t)", BETWEEN)
    feeds = samples(made)
    result = quantize(made, feeds, **leave)
    assert "Tanh" in ops_of(result)
    assert (result.verdict, result.report["summary"]["because"]) == (
        "incomplete",
        ["1 Tanh in float"],
    )
    found = [(each.source, each.end) for each in check_tables(made, result.model)]
    assert found == [("x", "s"), ("t", "y")]
    assert verify(result.model, made, feeds).verdict == "incomplete"


def test_a_chain_of_which_all_is_to_stay_float_does():
    made = net(CHAINS["SiLU"], BETWEEN)
    result = quantize(made, samples(made), op_types_to_quantize=["Conv"])
    assert {"Sigmoid", "Mul"} <= set(ops_of(result))
    assert tables(result.model) == []


def test_an_op_of_another_domain_is_no_chain():
    """com.microsoft.SampleOp is not ONNX's."""
    text = """g (float[N, 2, 4, 4] x) => (float[N, 2, 4, 4] y) {
        c = Conv (x, w) s = Sin (c) g = com.microsoft.SampleOp (s) t = Cos (g) y = Conv (t, w)
    }"""
    made = model(text, opset=20, domains=["com.microsoft"], w=numbers(2, 2, 1, 1))
    feeds = samples(made)
    result = quantize(made, feeds)
    assert result.report["summary"]["because"] == ["1 SampleOp in float"]
    check_tables(made, result.model)
    assert [(each.source, each.end) for each in tables(result.model)] == [
        ("c", "s"),
        ("g", "t"),
    ]


def test_a_power_of_a_double_is_no_chain():
    """Pow gives the type of its base."""
    made = net("p = Pow (base, x) y = Cast <to = 1> (p)", BETWEEN)
    made.graph.initializer.append(numpy_helper.from_array(np.float64(2), "base"))
    feeds = samples(made)
    result = quantize(made, feeds)
    assert result.report["summary"]["because"] == ["1 Cast in float", "1 Pow in float"]
    assert verify(result.model, made, feeds).verdict == "incomplete"


# Codes without a result

PARTIAL = {
    "Log": ("y = Log (x)", between(0.1, 5)),
    "Sqrt": ("y = Sqrt (x)", between(0, 5)),
    "Pow": ("y = Pow (x, half)", between(0, 5)),
    "Acosh": ("y = Acosh (x)", between(1, 5)),
    "Atanh": ("a = Mul (x, half) b = Sub (a, one) y = Atanh (b)", between(0.2, 3.8)),
    "at one code": ("a = Abs (x) y = Div (x, a)", between(0.1, 5)),
    "on one side of a pole": ("r = Reciprocal (x) y = Sqrt (r)", between(0.1, 5)),
}


@pytest.mark.thinned
@every_setting
@pytest.mark.parametrize("case", PARTIAL)
def test_a_code_without_a_result_takes_that_of_the_nearest_with_one(case, setting):
    body, values = PARTIAL[case]
    result = quantized(
        net(body), values, calibration_overrides=["x=-4,6"], **SETTINGS[setting]
    )
    (table,) = tables(result.model)
    assert 0 < len(table.entry.undefined) < 256
    if case == "at one code":
        assert list(table.entry.undefined) == [table.x.zero_point]


def test_the_logarithm_of_zero_is_the_smallest_code():
    (table,) = tables(quantized(net("y = Log (x)"), between(0.1, 5)).model)
    assert (table.x.zero_point, list(table.entry.undefined)) == (0, [])
    assert table.values[0] == 0


def test_negative_codes_take_the_result_of_zero():
    result = quantized(net("y = Sqrt (x)"), between(0, 5), calibration_overrides=["x=-4,6"])
    (table,) = tables(result.model)
    zero = table.x.zero_point
    assert list(table.entry.undefined) == list(range(zero))
    assert set(table.values[:zero].tolist()) == {int(table.values[zero])}


def test_a_function_that_is_defined_for_no_code_stays_float():
    """The range of x is given wrongly: only there the function would be defined."""
    made, values = net("a = Sub (x, four) y = Log (a)", BETWEEN), between(5, 9)
    feeds = samples(made, values)
    with np.errstate(all="raise"):
        result = quantize(made, feeds, calibration_overrides=["x=0,2"])
    assert result.verdict == "incomplete"
    assert result.report["summary"]["because"] == ["1 Log in float", "1 Sub in float"]
    declined = read_integer_model(result.model, "made").record.declined
    reason = "Sub, Log: not defined for any code of its input"
    assert list(declined.values()) == [reason, reason]
    assert verify(result.model, made, feeds).report["summary"]["problems"] == []


# Random expressions

STEPS = [
    *[f"{op} ({{a}})" for op in sorted(UNARY)],
    *["Clip ({a}, low, high)", "Clip ({a}, , high)", "Shrink <lambd = 0.3> ({a})"],
    *[f"{op} ({{a}}, {{b}})" for op in ("Add", "Mul", "Sub", "Max", "Min", "Div", "PRelu")],
    *[f"{op} ({{a}}, {{k}})" for op in sorted(COMBINING - {"Mod"})],
    *[f"{op} ({{k}}, {{a}})" for op in sorted(COMBINING - {"Mod", "PRelu"})],
    *["Mod <fmod = 1> ({a}, {k})", "Mod <fmod = 1> ({k}, {a})", "Mean ({a}, {k}, {b})"],
]


CLAMPS = [step for step in STEPS if step.startswith(("Relu", "Clip"))]


@st.composite
def expressions(draw):
    """Random steps from x on, of which y is the last. No clamp reads x: it need not join."""
    names, nodes, constants = ["x"], [], {"low": np.float32(-0.75), "high": np.float32(1.5)}
    amount = draw(st.integers(1, 5))
    for position in range(amount):
        step = draw(st.sampled_from(STEPS).filter(lambda s: names[1:] or s not in CLAMPS))
        start, target = int(step in CLAMPS), "y" if position == amount - 1 else f"t{position}"
        a, b = draw(st.sampled_from(names[start:][-2:])), draw(st.sampled_from(names[start:]))
        constants[f"k{position}"] = np.float32(draw(st.floats(-3, 3, width=16)))
        nodes.append(f"{target} = {step.format(a=a, b=b, k=f'k{position}')}")
        names.append(target)
    body = " ".join(nodes)
    used = {
        name: v for name, v in constants.items() if f"{name})" in body or f"{name}," in body
    }
    return model(f"g (float[N, 8] x) => (float[N, 8] y) {{ {body} }}", opset=20, **used)


LARGEST = 1e30
"""Beyond such numbers a float32 scale overflows."""


@thoroughly(60)
@given(made=expressions(), setting=st.sampled_from(sorted(SETTINGS)), seed=st.integers(0, 9))
def test_a_random_expression_is_the_table_onnxruntime_computes(made, setting, seed):
    feeds = [{"x": 2 * numbers(4, 8, seed=seed + each)} for each in range(2)]
    (real,) = session(made, optimize=False).run(
        None, {"x": np.vstack([f["x"] for f in feeds])}
    )
    assume(np.isfinite(real).all() and np.abs(real).max() < LARGEST)
    result = quantize(made, feeds, **SETTINGS[setting])
    assert result.verdict == "ok"
    check_tables(made, result.model)
    checked = verify(result.model, made, feeds)
    assert (checked.verdict, checked.report["summary"]["problems"]) == ("ok", [])
    again = quantize(made, feeds, **SETTINGS[setting])
    assert again.model.SerializeToString() == result.model.SerializeToString()


# Faults


@pytest.fixture(scope="module")
def emitted():
    made = net("y = Sqrt (x)")
    feeds = samples(made, between(0, 5))
    result = quantize(made, feeds, calibration_overrides=["x=-4,6"])
    assert result.verdict == "ok"
    return made, result.model, feeds


def copy_of(made):
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    return copy


def entry_of(made, key):
    """The entry of the record of the one Lut."""
    (node,) = [each for each in made.graph.node if each.op_type == "Lut"]
    return next(each for each in node.metadata_props if each.key == f"qpasses.{key}")


def problems(changed, original, feeds):
    """What verify finds; a refusal counts as one."""
    try:
        found = verify(changed, original, feeds)
    except QPassesError as error:
        return [str(error)]
    assert (found.verdict == "failed") == bool(found.report["summary"]["problems"])
    return found.report["summary"]["problems"]


@pytest.mark.parametrize("code", [0, 1, 100, 254, 255])
def test_a_changed_entry_of_a_table_fails(emitted, code):
    original, made, feeds = emitted
    changed = copy_of(made)
    (tensor,) = [t for t in changed.graph.initializer if t.name.endswith(".table")]
    values = numpy_helper.to_array(tensor).copy()
    values[code] ^= 1
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    assert verify(changed, original, feeds).verdict == "failed"


def test_another_function_in_the_record_fails(emitted):
    original, made, feeds = emitted
    changed = copy_of(made)
    entry = entry_of(changed, "function")
    function = Function.from_text(json.loads(entry.value))
    function.model.graph.node[0].op_type = "Exp"
    entry.value = json.dumps(function.as_text())
    assert verify(changed, original, feeds).verdict == "failed"


@pytest.mark.parametrize("change", [lambda codes: codes[1:], lambda codes: [*codes, 200]])
def test_another_list_of_undefined_codes_fails(emitted, change):
    original, made, feeds = emitted
    changed = copy_of(made)
    entry = entry_of(changed, "undefined")
    codes = json.loads(entry.value)
    assert len(codes) > 10
    entry.value = json.dumps(change(codes))
    assert verify(changed, original, feeds).verdict == "failed"


@pytest.mark.parametrize("key", ["function", "undefined"])
def test_a_record_without_it_fails(emitted, key):
    original, made, feeds = emitted
    changed = copy_of(made)
    (node,) = [each for each in changed.graph.node if each.op_type == "Lut"]
    node.metadata_props.remove(entry_of(changed, key))
    assert problems(changed, original, feeds)


def function_text(body, **constants):
    made = model(f"g (float[N] x) => (float[N] y) {{ {body} }}", opset=20, **constants)
    return Function(made).as_text()


DAMAGED = {
    "no text": 5,
    "a list": ["x"],
    "no base 64": "no base 64",
    "umlauts": "äöü",
    "no protocol buffer": "bm8gcHJvdG9jb2wgYnVmZmVy",
    "nothing": "",
    "no nodes": Function(onnx.ModelProto()).as_text(),
    "an unknown op": function_text("y = Sin (x)").replace("U2lu", "U2lx"),
    "another shape": function_text("y = ReduceSum (x)"),
    "more numbers": function_text("y = Concat <axis = 0> (x, x)"),
    "other types": function_text("s = Shape (x) y = Cast <to = 8> (s)"),
    "never defined": function_text(
        "n = Abs (x) m = Neg (n) o = Sub (m, k) y = Log (o)", k=1.0
    ),
    "another input": function_text("y = Sin (x)").replace("eBIB", "eRIB"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_function_is_refused_or_fails(emitted, damage):
    original, made, feeds = emitted
    changed = copy_of(made)
    entry_of(changed, "function").value = json.dumps(DAMAGED[damage])
    assert problems(changed, original, feeds)


@pytest.mark.parametrize("text", ["no base 64", "äöü", "bm8gcHJvdG9jb2wgYnVmZmVy"])
def test_damaged_text_is_a_model_error_that_names_the_node(emitted, text):
    original, made, feeds = emitted
    changed = copy_of(made)
    entry_of(changed, "function").value = json.dumps(text)
    with pytest.raises(ModelError, match=r"record of node .* is damaged: its function"):
        verify(changed, original, feeds)


@pytest.mark.parametrize("codes", [5, "1", [1.5], ["1"], None])
def test_a_damaged_list_of_undefined_codes_is_a_model_error(emitted, codes):
    original, made, feeds = emitted
    changed = copy_of(made)
    entry_of(changed, "undefined").value = json.dumps(codes)
    with pytest.raises(ModelError):
        verify(changed, original, feeds)


def test_on_the_command_line_a_damaged_function_is_one_line(tmp_path, emitted):
    original, _, feeds = emitted
    desk = Desk(tmp_path, original, feeds[0]["x"])
    assert desk.quantize().code == 0
    changed = onnx.load(desk.output)
    entry_of(changed, "function").value = json.dumps("no base 64")
    onnx.save(changed, desk.output)
    assert_refused(desk.verify(), MODEL, "its function")


def test_an_end_inside_of_a_chain_is_not_rounded_for_the_rest_of_it():
    """Both tables are of the convolution's result, as both ends are functions of it."""
    made = net("t = Tanh (x) s = Exp (t) y = Mul (s, t)", BETWEEN)
    read_as_well = onnx.helper.make_tensor_value_info("t", 1, [None] * 4)
    made.graph.output.append(read_as_well)
    result = quantize(made, samples(made))
    tables = [node for node in result.model.graph.node if node.op_type == "Lut"]
    assert len(tables) == 2
    assert len({node.input[0] for node in tables}) == 1
    assert all(each.reference_max_lsb <= 1 for each in result.evidence)
    assert verify(result.model, made, samples(made)).verdict == result.verdict == "ok"
