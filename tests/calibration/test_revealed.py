"""What bodies compute as outputs: of a branch, of each iteration."""

import numpy as np
import onnx
import pytest

from calibration import Session
from calibration.revealed import revealed
from opsets.errors import ModelError
from tests.support.small_models import model, numbers

BRANCHES = """g (float[2, 3] x, bool c) => (float[a, b] y) {
    y = If (c) <
        then_branch = yes () => (float[2, 3] p) { k = Neg (x) p = Relu (k) },
        else_branch = no () => (float[2, 3] q) { m = Exp (x) q = Log (m) }
    >
}"""

LOOP = """g (float[2] x, int64 n) => (float[2] y) {
    y = Loop (n, "", x) <body = turn
        (int64 i, bool on, float[2] s) => (bool off, float[2] t)
        { off = Identity (on) k = Neg (s) t = Add (k, x) }>
}"""

GROWING = """g (float[2] x, int64 n) => (float[m] y) {
    y = Loop (n, "", x) <body = turn
        (int64 i, bool on, float[j] s) => (bool off, float[l] t)
        { off = Identity (on) k = Neg (s) t = Concat <axis = 0> (k, x) }>
}"""

NESTED = """g (float[2] x, int64 n, int64 two) => (float[2] y) {
    y = Loop (n, "", x) <body = turn
        (int64 i, bool on, float[2] s) => (bool off, float[2] t) {
        off = Identity (on) p = Less (i, two)
        t = If (p) <
            then_branch = yes () => (float[2] a) { k = Neg (s) a = Abs (k) },
            else_branch = no () => (float[2] b) { b = Abs (s) }
        >
    }>
}"""


def run(made, names, feed):
    made.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return Session(made, optimize=False).run(names, feed)


@pytest.mark.parametrize("choice", [True, False])
def test_a_branch_that_is_not_taken_gives_nothing(choice):
    x = numbers(2, 3)
    k, m = run(model(BRANCHES), ["k", "m"], {"x": x, "c": np.array(choice)})
    taken, other = (k, m) if choice else (m, k)
    assert np.allclose(taken, -x if choice else np.exp(x)) and other.size == 0


def test_iterations_are_stacked():
    x = np.float32([1, -2])
    (k,) = run(model(LOOP), ["k"], {"x": x, "n": np.array(3)})
    state, expected = x, []
    for _ in range(3):
        expected.append(-state)
        state = x - state
    assert np.array_equal(k, expected)


def test_iterations_of_other_sizes_are_joined():
    (k,) = run(model(GROWING), ["k"], {"x": np.float32([1, -2]), "n": np.array(3)})
    assert k.shape == (2 + 4 + 6,)


def test_branches_of_some_iterations_are_joined():
    feed = {"x": np.float32([1, -2]), "n": np.array(4), "two": np.array(2)}
    k, b = run(model(NESTED), ["k", "b"], feed)
    assert np.array_equal(k, [-1, 2, -1, -2]) and np.array_equal(b, [1, 2, 1, 2])


def test_outputs_that_are_there_are_left_alone():
    made = model(LOOP)
    assert revealed(made) is made


def test_optimized_sessions_give_them_too():
    made = model(BRANCHES)
    made.graph.output.extend(onnx.ValueInfoProto(name=name) for name in ("k", "m"))
    x = numbers(2, 3)
    k, m = Session(made).run(["k", "m"], {"x": x, "c": np.array(True)})
    assert np.array_equal(k, -x) and m.size == 0


def test_a_tensor_of_no_known_type_is_named():
    made = model(BRANCHES, domains=["other"])
    branch = made.graph.node[0].attribute[0].g
    node = branch.node[0]
    node.op_type, node.domain = "Nothing", "other"
    made.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
    with pytest.raises(ModelError, match=f"type of '{node.output[0]}'"):
        revealed(made)


def test_a_scan_that_names_the_ways_of_its_results_gives_inner_tensors():
    made = model(
        """g (float[3, 2] x) => (float[2, 3] y) {
        y = Scan (x) <num_scan_inputs = 1, scan_output_axes = [1],
            scan_output_directions = [1],
            body = turn (float[2] e) => (float[2] f) { k = Neg (e) f = Exp (k) }>
    }"""
    )
    x = numbers(3, 2)
    y, k = run(made, ["y", "k"], {"x": x})
    assert np.array_equal(k, -x) and np.allclose(y, np.exp(-x)[::-1].T)
