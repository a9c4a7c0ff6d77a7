"""Linear interpolation on integers: exact taps, proofs that see broken ones, whole models."""

from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opsets.op import DOMAIN
from qpasses import quantize, verify
from qpasses.evidence.prove import prove_node
from qpasses.ir.interchange import import_graph
from qpasses.lowering.numbers.interpolation import COORDINATES, Axis, taps_of
from tests.support.small_models import model, numbers
from tests.support.stage_checks import net, run, seeds, stages
from tests.support.thoroughness import thoroughly

sizes = st.integers(1, 9)
modes = st.sampled_from([*COORDINATES])
ATTRIBUTES = 'mode = "linear", coordinate_transformation_mode = '


@thoroughly(100)
@given(before=sizes, factor=st.integers(1, 40), mode=modes, seed=seeds)
@example(before=2, factor=9, mode="asymmetric", seed=0)  # of two again two: copied
def test_taps_mix_the_places_that_onnxruntime_mixes(before, factor, mode, seed):
    scales = np.array([1, 1, max(factor / 8, 1 / before), 1], np.float32)
    made = net(
        [1, 1, before, 1],
        f'y = Resize <{ATTRIBUTES}"{mode}"> (x, , scales)',
        scales=scales,
    )
    x = numbers(1, 1, before, 1, seed=seed)
    (y,) = run(made, {"x": x})
    axis = Axis(before, y.shape[2], Fraction(float(scales[2])))
    found = taps_of([axis], mode)
    mixed = (x.reshape(-1)[found.indices] * found.coefficients).sum(axis=0)[2:] / found.total
    np.testing.assert_allclose(mixed, y.reshape(-1), atol=1e-5)


def enlarging(batch, factor=2, mode="half_pixel"):
    text = f"""g (float[{batch}, 3, 5, 4] x) => (float[{batch}, 3, p, q] y) {{
        a = Conv (x, w) b = Resize <{ATTRIBUTES}"{mode}"> (a, , scales) y = Conv (b, w)
    }}"""
    scales = np.array([1, 1, factor, factor], np.float32)
    return model(text, opset=21, ir_version=10, w=numbers(3, 3, 1, 1), scales=scales)


@pytest.mark.thinned
@pytest.mark.parametrize("activation_type", ["uint8", "int8"])
@pytest.mark.parametrize("bodies", ["onnxruntime", "portable"])
@pytest.mark.parametrize("batch", ["1", "N"])
@pytest.mark.parametrize("mode", ["half_pixel", "align_corners"])
def test_a_network_that_enlarges_is_integer_and_verified(activation_type, bodies, batch, mode):
    made, feeds = enlarging(batch, mode=mode), [{"x": numbers(1, 3, 5, 4)}] * 3
    result = quantize(made, feeds, activation_type=activation_type, bodies=bodies)
    assert result.report["summary"]["nodes"]["IntResize"] == 1
    (proof,) = (each for each in result.evidence if each.op == "IntResize")
    assert proof.body.startswith(bodies) and proof.mismatches == 0
    assert verify(result.model, made, feeds).verdict == result.verdict == "ok"


def test_sizes_that_a_scale_leaves_as_they_are_are_copied():
    made, feeds = enlarging("1", factor=1.125, mode="asymmetric"), [{"x": numbers(1, 3, 5, 4)}]
    result = quantize(made, feeds * 3)
    assert "IntResize" not in result.report["summary"]["nodes"]
    summary = verify(result.model, made, feeds).report["summary"]
    assert summary["verdict"] == "ok" and summary["accuracy"]["sqnr_db"] > 30


def test_onnxruntime_fuses_no_scale_into_the_product(tmp_path):
    """It would scale sums of 128 at a time, each rounded."""
    result = quantize(enlarging("1"), [{"x": numbers(1, 3, 5, 4)}] * 3)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(result.model.SerializeToString(), options)
    ops = [n.op_type for n in onnx.load(options.optimized_model_filepath).graph.node]
    assert "MatMul" in ops and "FusedMatMul" not in ops


def test_between_float_nodes_a_resize_to_a_free_size_is_left_with_its_reason():
    text = """g (float[1, 3, n, 4] x) => (float[1, 3, p, q] y) {
        a = Conv (x, w) b = Resize <mode = "linear"> (a, , scales) y = Conv (b, w)
    }"""
    scales = np.array([1, 1, 2, 2], np.float32)
    made = model(text, opset=21, ir_version=10, w=numbers(3, 3, 1, 1), scales=scales)
    result = quantize(made, [{"x": numbers(1, 3, 5, 4)}] * 3)
    (left,) = result.report["summary"]["float_nodes"]
    assert left["reason"].startswith("Resize from or to a size that is not known")


BROKEN = {
    "coefficient": ("coefficients", (1, 3), 1, "do not add up to the same"),
    "negative": ("coefficients", (1, 1), -9, "do not add up to the same"),
    "place": ("indices", (1, 4), 7, "reads places 0 to 9 of an axis of size 5"),
    "total": ("coefficients", (slice(None), slice(11, None)), "twice", "add up to 32, not 16"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_taps_that_are_none_are_a_problem(broken):
    name, where, change, problem = BROKEN[broken]
    found = stages(enlarging("1"), {"x": numbers(1, 3, 5, 4)})
    graph = import_graph(found.integer)
    (node,) = (n for n in graph.nodes if n.domain == DOMAIN and n.op == "IntResize")
    assert prove_node(node, found.context.record).problem == ""
    tensor = node.inputs[2 if name == "indices" else 3]
    values = tensor.values.copy()
    values[where] = values[where] * 2 if change == "twice" else values[where] + change
    tensor.values = values
    assert problem in prove_node(node, found.context.record).problem


def test_nearest_moves_and_linear_computes():
    text = """a = Conv (x, w) b = Resize <mode = "nearest"> (a, , scales) y = Conv (b, w)"""
    scales = np.array([1, 1, 2, 2], np.float32)
    made = net([1, 3, 5, 4], text, w=numbers(3, 3, 1, 1), scales=scales)
    feeds = {"x": numbers(1, 3, 5, 4)}
    for each, op in ((made, "Resize"), (enlarging("1"), "IntResize")):
        integer = stages(each, feeds).integer
        assert [n.op_type for n in integer.graph.node if "Resize" in n.op_type] == [op]


@pytest.mark.thinned
@pytest.mark.parametrize(
    "attributes",
    [
        'mode = "cubic"',
        'mode = "cubic", cubic_coeff_a = -0.5, exclude_outside = 1',
        'mode = "linear", antialias = 1, coordinate_transformation_mode = "align_corners"',
    ],
)
@pytest.mark.parametrize("factor", [0.5, 2])
def test_a_resize_of_more_than_two_places_is_a_product_for_each_axis(attributes, factor):
    made = net(
        [2, 3, 6, 8],
        f"a = Conv (x, w) y = Resize <{attributes}> (a, , scales)",
        w=numbers(3, 3, 1, 1),
        scales=np.array([1, 1, factor, factor], np.float32),
    )
    feeds = [{"x": numbers(2, 3, 6, 8, seed=seed)} for seed in range(4)]
    result = quantize(made, feeds)
    assert result.verdict == "ok"
    ops = [node.op_type for node in result.model.graph.node]
    assert ops.count("IntGemm") == 2 and "Resize" not in ops
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 30
    assert verify(result.model, made, feeds[:2]).verdict == "ok"


@pytest.mark.thinned
@pytest.mark.parametrize(("factors", "products"), [((1.1, 2), 2), ((1.1, 1.1), 0)])
@pytest.mark.parametrize("mode", ["cubic", "linear"])
def test_an_axis_of_the_same_size_is_mixed_beside_one_that_changes(mode, factors, products):
    made = net(
        [1, 3, 6, 8],
        f'a = Conv (x, w) y = Resize <mode = "{mode}"> (a, , scales)',
        w=numbers(3, 3, 1, 1),
        scales=np.array([1, 1, *factors], np.float32),
    )
    feeds = [{"x": numbers(1, 3, 6, 8, seed=seed)} for seed in range(4)]
    result = quantize(made, feeds)
    ops = [node.op_type for node in result.model.graph.node]
    assert ops.count("IntGemm") == (products if mode == "cubic" else 0)
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 30
    assert verify(result.model, made, feeds[:2]).verdict == "ok"
