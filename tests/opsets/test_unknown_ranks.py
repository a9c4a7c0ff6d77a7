"""Compiled kernels of tensors whose rank onnxruntime does not know before it runs them."""

from itertools import islice

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from calibration import Session
from opsets.native import KERNELS, library
from opsets.qpasses_v1 import OPS
from tests.support.native_runs import EVERY
from tests.support.op_cases import Case
from tests.support.tosa_nodes import each_output, expected, model_of_nodes

pytestmark = pytest.mark.skipif(library() is None, reason="there was no compiler for kernels")


def of_unknown_rank(made):
    """``made``, whose inputs come out of an If: its branches differ in rank."""
    graph = made.graph
    axis = numpy_helper.from_array(np.array([0]), "axis")
    for value in list(graph.input):
        name, given = value.name, f"{value.name}_given"
        value.name = given
        bodies = {
            end: helper.make_graph([node], end, [], [onnx.ValueInfoProto(name=node.output[0])])
            for end, node in (
                ("then_branch", helper.make_node("Identity", [given], [f"{name}_as_it_is"])),
                (
                    "else_branch",
                    helper.make_node("Unsqueeze", [given, "axis"], [f"{name}_more"]),
                ),
            )
        }
        graph.node.insert(0, helper.make_node("If", ["taken"], [name], **bodies))
    graph.initializer.append(axis)
    graph.input.append(helper.make_tensor_value_info("taken", onnx.TensorProto.BOOL, []))
    return made


@pytest.mark.thinned
@pytest.mark.parametrize("are_declared", [True, False])
@pytest.mark.parametrize("name", KERNELS)
def test_results_have_the_type_and_the_integers_of_the_reference(name, are_declared):
    op, cases = OPS[name], EVERY[name](np.random.default_rng(0))
    for _, case in islice(dict(cases).items(), 2):
        exact = expected(op, case)
        made = of_unknown_rank(model_of_nodes(op, {"it": case}, [exact]))
        for end in () if are_declared else made.graph.output:
            end.ClearField("type")
        feed = {
            f"{formal}_0_given": array
            for formal, array in zip(op.inputs, case.inputs, strict=True)
            if formal in op.data
        }
        session = Session(made, operators=library(), arena=False)
        found = session.run(session.outputs, {**feed, "taken": np.array(True)})
        for ours, wanted in zip(found, each_output(exact), strict=True):
            assert ours.dtype == wanted.dtype
            np.testing.assert_array_equal(ours, wanted)


def test_what_has_an_axis_behind_a_kernel_is_loaded():
    """onnxruntime refuses an axis of what is said to have none."""
    codes, table = np.arange(24, dtype=np.uint8).reshape(2, 3, 4), np.arange(256)[::-1]
    case = Case([codes, table.astype(np.uint8)], {})
    made = of_unknown_rank(model_of_nodes(OPS["Lut"], {"it": case}))
    real = helper.make_node("Cast", ["y_0"], ["real"], to=onnx.TensorProto.FLOAT)
    made.graph.node.extend([real, helper.make_node("Softmax", ["real"], ["z"], axis=2)])
    made.graph.output[0].CopyFrom(onnx.ValueInfoProto(name="z"))
    session = Session(made, operators=library(), optimize=False)
    (found,) = session.run(None, {"x_0_given": codes, "taken": np.array(True)})
    np.testing.assert_allclose(found.sum(2), 1, rtol=1e-6)
