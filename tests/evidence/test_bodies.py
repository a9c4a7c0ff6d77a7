"""Bodies made for one table: equal on all codes or not used, and the cheapest is chosen."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import qpasses.evidence.choose_bodies as choosing
from calibration import Session
from opsets.errors import ModelError
from opsets.fragments import NOTHING
from opsets.op import DOMAIN, Body
from opsets.qpasses_v1 import OPS
from qpasses import inspect, quantize, verify
from qpasses.emit.overloads import with_bodies
from qpasses.evidence import prove_tables as tables
from qpasses.evidence.bodies import MADE, body_of, form, made_bodies
from qpasses.evidence.costs import FILE, TWO, Costs, measured
from qpasses.ir.elementwise import COMBINING, ELEMENTWISE
from qpasses.ir.interchange import import_graph
from qpasses.ir.metadata import read_record
from qpasses.ir.runtime import OPSET
from qpasses.ir.stages import LOOKUPS
from tests.support.commands import run
from tests.support.small_models import model, numbers

ALL = np.arange(256, dtype=np.uint8)

CHAINS = {
    "y = Sigmoid (x)": "onnxruntime_sigmoid",
    "y = LeakyRelu <alpha = 0.1> (x)": "onnxruntime_leaky_relu",
    "a = Relu (x) y = Mul (a, half)": "onnxruntime_leaky_relu",
    "y = Abs (x)": "onnxruntime_leaky_relu",
    "y = HardSigmoid (x)": "onnxruntime_float",
    "y = Exp (x)": "onnxruntime_float",
    "y = Softplus (x)": "onnxruntime",
    "s = Sigmoid (x) y = Mul (x, s)": "onnxruntime_fused",
    "s = Sigmoid (x) y = Mul (s, x)": "onnxruntime_fused",
    "a = Add (x, three) b = Clip (a, zero, six) c = Mul (x, b) y = Div (c, six)": (
        "onnxruntime_fused"
    ),
    "a = Div (x, root) b = Erf (a) c = Add (b, one) d = Mul (x, c) y = Mul (d, half)": (
        "onnxruntime_float"  # one Gelu by then
    ),
    "a = Softplus (x) b = Tanh (a) y = Mul (x, b)": "onnxruntime",
    "y = Log (x)": "onnxruntime",
}
"""Nodes, and the body that they get on a large tensor."""

NUMBERS = {
    "half": np.float32(0.5),
    "one": np.float32(1),
    "three": np.float32(3),
    "six": np.float32(6),
    "zero": np.float32(0),
    "root": np.float32(np.sqrt(2)),
}

every_chain = pytest.mark.parametrize("nodes", CHAINS)


def chain(nodes, shape=(1, 8, 32, 32), **weights):
    sizes = ", ".join(map(str, shape))
    used = {name: value for name, value in NUMBERS.items() if name in nodes}
    text = f"g (float[{sizes}] x) => (float[{sizes}] y) {{ {nodes} }}"
    return model(text, opset=OPSET, **used, **weights)


def feeds(nodes, shape=(1, 8, 32, 32)):
    x = 2 * numbers(*shape)
    return [{"x": np.abs(x) + np.float32(0.1) if "Log" in nodes else x}]


def integer(nodes, **options):
    """One integer node, from stored input to stored output, with its report."""
    return quantize(chain(nodes), feeds(nodes), integer_io=True, **options)


def lookup(made):
    graph, record = import_graph(made), read_record(made)[0]
    (node,) = [node for node in graph.nodes if node.op in LOOKUPS]
    return node, record


def priced(monkeypatch, **changes):
    """Costs of zero but for ``changes``."""
    costs = Costs(0.0, dict.fromkeys(measured().element, 0.0) | changes)
    monkeypatch.setattr(choosing, "measured", lambda: costs)


@pytest.mark.thinned
@every_chain
def test_the_usual_chains_get_the_body_that_is_fast(nodes):
    result = integer(nodes)
    (evidence,) = result.evidence
    assert form(evidence.body) == CHAINS[nodes]
    assert evidence.proved and result.verdict == "ok"
    assert result.report["summary"]["tables"]["bodies"] == {CHAINS[nodes]: 1}
    known = {name: cost for name, cost in evidence.costs_ns.items() if cost is not None}
    assert min(known, key=known.get) == CHAINS[nodes]


@pytest.mark.thinned
@every_chain
@pytest.mark.parametrize("optimize", [False, True])
def test_the_chosen_body_gives_the_table_for_every_code_in_whole_graphs(nodes, optimize):
    made = integer(nodes).model
    node, _ = lookup(made)
    x = np.random.default_rng(1).permutation(np.resize(ALL, 8 * 32 * 32)).reshape(1, 8, 32, 32)
    (name,) = (value.name for value in made.graph.input)
    for which in (made, with_bodies(made, "portable")):
        (found,) = Session(which, optimize=optimize).run(None, {name: x})
        np.testing.assert_array_equal(found, OPS["Lut"].reference(x, node.inputs[1].values))


@pytest.mark.thinned
@every_chain
def test_verify_accepts_the_choice_and_refuses_another_one(nodes):
    original, made = chain(nodes), quantize(chain(nodes), feeds(nodes)).model
    assert verify(made, original, feeds(nodes)).verdict == "ok"
    other = with_bodies(made, "portable")
    assert verify(other, original, feeds(nodes)).verdict == "failed"


@pytest.mark.parametrize(
    "options", [{"bodies": "portable"}, {"bodies": "portable", "exact": True}]
)
def test_portable_graphs_have_no_made_bodies(options):
    result = integer("s = Sigmoid (x) y = Mul (x, s)", **options)
    (evidence,) = result.evidence
    assert (evidence.body, evidence.costs_ns) == ("portable", {})
    assert {f.overload for f in result.model.functions} == {"portable"}


def test_int8_activations_get_no_float_body():
    found = {form(integer(nodes, activation_type="int8").evidence[0].body) for nodes in CHAINS}
    assert found == {"onnxruntime", "onnxruntime_sigmoid", "onnxruntime_leaky_relu"}


def test_a_body_that_is_cheaper_but_differs_for_one_code_is_not_used(monkeypatch):
    """The table takes the nearest code where Log is not defined, the float body cannot."""
    priced(monkeypatch, Lut=1e9)
    low = [{"x": np.linspace(-1, 3, 8192, dtype=np.float32).reshape(1, 8, 32, 32)}]
    safe = "a = Max (x, zero) y = Sqrt (x)"
    original = chain(safe.replace("a = Max (x, zero) ", ""))
    result = quantize(original, [{"x": np.abs(low[0]["x"])}], symmetric=True, integer_io=True)
    (evidence,) = result.evidence
    assert result.report["summary"]["undefined_codes"]
    assert evidence.body == "onnxruntime" and evidence.mismatches == 0
    assert evidence.costs_ns["onnxruntime_float"] is None


def test_the_choice_follows_the_costs(monkeypatch):
    nodes = "s = Sigmoid (x) y = Mul (x, s)"
    for changes, chosen in [
        ({"Lut": 1.0, "QuickGelu": 2.0}, "onnxruntime_float"),
        ({"Lut": 1.0, "Sigmoid": 2.0}, "onnxruntime_fused"),
        ({"DequantizeLinear": 1.0}, "onnxruntime"),
    ]:
        priced(monkeypatch, **changes)
        (evidence,) = integer(nodes).evidence
        assert form(evidence.body) == chosen
        assert evidence.costs_ns[chosen] == 0


def test_the_costs_of_a_chain_add_up():
    costs = Costs(
        5.0,
        {"DequantizeLinear": 1, "Sigmoid": 10, f"Mul{TWO}": 100, "Mul": 7e7}
        | {"QuantizeLinear": 1000, "Lut": 3, "Transpose": 2},
    )
    node, record = lookup(integer("s = Sigmoid (x) y = Mul (x, s)").model)
    made = {form(body.overload): body for body in made_bodies(node, record)}
    # x is read twice, so it is dequantized twice
    assert costs.of("Lut", made["onnxruntime_float"], 20, 9) == 5 * 5 + 20 * 1112
    declared = OPS["Lut"].overload("onnxruntime")
    assert costs.of("Lut", declared, 20) == 5 * 5 + 20 * 3
    assert costs.of("Lut", declared, 20, 2) == 7 * 5 + 20 * 7


def test_the_table_of_costs_covers_every_op_of_a_chain():
    content = tomllib.loads((Path(choosing.__file__).parent / FILE).read_text("utf-8"))
    wanted = ELEMENTWISE | {op + TWO for op in COMBINING} | LOOKUPS
    wanted |= {"DequantizeLinear", "QuantizeLinear", "QLinearLeakyRelu", "QLinearSigmoid"}
    assert content["element"].keys() == wanted | {"QuickGelu", "Transpose"}
    assert all(0 <= cost < 100 for cost in content["element"].values())
    assert content["node"] > 0


def test_convolutions_around_a_table_count_as_transposes(monkeypatch):
    text = """g (float[1, 4, 32, 32] x) => (float[1, 4, 32, 32] y) {
        a = Conv (x, w) s = Softplus (a) y = Conv (s, w)
    }"""
    made = model(text, opset=OPSET, w=numbers(4, 4, 1, 1))
    for price in (0.0, 1.0):
        priced(monkeypatch, Lut=1.0, Transpose=price)
        found = quantize(made, [{"x": numbers(1, 4, 32, 32)}]).evidence
        (evidence,) = [each for each in found if each.op == "Lut"]
        assert evidence.costs_ns["onnxruntime"] == round(4 * 32 * 32 * (1 + 2 * price))


def test_equal_functions_of_equal_scales_share_one_body():
    text = """g (float[1, 4, 8, 8] x) => (float[1, 4, 8, 8] y) {
        a = Conv (x, w) s = Exp (a) t = Exp (a) u = Add (s, x) v = Add (t, x) y = Add (u, v)
    }"""
    made = quantize(
        model(text, opset=OPSET, w=numbers(4, 4, 1, 1)), [{"x": numbers(1, 4, 8, 8)}]
    ).model
    called = [n.overload for n in made.graph.node if n.op_type == "Lut"]
    attached = [f.overload for f in made.functions if f.name == "Lut"]
    assert sorted(set(called)) == sorted(attached)


SLOPE = numbers(4, 1, 1)


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("statements", "op"),
    {
        "c = PRelu (a, slope) y = Add (c, b)": "LutPerChannel",
        "s = Abs (a) c = Mul (s, scale) y = Add (c, b)": "LutPerChannel",
        "c = Add (a, columns) y = Add (c, b)": "LutPerChannel",
        "y = Max (a, b)": "LutPair",
        "y = Min (a, b)": "LutPair",
        "c = ReduceMax <keepdims = 1> (b, last) y = Min (a, c)": "LutPair",
        "c = Exp (b) y = Div (a, c)": "LutPair",
    }.items(),
)
def test_tables_of_channels_and_pairs_are_computed_in_float_where_that_is_equal(
    statements, op
):
    given = {
        "slope": SLOPE,
        "scale": SLOPE[None],
        "columns": numbers(1, 1, 1, 8),
        "last": np.array([3]),
    }
    used = {name: value for name, value in given.items() if name in statements}
    text = f"""g (float[1, 4, 8, 8] x) => (float[1, 4, 8, 8] y) {{
        a = Conv (x, w) b = Conv (x, v) {statements}
    }}"""
    made = model(
        text, opset=OPSET, w=numbers(4, 4, 1, 1), v=numbers(4, 4, 1, 1, seed=1), **used
    )
    data = [{"x": numbers(1, 4, 8, 8, seed=seed)} for seed in range(3)]
    result = quantize(made, data)
    found = [each for each in result.evidence if each.op == op]
    if "ReduceMax" not in statements:  # not integer yet: then the pair is not either
        (evidence,) = found
        assert evidence.proved and "onnxruntime_float" in evidence.costs_ns
    assert verify(result.model, made, data).verdict in ("ok", "incomplete")


@pytest.mark.parametrize("place", ["in a vector", "at the end"])
def test_a_body_that_is_wrong_in_some_place_is_found(place, monkeypatch):
    """A kernel may compute otherwise what is left over at the end."""
    node, record = lookup(integer("y = Exp (x)").model)
    (body,) = [b for b in made_bodies(node, record) if form(b.overload) == "onnxruntime_float"]

    def off(op, which, inputs, attributes, *, optimize):
        def run(inputs):
            x, table = inputs
            found = OPS[op].reference(x, table).copy()
            if place == "at the end" and x.size == 3:
                found[-1] ^= 1
            if place == "in a vector" and x.size > 256:
                found[5::64] ^= np.uint8(optimize)
            return found

        return run

    table = node.inputs[1].values
    monkeypatch.setattr(tables, "op_runner", off)
    unlike = replace(body, overload=f"{body.overload}_{place}")
    assert tables.table_differences("Lut", unlike, table, ["uint8"], {}).any()


@pytest.mark.thinned
@every_chain
def test_what_is_said_to_differ_differs(nodes):
    """Each made body, run on its own on a row of all codes, against the table."""
    node, record = lookup(integer(nodes).model)
    table = node.inputs[1].values
    for body in made_bodies(node, record):
        wrong = tables.table_differences("Lut", body, table, ["uint8"], {})
        function = OPS["Lut"].function(body, OPSET)
        call = helper.make_node("Lut", ["x", "table"], ["y"], domain=DOMAIN)
        call.overload = body.overload
        graph = helper.make_graph(
            [call],
            "g",
            [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [256])],
            [helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, [256])],
            [numpy_helper.from_array(table, "table")],
        )
        imports = [*function.opset_import, helper.make_opsetid(DOMAIN, 1)]
        alone = helper.make_model(graph, functions=[function], opset_imports=imports)
        alone.ir_version = 10
        onnx.checker.check_model(alone, full_check=True)
        for optimize in (False, True):
            (found,) = Session(alone, optimize=optimize).run(None, {"x": ALL})
            assert not ((found != table) & ~wrong).any()


@pytest.mark.parametrize("fault", ["constant", "function", "overload", "costs"])
def test_a_changed_made_body_fails(fault):
    nodes = "s = Sigmoid (x) y = Mul (x, s)"
    original, made = chain(nodes), quantize(chain(nodes), feeds(nodes)).model
    (node,) = [n for n in made.graph.node if n.domain == DOMAIN]
    about = {entry.key: entry for entry in node.metadata_props}
    if fault == "constant":
        (function,) = made.functions
        scale = next(n for n in function.node if n.output[0] == "y_scale")
        scale.attribute[0].t.CopyFrom(numpy_helper.from_array(np.float32(0.5)))
    elif fault == "function":
        other = quantize(chain("y = Exp (x)"), feeds("")).model
        (theirs,) = [n for n in other.graph.node if n.domain == DOMAIN]
        about["qpasses.function"].value = next(
            e.value for e in theirs.metadata_props if e.key == "qpasses.function"
        )
    elif fault == "overload":
        node.overload = made.functions[0].overload = "onnxruntime_fused_0123456789ab"
    else:
        about["qpasses.costs"].value = json.dumps({"onnxruntime": 1})
    if fault == "function":  # of which no kernel is the whole
        with pytest.raises(ModelError, match="no known body"):
            verify(made, original, feeds(nodes))
    else:
        assert verify(made, original, feeds(nodes)).verdict == "failed"


def test_an_unknown_body_is_named():
    node, record = lookup(integer("y = Exp (x)").model)
    record.nodes[node.name].overload = "onnxruntime_sigmoid_0123456789ab"
    with pytest.raises(LookupError, match="no body 'onnxruntime_sigmoid_0123456789ab'"):
        body_of(node, record)


def test_a_made_body_carries_its_function_and_no_statements():
    node, record = lookup(integer("s = Sigmoid (x) y = Mul (x, s)").model)
    for body in made_bodies(node, record):
        assert isinstance(body, Body) and body.proto and body.statements is NOTHING
        assert form(body.overload) in MADE


def test_inspect_shows_what_was_considered(tmp_path):
    nodes = "s = Sigmoid (x) y = Mul (x, s)"
    path = tmp_path / "m.onnx"
    quantize(chain(nodes), feeds(nodes), path)
    (row,) = [row for row in inspect(path).rows if row.op == "Lut"]
    assert row.proof.costs_ns.keys() == {
        "onnxruntime",
        "onnxruntime_float",
        "onnxruntime_fused",
    }


@pytest.mark.parametrize(
    ("statements", "shown"),
    {
        "c = PRelu (a, slope) y = Add (c, b)": ["table of channel 3, by the byte of x:"],
        "c = Exp (b) y = Div (a, c)": ["every 16th entry of the table"],
    }.items(),
)
def test_inspect_prints_tables_of_channels_and_pairs(statements, shown, tmp_path):
    path = tmp_path / "m.onnx"
    text = f"""g (float[1, 4, 8, 8] x) => (float[1, 4, 8, 8] y) {{
        a = Conv (x, w) b = Conv (x, v) {statements}
    }}"""
    weights = {"w": numbers(4, 4, 1, 1), "v": numbers(4, 4, 1, 1, seed=1)}
    used = {"slope": SLOPE} if "slope" in statements else {}
    quantize(model(text, opset=OPSET, **weights, **used), [{"x": numbers(1, 4, 8, 8)}], path)
    name = next(r.name for r in inspect(path).rows if r.op in ("LutPerChannel", "LutPair"))
    printed = run("inspect", path, "--node", name).out
    for line in [*shown, "considered", "onnxruntime"]:
        assert line in printed
    table = next(iter(inspect(path).node(name).constants.values()))
    row = table.reshape(-1, 16)[0] if "slope" in statements else table[:256:16]
    assert " ".join(f"{v:4}" for v in row) in printed
