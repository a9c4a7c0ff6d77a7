"""Tables of channels and of pairs, products, and tables that nodes share."""

import json
import re
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from calibration import input_specs, open_samples
from opsets.errors import ModelError
from opsets.target import load_target
from qpasses import quantize, verify
from qpasses.checking.verification import verify_integer
from qpasses.ir.graph import constant
from qpasses.ir.progress import no_progress
from qpasses.load.arguments import given_source
from qpasses.load.integer_model import read_integer_model
from tests.support.small_models import model, numbers

CONSTANTS = {
    "w": numbers(3, 3, 1, 1),
    "v": numbers(3, 3, 1, 1, seed=1),
    "slope": numbers(3, 1, 1, seed=2),
    "scale": numbers(1, 3, 1, 1, seed=3),
    "rows": numbers(1, 1, 4, 1, seed=4),
    "half": np.float32(0.5),
}

activation_types = pytest.mark.parametrize("kind", ["uint8", "int8"])


def test_levels_of_tables_may_be_truncated():
    target = replace(load_target("exact"), name="mine", table_rounding="toward_zero")
    original, feeds = net("y = Tanh (a)"), [{"x": numbers(4, 3, 4, 4, seed=s)} for s in (1, 2)]
    made = quantize(original, feeds, target=target)
    assert verify(made.model, original, feeds).verdict == "ok"
    read = read_integer_model(made.model, "made")
    (lookup,) = (node for node in read.graph.nodes if node.op == "Lut")
    x, y = (read.record.tensors[t.name] for t in (lookup.inputs[0], lookup.outputs[0]))
    codes = np.arange(256) - x.zero_point
    real = np.tanh(codes.astype(np.float32) * np.float32(x.scale)) / np.float32(y.scale)
    clear = np.abs(real - np.rint(real)) > 1e-3  # floats may differ beside a level
    expected = np.clip(np.trunc(real) + y.zero_point, *y.limits)
    table = constant(lookup.inputs[1])
    np.testing.assert_array_equal(table[clear], expected[clear])
    assert (expected != np.clip(np.rint(real) + y.zero_point, *y.limits)).any()


def net(statements):
    """``statements`` that make y of a and b, two convolutions of x."""
    text = f"""g (float[N, 3, 4, 4] x) => (float[N, 3, 4, 4] y) {{
        a = Conv (x, w) b = Conv (x, v) {statements}
    }}"""
    used = {
        name: value for name, value in CONSTANTS.items() if re.search(rf"\b{name}\b", text)
    }
    return model(text, **used)


def samples():
    return [{"x": numbers(2, 3, 4, 4, seed=seed)} for seed in range(4)]


def ops(result):
    return [node.op_type for node in result.model.graph.node if node.domain == "qpasses"]


@pytest.mark.thinned
@activation_types
@pytest.mark.parametrize(
    ("statements", "found"),
    {
        "c = PRelu (a, slope) y = Add (c, b)": ["LutPerChannel", "IntAdd"],
        "s = Abs (a) c = Mul (scale, s) d = Tanh (c) y = Add (d, b)": [
            "LutPerChannel",
            "IntAdd",
        ],
        "s = Abs (a) c = Mul (s, scale) d = Sub (c, rows) y = Add (d, b)": [
            *("LutPerChannel", "LutPerChannel", "IntAdd")
        ],
        "y = Mul (a, b)": ["IntMul"],
        "s = Sigmoid (b) y = Mul (a, s)": ["Lut", "IntMul"],
        "y = Max (a, b)": ["LutPair"],
        "y = Sub (a, b)": ["IntSub"],
        "d = Abs (b) e = Add (d, half) y = Div (a, e)": ["LutPair"],
        "p = GlobalAveragePool (b) y = Mul (a, p)": ["IntGlobalAveragePool", "IntMul"],
    }.items(),
)
def test_channels_pairs_and_products_are_integers_and_proved(statements, found, kind):
    made = net(statements)
    result = quantize(made, samples(), activation_type=kind)
    assert result.verdict == "ok"
    assert sorted(ops(result)) == sorted(["IntConv", "IntConv", *found])
    assert verify(result.model, made, samples()).verdict == "ok"
    assert min(each["sqnr_db"] for each in result.report["accuracy"]["outputs"]) > 20


def test_a_product_of_a_float_tensor_stays_float_with_the_reason():
    made = net("s = LRN <size = 3> (b) y = Mul (a, s)")
    left = {n["name"]: n for n in quantize(made, samples()).report["summary"]["float_nodes"]}
    reasons = {node["op_type"]: node["reason"] for node in left.values()}
    assert reasons["Mul"] == "Mul of two tensors that are not both on integers"


def test_nothing_by_nothing_is_the_stored_zero_and_listed():
    result = quantize(net("c = Abs (b) y = Div (a, c)"), samples())
    (pair,) = [node for node in result.model.graph.node if node.op_type == "LutPair"]
    values = {value.name: value for value in result.model.graph.value_info}
    about = {each.key: each.value for each in values[pair.input[0]].metadata_props}
    zero = json.loads(about["qpasses.zero_point"])
    assert result.report["summary"]["undefined_codes"] == {pair.name: [zero]}


def test_equal_tables_are_stored_once():
    made = net("p = Tanh (a) q = Tanh (p) r = Add (q, b) y = Tanh (r)")
    tables = quantize(made, samples()).report["summary"]["tables"]
    assert tables["lookups"] == tables["stored"] == 2
    twice = net("p = Sigmoid (a) q = Sigmoid (a) c = Add (p, b) d = Add (q, b) y = Add (c, d)")
    tables = quantize(twice, samples()).report["summary"]["tables"]
    assert (tables["stored"], tables["bytes"]) == (1, 256)
    assert tables["bytes_unshared"] == 256 * tables["lookups"]


@pytest.mark.thinned
@pytest.mark.parametrize(
    "statements", ["c = PRelu (a, slope) y = Add (c, b)", "y = Max (a, b)"]
)
@pytest.mark.parametrize("damage", ["entry", "function", "none"])
def test_a_changed_table_or_function_is_found(statements, damage):
    made = net(statements)
    changed = quantize(made, samples()).model
    other = quantize(net("c = Sigmoid (a) y = Add (c, b)"), samples()).model
    node = next(n for n in changed.graph.node if n.op_type.startswith("Lut"))
    if damage == "entry":
        tensor = next(t for t in changed.graph.initializer if t.name == node.input[-1])
        table = numpy_helper.to_array(tensor).copy()
        table.reshape(-1)[77] ^= 1
        tensor.CopyFrom(numpy_helper.from_array(table, tensor.name))
    else:
        source = next(n for n in other.graph.node if n.op_type == "Lut")
        function = entry(source, "function").value if damage == "function" else '""'
        entry(node, "function").value = function
    try:
        found = verify_integer(
            read_integer_model(onnx.ModelProto.FromString(changed.SerializeToString()), "m"),
            given_source(made),
            open_samples(samples(), input_specs(made), 2),
            no_progress,
        )
    except ModelError:
        assert damage != "entry"
    else:
        assert found.problems


def entry(node, name):
    return next(e for e in node.metadata_props if e.key == f"qpasses.{name}")
