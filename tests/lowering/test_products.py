"""Products of two stacks of matrices: where they become integer, and that they stay right."""

import numpy as np
import onnx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import numpy_helper

from calibration import Session
from opsets.errors import ModelError
from opsets.target import load_target
from qpasses import inspect, quantize, verify
from qpasses.evidence.bodies import constants_of
from qpasses.evidence.kernel_probe import probe_node
from qpasses.evidence.prove import prove
from qpasses.evidence.prove_words import operands_of
from qpasses.evidence.thresholds import products
from qpasses.ir.interchange import import_graph, prepared_model
from qpasses.ir.metadata import read_record
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.prepare.canonical import prepare
from tests.support.small_models import model, numbers
from tests.support.stage_checks import check, net, random_feeds, seeds, stages
from tests.support.thoroughness import thoroughly

SETTINGS = {
    "uint8": {},
    "int8": {"activation_type": "int8"},
    "portable": {"bodies": "portable"},
    "exact": {"exact": True},
    "6 bits, narrow": {"activation_bits": 6, "narrow_range": True},
}

ATTENTION = """attention (float[N, T, 8] x) => (float[N, T, 8] y, float[N, T, T] scores) {
    q = MatMul (x, w_q) k = MatMul (x, w_k) v = MatMul (x, w_v)
    k_turned = Transpose <perm = [0, 2, 1]> (k)
    [scores] scores = MatMul (q, k_turned)
    [scaled] s = Mul (scores, third)
    p = Softmax (s)
    [values] y = MatMul (p, v)
}"""


def attention():
    weights = {name: numbers(8, 8, seed=i) for i, name in enumerate(("w_q", "w_k", "w_v"))}
    return model(ATTENTION, third=np.float32(1 / 3), **weights)


def feeds(tokens=5):
    return [{"x": numbers(1, tokens, 8, seed=seed)} for seed in range(4)]


def ops(made):
    return [node.op_type for node in made.graph.node]


STACKS = st.sampled_from(
    [([], []), ([2], []), ([], [3]), ([2], [1]), ([2, 1], [3]), ([1, 3], [2, 1])]
)


@thoroughly(40)
@given(
    seed=seeds,
    leading=STACKS,
    rows=st.integers(1, 4),
    inner=st.sampled_from([1, 3, 40]),
    then=st.sampled_from(["y = Relu (c)", "y = Identity (c)"]),
)
def test_the_product_of_two_results_is_off_by_no_more_than_its_evidence(
    seed, leading, rows, inner, then
):
    first, second = ([*leading[0], rows, 2], [*leading[1], inner, 3])
    made = model(
        f"""g (float{first} x, float{second} z) => (float[] y) {{
            a = MatMul (x, v) b = MatMul (z, w) c = MatMul (a, b) {then}
        }}""",
        opset=21,
        v=numbers(2, inner, seed=seed),
        w=numbers(3, 4, seed=seed + 1),
    )
    found = stages(made, random_feeds(made, seed))
    assert ops(found.integer).count("IntMatMul") == 1
    assert "MatMul" not in ops(found.integer)
    check(found, random_feeds(made, seed + 1))


@thoroughly(20)
@given(seed=seeds, stack=st.sampled_from([[3], [1, 2]]), first=st.booleans())
def test_a_constant_stack_is_stored_like_an_activation(seed, stack, first):
    product = "MatMul (k, x)" if first else "MatMul (x, k)"
    constant = numbers(*stack, *((5, 2) if first else (4, 5)), seed=seed)
    made = net([2, 4], f"c = {product} y = Relu (c)", k=constant)
    found = stages(made, random_feeds(made, seed))
    assert [op for op in ops(found.integer) if op.startswith("Int")] == ["IntMatMul"]
    check(found, random_feeds(made, seed + 1))


@pytest.mark.thinned
@pytest.mark.parametrize("name", SETTINGS)
def test_a_product_of_what_softmax_gives_in_float_stays_float(name):
    made = quantize(attention(), feeds(), softmax_nodes="float", **SETTINGS[name])
    left = {node["name"] for node in made.report["summary"]["float_nodes"]}
    assert "values" in left and not left & {"scores", "scaled"}
    proof = next(each for each in made.evidence if each.name == "scores")
    assert (proof.op, proof.kind, proof.mismatches) == ("IntMatMul", "thresholds", 0)
    assert proof.proved and proof.reference_max_lsb <= 1
    assert proof.body.startswith("portable" if name == "portable" else "onnxrun")
    found = verify(made.model, attention(), feeds())
    assert found.report["summary"]["problems"] == []
    assert found.report["checks"]["kernel_probe"]["nodes"] == 4


def test_the_multiply_accumulates_of_a_product_are_counted_as_integer():
    made = quantize(attention(), feeds(), softmax_nodes="float")
    projections, scores, values = 3 * 5 * 8 * 8, 5 * 5 * 8, 5 * 5 * 8
    summary = made.report["summary"]
    assert summary["macs"] == projections + scores + values
    assert summary["integer_mac_share"] == pytest.approx(1 - values / summary["macs"])


def test_an_inner_size_that_is_free_is_that_of_the_first_sample():
    text = """g (float[N, T, 8] x) => (float[N, 8, 8] y) {
        q = MatMul (x, w) t = Transpose <perm = [0, 2, 1]> (q) [square] y = MatMul (t, q)
    }"""
    made = quantize(model(text, w=numbers(8, 8)), feeds(7))
    node = next(node for node in made.model.graph.node if node.name == "square")
    assert {a.name: a.i for a in node.attribute}["inner"] == 7
    found = verify(made.model, model(text, w=numbers(8, 8)), feeds(7))
    assert found.verdict == made.verdict == "ok"


def test_a_product_of_so_many_terms_that_int32_could_overflow_stays_float():
    text = """g (float[N, 40000, 1] x) => (float[N, 1, 1] y) {
        q = MatMul (x, w) t = Transpose <perm = [0, 2, 1]> (q) [square] y = MatMul (t, q)
    }"""
    samples = [{"x": np.abs(numbers(1, 40000, 1))}]  # zero points at the end of the type
    made = quantize(model(text, w=np.float32([[1]])), samples)
    (left,) = made.report["summary"]["float_nodes"]
    assert left["name"] == "square" and "overflow its int32" in left["reason"]


# One break at a time.


def broken(made, name, formal, change):
    """A copy of ``made`` in which one constant of a node is changed."""
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    node = next(node for node in copy.graph.node if node.name == name)
    position = {"multiplier": 4, "shift": 5}[formal]
    tensor = next(t for t in copy.graph.initializer if t.name == node.input[position])
    values = numpy_helper.to_array(tensor) + np.int32(change)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return copy


@pytest.mark.parametrize(("formal", "change"), [("multiplier", 1), ("shift", 1)])
def test_a_changed_multiplier_or_shift_is_found(formal, change):
    made = quantize(attention(), feeds()).model
    changed = broken(made, "scores", formal, change)
    problems = verify(changed, attention(), feeds()).report["summary"]["problems"]
    assert any("'scores'" in each or "scores." in each for each in problems)


def with_inner(made, value):
    """``made`` with another inner size on its product."""
    node = next(node for node in made.graph.node if node.name == "scores")
    attribute = next(each for each in node.attribute if each.name == "inner")
    attribute.CopyFrom(onnx.helper.make_attribute("inner", value))
    return made


def test_an_inner_size_smaller_than_that_of_the_first_sample_is_found():
    made = with_inner(quantize(attention(), feeds()).model, 1)
    problems = verify(made, attention(), feeds()).report["summary"]["problems"]
    assert any("'scores'" in each for each in problems)


@pytest.mark.parametrize("value", [-1, 1 << 40, "many", [8]])
def test_an_inner_size_that_is_none_is_refused(value):
    made = with_inner(quantize(attention(), feeds()).model, value)
    with pytest.raises(ModelError, match="'scores' has not the inputs and attributes"):
        verify(made, attention(), feeds())


def test_inspect_gives_the_scale_of_a_product_as_that_of_its_three_tensors(tmp_path):
    made = quantize(attention(), feeds()).model
    onnx.save(made, tmp_path / "integer.onnx")
    row = inspect(tmp_path / "integer.onnx").node("scores")
    scales = {each.input: each.scale for each in (*row.inputs, *row.outputs)}
    assert row.real_scale == [pytest.approx(scales["a"] * scales["b"] / scales["y"])]
    assert row.multiplier[0] / 2 ** row.shift[0] == pytest.approx(row.real_scale[0])
    assert row.attributes["inner"] == 8


def test_a_multiplier_is_a_mismatch_exactly_if_the_probe_finds_one():
    made, seen = quantize(attention(), feeds()).model, set()
    for change in range(-12, 13):
        changed = broken(made, "scores", "multiplier", change)
        graph, record = import_graph(changed), read_record(changed)[0]
        evidence = next(each for each in prove(graph, record) if each.name == "scores")
        node = next(node for node in graph.nodes if node.name == "scores")
        asked, wrong = probe_node(node, constants_of(node), evidence.body)
        assert asked == 2 * 255 and (evidence.mismatches > 0) is (wrong > 0)
        seen.add(wrong > 0)
    assert seen == {False, True}


# What a proof covers is what occurs, and the probe reaches all of it.

generator = st.integers(0, 2**32 - 1).map(np.random.default_rng)
zeros = st.sampled_from([np.array(0, np.uint8), np.array(255, np.uint8)]) | st.builds(
    lambda code: np.array(code, np.int8), st.integers(-128, 127)
)


@thoroughly(100)
@given(zeros, zeros, st.integers(1, 40), generator)
@example(np.array(255, np.uint8), np.array(0, np.uint8), 3, np.random.default_rng(0))
@example(np.array(0, np.uint8), np.array(255, np.uint8), 3, np.random.default_rng(0))
@example(np.array(0, np.uint8), np.array(254, np.uint8), 3, np.random.default_rng(0))
def test_the_operands_of_the_probe_multiply_to_any_reachable_accumulator(
    a_zero, b_zero, inner, rng
):
    reach = products(a_zero, b_zero, inner)
    low, high = int(reach.low[0]), int(reach.high[0])
    for first, last in ((low, -1), (0, high)):
        if first <= last:
            anywhere = rng.integers(first, last, 20, endpoint=True)
            acc = np.array([first, last, *anywhere], np.int32)
            row, columns = operands_of(acc, a_zero, b_zero, inner)
            assert (row.dtype, columns.dtype) == (a_zero.dtype, b_zero.dtype)
            levels = row.astype(int) - a_zero, columns.astype(int) - b_zero
            np.testing.assert_array_equal((levels[0] @ levels[1])[0], acc)


@thoroughly(60)
@given(zeros, zeros, st.integers(1, 3))
def test_the_interval_of_a_product_is_what_all_pairs_of_codes_reach(a_zero, b_zero, inner):
    codes = [np.arange(256).astype(np.uint8).view(zero.dtype) for zero in (a_zero, b_zero)]
    a, b = (c.astype(int) - zero for c, zero in zip(codes, (a_zero, b_zero), strict=True))
    found, pairs = products(a_zero, b_zero, inner), a[:, None] * b
    assert found.low.tolist() == [inner * pairs.min()]
    assert found.high.tolist() == [inner * pairs.max()]


SCALED = """g (FLOAT[N, 4, 3] x) => (FLOAT[N, 4, 4] y) {
    q = Mul (x, s) k = Mul (x, s) t = Transpose <perm = [0, 2, 1]> (k)
    p = MatMul (q, t) y = Mul (p, s)
}"""


@pytest.mark.parametrize("scale", [1e-25, 0.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors_are_moved_where_float32_holds_their_product(scale, dtype):
    text = SCALED.replace("FLOAT", "float" if dtype == np.float32 else "double")
    made = model(text, opset=21, s=dtype(scale))
    sample = {"x": numbers(2, 4, 3).astype(dtype)}
    graph = prepare(made, sample, Context(Settings(load_target("onnx"))))
    found = Session(prepared_model(graph)).run(None, sample)[0]
    np.testing.assert_allclose(found, Session(made).run(None, sample)[0], rtol=1e-5)
    moved = sum(node.op == "Mul" for node in graph.nodes) == 1
    assert moved == (dtype == np.float32 and scale == 0.5)
