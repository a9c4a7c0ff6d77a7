"""Short Fourier transforms as the convolutions that they are, and axes of whole ones."""

import numpy as np
import pytest

from qpasses import quantize, verify
from tests.support.small_models import model, numbers, session

WINDOW = np.hanning(16).astype(np.float32)
FORMS = {
    "window": ("(x, step, window)", "float[2, 100, 1] x", "float[2, F, 9, 2] y", 1),
    "length": ("(x, step, , length)", "float[2, 100, 1] x", "float[2, F, 9, 2] y", 1),
    "both": ("(x, step, window, length)", "float[N, 100, 1] x", "float[N, F, 9, 2] y", 1),
    "both sides": ("(x, step, window)", "float[2, 100, 1] x", "float[2, F, 16, 2] y", 0),
    "complex": ("(x, step, window)", "float[2, 100, 2] x", "float[2, F, 16, 2] y", 0),
    "free length": ("(x, step, window)", "float[N, L, 1] x", "float[N, F, 9, 2] y", 1),
    "without parts": ("(x, step, window)", "float[2, 100] x", "float[2, F, 9, 2] y", 1),
}


def short_fourier(name, opset=17):
    """One STFT, and a sample for it."""
    arguments, start, end, onesided = FORMS[name]
    text = f"g ({start}) => ({end}) {{ y = STFT <onesided = {onesided}> {arguments} }}"
    known = {"step": np.int64(7), "window": WINDOW, "length": np.int64(16)}
    made = model(text, opset=opset, **{k: v for k, v in known.items() if k in arguments})
    sizes = [int(each) if each.isdigit() else 2 for each in FORMS[name][1][6:-3].split(", ")]
    sizes[1] = 100
    return made, numbers(*sizes)


@pytest.mark.thinned
@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("name", FORMS)
def test_a_short_fourier_transform_is_a_convolution(name, opset, tmp_path):
    made, x = short_fourier(name, opset)
    path = tmp_path / "made.onnx"
    result = quantize(made, [{"x": x}], path)
    assert [each.op for each in result.evidence if each.op == "IntConv"] == ["IntConv"]
    assert result.report["summary"]["float_nodes"] == []
    (expected,), (found,) = (
        session(each).run(None, {"x": x}) for each in (made, result.model)
    )
    assert found.shape == expected.shape
    noise, signal = np.square(expected - found).sum(), np.square(expected).sum()
    assert 10 * np.log10(signal / noise) > 33
    assert verify(path, made, data=[{"x": x}]).verdict == "ok"


def test_the_float_graph_is_as_near_as_it_is_said_to_be():
    """Off by frame_length * 2**-24 times the sum of absolute products, of sums in float64."""
    made, x = short_fourier("window")
    prepared = quantize(made, [{"x": x}], stop_after="stft-to-conv").model
    (found,) = session(prepared).run(None, {"x": x})
    frames = np.lib.stride_tricks.sliding_window_view(x[..., 0].astype(np.float64), 16, 1)
    frames = frames[:, ::7] * WINDOW.astype(np.float64)
    exact = np.fft.rfft(frames)
    bound = 16 * 2.0**-24 * np.abs(frames).sum(-1, keepdims=True)
    assert (np.abs(found[..., 0] - exact.real) <= bound).all()
    assert (np.abs(found[..., 1] - exact.imag) <= bound).all()


@pytest.mark.parametrize("opset", [17, 20])
def test_an_axis_that_is_not_said_is_that_of_the_opset(opset):
    """The first but one before opset 20, then the last but one."""
    made = model(
        "g (float[2, 6, 8, 1] x) => (float[2, 6, 8, 2] y) { y = DFT (x) }", opset=opset
    )
    x = numbers(2, 6, 8, 1)
    (found,) = session(quantize(made, [{"x": x}]).model).run(None, {"x": x})
    exact = np.fft.fft(x[..., 0], axis=1 if opset < 20 else 2)
    assert np.abs(found[..., 0] - exact.real).max() < 0.05 * np.abs(exact).max()
    assert np.abs(found[..., 1] - exact.imag).max() < 0.05 * np.abs(exact).max()
