"""Recurrent nets in float16 or float64 become those in float32, as all weights do."""

import numpy as np
import pytest
from onnx import helper

import qpasses
from tests.support.recurrent_nets import GATES
from tests.support.small_models import model, numbers, session

NET = """g ({kind}[3, 2, 4] x) => ({kind}[3, 1, 2, 4] y) {{
    y = {op} <hidden_size = 4> (x, w, r) }}"""


def net(op, kind, dtype):
    """The same numbers in each type: those of float16."""
    rows = 4 * GATES[op]
    w, r = (numbers(1, rows, 4, seed=seed).astype(np.float16) for seed in (1, 2))
    text = NET.format(op=op, kind=kind)
    return model(text, opset=21, w=w.astype(dtype), r=r.astype(dtype)), [
        {"x": numbers(3, 2, 4, seed=seed).astype(np.float16).astype(dtype)}
        for seed in range(4)
    ]


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("float16", np.float16), ("double", np.float64)],
    ids=["half", "double"],
)
@pytest.mark.parametrize("op", GATES)
def test_a_net_in_another_type_becomes_the_integers_of_that_in_float32(op, kind, dtype):
    original, feeds = net(op, kind, dtype)
    usual, usual_feeds = net(op, "float", np.float32)
    made, expected = qpasses.quantize(original, feeds), qpasses.quantize(usual, usual_feeds)
    assert (made.verdict, expected.verdict) == ("ok", "ok")
    assert qpasses.verify(made.model, original, feeds).verdict == "ok"
    (end,) = made.model.graph.input
    wanted = helper.tensor_dtype_to_np_dtype(end.type.tensor_type.elem_type)
    for feed, other in zip(feeds, usual_feeds, strict=True):
        ours = session(made.model).run(None, {"x": feed["x"].astype(wanted)})[0]
        theirs = session(expected.model).run(None, other)[0]
        np.testing.assert_array_equal(ours, theirs)
