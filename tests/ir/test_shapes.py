"""Inferred sizes are checked on a sample, and believed where they hold."""

import pytest

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
