"""The golden model of BM1684X: TPU-MLIR's integers in numpy, and our graphs beside it.

The simulator is written from TPU-MLIR's sources (lib/Support/MathUtils.cpp, Module.cpp, the
lowerings of lib/Conversion/TopToTpu/LoweringBM1684X) and imports nothing of the toolkit. Its
codes are signed, ours are stored with an offset of 128.
"""

import numpy as np
import onnx
import pytest

from calibration import Session
from qpasses import quantize, verify
from qpasses.ir.elementwise import Chains
from qpasses.ir.interchange import import_graph
from qpasses.ir.shapes import infer_shapes
from tests.support.conformance import each as records
from tests.support.conformance import float32, needs_vectors
from tests.support.small_models import model, numbers

# The simulator


def scale_of(threshold):
    """Of signed codes, in double."""
    return threshold / 127


def scale_and_shift(scale, most):
    """get_scale_and_shift: the first multiplier below ``most`` with the least error."""
    real, best, least = np.float64(np.float32(scale)), (0, 0), np.inf
    for shift in range(-32, 31):
        multiplier = np.floor(real * 2.0**shift + 0.5)
        error = float(np.float32(np.abs(multiplier / 2.0**shift - real)))
        if multiplier < most and error < least:
            best, least = (int(multiplier), shift), error
    return best


def narrow(scale):
    return scale_and_shift(scale, 127)


def wide(scale):
    return scale_and_shift(scale, 2**31 - 1)


def half_up(values, multiplier, shift):
    """values * multiplier / 2**shift, ties up; element by element in Python's integers."""

    def one(value, m, s):
        product, s = int(value) * int(m), int(s)
        return product << -s if s <= 0 else (product + (1 << (s - 1))) >> s

    found = np.vectorize(one, otypes=[np.int64])
    return found(values, multiplier, shift)


def half_away(values):
    return np.sign(values) * np.floor(np.abs(values) + 0.5)


def saturated(values):
    return np.clip(values, -128, 127).astype(np.int64)


def conv_scales(weights, biased):
    """Of each output channel, computed in float32; and the largest level."""
    largest = 127 if biased or weights.min() < 0 else 255
    for power in range(7):
        levels = weights.astype(np.float64) * 2.0**power
        if (
            levels == np.rint(levels)
        ).all() and -128 <= levels.min() <= levels.max() <= largest:
            return np.full(len(weights), 2.0**-power), largest
    size = np.abs(weights.reshape(len(weights), -1)).max(axis=1)
    scales = np.maximum(size / np.float32(largest), np.float32(1e-5))
    return scales.astype(np.float64), largest


def sim_conv(q, weights, bias, scales):
    """3x3, padding 1, stride 1; a multiplier for each output channel."""
    x_scale, y_scale = (np.float64(each) for each in scales)
    w_scales, largest = conv_scales(weights, bias is not None)
    levels = half_away(weights.astype(np.float64) / w_scales.reshape(-1, 1, 1, 1))
    stored = np.clip(levels, largest - 255, largest).astype(np.int64)
    bias = np.zeros(len(weights)) if bias is None else bias.astype(np.float64)
    offset = half_away(bias / (w_scales * x_scale)).astype(np.int64)
    padded = np.pad(q, [(0, 0), (0, 0), (1, 1), (1, 1)])
    acc = np.zeros((1, len(weights), *q.shape[2:]), np.int64)
    for row, column in np.ndindex(3, 3):
        part = padded[:, :, row : row + q.shape[2], column : column + q.shape[3]]
        acc += np.einsum("nchw,oc->nohw", part, stored[:, :, row, column])
    acc += offset.reshape(1, -1, 1, 1)
    pairs = np.array([wide(x_scale * w / y_scale) for w in w_scales]).T
    return saturated(half_up(acc, *(each.reshape(1, -1, 1, 1) for each in pairs)))


def sim_mat_mul(q, weights, scales):
    x_scale, y_scale = (np.float64(each) for each in scales)
    w_scale = float(np.abs(weights).max()) / 127
    stored = half_away(weights.astype(np.float64) / w_scale).astype(np.int64)
    return saturated(half_up(q @ stored, *wide(x_scale * w_scale / y_scale)))


def sim_add(a, b, scales):
    a_scale, b_scale, y_scale = (np.float64(each) for each in scales)
    terms = half_up(a, *narrow(a_scale / y_scale)), half_up(b, *narrow(b_scale / y_scale))
    return saturated(sum(terms))


def sim_leaky_relu(q, alpha):
    return saturated(np.where(q < 0, half_up(q, *narrow(alpha)), q))


def sim_p_relu(q, slopes):
    shift = next(r for r in range(63) if np.abs(slopes).max() * 2.0 ** (r + 1) >= 127)
    codes = np.trunc(slopes.astype(np.float64) * 2.0**shift).astype(np.int64)
    return saturated(np.where(q < 0, half_up(q * codes, 1, shift), q))


def sim_table(q, function, scales):
    x_scale, y_scale = (np.float64(each) for each in scales)
    return saturated(half_away(function(q * x_scale) / y_scale))


def sim_rescaled(q, scales):
    """What a Concat makes of an input at another scale."""
    x_scale, y_scale = (np.float64(each) for each in scales)
    return q if x_scale == y_scale else saturated(half_up(q, *narrow(x_scale / y_scale)))


def sim_average_pool(q, scales, cells=4):
    """2x2, stride 2."""
    x_scale, y_scale = (np.float64(each) for each in scales)
    sums = sum(q[:, :, row::2, column::2] for row, column in np.ndindex(2, 2))
    return saturated(half_up(sums, *narrow(x_scale / y_scale / cells)))


def silu(x):
    return x / (1 + np.exp(-x))


# The simulator against the tables of TPU-MLIR itself


@needs_vectors
@records("tpumlir", "scale_to_multiplier")
def test_the_simulator_derives_multipliers_as_tpu_mlir_does(case):
    scale = float32(case["scale_f32_hex"]) if "scale_f32_hex" in case else case["scale"]
    if "get_scale_and_shift_8" in case:
        assert list(narrow(scale)) == list(case["get_scale_and_shift_8"])[:2]
    if "get_scale_and_shift_32" in case:
        assert list(wide(scale)) == list(case["get_scale_and_shift_32"])[:2]


# Our graphs beside it

OURS = """name = "parts"
description = "what graphs follow of bm1684x without the rules of products, sums and slopes"
multiplier_bits = 31
rounding = "half_up"
elementwise = "get_scale_and_shift"
elementwise_bits = 7
table_rounding = "half_away"
rescaling = "requantized"
alignment = "tpu-mlir"
fast_kernels = false
"""


def table_of(folder, thresholds, below, above):
    """A calibration table; the extremes are so many times the threshold."""
    lines = [
        f"{name} {th:.7f} {below * th:.7f} {above * th:.7f}" for name, th in thresholds.items()
    ]
    path = folder / "cali_table"
    path.write_text("\n".join(["# op_name    threshold    min    max", *lines]), "utf-8")
    return path


def stored(made, feeds, names):
    """The signed codes of float tensors in an integer model."""
    watched = onnx.ModelProto.FromString(made.SerializeToString())
    known = {value.name for value in watched.graph.output}
    for name in names:
        if f"{name}_quantized" not in known:
            value = onnx.helper.make_tensor_value_info(f"{name}_quantized", 2, None)
            watched.graph.output.append(value)
    wanted = [f"{name}_quantized" for name in names]
    found = Session(watched, optimize=False, threads=1).run(wanted, feeds)
    return {n: codes.astype(np.int64) - 128 for n, codes in zip(names, found, strict=True)}


def feed_of(scale, shape, seed=0):
    """Codes of x, and the real numbers that are stored as these."""
    q = np.random.default_rng(seed).integers(-128, 128, shape)
    return q, (q * np.float64(scale)).astype(np.float32)


def made_of(folder, real, thresholds, target, extremes=(-0.9, 0.8), **options):
    q, x = feed_of(scale_of(thresholds["x"]), (1, 2, 6, 6))
    table, feeds = table_of(folder, thresholds, *extremes), [{"x": x}]
    given = {"target": target, "calibration_table": table, "layout": "nchw", **options}
    result = quantize(real, feeds, **given)
    assert result.verdict == "ok", result.report["summary"]["because"]
    assert verify(result.model, real, feeds).verdict == "ok"
    return result.model, q, {"x": x}


@pytest.fixture
def parts(tmp_path):
    path = tmp_path / "parts.toml"
    path.write_text(OURS, "utf-8")
    return path


def net(body, sizes="n, c, h, w", /, **weights):
    text = f"g (float[1, 2, 6, 6] x) => (float[{sizes}] y) {{ {body} }}"
    return model(text, opset=21, ir_version=10, **weights)


def of_parts(folder, parts, real, thresholds):
    return made_of(folder, real, thresholds, parts, extremes=(-1, 1), symmetric=True)


@pytest.mark.parametrize("y_threshold", [2.0, 3.1, 0.7, 0.01])
def test_average_pools(tmp_path, parts, y_threshold):
    real = net("y = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x)")
    thresholds = {"x": 2.0, "y": y_threshold}
    made, q, feeds = of_parts(tmp_path, parts, real, thresholds)
    scales = [scale_of(each) for each in thresholds.values()]
    expected = sim_average_pool(q, scales)
    np.testing.assert_array_equal(stored(made, feeds, ["y"])["y"], expected)


@pytest.mark.parametrize("y_threshold", [2.0, 1.3, 4.0])
def test_tables(tmp_path, parts, y_threshold):
    real = net("s = Sigmoid (x) y = Mul (x, s)")
    thresholds = {"x": 2.0, "y": y_threshold}
    made, q, feeds = of_parts(tmp_path, parts, real, thresholds)
    scales = [scale_of(each) for each in thresholds.values()]
    expected = sim_table(q, silu, scales)
    np.testing.assert_array_equal(stored(made, feeds, ["y"])["y"], expected)


def test_ties_of_tables(tmp_path, parts):
    """Half of every odd code is a tie."""
    real = net("y = Neg (x)")
    made, q, feeds = of_parts(tmp_path, parts, real, {"x": 2.0, "y": 4.0})
    expected = sim_table(q, np.negative, (scale_of(2.0), scale_of(4.0)))
    np.testing.assert_array_equal(stored(made, feeds, ["y"])["y"], expected)


def test_joins(tmp_path, parts):
    """What else reads an input of a join keeps it from the range of the join."""
    real = net("a = Neg (x) k = Concat <axis = 1> (a, x) y = Neg (k)")
    thresholds = {"x": 2.0, "a": 1.1, "k": 3.0, "y": 3.0}
    made, q, feeds = of_parts(tmp_path, parts, real, thresholds)
    s = {name: scale_of(each) for name, each in thresholds.items()}
    a = sim_table(q, np.negative, (s["x"], s["a"]))
    moved = [sim_rescaled(each, (s[name], s["k"])) for name, each in (("a", a), ("x", q))]
    expected = sim_table(np.concatenate(moved, axis=1), np.negative, (s["k"], s["y"]))
    np.testing.assert_array_equal(stored(made, feeds, ["y"])["y"], expected)


def test_what_has_a_form_of_its_own_is_in_no_table():
    """The device rounds what a slope gives, before a function of it."""
    made = net("a = LeakyRelu (x) s = Sigmoid (a) y = Mul (a, s)")
    graph = import_graph(infer_shapes(made))
    chains = Chains()
    for node in graph.nodes:
        assert chains.join(node, alone=node.op == "LeakyRelu") == ""
    a, y = chains.ends(graph)
    assert [chains.source(each).name for each in (a, y)] == ["x", "a"] and a.name == "a"
    assert not chains.is_inside(a)


# All of it


def network():
    body = """
        c = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
        l = LeakyRelu <alpha = 0.1> (c)
        d = Conv <pads = [1, 1, 1, 1]> (l, w2, b2)
        a = Add (l, d)
        p = PRelu (a, slopes)
        g = Sigmoid (p)
        s = Mul (p, g)
        k = Concat <axis = 1> (p, s)
        v = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (k)
        r = Reshape (v, flat)
        y = MatMul (r, m)"""
    weights = {
        "w1": numbers(4, 2, 3, 3, seed=1),
        "b1": numbers(4, seed=2),
        "w2": numbers(4, 4, 3, 3, seed=3) / 4,
        "b2": numbers(4, seed=4) / 4,
        "slopes": np.array([0.3, -0.26, 0.01, 0.11], np.float32).reshape(4, 1, 1),
        "flat": np.array([1, 72]),
        "m": numbers(72, 5, seed=5) / 8,
    }
    return net(body, "n, c", **weights), weights


THRESHOLDS = {
    **{"x": 2.0, "c": 14.0, "l": 11.0, "d": 12.5, "a": 21.0, "p": 17.0, "s": 15.0, "k": 16.5},
    **{"v": 9.0, "r": 8.0, "y": 13.0},
}
SPREAD = {"l": THRESHOLDS["c"], "p": THRESHOLDS["a"], "r": THRESHOLDS["v"]}
"""An input of a slope takes the maximum of its output and keeps its minimum, which is farther
from 0; the output has that range then. So TPU-MLIR 1.30.2 does it, whose scale is that of the
larger of both in size."""


def simulated(q, weights, threshold):
    """The codes of every tensor; ``threshold`` after they were spread."""
    s = {name: scale_of(each) for name, each in threshold.items()}
    found = {"x": q}
    found["c"] = sim_conv(q, weights["w1"], weights["b1"], (s["x"], s["c"]))
    found["l"] = sim_leaky_relu(found["c"], 0.1)
    found["d"] = sim_conv(found["l"], weights["w2"], weights["b2"], (s["l"], s["d"]))
    found["a"] = sim_add(found["l"], found["d"], (s["l"], s["d"], s["a"]))
    found["p"] = sim_p_relu(found["a"], weights["slopes"])
    found["s"] = sim_table(found["p"], silu, (s["p"], s["s"]))
    parts = [sim_rescaled(found[name], (s[name], s["k"])) for name in "ps"]
    found["k"] = np.concatenate(parts, axis=1)
    found["v"] = sim_average_pool(found["k"], (s["k"], s["v"]))
    found["r"] = found["v"].reshape(1, 72)
    found["y"] = sim_mat_mul(found["r"], weights["m"], (s["r"], s["y"]))
    return found


def of_device(folder, real, thresholds):
    return made_of(folder, real, thresholds, "bm1684x", extremes=(-1, 1))


@pytest.mark.thinned
@pytest.mark.parametrize(
    "weights",
    [
        numbers(4, 2, 3, 3, seed=7),
        np.abs(numbers(4, 2, 3, 3, seed=8)),
        np.rint(numbers(4, 2, 3, 3, seed=9) * 8) / 4,
        np.rint(np.abs(numbers(4, 2, 3, 3, seed=10)) * 90),
        numbers(4, 2, 3, 3, seed=11) * np.array([1, 1e-4, 1e-7, 0]).reshape(4, 1, 1, 1),
    ],
    ids=["signed", "none_negative", "quarters", "whole_to_200", "tiny"],
)
@pytest.mark.parametrize("biased", [True, False])
def test_weights_of_conv(tmp_path, weights, biased):
    weights = weights.astype(np.float32)
    given = {"b": numbers(4, seed=12)} if biased else {}
    text = f"y = Conv <pads = [1, 1, 1, 1]> (x, w{', b' if biased else ''})"
    real = net(text, w=weights, **given)
    thresholds = {"x": 3.3, "y": 0.52 + 10 * float(np.abs(weights).max())}
    made, q, feeds = of_device(tmp_path, real, thresholds)
    scales = [scale_of(each) for each in thresholds.values()]
    expected = sim_conv(q, weights, given.get("b"), scales)
    np.testing.assert_array_equal(stored(made, feeds, ["y"])["y"], expected)


def test_scales_in_double_on_ties(tmp_path):
    """1.27 / 1.28 has two nearest multipliers, of which the first counts."""
    real = net("n = Neg (x) a = Neg (n) y = Add (n, a)")
    thresholds = {"x": 1.27, "n": 1.27, "a": 1.27, "y": 1.28}
    made, q, feeds = of_device(tmp_path, real, thresholds)
    s = {name: scale_of(each) for name, each in thresholds.items()}
    n = sim_table(q, np.negative, (s["x"], s["n"]))
    a = sim_table(n, np.negative, (s["n"], s["a"]))
    expected = sim_add(n, a, (s["n"], s["a"], s["y"]))
    np.testing.assert_array_equal(stored(made, feeds, ["y"])["y"], expected)
    assert narrow(s["n"] / s["y"]) == (1, 0)
    assert narrow(np.float32(s["n"]) / np.float32(s["y"])) != (1, 0)


def test_a_sigmoid_whose_range_is_one(tmp_path):
    """Unsigned: 0 becomes 127.5 codes, which are rounded away from zero."""
    path = tmp_path / "cali_table"
    path.write_text("# op_name threshold min max\nx 8 -8 8\ny 1 0 1\n", "utf-8")
    x = np.zeros((1, 2, 6, 6), np.float32)
    real, feeds = net("y = Sigmoid (x)"), [{"x": x}]
    made = quantize(real, feeds, target="bm1684x", calibration_table=path)
    assert made.verdict == "ok" and verify(made.model, real, feeds).verdict == "ok"
    assert (stored(made.model, {"x": x}, ["y"])["y"] == 0).all()


def test_the_simulated_network_is_near_to_the_real_one():
    """So that it can be a golden model at all: it saturates little and follows the floats."""
    real, weights = network()
    spread = {**THRESHOLDS, **SPREAD}
    q, x = feed_of(scale_of(THRESHOLDS["x"]), (1, 2, 6, 6))
    (expected,) = Session(real, optimize=False, threads=1).run(["y"], {"x": x})
    y = simulated(q, weights, spread)["y"] * np.float64(scale_of(spread["y"]))
    signal = 10 * np.log10((expected**2).sum() / ((expected - y) ** 2).sum())
    assert signal > 15


def test_a_network_is_what_the_device_computes(tmp_path):
    real, weights = network()
    made, q, feeds = made_of(tmp_path, real, THRESHOLDS, "bm1684x")
    spread = {**THRESHOLDS, **SPREAD}
    expected = simulated(q, weights, spread)
    found = stored(made, feeds, list(expected))
    for name, codes in expected.items():
        np.testing.assert_array_equal(found[name], codes, err_msg=name)
