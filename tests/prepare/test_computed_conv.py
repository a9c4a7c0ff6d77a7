"""Convolutions whose weights are computed, as trackers correlate two pictures."""

import numpy as np
import pytest

from qpasses import quantize, verify
from tests.support.small_models import model, numbers, session

SIAMESE = """net (float[N, 3, 10, 9] x, float[4, 3, 7, 7] z) => (float[N, M, A, B] y) {
    [search] s = Conv (x, w)
    [template] t = Conv (z, v)
    r = Relu (t)
    [correlate] y = OP (s, rBIAS)
}"""

FORMS = {
    "plain": ("Conv", 4, ""),
    "padded": ("Conv <pads = [1, 2, 3, 0], strides = [2, 1]>", 4, ""),
    "dilated": ("Conv <dilations = [1, 2], pads = [2, 2, 2, 2]>", 4, ""),
    "grouped": ("Conv <group = 2>", 2, ""),
    "depthwise": ("Conv <group = 4, pads = [1, 1, 1, 1]>", 1, ""),
    "biased": ("Conv <pads = [1, 1, 1, 1]>", 4, ", b"),
}
BACK = {
    "spread": "ConvTranspose <strides = [2, 3], output_padding = [1, 0]>",
    "cropped": "ConvTranspose <strides = [2, 2], pads = [1, 0, 2, 1], dilations = [1, 2]>",
    "grouped": "ConvTranspose <group = 2, strides = [2, 2]>",
}


def siamese(line, template, bias=""):
    """``template``: the sizes of the constant kernel that makes the weights."""
    made = model(
        SIAMESE.replace("OP", line).replace("BIAS", bias),
        opset=17,
        w=numbers(4, 3, 3, 3),
        v=numbers(*template, seed=1),
        b=numbers(4, seed=2),
    )
    if not bias:
        del made.graph.initializer[-1]
    return made


def feeds(rows=4):
    return [
        {"x": numbers(2, 3, 10, 9, seed=k), "z": numbers(rows, 3, 7, 7, seed=9 + k)}
        for k in range(4)
    ]


def check(made):
    samples = feeds()
    result = quantize(made, samples)
    assert not result.report["summary"]["float_nodes"]
    assert result.verdict == "ok"
    assert any(each.op_type == "IntMatMul" for each in result.model.graph.node)
    expected, found = (session(each).run(None, samples[0])[0] for each in (made, result.model))
    assert expected.shape == found.shape
    noise, signal = np.square(expected - found).sum(), np.square(expected).sum()
    assert 10 * np.log10(signal / noise) > 25
    return result, samples


@pytest.mark.thinned
@pytest.mark.parametrize("name", FORMS)
def test_a_correlation_of_two_branches_is_integer(name):
    line, channels, bias = FORMS[name]
    check(siamese(line, (channels, 3, 5, 5), bias))


@pytest.mark.parametrize("name", BACK)
def test_a_transposed_one_is_integer_too(name):
    made = model(
        """net (float[N, 3, 10, 9] x, float[4, 3, 7, 7] z) => (float[N, M, A, B] y) {
            [search] s = Conv (x, w)
            [template] t = Conv (z, v)
            y = OP (s, t)
        }""".replace("OP", BACK[name]),
        opset=17,
        w=numbers(4, 3, 3, 3),
        v=numbers(3, 3, 5, 5, seed=1),
    )
    samples = feeds(rows=4)
    result = quantize(made, samples)
    assert not result.report["summary"]["float_nodes"]
    expected, found = (session(each).run(None, samples[0])[0] for each in (made, result.model))
    assert np.square(expected - found).sum() < 0.003 * np.square(expected).sum()


def test_verify_knows_it():
    made = siamese(*FORMS["padded"][:1], (4, 3, 5, 5))
    result, samples = check(made)
    assert verify(result.model, made, samples).verdict == "ok"


def test_with_an_input_of_the_model_as_weights_it_is_left_by_name():
    made = model(
        """net (float[N, 3, 10, 9] x, float[4, 4, 2, 2] z) => (float[N, 4, 7, 6] y) {
            s = Conv (x, w)
            [correlate] y = Conv (s, z)
        }""",
        opset=17,
        w=numbers(4, 3, 3, 3),
    )
    samples = [{"x": numbers(2, 3, 10, 9), "z": numbers(4, 4, 2, 2)}]
    result = quantize(made, samples)
    (left,) = result.report["summary"]["float_nodes"]
    assert left["name"] == "correlate"
