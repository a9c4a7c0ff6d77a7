"""Nodes of target litert are what LiteRT's interpreter computes, code by code."""

import numpy as np
import pytest

from opsets.op import DOMAIN
from qpasses import quantize, verify
from qpasses.load.integer_model import read_integer_model
from tests.bench.manifest import ROOT
from tests.support.litert import interpreted, needs_litert
from tests.support.litert_nodes import as_operator, site_of
from tests.support.small_models import model, numbers
from tests.support.thoroughness import THOROUGH

pytestmark = needs_litert

SEEDS = range(4 if THOROUGH else 2)
IMAGE = "float[1, 4, 8, 8]"
NETS = {
    # what is read and what is written around the node "it", and its constants
    "Conv": (f"{IMAGE} x", "[it] y = Conv (x, w, b)", {"w": (5, 4, 3, 3), "b": (5,)}),
    "strided": (
        f"{IMAGE} x",
        "[it] y = Conv <strides = [2, 2]> (x, w)",
        {"w": (5, 4, 3, 3)},
    ),
    "clamped": (f"{IMAGE} x", "[it] a = Conv (x, w) y = Relu (a)", {"w": (5, 4, 1, 1)}),
    "depthwise": (
        f"{IMAGE} x",
        "[it] y = Conv <group = 4> (x, w, b)",
        {"w": (8, 1, 3, 3), "b": (8,)},
    ),
    "Gemm": ("float[9, 40] x", "[it] y = Gemm (x, w, b)", {"w": (40, 30), "b": (30,)}),
    "MatMul": (
        "float[3, 5, 8] x, float[3, 8, 7] z",
        "u = Conv (x, k) v = Conv (z, l) [it] y = MatMul (u, v)",
        {"k": (5, 5, 1), "l": (8, 8, 1)},
    ),
    "Add": (f"{IMAGE} x", "u = Conv (x, k) [it] y = Add (u, x)", {"k": (4, 4, 1, 1)}),
    "Sub": (f"{IMAGE} x", "u = Conv (x, k) [it] y = Sub (u, x)", {"k": (4, 4, 1, 1)}),
    "Mul": (f"{IMAGE} x", "u = Conv (x, k) [it] y = Mul (u, x)", {"k": (4, 4, 1, 1)}),
    "LeakyRelu": (f"{IMAGE} x", "[it] y = LeakyRelu <alpha = 0.13> (x)", {}),
    "falling": (f"{IMAGE} x", "[it] y = LeakyRelu <alpha = -0.3> (x)", {}),
    "PRelu": (f"{IMAGE} x", "[it] y = PRelu (x, s)", {"s": (4, 1, 1)}),
    "Sigmoid": (f"{IMAGE} x", "[it] y = Sigmoid (x)", {}),
    "Softmax": ("float[7, 100] x", "n = Neg (x) [it] y = Softmax (n)", {}),
    "Relu": (
        f"{IMAGE} x",
        "u = Conv (x, k) [it] r = Relu (u) y = Add (r, u)",
        {"k": (4, 4, 1, 1)},
    ),
    "Relu6": (
        f"{IMAGE} x",
        "u = Conv (x, k) [it] r = Clip (u, z, six) y = Add (r, u)",
        {"k": (4, 4, 1, 1), "z": 0, "six": 6},
    ),
    "Tanh": (f"{IMAGE} x", "[it] y = Tanh (x)", {}),
    "Exp": (f"{IMAGE} x", "[it] y = Exp (x)", {}),
    "HardSwish": (f"{IMAGE} x", "[it] y = HardSwish (x)", {}),
    "Gelu": (f"{IMAGE} x", "[it] y = Gelu (x)", {}),
    "GeluTanh": (f"{IMAGE} x", '[it] y = Gelu <approximate = "tanh"> (x)', {}),
    "AveragePool": (
        f"{IMAGE} x",
        "[it] y = AveragePool <kernel_shape = [3, 2], strides = [2, 1]> (x)",
        {},
    ),
    "GlobalAveragePool": ("float[9, 4, 8, 8] x", "[it] y = GlobalAveragePool (x)", {}),
    "ReduceMean": (
        "float[40, 4, 3, 3] x",
        "[it] y = ReduceMean <axes = [2, 3], keepdims = 0> (x)",
        {},
    ),
}
NETS |= {
    f"Resize, {mode}": (
        f"{IMAGE} x",
        f"""[it_{mode}] y = Resize <mode = "linear", coordinate_transformation_mode = "{mode}">
            (x, , , sizes)""",
        {"sizes": [1, 4, 13, 5]},
    )
    for mode in ("align_corners", "asymmetric", "half_pixel")
}

OTHERS = {  # which in 8 bits are no integer node
    "MaxPool": (
        f"{IMAGE} x",
        """u = Conv (x, k) [pool] m = MaxPool <kernel_shape = [3, 2], strides = [2, 1]> (u)
            y = Conv (m, k)""",
        {"k": (4, 4, 1, 1)},
    ),
}


def constant(given, seed):
    """Random numbers of a shape, the one number, or whole ones."""
    if isinstance(given, int):
        return np.float32(given)
    return np.array(given) if isinstance(given, list) else numbers(*given, seed=seed + 7)


def made(kind, seed, stored_as, **more):
    ends, body, shapes = (NETS | OTHERS)[kind]
    weights = {name: constant(shape, seed) for name, shape in shapes.items()}
    opset = 20 if "Gelu" in kind else 17
    net = model(f"g ({ends}) => (float[N] y) {{ {body} }}", opset=opset, **weights)
    inputs = net.graph.input
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in inputs}
    del net.graph.output[0].type.tensor_type.shape.dim[:]
    net.graph.output[0].type.tensor_type.ClearField("shape")
    feeds = [
        {
            name: numbers(*shape, seed=10 * seed + k) * (1 + seed)
            for name, shape in shapes.items()
        }
        for k in range(4)
    ]
    options = {"target": "litert", "activation_type": stored_as, "layout": "nchw", **more}
    result = quantize(net, feeds, **options)
    return result, net, feeds


@pytest.mark.thinned
@pytest.mark.parametrize("stored_as", ["int8", "uint8"])
@pytest.mark.parametrize("kind", NETS)
def test_a_node_is_what_the_interpreter_computes(kind, stored_as):
    pairs = []
    for seed in SEEDS:
        result, net, feeds = made(kind, seed, stored_as)
        assert result.verdict == "ok", result.report["summary"]["because"]
        assert verify(result.model, net, feeds).verdict == "ok"
        read = read_integer_model(result.model, kind)
        name = next(node.name for node in read.graph.nodes if node.name.startswith("it"))
        pairs.append(as_operator(site_of(read, name, seed)))
    found = interpreted([op for op, _ in pairs])
    for (ours,), (_, theirs) in zip(found, pairs, strict=True):
        assert len(np.unique(theirs)) > 5
        np.testing.assert_array_equal(ours, theirs)


OF_WORDS = {
    # which tensors have 16 bits: all, or one end of the node, so that others are stored anew
    **dict.fromkeys(("Conv", "strided", "clamped", "depthwise", "Gemm", "MatMul"), ".*"),
    **dict.fromkeys(("Add", "Sub", "Mul", "Relu", "Relu6", "ReduceMean"), ".*"),
    **dict.fromkeys(("AveragePool", "GlobalAveragePool", "MaxPool"), ".*"),
    **{f"{kind}, widened": "y" for kind in ("Conv", "depthwise", "Gemm", "Add", "Mul")},
    "Add, narrowed": "[xy]",
}


@pytest.mark.thinned
@pytest.mark.parametrize("stored_as", ["int8", "uint8"])
@pytest.mark.parametrize("case", OF_WORDS)
def test_every_node_with_16_bits_is_what_the_interpreter_computes(case, stored_as):
    kind, pairs, widths = case.split(", ")[0], [], set()
    for seed in SEEDS:
        types = [f"{OF_WORDS[case]}=int16"]
        result, net, feeds = made(kind, seed, stored_as, tensor_types=types)
        assert result.verdict == "ok", result.report["summary"]["because"]
        assert result.report["summary"]["float_nodes"] == []
        assert verify(result.model, net, feeds).verdict == "ok"
        read = read_integer_model(result.model, kind)
        for node in read.graph.nodes:
            if node.domain == DOMAIN:
                site = site_of(read, node.name, seed)
                widths.add((node.op, site.has_words))
                pairs.append(as_operator(site))
    found = interpreted([op for op, _ in pairs])
    for (ours,), (_, theirs) in zip(found, pairs, strict=True):
        assert len(np.unique(theirs)) > 5
        np.testing.assert_array_equal(ours, theirs)
    assert any(has_words for _, has_words in widths)


def test_a_whole_net_of_16_bits_is_the_interpreters_node_by_node():
    folder = ROOT / "models" / "digits_cnn"
    result = quantize(
        folder / "digits_cnn.onnx",
        folder / "calibration.npz",
        target="litert",
        activation_type="int8",
        layout="nchw",
        tensor_types=[".*=int16"],
        accuracy="fast",
    )
    read, pairs = read_integer_model(result.model, "digits_cnn"), []
    for node in read.graph.nodes:
        if node.domain == DOMAIN:
            site = site_of(read, node.name)
            assert site.has_words
            pairs.append(as_operator(site))
    found = interpreted([op for op, _ in pairs])
    assert len(pairs) >= 12
    for (ours,), (_, theirs) in zip(found, pairs, strict=True):
        np.testing.assert_array_equal(ours, theirs)
