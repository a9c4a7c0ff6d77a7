"""Inferred sizes are checked on a sample, and believed where they hold."""

import numpy as np
import pytest

import qpasses
from opsets.errors import ModelError
from qpasses.ir import shapes
from tests.support.small_models import model, numbers

POOL = """g (float[1, 2, 6, 6] x) => (float[1, 2, 3, 3] y) {
    p = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x) y = Relu (p)
}"""


def sizes_of(made, name):
    value = next(each for each in made.graph.value_info if each.name == name)
    return [dim.dim_value for dim in value.type.tensor_type.shape.dim]


def test_a_rank_that_is_another_on_the_sample_is_that_of_the_sample(monkeypatch):
    inferred = shapes.infer_types

    def mistaken(made, sample):
        found = inferred(made, sample)
        value = next(each for each in found.graph.value_info if each.name == "p")
        value.type.tensor_type.shape.dim.add(dim_value=7)
        return found

    monkeypatch.setattr(shapes, "infer_types", mistaken)
    made, sample = model(POOL), {"x": numbers(1, 2, 6, 6)}
    assert sizes_of(mistaken(made, sample), "p") == [1, 2, 3, 3, 7]
    assert sizes_of(shapes.true_shapes(made, sample), "p") == [1, 2, 3, 3]


def test_a_sample_that_the_model_does_not_run_on_is_named():
    with pytest.raises(ModelError, match=r"on the first sample \(x \[1, 2, 5, 5\]\)"):
        shapes.true_shapes(model(POOL), {"x": numbers(1, 2, 5, 5)})


IN_A_BODY = """g (float[1, 4, 2] x, int64 trips) => (float[?, ?, ?] y) {
    last, all = Loop (trips, "", x) <body = b (int64 i, bool on, float[?, ?, ?] h)
        => (bool goes_on, float[?, ?, ?] next, float[?, ?, ?] p) {
        p = AveragePool <ceil_mode = 1, kernel_shape = [1], strides = [2]> (h)
        unread = MaxPool <ceil_mode = 1, kernel_shape = [1], strides = [2]> (p)
        next = Tanh (h)
        goes_on = Identity (on)
    }>
    y = Gather (all, minus_1)
}"""


@pytest.mark.parametrize("counts", [(2, 3), (3, 2)])
def test_how_often_a_loop_runs_is_no_size_and_what_nothing_reads_has_none(counts):
    made = model(IN_A_BODY, opset=18, minus_1=np.array(-1))
    feeds = [{"x": numbers(1, 4, 2, seed=n), "trips": np.array(n)} for n in counts]
    quantized = qpasses.quantize(made, feeds)
    assert qpasses.verify(quantized.model, made, feeds[::-1]).verdict == quantized.verdict
    known = {value.name: value for value in quantized.model.graph.value_info}
    sizes = known["all_quantized"].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in sizes] == [0, 1, 4, 1]
