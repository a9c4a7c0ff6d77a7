"""The attacks of docs/attacks.md on models that are quantized already, and what they found."""

import numpy as np
import pytest

import qpasses
from calibration import Session
from tests.bench.fuzzing.graphs import Case
from tests.bench.fuzzing.judge import Seen
from tests.bench.fuzzing.judge_quantized import judge_quantized
from tests.bench.fuzzing.quantized import quantized_case
from tests.bench.fuzzing.real_meaning import WrongSizeError, meaning
from tests.bench.mutation import __main__ as mutate
from tests.bench.mutation import campaign
from tests.support.small_models import model, numbers
from tests.support.thoroughness import THOROUGH

FEW = [0, 4, 6, 12, 13, 22, 28, 31, 38, 93, 125, 190]
"""Of the graphs of seed 0, those that cover much or failed before."""


def test_random_quantized_graphs_pass_every_check():
    seen, failures = Seen(), []
    for number in range(60) if THOROUGH else FEW:
        drawn = quantized_case(0, number)
        failure = drawn and judge_quantized(drawn, seen)
        failures += [(number, failure)] if failure and "twice" not in failure.kind else []
    assert failures == []
    assert seen.verdicts["ok"] > 12 and seen.compared["graphs compared"] > 6


def test_a_quantized_case_is_the_same_each_time():
    one, other = (quantized_case(0, 4) for _ in range(2))
    assert one.is_quantized and one.model == other.model


def test_no_fault_in_what_is_made_of_quantized_models_survives():
    attacked = campaign.targets(["pt2e_x86_opset18", "built_38"])
    many = 10 if THOROUGH else 1
    planned = [
        *mutate.faults(attacked, list(campaign.KINDS), 5, range(20 * many)),
        *mutate.faults(attacked, list(campaign.FORGED), 5, range(6 * many)),
    ]
    outcomes = [
        campaign.judge(target, *mutant)
        for target, kind, number in planned
        if (mutant := target.mutant(kind, 5, number))
    ]
    assert {*campaign.FORGED} <= {each.fault.kind for each in outcomes}
    assert [str(each) for each in outcomes if each.result not in campaign.RESULTS[:2]] == []


@pytest.mark.parametrize(
    ("name", "kind", "seed", "number"),
    [
        ("built_32", "scale", 0, 150),  # of a constant in float, an ulp off
        ("built_32", "declaration", 5, 367),  # the size of a constant in float
        ("far_apart", "other body", 5, 659),  # one of 16 bits for a node of 8
    ],
)
def test_a_fault_that_was_not_found_once_is_caught(name, kind, seed, number):
    (target,) = campaign.targets([name])
    outcome = campaign.judge(target, *target.mutant(kind, seed, number))
    assert outcome.result == campaign.RESULTS[0]


def float32(*values):
    return np.array(values, np.float32)


S, T = float32(0.02).reshape(()), float32(0.05).reshape(())
ZERO, BYTE = np.array(0, np.int8), np.array(0, np.uint8)
SCALES = {"s": S, "t": T, "z": ZERO, "u": BYTE}


def integerized(body, inputs="float[2, 3] x", output="float[2, 3] y", feeds=None, **constants):
    """What is made of a Q/DQ graph: its verdict, verified, is that of every check."""
    text = f"g ({inputs}) => ({output}) {{ {body} }}"
    original = model(text, opset=17, ir_version=8, **SCALES, **constants)
    feeds = feeds or [{"x": numbers(2, 3, seed=seed)} for seed in range(3)]
    made = qpasses.integerize(original, feeds)
    assert made.verdict != "failed"
    assert qpasses.verify(made.model, original, feeds).verdict == made.verdict


def test_one_node_may_read_a_tensor_stored_in_two_ways():
    integerized("""a = QuantizeLinear (x, s, z) b = DequantizeLinear (a, s, z)
             c = QuantizeLinear (b, t, z) d = DequantizeLinear (c, t, z)
             e = Add (b, d) f = QuantizeLinear (e, t, z) y = DequantizeLinear (f, t, z)""")


def test_integers_that_are_given_may_be_dequantized_twice():
    feeds = [{"x": np.arange(6, dtype=np.int8).reshape(2, 3)}]
    integerized(
        """a = DequantizeLinear (x, s, z) b = DequantizeLinear (x, s, z)
           c = Add (a, b) d = QuantizeLinear (c, t, z) y = DequantizeLinear (d, t, z)""",
        "int8[2, 3] x",
        feeds=feeds,
    )


def test_an_input_may_leave_as_integers_without_a_zero_point():
    integerized("y = QuantizeLinear (x, s)", output="uint8[2, 3] y")


def test_a_cast_of_stored_integers_to_their_own_type_is_nothing():
    integerized("""a = QuantizeLinear (x, s, z) b = Cast <to = 3> (a)
             y = DequantizeLinear (b, s, z)""")


def test_a_bias_beyond_int64_is_stored_as_it_can_be():
    integerized(
        """a = QuantizeLinear (x, s, z) b = DequantizeLinear (a, s, z)
           v = DequantizeLinear (w, s, z) c = Gemm (b, v, huge)
           y = Relu (c)""",
        w=np.eye(3, dtype=np.int8),
        huge=float32(1e30, 0, -1e30),
    )


@pytest.mark.parametrize("op", ["Relu", "ReduceMin <keepdims = 1>"])
def test_what_others_read_too_is_not_stored_in_the_codes_of_a_part(op):
    """Negative numbers were cut off: the range of a Relu was that of its input."""
    text = f"""g (float[2, 3] x) => (float[2, 3] y, float[N, M] r) {{
        a = {op} (x) b = QuantizeLinear (a, s, u) r = DequantizeLinear (b, s, u)
        c = Mul (x, x) d = QuantizeLinear (c, t, z) y = DequantizeLinear (d, t, z)
    }}"""
    original = model(text, opset=17, ir_version=8, **SCALES)
    feeds = [{"x": numbers(2, 3, seed=seed)} for seed in range(3)]
    for data in (feeds, None):
        made = qpasses.integerize(original, data).model
        ours, theirs = (
            Session(each, optimize=False).run(None, feeds[0])[0] for each in (made, original)
        )
        np.testing.assert_allclose(ours, theirs, atol=0.11)


@pytest.mark.parametrize("zeros", [[0, 0, 0], [63, 69, 53]])
def test_weights_that_are_quantized_anew_are_not_held_against_the_model(zeros):
    """Without zero points of their own they take nine bits, the report says so by name."""
    text = """g (float[2, 3] x) => (float[2, 3] y) {
        a = QuantizeLinear (x, s, z) b = DequantizeLinear (a, s, z)
        v = DequantizeLinear <axis = 1> (w, scales, zeros) c = MatMul (b, v)
        d = QuantizeLinear (c, t, z) y = DequantizeLinear (d, t, z)
    }"""
    w = np.array([[-128, 127, 9], [127, -128, 0], [5, 3, -128]], np.int8)
    scales = {"scales": float32(0.007, 0.008, 0.006), "zeros": np.array(zeros, np.int8)}
    original = model(text, opset=17, ir_version=8, **SCALES, **scales, w=w)
    feeds = tuple({"x": numbers(2, 3, seed=seed)} for seed in range(3))
    seen = Seen()
    assert judge_quantized(Case(original, feeds, {}, is_quantized=True), seen) is None
    assert bool(seen.compared["graphs compared"]) == (not any(zeros))


def test_onnxs_evaluator_is_not_believed_where_its_result_has_another_size():
    text = "g (float[1, 1, 4] x) => (float[1, 1, 4] y) { y = MaxPool <ATTRIBUTES> (x) }"
    pool = model(text.replace("ATTRIBUTES", "kernel_shape = [2], pads = [0, 1]"))
    with pytest.raises(WrongSizeError, match=r"MaxPool: \(1, 1, 3\), not \[1, 1, 4\]"):
        meaning(pool, {"x": numbers(1, 1, 4)})
