"""What branches and loops lose is told, whatever their nodes read."""

import pytest

import qpasses
from tests.support.bodies_nets import CASES, body_feeds, body_net, feeds_of, of_text


def analysis(original, feeds):
    """With a twentieth of a second for costs: no test reads how much they are."""
    made = qpasses.quantize(original, feeds, analyze="no").model
    return qpasses.analyze(made, original, feeds, seconds=0.05).report["analysis"]


@pytest.mark.thinned
@pytest.mark.parametrize("name", CASES)
def test_every_net_with_bodies_is_analyzed(name):
    found = analysis(body_net(name), body_feeds(name))
    assert found["sqnr_db"] > 20


PASSED_OVER = """
    h = MatMul (x, w)
    [loop] y, z = Loop (three, "", zeros) <body = turn
        (int64 i, bool on, float[4] s) => (bool off, float[4] t, float[4] o) {
        [row] e = Gather <axis = 0> (h, i)
        off = Identity (on) r = Add (e, s) t = Tanh (r) o = Mul (t, half)
    }>"""
"""A table stands for Tanh and Mul, though t is stored too: nobody reads o of the Mul alone,
which would be computed where there is no iteration, and t of the Gather with it."""


def test_what_another_node_stands_for_is_not_computed_where_there_is_no_iteration():
    original = of_text("float[3, 4] x", "float[4] y, float[k, 4] z", PASSED_OVER)
    assert analysis(original, feeds_of("x", (3, 4)))["sqnr_db"] > 20
