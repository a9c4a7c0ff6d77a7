"""Transposed convolutions: the same numbers as a Conv of their phases, integer networks."""

import json

import numpy as np
import onnx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calibration import Session
from opsets.errors import ModelError
from opsets.target import load_target
from qpasses import quantize, verify
from qpasses.ir.interchange import import_graph, prepared_model
from qpasses.ir.rewriting import Context, run_passes
from qpasses.ir.settings import Settings
from qpasses.ir.shapes import true_shapes
from qpasses.prepare import PREPARE
from tests.support.small_models import model, numbers
from tests.support.stage_checks import flags, net, normalization, run, seeds
from tests.support.thoroughness import thoroughly

MODES = [*["pads"] * 3, "SAME_UPPER", "SAME_LOWER", "VALID", "output_shape"]


@st.composite
def transposed(draw):
    """A model of one ConvTranspose of any geometry, and its input."""
    dims, group, seed = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(seeds)

    def each(low, high):
        return draw(st.lists(st.integers(low, high), min_size=dims, max_size=dims))

    kernel, sizes, strides = each(1, 5 if dims < 3 else 3), each(1, 4), each(1, 3)
    strides = [strides[0]] * dims if draw(flags) else strides
    dilations = each(1, 3) if draw(flags) else [1] * dims
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    added = [n % max(s, d) for n, s, d in zip(each(0, 2), strides, dilations, strict=True)]
    attributes = {"group": group, "strides": strides, "dilations": dilations}
    attributes["output_padding"] = added
    mode, free = draw(st.sampled_from(MODES)), draw(flags)
    if mode == "pads":
        attributes["pads"] = [
            min(n, r) for n, r in zip(each(0, 5) * 2, reach * 2, strict=True)
        ]
    elif mode == "output_shape":
        natural = [s * (n - 1) + r for s, n, r in zip(strides, sizes, reach, strict=True)]
        changed = zip(natural, each(-3, 2), strict=True)
        attributes["output_shape"] = [max(n + change, 1) for n, change in changed]
    else:
        attributes["auto_pad"] = mode
    inner, outputs = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    weights = {"w": numbers(group * inner, outputs, *kernel, seed=seed)}
    weights |= {"b": numbers(group * outputs, seed=seed)} if draw(flags) else {}
    named = [f"s{i}" for i in range(dims)] if free and mode != "output_shape" else sizes
    made = net(["N", group * inner, *named], "y = Identity (x)", **weights)
    made.graph.node[0].CopyFrom(
        onnx.helper.make_node("ConvTranspose", ["x", *weights], ["y"], "up", **attributes)
    )
    return made, {"x": numbers(2, group * inner, *sizes, seed=seed)}


def prepared(made, feeds):
    """The model behind all of PREPARE, and the reasons of what was declined."""
    graph, context = (
        import_graph(true_shapes(made, feeds)),
        Context(Settings(load_target("onnx"))),
    )
    run_passes(PREPARE, graph, context)
    return prepared_model(graph), context.record.declined


@thoroughly(300)
@given(case=transposed())
def test_any_geometry_is_a_convolution_with_the_shape_and_values_of_onnxruntime(case):
    made, feeds = case
    try:
        (expected,) = run(made, feeds)
    except ModelError:
        assume(False)  # a geometry that onnxruntime refuses
    assume(expected.size)
    after, declined = prepared(made, feeds)
    if declined:
        assert "multiply by zero" in declined["up"]
        return
    assert "ConvTranspose" not in {node.op_type for node in after.graph.node}
    onnx.checker.check_model(after, full_check=True)
    (found,) = run(after, feeds)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0], [3, 2, 3, 2]])
def test_without_strides_it_is_a_convolution_alone(pads):
    made = net(
        [1, 2, 5, 6], f"y = ConvTranspose <pads = {pads}> (x, w)", w=numbers(2, 3, 3, 2)
    )
    feeds = {"x": numbers(1, 2, 5, 6)}
    after, _ = prepared(made, feeds)
    assert {node.op_type for node in after.graph.node} <= {"Conv", "Slice"}
    np.testing.assert_allclose(*run(after, feeds), *run(made, feeds), atol=1e-5)


@thoroughly(30)
@given(seed=seeds, group=st.integers(1, 3), bias=flags, shift=flags)
def test_normalization_and_added_constants_fold_into_it(seed, group, bias, shift):
    channels = 2 * group
    weights = {"w": numbers(channels, 2, 3, 3, seed=seed)}
    weights |= {"b": numbers(channels, seed=seed)} if bias else {}
    added = {"k": numbers(channels, 1, 1, seed=seed)} if shift else {}
    made = net(
        [2, channels, 3, 3],
        f"""c = ConvTranspose <group = {group}, strides = [2, 2]> (x, {", ".join(weights)})
        a = {"Add (k, c)" if shift else "Identity (c)"}
        n = BatchNormalization (a, gamma, beta, mean, var)
        y = Relu (n)""",
        **weights,
        **added,
        **normalization(channels, seed),
    )
    feeds = {"x": numbers(2, channels, 3, 3, seed=seed)}
    after, _ = prepared(made, feeds)
    left = [node.op_type for node in after.graph.node]
    assert left[:2] == ["Conv", "Relu"]
    assert set(left[2:]) <= {"Reshape", "Transpose", "Slice"}
    (expected,), (found,) = run(made, feeds), run(after, feeds)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def decoder(sizes, *, strides="[2, 2]", more="", kernel=(4, 4), clamp="Relu"):
    """Conv, ConvTranspose with a clamp, Conv."""
    shape, dims = ", ".join(map(str, ["N", 3, *sizes])), len(kernel)
    return model(
        f"""g (float[{shape}] x) => (float[N, 3, {", ".join("pqr"[:dims])}] y) {{
            [first] a = Conv (x, w)
            [up] b = ConvTranspose <strides = {strides}{more}> (a, u, bias)
            [clamp] c = {clamp} (b)
            [last] y = Conv (c, v)
        }}""",
        opset=21,
        ir_version=10,
        w=numbers(3, 3, *[1] * dims),
        v=numbers(3, 6, *[1] * dims),
        u=numbers(3, 6, *kernel),
        bias=numbers(6),
    )


NETWORKS = {
    "2D": (decoder([5, 4], more=", pads = [1, 1, 1, 1]"), (5, 4)),
    "2D, free": (decoder(["H", "W"], more=", pads = [1, 1, 1, 1]"), (5, 4)),
    "2D, strides that differ, free": (decoder(["H", "W"], strides="[3, 2]"), (5, 4)),
    "1D": (decoder(["T"], strides="[3]", kernel=(5,)), (7,)),
    "3D": (decoder([2, 3, 4], strides="[2, 1, 2]", kernel=(2, 3, 2)), (2, 3, 4)),
    "dilated": (decoder([5, 4], more=", dilations = [2, 2]"), (5, 4)),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("activation_type", ["uint8", "int8"])
def test_a_network_that_enlarges_is_integer_and_verified(name, activation_type):
    made, sizes = NETWORKS[name]
    feeds = [{"x": numbers(1, 3, *sizes, seed=i)} for i in range(4)]
    result = quantize(made, feeds, activation_type=activation_type)
    summary = result.report["summary"]
    assert summary["integer_only"] and summary["nodes"]["IntConv"] == 3
    assert not {"Clip", "Lut", "ConvTranspose"} & summary["nodes"].keys()
    assert sum(each.mismatches for each in result.evidence) == 0
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 30
    assert verify(result.model, made, feeds).verdict == result.verdict == "ok"
    portable = quantize(made, feeds, activation_type=activation_type, bodies="portable")
    for feed in feeds:
        (fast,), (slow,) = (Session(m).run(None, feed) for m in (result.model, portable.model))
        np.testing.assert_array_equal(fast, slow)


def test_its_integer_node_stands_for_it_and_its_clamp():
    made, sizes = NETWORKS["2D"]
    result = quantize(made, [{"x": numbers(1, 3, *sizes)}] * 3)
    (node,) = (node for node in result.model.graph.node if node.name == "up")
    entries = {each.key: each.value for each in node.metadata_props}
    assert json.loads(entries["qpasses.source"]) == ["up", "clamp"]


def test_nodes_that_the_user_leaves_in_float_stay_as_they_are():
    made, sizes = NETWORKS["2D"]
    feeds = [{"x": numbers(1, 3, *sizes)}] * 3
    for options in ({"nodes_to_exclude": ["up"]}, {"op_types_to_quantize": ["Conv"]}):
        result = quantize(made, feeds, **options)
        left = result.report["summary"]["float_nodes"]
        assert "ConvTranspose" in {node["op_type"] for node in left}
    result = quantize(made, feeds, nodes_to_exclude=["clamp"])
    left = [node.op_type for node in result.model.graph.node]
    assert "Relu" in left and "ConvTranspose" not in left
    only = quantize(made, feeds, op_types_to_quantize=["ConvTranspose"])
    assert only.report["summary"]["nodes"]["IntConv"] == 1
