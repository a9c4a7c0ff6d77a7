"""Bodies of Loop and If: what is emitted of them is verified, integers and floats."""

import numpy as np
import pytest

from qpasses import quantize, verify
from qpasses.ir.model_nodes import nested_graphs
from tests.support.small_models import model, numbers, pictures

LOOP = """g (float[N, 1, 8, 8] x) => (float[N, 4, 6, 6] y, float[n] z) {
    [first] y = Conv (x, w)
    [mean] m = ReduceMean <keepdims = 0> (y)
    [go] k = Cast <to = 9> (one)
    [loop] last, z = Loop <
        body = b (int64 i, bool c, float s) => (bool d, float t, float u) { BODY }
    > (three, k, m)
}"""

BODIES = {
    "a condition that is constant": "d = Cast <to = 9> (one) t = Add (s, s) u = Abs (t)",
    "a constant that is read outside too": """e = CastLike (three, s) t = Mul (s, e)
        u = Abs (t) f = Less (i, three) d = Identity (f)""",
    "nodes that read nothing": """r = Constant <value = float {2.0}> () t = Mul (s, r)
        u = RandomUniform <shape = [1], seed = 1.0> () d = Identity (c)""",
}

SHARED = """g (float[N, 4] x, bool q) => (float[N, 4] y, float[N, 4] z) {
    [first] h = MatMul (x, v)
    [choice] y = If (q) <
        then_branch = t () => (float[N, 4] a) { a = MatMul (h, w) },
        else_branch = e () => (float[N, 4] b) { c = MatMul (h, w) b = Neg (c) }
    >
    z = Relu (h)
}"""


@pytest.mark.parametrize("name", BODIES)
def test_the_body_of_a_loop_is_verified(name):
    constants = {"one": np.int64(1), "three": np.int64(3), "w": numbers(4, 1, 3, 3)}
    made = model(LOOP.replace("BODY", BODIES[name]), opset=17, **constants)
    feeds = [{"x": picture[None]} for picture in pictures(4)]
    result = quantize(made, feeds)
    verified = verify(result.model, made, feeds)
    assert (verified.verdict, verified.report["summary"]["problems"]) == (result.verdict, [])


def test_weights_that_two_branches_read_are_written_once_and_outside_of_them():
    constants = {"v": numbers(4, 4), "w": numbers(4, 4, seed=1)}
    made = model(SHARED, opset=17, **constants)
    feeds = [{"x": numbers(2, 4, seed=i), "q": np.array(i < 2)} for i in range(4)]
    result = quantize(made, feeds, nodes_to_exclude=["choice/.*"])
    *bodies, graph = nested_graphs(result.model.graph)
    assert not any(body.initializer for body in bodies)
    assert [each.name for each in graph.initializer].count("w") == 1
    assert verify(result.model, made, feeds).verdict == result.verdict


def test_branches_that_call_their_results_as_their_if_does_are_verified():
    made = model(
        """g (float[N, 4] x, bool q) => (float[N, 4] y) {
            [first] h = MatMul (x, w)
            [choice] y = If (q) <
                then_branch = t () => (float[N, 4] y) { y = Neg (h) },
                else_branch = e () => (float[N, 4] y) { z = Abs (h) y = Neg (z) }
            >
        }""",
        opset=17,
        w=numbers(4, 4),
    )
    feeds = [{"x": numbers(2, 4, seed=i), "q": np.array(i < 2)} for i in range(4)]
    result = quantize(made, feeds)
    assert verify(result.model, made, feeds).verdict == result.verdict
    assert [each.name for each in result.model.graph.output] == ["y"]
