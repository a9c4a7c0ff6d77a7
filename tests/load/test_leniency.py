"""Files that onnxruntime runs and ONNX's checker refuses."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import qpasses
from calibration import Session
from qpasses.load.leniency import completed
from tests.support.small_models import model, numbers

NET = """g (float[1, 2, 5, 5] x) => (float[1, 3, 5, 5] y) {
    [first] a = Conv (x, w)
    [second] b = Relu (a)
    [third] c = Sigmoid (b)
    [last] y = Add (b, c)
}"""
FEEDS = [{"x": numbers(1, 2, 5, 5, seed=seed)} for seed in range(3)]


def net():
    return model(NET, opset=17, w=numbers(3, 2, 1, 1))


def names(made):
    return [node.name for node in made.graph.node]


def shuffled(made, order):
    other = onnx.ModelProto.FromString(made.SerializeToString())
    del other.graph.node[:]
    other.graph.node.extend(made.graph.node[place] for place in order)
    return other


def test_a_model_that_lacks_nothing_is_itself():
    made = net()
    assert completed(made) is made


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (0, 3, 1, 2), (1, 0, 2, 3)])
def test_nodes_in_any_order_are_sorted_and_the_user_s_model_stays(order):
    given = shuffled(net(), order)
    before = given.SerializeToString()
    assert names(completed(given)) == names(net())
    made = qpasses.quantize(given, FEEDS)
    assert given.SerializeToString() == before
    assert made.model.graph == qpasses.quantize(net(), FEEDS).model.graph
    assert qpasses.verify(made.model, given, FEEDS).verdict == "ok"


def test_nodes_that_read_each_other_are_refused():
    given = net()
    given.graph.node[0].input[0] = "y"
    assert completed(given) is given
    with pytest.raises(qpasses.ModelError, match="reads 'y', which nothing writes"):
        qpasses.quantize(given, FEEDS)


def test_a_body_may_be_in_any_order_and_what_it_reads_outside_comes_before_it():
    body = [helper.make_node("Neg", ["m"], ["r"]), helper.make_node("Abs", ["a"], ["m"])]
    ends = [helper.make_tensor_value_info("r", onnx.TensorProto.FLOAT, None)]
    branch = helper.make_graph(body, "body", [], ends)
    given = model(
        "g (float[2] x, bool c) => (float[2] y) { a = Relu (x) y = Neg (a) }", opset=17
    )
    given.graph.node[1].CopyFrom(
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    )
    made = completed(shuffled(given, (1, 0)))
    assert [node.op_type for node in made.graph.node] == ["Relu", "If"]
    inner = made.graph.node[1].attribute[0].g
    assert [node.op_type for node in inner.node] == ["Abs", "Neg"]
    onnx.checker.check_model(made, full_check=True)


def test_of_a_constant_that_is_written_twice_the_last_counts_as_in_onnxruntime():
    def constant(value):
        return helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(value))

    given = net()
    given.graph.node[3].input[1] = "k"
    given.graph.node.insert(0, constant(np.float32(1)))
    given.graph.node.append(constant(np.float32(2)))
    made = completed(given)
    assert [node.op_type for node in made.graph.node].count("Constant") == 1
    onnx.checker.check_model(made, full_check=True)
    for feed in FEEDS:
        theirs, ours = (Session(each).run(None, feed)[0] for each in (given, made))
        np.testing.assert_array_equal(ours, theirs)
