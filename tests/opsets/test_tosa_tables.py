"""Tables of target tosa: those of MLIR's legalization, byte for byte."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from opsets.hard_swish import hard_swish_levels
from opsets.table_rules import USUAL
from opsets.target import load_target
from qpasses import quantize, verify
from qpasses.ir.function import Function
from qpasses.ir.interchange import import_graph
from qpasses.ir.record import Quantization
from qpasses.load.integer_model import read_integer_model
from qpasses.lowering.integerize_chain import tabulate
from tests.support.small_models import model, numbers
from tests.support.thoroughness import thoroughly

LEGALIZED = json.loads((Path(__file__).parent / "tosa_tables.json").read_text("utf-8"))
"""What tosa-converter-for-tflite made: write_tosa_tables.py."""

RULES = load_target("tosa").table_rules

OURS = {
    "LOGISTIC": "y = Sigmoid (x)",
    "TANH": "y = Tanh (x)",
    "GELU": "y = Gelu (x)",
    "GELU tanh": 'y = Gelu <approximate = "tanh"> (x)',
    "EXP": "y = Exp (x)",
    "LOG": "y = Log (x)",
    "HARD_SWISH": "y = HardSwish (x)",
}
"""Those that the legalization makes tables of, but for RSQRT, which ONNX has no op for."""


def function_of(body):
    graph = import_graph(model(f"g (float[N] x) => (float[N] y) {{ {body} }}", opset=20))
    return Function.of(graph.nodes, graph.inputs, graph.outputs[0], 20)


FUNCTIONS = {name: function_of(body) for name, body in OURS.items()}


def made(name, x, y, rules=RULES, dtype="int8"):
    """Our table, in the order of the codes."""
    moved = 128 if dtype == "uint8" else 0
    ends = (Quantization(scale, zero + moved, dtype) for scale, zero in (x, y))
    table, _ = tabulate(FUNCTIONS[name], *ends, rules)
    if moved:
        return (table.astype(np.int16) - 128).astype(np.int8)
    return np.roll(table, 128)


def differing(name, rules):
    """How many codes of each legalized table are others."""
    return [
        int((made(name, each["x"], each["y"], rules) != theirs(each)).sum())
        for each in LEGALIZED[name]
    ]


def theirs(each):
    return np.frombuffer(bytes.fromhex(each["table"]), np.int8)


@pytest.mark.parametrize("name", OURS)
def test_every_legalized_table_is_ours(name):
    assert differing(name, RULES) == [0] * len(LEGALIZED[name])


@pytest.mark.parametrize("name", OURS)
def test_the_tables_of_uint8_are_those_of_int8_plus_128(name):
    for each in LEGALIZED[name][::4]:
        assert (made(name, each["x"], each["y"], dtype="uint8") == theirs(each)).all()


@pytest.mark.parametrize("rule", ["rounding", "quotient", "functions", "hard_swish", "floats"])
def test_the_legalized_tables_tell_each_rule_from_another(rule):
    other = np.float64 if rule == "floats" else getattr(USUAL, rule)
    rules = replace(RULES, **{rule: other})
    assert sum(sum(differing(name, rules)) for name in OURS) > 0


# getTosaConst8bitTable once more, in plain Python with float32 numbers

FLOAT_MAX = np.finfo(np.float32).max


def table_of(x, y, function):
    x_scale, y_scale, table = np.float32(x[0]), np.float32(y[0]), []
    inverse = np.float32(1) / y_scale
    largest = FLOAT_MAX if y_scale > 1 else FLOAT_MAX * y_scale
    for code in range(-128, 128):
        with np.errstate(over="ignore"):
            value = np.float32(function(float(x_scale * np.float32(code - x[1]))))
        if value >= largest:
            table.append(127)
            continue
        level = float(value * inverse)
        rounded = math.copysign(math.floor(abs(level) + 0.5), level)
        table.append(int(max(-128, min(127, rounded + y[1]))))
    return table


PLAIN = {
    "LOGISTIC": lambda x: 1 / (1 + math.exp(-x)),
    "TANH": math.tanh,
    "EXP": lambda x: math.exp(min(x, 700.0)),
}
SCALES = st.one_of(
    st.floats(2**-10, 1, width=32),
    st.sampled_from([2.0**-k for k in range(10)]),
)
ZEROS = st.integers(-128, 127)


@thoroughly(60)
@given(st.sampled_from(sorted(PLAIN)), SCALES, ZEROS, SCALES, ZEROS)
def test_a_table_is_what_the_formula_says(name, x_scale, x_zero, y_scale, y_zero):
    x, y = (x_scale, x_zero), (y_scale, y_zero)
    assert made(name, x, y).tolist() == table_of(x, y, PLAIN[name])


@pytest.mark.parametrize(
    ("y_scale", "away", "even"), [(1.0, 1, 0), (0.2, 3, 2), (1 / 9, 5, 4)]
)
def test_a_tie_goes_away_from_zero(y_scale, away, even):
    """A Sigmoid is a half at 0."""
    y = float(np.float32(y_scale)), 0
    assert made("LOGISTIC", (0.1, 0), y)[128] == away
    assert made("LOGISTIC", (0.1, 0), y, USUAL)[128] == even


def test_what_is_beyond_float32_saturates():
    table = made("EXP", (1.0, -128), (0.5, 3))
    assert (table[:4].tolist(), set(table[10:].tolist())) == ([5, 8, 18, 43], {127})


# HardSwish


@pytest.mark.parametrize("scales", [(1.0, 1 / 256), (1.0, 1e6), (1e-9, 1.0)])
def test_scales_beyond_int16_take_a_table_as_any_other(scales):
    codes = np.arange(-128, 128)
    assert hard_swish_levels(codes, *scales) is None
    x, y = ((scale, 0) for scale in scales)
    assert (
        made("HARD_SWISH", x, y)
        == made("HARD_SWISH", x, y, replace(RULES, hard_swish="table"))
    ).all()


# Through quantize and verify

NET = "[conv] a = Conv (x, w) [act] b = {} (a) [last] y = Conv (b, w)"
NAMES = {"Sigmoid": "LOGISTIC", "Tanh": "TANH", "HardSwish": "HARD_SWISH", "Gelu": "GELU"}


def network(op):
    return model(
        f"g (float[1, 4, 5, 5] x) => (float[1, 4, 5, 5] y) {{ {NET.format(op)} }}",
        opset=20,
        w=numbers(4, 4, 1, 1),
    )


@pytest.mark.thinned
@pytest.mark.parametrize("op", NAMES)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_model_holds_these_tables_and_is_verified(op, dtype):
    real, feeds = network(op), [{"x": numbers(1, 4, 5, 5, seed=i)} for i in range(4)]
    found = quantize(real, feeds, target="tosa", activation_type=dtype)
    assert verify(found.model, real, feeds).verdict == found.verdict == "ok"
    (node,) = (each for each in found.model.graph.node if each.op_type == "Lut")
    arrays = {each.name: each for each in found.model.graph.initializer}
    stored = read_integer_model(found.model, "made").record.tensors
    x, y = (stored[name] for name in (node.input[0], node.output[0]))
    moved = 128 if dtype == "uint8" else 0
    expected = made(NAMES[op], *((each.scale, each.zero_point - moved) for each in (x, y)))
    table = numpy_helper.to_array(arrays[node.input[1]]).astype(np.int16)
    assert (table if moved else np.roll(table, 128)).tolist() == (
        expected.astype(int) + moved
    ).tolist()


@pytest.mark.parametrize("op", ["Sigmoid", "HardSwish"])
def test_another_entry_is_found(op):
    real, feeds = network(op), [{"x": numbers(1, 4, 5, 5, seed=i)} for i in range(4)]
    found = quantize(real, feeds, target="tosa").model
    (node,) = (each for each in found.graph.node if each.op_type == "Lut")
    (table,) = (each for each in found.graph.initializer if each.name == node.input[1])
    values = numpy_helper.to_array(table).copy()
    values[100] ^= 1
    table.CopyFrom(numpy_helper.from_array(values, table.name))
    assert verify(found, real, feeds).verdict == "failed"
