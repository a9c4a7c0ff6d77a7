"""bisect in bodies: a node of a branch or a loop that is wrong is told from what inherits."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import qpasses
from qpasses.ir.model_nodes import nested_graphs
from qpasses.load.integer_model import read_integer_model
from tests.support.bodies_nets import CASES, body_feeds, body_net, feeds_of, of_text


def vectors_of(model, feeds, folder):
    """The dump of a device that computes ``model``."""
    onnx.save(model, folder.with_suffix(".onnx"))
    qpasses.export(
        folder.with_suffix(".onnx"), folder, to="vectors", data=feeds, samples=len(feeds)
    )
    return folder / "tensors"


def with_other_bias(model, name):
    """A copy in which the node ``name`` adds other numbers: all its codes are other ones."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for graph in nested_graphs(copy.graph):
        for node in (each for each in graph.node if each.name == name):
            place = next(
                place
                for place, read in enumerate(node.input)
                if (held := constant(copy, read)) is not None
                and held.dtype == np.int32
                and held.size > 1
            )
            held = constant(copy, node.input[place])
            copy.graph.initializer.append(
                numpy_helper.from_array(held + np.int32(4000), f"{name} other")
            )
            node.input[place] = f"{name} other"
    return copy


def constant(model, name):
    for graph in nested_graphs(model.graph):
        for tensor in graph.initializer:
            if tensor.name == name:
                return numpy_helper.to_array(tensor)
    return None


def products(model):
    return [
        node.name
        for graph in nested_graphs(model.graph)
        for node in graph.node
        if node.op_type in ("IntGemm", "IntConv")
    ]


@pytest.mark.thinned
@pytest.mark.parametrize("name", CASES)
def test_a_right_device_differs_nowhere(name, tmp_path):
    original, feeds = body_net(name), body_feeds(name)
    made = qpasses.quantize(original, feeds).model
    found = qpasses.bisect(made, vectors_of(made, feeds, tmp_path / "made"), data=feeds)
    assert (found.verdict, len(found.tensors) > 2) == ("equal", True)
    assert all(each.codes for each in found.tensors)


@pytest.mark.thinned
@pytest.mark.parametrize("name", CASES)
def test_the_wrong_node_is_named_and_it_alone(name, tmp_path):
    original, feeds = body_net(name), body_feeds(name)
    made = qpasses.quantize(original, feeds).model
    for place, node in enumerate(products(made)):
        changed = with_other_bias(made, node)
        dump = vectors_of(changed, feeds, tmp_path / f"changed{place}")
        found = qpasses.bisect(made, dump, data=feeds)
        assert [each.node for each in found.faults] == [node], name


def test_rules_are_tried_on_each_iteration(tmp_path):
    original, feeds = body_net("loop"), body_feeds("loop")
    made = qpasses.quantize(original, feeds).model
    node = "loop/body/product"
    dump = vectors_of(with_other_bias(made, node), feeds, tmp_path / "changed")
    (fault,) = qpasses.bisect(made, dump, data=feeds).faults
    assert fault.explanation.own_share < 0.5


def test_what_does_not_lie_stacked_is_not_explained(tmp_path):
    original, feeds = body_net("a loop in a loop"), body_feeds("a loop in a loop")
    made = qpasses.quantize(original, feeds).model
    inner = next(name for name in products(made) if name.count("body") == 2)
    dump = vectors_of(with_other_bias(made, inner), feeds, tmp_path / "changed")
    (fault,) = qpasses.bisect(made, dump, data=feeds).faults
    assert fault.explanation is None
    assert "its iterations do not lie stacked: what explains it is not asked" in fault.remarks


@pytest.mark.parametrize("name", ["loop", "scan", "a branch in a loop"])
def test_a_dump_of_few_tensors_blames_the_nodes_between(name, tmp_path):
    original, feeds = body_net(name), body_feeds(name)
    made = qpasses.quantize(original, feeds).model
    node = products(made)[-1]
    dump = vectors_of(with_other_bias(made, node), feeds, tmp_path / "changed")
    nodes = read_integer_model(made, "made").graph.nodes
    (written,) = (
        tensor.name for each in nodes if each.name == node for tensor in each.outputs
    )
    for file in dump.glob(f"*/*_{written}.npy"):
        file.unlink()
    found = qpasses.bisect(made, dump, data=feeds)
    assert found.faults and all(node in each.nodes for each in found.faults)


def test_a_dump_says_itself_what_the_device_was_fed(tmp_path):
    original, feeds = body_net("loop"), body_feeds("loop")
    made = qpasses.quantize(original, feeds).model
    dump = vectors_of(with_other_bias(made, "loop/body/product"), feeds, tmp_path / "changed")
    assert [each.node for each in qpasses.bisect(made, dump).faults] == ["loop/body/product"]


def test_another_number_of_iterations_is_not_compared(tmp_path):
    original, feeds = body_net("loop"), body_feeds("loop")
    made = qpasses.quantize(original, feeds).model
    dump = vectors_of(made, feeds, tmp_path / "made")
    for file in dump.glob("*/*q_quantized.npy"):
        np.save(file, np.load(file)[:-1])
    found = qpasses.bisect(made, dump, data=feeds)
    assert (found.verdict, len(found.of("unread"))) == ("unread", 1)


SEQUENCE = """
    h = MatMul (x, w)
    e = SequenceEmpty ()
    begun = SequenceInsert (e, h)
    [loop] whole = Loop (two, "", begun) <body = turn
        (int64 i, bool on, seq(float[2, 4]) s) => (bool off, seq(float[2, 4]) t)
        { off = Identity (on) last = SequenceAt (s, i) [product] q = MatMul (last, v)
          r = Tanh (q) t = SequenceInsert (s, r) }
    >
    y = ConcatFromSequence <axis = 0> (whole)"""


def test_a_loop_that_carries_a_sequence_has_vectors_and_its_nodes_are_compared(tmp_path):
    original, feeds = of_text("float[2, 4] x", "float[6, 4] y", SEQUENCE), feeds_of("float x")
    made = qpasses.quantize(original, feeds).model
    dump = vectors_of(with_other_bias(made, "loop/body/product"), feeds, tmp_path / "changed")
    found = qpasses.bisect(made, dump, data=feeds)
    assert [each.node for each in found.faults] == ["loop/body/product"]
