"""Scales and offsets of channels in 16 bits: of features that are normalized in the graph."""

import numpy as np
import pytest

from qpasses import quantize, verify
from tests.support.small_models import model, numbers, session

ROWS = """g (float[1, 20, 16] x) => (float[1, 20, 6] y) {
    s = Sub (x, mean)
    n = Mul (s, factor)
    y = MatMul (n, w)
}"""
CHANNELS = """g (float[1, 16, 20] x) => (float[1, 6, 18] y) {
    s = Sub (x, mean)
    n = Div (s, factor)
    y = Conv (n, w)
}"""


def features(spread=1.0, count=10):
    """Of 16 places, each with a mean and a deviation of its own."""
    rng = np.random.default_rng(0)
    mean, deviation = rng.uniform(-10, 5, 16), np.linspace(1, 4, 16) * spread ** np.arange(16)
    found = [mean + deviation * rng.standard_normal((1, 20, 16)) for _ in range(count)]
    return mean.astype(np.float32), deviation.astype(np.float32), np.float32(found)


def normalized(text, spread=1.0):
    """A model of ``text``, and samples for it."""
    mean, deviation, rows = features(spread)
    if text == ROWS:
        made = model(ROWS, mean=mean, factor=1 / deviation, w=numbers(16, 6))
        return made, [{"x": each} for each in rows]
    column = {"mean": mean[:, None], "factor": deviation[:, None]}
    made = model(CHANNELS, **column, w=numbers(6, 16, 3) / 4)
    return made, [{"x": np.ascontiguousarray(each.transpose(0, 2, 1))} for each in rows]


def decibels(made, integer, feeds):
    pairs = [[session(each).run(None, feed)[0] for each in (made, integer)] for feed in feeds]
    noise = sum(np.square(a - b).sum() for a, b in pairs)
    return 10 * np.log10(sum(np.square(a).sum() for a, _ in pairs) / noise)


@pytest.mark.thinned
@pytest.mark.parametrize("target", ["onnx", "tosa"])
@pytest.mark.parametrize("text", [ROWS, CHANNELS])
def test_what_normalizes_features_reads_and_writes_16_bits(text, target, tmp_path):
    made, feeds = normalized(text)
    path, options = tmp_path / "made.onnx", {"target": target, "accuracy": "fast"}
    narrow = quantize(made, feeds, **options).model
    wide = quantize(made, feeds, path, tensor_types=[".*=int16"], **options)
    ops = [each.op for each in wide.evidence]
    assert "LutInterpolatedPerChannel" in ops
    assert wide.report["summary"]["float_nodes"] == []
    assert verify(path, made, data=feeds).verdict == "ok"
    assert decibels(made, wide.model, feeds) > decibels(made, narrow, feeds) + 6


@pytest.mark.parametrize("text", [ROWS, CHANNELS])
def test_channels_that_lines_would_leave_read_8_bits(text, tmp_path):
    """The last channel is 2**15 times as wide as the first, whose factor is as much larger."""
    made, feeds = normalized(text, spread=2.0)
    path = tmp_path / "made.onnx"
    found = quantize(made, feeds, path, tensor_types=[".*=int16"], accuracy="fast")
    assert found.report["summary"]["float_nodes"] == []
    (stays,) = [each for each in found.report["warnings"] if "'x' stays in 8 bits" in each]
    assert "lines between 513 knots" in stays
    assert verify(path, made, data=feeds).verdict == "ok"


@pytest.mark.parametrize(("steep", "is_wide"), [(0.02, True), (1.0, False)])
def test_functions_read_16_bits_where_lines_are_near(steep, is_wide, tmp_path):
    mean, _, rows = features()
    text = """g (float[1, 20, 16] x) => (float[1, 20, 6] y) {
        s = Sub (x, mean)
        m = Mul (s, steep)
        t = Tanh (m)
        y = MatMul (t, w)
    }"""
    made = model(text, mean=mean, steep=np.float32(steep), w=numbers(16, 6))
    feeds, path = [{"x": each} for each in rows], tmp_path / "made.onnx"
    found = quantize(made, feeds, path, tensor_types=[".*=int16"], accuracy="fast")
    stays = [each for each in found.report["warnings"] if "'x' stays in 8 bits" in each]
    assert bool(stays) != is_wide
    assert all("lines between 513 knots" in each for each in stays)
    assert found.report["summary"]["float_nodes"] == []
    assert verify(path, made, data=feeds).verdict == "ok"
