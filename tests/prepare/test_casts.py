"""Casts that change nothing stand in no fusion's way, as in the functions of ONNX."""

import numpy as np
import pytest

import qpasses
from tests.support.small_models import model, numbers

SHRINK = """
net (float[4, 8] x) => (float[4, 8] y) {
    [bound] b = CastLike (lambd, x)
    [twice] t = Add (b, b)
    [same] s = Cast <to = 1> (x)
    a = Add (s, t)
    y = Relu (a)
}"""

CHANGING = (
    "net (float[4, 8] x) => (OUT[4, 8] y) { r = Relu (x) [cast] y = Cast <to = TO> (r) }"
)


def left_of(made):
    result = qpasses.quantize(made, [{"x": numbers(4, 8)}])
    return {node["op_type"] for node in result.report["summary"]["float_nodes"]}


def test_casts_to_the_type_it_has_and_of_constants_are_gone():
    assert left_of(model(SHRINK, lambd=np.float64(0.5))) == set()


@pytest.mark.parametrize("type_name, to", [("int64", 7), ("bool", 9), ("float16", 10)])
def test_a_cast_to_another_type_stays(type_name, to):
    made = model(CHANGING.replace("OUT", type_name).replace("TO", str(to)))
    assert "Cast" in left_of(made)
