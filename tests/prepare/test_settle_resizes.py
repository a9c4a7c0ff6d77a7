"""Resizes to computed sizes: what is the same in every run is a constant."""

import numpy as np
import pytest

import qpasses
from tests.support.small_models import model, numbers

COMPUTED = """
g (float[N, 1, SIDE, 8] x) => (float[N, 4, H, W] y) {
    [conv] a = Conv <pads = [1, 1, 1, 1]> (x, w)
    shape = Shape (a)
    kept = Slice (shape, zero, two)
    sizes = Concat <axis = 0> (kept, target)
    [resize] y = Resize <mode = "MODE"> (a, , , sizes)
}"""


def computed(side=8, mode="linear", target=(12, 16)):
    return model(
        COMPUTED.replace("SIDE", str(side)).replace("MODE", mode),
        w=numbers(4, 1, 3, 3),
        zero=np.array([0]),
        two=np.array([2]),
        target=np.array(target),
    )


@pytest.mark.thinned
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("target", [(12, 16), (8, 16)])
def test_sizes_that_follow_from_no_free_one_are_constants(mode, target, tmp_path):
    made, output = computed(mode=mode, target=target), tmp_path / "out.onnx"
    data = numbers(4, 1, 8, 8)
    result = qpasses.quantize(made, data, output)
    assert result.verdict == "ok"
    assert not result.report["summary"]["float_nodes"]
    assert qpasses.verify(output, made, data).verdict == "ok"
    batch = [numbers(3, 1, 8, 8)]  # of another size than those that were run
    assert qpasses.verify(output, made, batch).verdict == "ok"


def test_sizes_that_follow_from_a_free_one_stay_as_they_are():
    result = qpasses.quantize(computed(side="S"), numbers(4, 1, 8, 8))
    (left,) = result.report["summary"]["float_nodes"]
    assert left["name"] == "resize"
