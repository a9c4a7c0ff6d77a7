"""Align: tied tensors share a range."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import Range
from opsets.target import load_target
from qpasses.ir.graph import is_graph_output
from qpasses.ir.interchange import import_graph
from qpasses.ir.moving import MOVING
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.ir.shapes import infer_shapes
from qpasses.ir.stages import CLAMPING
from qpasses.place.alignment import align
from qpasses.place.planning import plan
from tests.support.stage_checks import CONSTANTS, net, networks
from tests.support.thoroughness import thoroughly


def aligned(graph, ranges):
    """The plan of a float graph, and the range of each of its tensors."""
    chosen = plan(graph, Context(Settings(load_target("onnx"))))
    given_ranges = ranges(chosen.tensors)
    return chosen, given_ranges, align(graph, chosen, given_ranges)


def ends(body, outputs="float[] y", **ranges):
    """Where the aligned ranges of the tensors end, by name."""
    graph = import_graph(infer_shapes(net([1, 2, 4, 4], body, outputs=outputs, **CONSTANTS)))
    found = aligned(graph, lambda _: {name: Range(*each) for name, each in ranges.items()})[2]
    return {name: (each.low, each.high) for name, each in found.items()}


NARROW = (
    "c = Conv (x, w3) p = MaxPool <kernel_shape = [1, 1]> (c) r = Relu (p) y = Conv (r, w)"
)
RANGES = {"x": (-1, 1), "c": (-5, 10), "p": (-4, 9), "r": (0, 9), "y": (-3, 3), "z": (-7, 8)}


def test_a_relu_behind_a_max_pool_narrows_both():
    kept = {"x": (-1, 1), "y": (-3, 3)}
    assert ends(NARROW, **RANGES) == {"c": (0, 9), "p": (0, 9), "r": (0, 9), **kept}


@pytest.mark.parametrize("reader", ["z = Conv (c, w)", "z = Softmax (c)"])
def test_a_tensor_keeps_the_range_that_other_nodes_read(reader):
    found = ends(f"{NARROW} {reader}", "float[] y, float[] z", **RANGES)
    assert (found["c"], found["p"], found["r"]) == ((-5, 10), (-5, 10), (0, 9))


def test_a_part_that_nothing_reads_is_not_stored():
    body = "p, q = Split <axis = 2, num_outputs = 2> (x) y = Conv (p, w)"
    found = ends(body, p=(-1, 1), q=(-9, 9), y=(0, 1))
    assert found == {"x": (-1, 1), "p": (-1, 1), "y": (0, 1)}


def test_a_tensor_of_which_the_places_alone_are_read_keeps_its_range():
    body = "c = Conv (x, w3) v, y = TopK <axis = 1> (c, axis)"
    found = ends(body, "int64[] y", x=(-1, 1), c=(-5, 10))
    assert found == {"x": (-1, 1), "c": (-5, 10)}


@pytest.mark.parametrize("outputs", ["float[] y", "float[] y, int64[] i"])
def test_a_tensor_of_which_places_are_read_too_keeps_its_range(outputs):
    """In the range of the values that are kept, others are clipped to where these are."""
    body = "c = Conv (x, w3) y, i = TopK <axis = 1, largest = 0> (c, axis)"
    found = ends(body, outputs, x=(-1, 1), c=(-5, 10), y=(-5, 3))
    assert found["c"] == found["y"] == (-5, 10 if "i" in outputs else 3)


def test_an_output_keeps_its_range_and_the_relu_behind_it_has_its_own():
    found = ends(NARROW, "float[] y, float[] p", **RANGES)
    assert (found["c"], found["p"], found["r"]) == ((-4, 9), (-4, 9), (0, 9))


def test_a_relu_that_uses_most_of_a_shared_range_shares_it():
    ranges = RANGES | {"c": (-1, 10), "p": (-1, 10)}
    found = ends(NARROW, "float[] y, float[] p", **ranges)
    assert {name: found[name] for name in "cpr"} == dict.fromkeys("cpr", (-1, 10))


def test_the_inputs_of_a_concat_share_its_range():
    body = "a = Conv (x, w3) b = Conv (x, w3) c = Concat <axis = 3> (a, b) y = Conv (c, w)"
    found = ends(body, x=(-1, 1), a=(-9, 9), b=(-3, 1), c=(-3, 2), y=(0, 1))
    assert {name: found[name] for name in "abc"} == dict.fromkeys("abc", (-3, 2))


def test_what_a_node_absorbs_an_activation_from_carries_no_scale():
    ranges = {"x": (-1, 1), "t": (0, 0.75), "y": (0, 1)}
    body = "c = Conv (x, w3) r = Relu (c) t = Clip (r, low, high) y = Conv (t, w)"
    assert ends(body, **ranges) == ranges


@thoroughly(100)
@given(made=networks(), data=st.data())
def test_groups_share_a_range_that_holds_what_is_computed_on(made, data):
    def drawn(names):
        both = st.tuples(st.integers(-9, 0), st.integers(0, 9))
        return {name: Range(*data.draw(both)) for name in names}

    graph = import_graph(infer_shapes(made))
    chosen, before, after = aligned(graph, drawn)
    only_moves_on = {
        name: tensor.outputs
        and not is_graph_output(graph, tensor)
        and all(reader.op in MOVING.keys() | CLAMPING for reader in tensor.outputs)
        for name, tensor in chosen.tensors.items()
    }
    for node in graph.nodes:
        reads = [t.name for t in node.inputs if t.name in after]
        if node.op in MOVING and reads and node.outputs[0].name in after:
            assert {after[name] for name in reads} == {after[node.outputs[0].name]}
    for name, moves_on in only_moves_on.items():
        if not moves_on:
            assert after[name].union(before[name]) == after[name]
