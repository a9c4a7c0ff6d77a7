"""Passes are held to what they say: each of these wrong ones is found and named."""

import numpy as np
import onnx.parser
import pytest

from opsets.errors import ModelError
from opsets.target import load_target
from qpasses.ir.changes import SMALL, Snapshot
from qpasses.ir.graph import add_node, new_tensor
from qpasses.ir.interchange import import_graph
from qpasses.ir.record import NodeRecord
from qpasses.ir.rewriting import (
    NOT_MINE,
    REWRITTEN,
    Context,
    Declined,
    Pass,
    run_passes,
)
from qpasses.ir.settings import Settings
from qpasses.ir.shapes import infer_shapes

FEW, MANY = 3, SMALL + 3


def chain(length):
    """LeakyRelu between so many Relu before it and as many behind it."""
    names = [f"t{i}" for i in range(2 * length + 2)]
    ops = ["Relu"] * length + ["LeakyRelu <alpha = 0.1>"] + ["Relu"] * length
    body = " ".join(f"[n{i}] {names[i + 1]} = {op} ({names[i]})" for i, op in enumerate(ops))
    text = f"g (float[4] {names[0]}) => (float[4] {names[-1]}) {{ {body} }}"
    header = '<ir_version: 10, opset_import: ["" : 21]>'
    return import_graph(infer_shapes(onnx.parser.parse_model(f"{header} {text}")))


class Wrong(Pass):
    """Does ``change`` and says ``outcome``."""

    op_types = frozenset({"LeakyRelu"})

    def __init__(self, outcome, change=lambda *_: None):
        self.outcome, self.change = outcome, change

    def rewrite(self, graph, node, context):
        self.change(graph, node, context)
        return self.outcome


def slope(_graph, node, _context):
    node.attrs["alpha"] = 0.2


def list_in_place(_graph, node, _context):
    node.attrs["axes"] = [1]


def another_op(_graph, node, _context):
    node.op = "Elu"


def new_operand(_graph, node, context):
    node.inputs.append(context.constant("c", np.zeros(4, np.float32)))


def renamed_tensor(_graph, node, _context):
    node.outputs[0].name = "other"


def other_shape(_graph, node, _context):
    node.outputs[0].shape.append(1)


def other_type(_graph, node, _context):
    node.inputs[0].dtype = np.dtype("uint8")


def renamed_node_before(_graph, node, _context):
    node.inputs[0].inputs[0].name = "other"


def attribute_of_a_reader(_graph, node, _context):
    node.outputs[0].outputs[0].attrs["alpha"] = 1.0


def one_node_more(graph, node, context):
    spare = new_tensor(context.fresh("spare"), node.inputs[0])
    add_node(graph, "Abs", "spare", [node.inputs[0]], [spare])


def one_node_less(_graph, node, _context):
    node.outputs.clear()


def another_output(graph, node, _context):
    graph.outputs.append(node.outputs[0])


def written_record(_graph, node, context):
    context.record.nodes[node.name] = NodeRecord([node.name], {})


CHANGES = (
    *(slope, list_in_place, another_op, new_operand, renamed_tensor, other_shape),
    *(other_type, renamed_node_before, attribute_of_a_reader, one_node_more),
    *(another_output, one_node_less, written_record),
)
"""The last two leave no graph, or only a record: no pass can mean to."""


def run_on(length, wrong):
    graph, context = chain(length), Context(Settings(load_target("onnx")))
    run_passes([wrong], graph, context)
    return graph, context


@pytest.mark.parametrize("length", [FEW, MANY])
@pytest.mark.parametrize("outcome", [NOT_MINE, Declined("no")], ids=["not mine", "declined"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_pass_that_leaves_a_node_alone_changes_nothing(change, outcome, length):
    with pytest.raises(ModelError, match=rf"pass wrong .*left alone \w+ 'n{length}'"):
        run_on(length, Wrong(outcome, change))


def test_what_a_pass_declines_changes_nothing_far_away():
    def first_node(graph, _node, _context):
        graph.nodes[0].op = "Abs"

    for length in (FEW, MANY):
        with pytest.raises(ModelError, match=r"pass wrong .*left alone .* has changed"):
            run_on(length, Wrong(Declined("no"), first_node))


def test_in_a_graph_of_thousands_a_false_claim_is_found_when_the_pass_is_through(monkeypatch):
    monkeypatch.setattr("qpasses.ir.rewriting.LARGE", SMALL)
    for wrong in (Wrong(Declined("no"), slope), Wrong(REWRITTEN)):
        with pytest.raises(ModelError, match=r"pass wrong .* all nodes it was asked about"):
            run_on(MANY, wrong)


@pytest.mark.parametrize("length", [FEW, MANY])
def test_a_pass_that_says_that_it_rewrote_changed_something(length):
    with pytest.raises(ModelError, match=r"pass wrong .*rewrote .*the graph is as it was"):
        run_on(length, Wrong(REWRITTEN))


@pytest.mark.parametrize("length", [FEW, MANY])
@pytest.mark.parametrize("change", CHANGES[:-2])
def test_each_of_these_changes_is_a_rewriting(change, length):
    run_on(length, Wrong(REWRITTEN, change))


def test_the_nodes_around_are_printed():
    with pytest.raises(ModelError) as raised:
        run_on(MANY, Wrong(NOT_MINE, slope))
    assert str(raised.value).splitlines()[1:] == [
        f"  Relu 'n{MANY - 1}' (t{MANY - 1}) -> (t{MANY})",
        f"  LeakyRelu 'n{MANY}' (t{MANY}) -> (t{MANY + 1})",
        f"  Relu 'n{MANY + 1}' (t{MANY + 1}) -> (t{MANY + 2})",
    ]


def test_a_pass_that_leaves_all_alone_is_believed():
    for outcome in (NOT_MINE, Declined("no")):
        graph, context = run_on(FEW, Wrong(outcome))
        assert len(graph.nodes) == 2 * FEW + 1
        assert context.record.declined == ({} if outcome is NOT_MINE else {"n3": "no"})


def test_a_reason_may_be_about_other_nodes():
    _graph, context = run_on(FEW, Wrong(Declined("no", of=["n0", "n1"])))
    assert context.record.declined == {"n0": "no", "n1": "no"}


def loose_end(_graph, node, context):
    node.inputs[0] = new_tensor(context.fresh("nowhere"), node.inputs[0])


def unknown_op(_graph, node, _context):
    node.op, node.domain = "IntNothing", "qpasses"


@pytest.mark.parametrize("change", [loose_end, unknown_op])
def test_a_graph_that_is_none_names_the_pass_and_the_nodes(change):
    with pytest.raises(ModelError, match="after wrong: ") as raised:
        run_on(FEW, Wrong(REWRITTEN, change))
    assert "-> (t4)" in str(raised.value).splitlines()[-2]


def looks(monkeypatch, *passes):
    """How often the whole graph was taken down while these passes ran over it."""
    taken = []

    class Counted(Snapshot):
        def __init__(self, graph, node=None):
            taken.append(node is None)
            super().__init__(graph, node)

    monkeypatch.setattr("qpasses.ir.rewriting.Snapshot", Counted)
    run_passes([Idle(), *passes], chain(MANY), Context(Settings(load_target("onnx"))))
    return sum(taken)


class Idle(Wrong):
    """Is asked about nothing."""

    op_types = frozenset({"Gelu"})

    def __init__(self):
        super().__init__(REWRITTEN, slope)


def test_passes_that_change_nothing_share_what_the_graph_was(monkeypatch):
    idle, busy = Wrong(NOT_MINE), Wrong(REWRITTEN, slope)
    assert looks(monkeypatch) == 0
    assert looks(monkeypatch, idle, idle, idle) == 1
    assert looks(monkeypatch, idle, busy, idle, idle) == 2


def test_a_false_claim_is_found_behind_passes_that_changed_nothing(monkeypatch):
    monkeypatch.setattr("qpasses.ir.rewriting.LARGE", SMALL)
    idle, busy = Wrong(NOT_MINE), Wrong(REWRITTEN, another_op)
    for honest in ([idle], [idle, idle], [Wrong(REWRITTEN, slope), idle]):
        with pytest.raises(ModelError, match=r"pass wrong .*left alone .* has changed"):
            looks(monkeypatch, *honest, Wrong(NOT_MINE, list_in_place))
        with pytest.raises(ModelError, match=r"pass wrong .*rewrote .*the graph is as it was"):
            looks(monkeypatch, *honest, Wrong(REWRITTEN))
    looks(monkeypatch, idle, busy)
