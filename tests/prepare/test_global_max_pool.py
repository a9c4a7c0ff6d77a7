"""GlobalMaxPool on stored integers, of known and free sizes."""

import numpy as np
import pytest

import qpasses
from calibration import Session
from tests.support.small_models import model, numbers

NET = """
net (float[N, 2, SIZES] x) => (float[N, 3, ONES] y) {
    c = Conv (x, w)
    g = GlobalMaxPool (c)
    y = Conv (g, v)
}"""


@pytest.mark.thinned
@pytest.mark.parametrize("opset", [13, 17, 21])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("sizes", [(5,), (4, 6), (3, 2, 4)])
def test_it_is_integer_and_verified(sizes, free, opset):
    said = ", ".join(f"s{i}" if free else str(size) for i, size in enumerate(sizes))
    ones = [1] * len(sizes)
    text = NET.replace("SIZES", said).replace("ONES", ", ".join("1" * len(sizes)))
    weights = {"w": numbers(4, 2, *ones), "v": numbers(3, 4, *ones)}
    made = model(text, opset=opset, **weights)
    feeds = [{"x": numbers(2, 2, *sizes, seed=seed)} for seed in range(4)]
    result = qpasses.quantize(made, feeds)
    assert result.verdict == "ok" and result.report["summary"]["integer_only"]
    assert qpasses.verify(result.model, made, feeds).verdict == "ok"
    for feed in feeds:
        (found,) = Session(result.model).run(None, feed)
        (expected,) = Session(made).run(None, feed)
        assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()
