"""Loops that somebody changed need not end: verify says what is wrong before it runs them."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import qpasses
from tests.support.bodies_nets import body_feeds, body_net
from tests.support.recurrent_nets import Net

SAID = "not run on samples: loops of what was changed need not end"


def judged(model, original, feeds):
    """The problems; nothing of ``model`` may have been run."""
    found = qpasses.verify(model, original, feeds)
    assert (found.verdict, "bodies" in found.report["checks"]) == ("failed", False)
    assert SAID in found.report["warnings"]
    return found.report["summary"]["problems"]


def without_count(loop):
    loop.input[0] = ""


def other_count(loop):
    loop.input[0] = "forged"


def other_condition(loop):
    loop.input[1] = "true"


@pytest.mark.parametrize("change", [without_count, other_count, other_condition])
def test_loops_that_run_otherwise_are_judged_and_not_run(change):
    original, feeds = body_net("loop"), body_feeds("loop")
    made = qpasses.quantize(original, feeds).model
    forged = {"forged": np.int64(np.iinfo(np.int64).max), "true": np.array(True)}
    (loop,) = (node for node in made.graph.node if node.op_type == "Loop")
    change(loop)
    made.graph.initializer.extend(
        numpy_helper.from_array(value, name)
        for name, value in forged.items()
        if name in loop.input
    )
    assert any("loop/Begun_0" in each for each in judged(made, original, feeds))


def test_a_loop_in_a_changed_function_is_not_run():
    original, feed = Net("LSTM").made()
    feeds = [feed] * 4
    made = qpasses.quantize(original, feeds).model
    (loop,) = (n for f in made.functions for n in f.node if n.op_type == "Loop")
    loop.input[0] = ""
    assert any("is not the declared body" in each for each in judged(made, original, feeds))


def test_what_was_not_changed_is_run():
    original, feeds = body_net("loop"), body_feeds("loop")
    found = qpasses.verify(qpasses.quantize(original, feeds).model, original, feeds)
    assert found.report["checks"]["bodies"]["samples"] == len(feeds)
    assert SAID not in found.report["warnings"]


def test_branches_are_run_whatever_was_changed():
    original, feeds = body_net("branches"), body_feeds("branches")
    made = onnx.ModelProto()
    made.CopyFrom(qpasses.quantize(original, feeds).model)
    (choice,) = (node for node in made.graph.node if node.op_type == "If")
    first, second = choice.attribute
    first.name, second.name = second.name, first.name
    found = qpasses.verify(made, original, feeds)
    assert (found.verdict, "bodies" in found.report["checks"]) == ("failed", True)
