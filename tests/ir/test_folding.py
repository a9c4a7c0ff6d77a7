"""A branch that is always taken stands where its If stood, whatever its outputs are."""

import numpy as np
import pytest

import qpasses
from qpasses.ir.folding import fold_constants
from qpasses.ir.graph import add_node, new_tensor
from qpasses.ir.interchange import export_graph, import_graph, prepared_model
from qpasses.ir.model_nodes import nested_graphs
from tests.support.small_models import model, numbers, session

BRANCHES = {
    "read inside": "h = Relu (x) i = Neg (h)",
    "a constant": "h = Constant <value = float {2.0}> () i = Neg (a)",
    "of one node": "h, i = Split <axis = 0, num_outputs = 2> (x)",
    "of a branch inside": """
        h, i = If (yes) <
            then_branch = t () => (float[] u, float[] v) { u = Abs (x) v = Neg (u) },
            else_branch = e () => (float[] r, float[] t) { r = Abs (x) t = Abs (x) }
        >""",
}
OUTER = """
g (float[2, 4] x) => (float[N, M] y, float[K, L] z) {
    a = Abs (x)
    b = Neg (x)
    m, n = If (yes) <
        then_branch = then () => (float[] h, float[] i) { BODY },
        else_branch = other () => (float[] p, float[] q) { p = Abs (x) q = Abs (x) }
    >
    s = Add (m, b)
    y = Add (s, n)
    z = Relu (n)
}"""


def branched(body, **weights):
    return model(OUTER.replace("BODY", body), opset=18, yes=np.array(True), **weights)


def assert_taken(made):
    feed, graph = {"x": numbers(2, 4)}, import_graph(made)
    assert fold_constants(graph) and "If" not in {node.op for node in graph.nodes}
    folded = session(prepared_model(graph)).run(None, feed)
    for real, found in zip(session(made).run(None, feed), folded, strict=True):
        assert np.array_equal(real, found)
    result = qpasses.quantize(made, [feed])
    assert qpasses.verify(result.model, made, [feed]).verdict == result.verdict


@pytest.mark.thinned
@pytest.mark.parametrize("what", BRANCHES)
def test_a_branch_of_two_outputs_keeps_both(what):
    assert_taken(branched(BRANCHES[what]))


def test_branches_that_use_the_same_names_do_not_meet():
    body = "h = Relu (x) u = Neg (h) i = Relu (u)"
    start, end = OUTER.index("    m, n = If"), OUTER.index("    s = Add")
    again = OUTER[start:end].replace("m, n", "o, k").replace("BODY", body)
    text = OUTER.replace("    s = Add (m", f"{again}    s = Add (o").replace("BODY", body)
    assert_taken(model(text, opset=18, yes=np.array(True)))


def test_what_stands_in_a_branch_becomes_integer():
    made = branched("h = Relu (x) i = MatMul (h, w)", w=numbers(4, 4))
    result = qpasses.quantize(made, [{"x": numbers(2, 4)}])
    assert "IntGemm" in {each.op for each in result.evidence}


def test_an_if_of_an_input_stays():
    made = model(
        "g (bool c, float[2] x) => (float[2] y) { y = If (c) <"
        "then_branch = t () => (float[2] a) { a = Abs (x) },"
        "else_branch = e () => (float[2] b) { b = Neg (x) }> }"
    )
    graph = import_graph(made)
    assert not fold_constants(graph)
    assert [node.op_type for node in export_graph(graph).graph.node] == ["If"]


def test_where_nothing_can_be_folded_nothing_is_copied(monkeypatch):
    def copied(*_, **__):
        raise AssertionError

    graph = import_graph(
        model("g (float[2, 4] x) => (float[2, 4] y) { y = Abs (x) }", opset=18)
    )
    unread = new_tensor("unread", graph.inputs[0])
    add_node(graph, "Neg", "unread", graph.inputs, [unread])
    monkeypatch.setattr(type(graph), "copy", copied)
    assert not fold_constants(graph)
    assert [node.op for node in graph.nodes] == ["Abs"]


FOLDED = {
    "of constants": "c = Neg (two) y = Add (x, c)",
    "of nothing": "c = Constant <value = float[1] {2.0}> () y = Add (x, c)",
    "of a shape": "s = Shape (x) y = Expand (x, s)",
    "in a body": """y = If (b) <
        then_branch = t () => (float[2, 4] u) { c = Neg (two) u = Add (x, c) },
        else_branch = e () => (float[2, 4] v) { v = Neg (x) }
    >""",
}


@pytest.mark.parametrize("what", FOLDED)
def test_what_is_constant_is_folded(what):
    text = f"g (float[2, 4] x, bool b) => (float[2, 4] y) {{ {FOLDED[what]} }}"
    graph = import_graph(model(text, opset=18, two=np.float32([2])))
    fold_constants(graph)
    graphs = [*nested_graphs(export_graph(graph).graph)]
    left = {node.op_type for each in graphs for node in each.node}
    assert left.isdisjoint({"Constant", "Shape"}) and ("Neg" in left) is (what == "in a body")
    assert all(len(each.node) == 1 for each in graphs)
