"""Which tensors tell how far a graph is off."""

import numpy as np
import pytest
from onnx.shape_inference import infer_shapes

from qpasses.ir.interchange import import_graph
from qpasses.recover.judge import TELLING, judged
from tests.support.stage_checks import net

FEATURES = "f = Relu (x) g = Gemm (f, w)"


def told(body, sizes=None, **options):
    """By which tensors the net is judged, where ``sizes`` are known."""
    made = net([1, 600], body, w=np.ones((600, 10), np.float32), **options)
    known = {"f": (1, 600), "g": (1, 10), "h": (1, 10), "y": (1, 10), "z": (1, 10)}
    return judged(import_graph(infer_shapes(made)), known | (sizes or {}))


@pytest.mark.parametrize(
    ("head", "outputs"),
    [
        ("y = Tanh (g)", "float[] y"),
        ("y = Softmax (g)", "float[] y"),
        ("h = Sigmoid (g) y = Add (h, g)", "float[] y"),
        ("y = ArgMax (g)", "int64[] y"),
        ("y = Tanh (g) z = Abs (g)", "float[] y, float[] z"),
    ],
)
def test_few_outputs_are_judged_by_the_features_they_are_made_of(head, outputs):
    assert told(f"{FEATURES} {head}", outputs=outputs) == ["f"]


def test_many_outputs_are_judged_themselves():
    assert told("f = Relu (x) y = Tanh (f)", sizes={"y": (1, 600)}) == ["y"]


def test_a_softmax_tells_one_number_for_each_distribution():
    body = "f = Relu (x) y = Softmax (f)"
    rows = {"f": (TELLING, 2), "y": (TELLING, 2)}
    assert told(body, sizes=rows) == ["y"]
    assert told(body, sizes={"y": (1, 600)}) == ["f"]


def test_where_all_are_small_the_nearest_of_most_numbers_tells():
    few = {"f": (1, 30)}
    assert told(f"{FEATURES} y = Tanh (g)", sizes=few) == ["f"]
    assert told("f = Relu (x) g = Abs (f) y = Tanh (g)", sizes=few | {"g": (1, 30)}) == ["g"]


def test_nothing_is_read_through_integers_and_what_has_no_size():
    assert told("f = Relu (x) g = Shape (f) y = Cast <to = 1> (g)", sizes={"y": (2,)}) == ["y"]
    assert told("y = Tanh (x)", sizes={"y": (0, 4)}) == ["y"]
