"""Batches of samples: only where rows are apart and kernels add in the same order."""

import numpy as np
import pytest
from onnx import shape_inference
from small_models import model, numbers

from calibration import Run, collect, input_specs, open_samples
from calibration.batching import MOST_BYTES
from calibration.collect import NOTHING, _Crew
from calibration.observed_model import ObservedModel
from calibration.rowwise import is_rowwise
from calibration.samples import Samples

POOLED = shape_inference.infer_shapes(
    model(
        """g (float[N, 7, 8] x) => (float[N, 5] y) {
            c = MatMul (x, w)
            m = ReduceMean <axes = [1], keepdims = 0> (c)
            y = MatMul (m, v)
        }""",
        w=numbers(8, 33),
        v=numbers(33, 5),
    )
)

ONES = np.ones((1, 1, 4), np.float32)
THREE = np.ones(3, np.float32)

NOT_ROWWISE = {
    "a constant with more axes": model(
        "g (float[N, 4] x) => (float[A, B, 4] y) { y = Add (x, c) }", c=ONES
    ),
    "a single number with more axes": model(
        "g (float[N] x) => (float[A, N] y) { y = Add (x, c) }", c=ONES[:1, :1, 0]
    ),
    "indices of a pool": model(
        """g (float[N, 3, 4, 4] x) => (float[N, 3, 2, 2] y) {
            p, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
            y = Cast <to = 1> (i)
        }"""
    ),
    "a normalization by the batch": model(
        """g (float[N, 3, 4, 4] x) => (float[N, 3, 4, 4] y) {
            y = BatchNormalization <training_mode = 1> (x, s, s, s, s)
        }""",
        s=THREE,
    ),
}


@pytest.mark.parametrize("case", NOT_ROWWISE)
def test_models_whose_rows_meet_or_move_are_not_rowwise(case):
    assert not is_rowwise(shape_inference.infer_shapes(NOT_ROWWISE[case]))


def test_tensors_of_unknown_rank_are_not_paired():
    text = """g (float[N, 3, 3] x, float[N, 3] z) => (float[A, B, C] y) {
        a = Relu (x)
        b = Relu (z)
        y = Add (a, b)
    }"""
    assert not is_rowwise(model(text))


def test_first_samples_of_zeros_do_not_make_a_batch_look_harmless():
    assert is_rowwise(POOLED)
    real, zero = numbers(800, 1, 7, 8), np.zeros((70, 1, 7, 8), np.float32)
    found = [
        collect(
            POOLED,
            ["x", "c", "m", "y"],
            open_samples(list(np.concatenate(parts)), input_specs(POOLED)),
            Run(histograms=True),
        ).tensors
        for parts in ((zero, real), (real, zero))
    ]
    assert found[0] == found[1]


def test_no_more_large_samples_are_read_at_once_than_a_batch_holds(monkeypatch):
    wide = model("g (float[N, 4, SIZE] x) => (float[N, 4, SIZE] y) { y = Relu (x) }")
    data = [np.zeros((1, 4, MOST_BYTES // 32), np.float32)] * 640  # half of a batch each
    samples = open_samples(data, input_specs(wide))
    read, taken = Samples.read, []

    def counted(self, position):
        taken.append(position)
        return read(self, position)

    monkeypatch.setattr(Samples, "read", counted)
    with ObservedModel(wide, ["y"]) as observed:
        _Crew(observed, ["x"], samples, Run(), NOTHING, True)
    assert len(taken) <= 2
