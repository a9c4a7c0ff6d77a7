"""NaN and infinity that a model makes of finite inputs: in every sample, in some, in all."""

import numpy as np
import pytest

from opsets.errors import DataError
from qpasses import calibrate, quantize, verify
from tests.support.small_models import model, numbers, session

LOGS = model(
    """net (float[N, 8] x) => (float[N, 3] y, float[N, 4] z) {
        [first] k = MatMul (x, w)
        [kept] y = MatMul (k, v)
        [root] r = Sqrt (k)
        [behind] z = MatMul (r, u)
    }""",
    w=numbers(8, 8),
    v=numbers(8, 3),
    u=numbers(8, 4),
)
DAMAGED = model(
    """net (float[N, 8] x) => (float[N, 8] y) {
        k = MatMul (x, w)
        a = Abs (k)
        low = Neg (a)
        one = Sub (low, above)
        y = Sqrt (one)
    }""",
    w=numbers(8, 8),
    above=np.float32(1),
)
STATES = model(
    """net (float[3, 2, 4] x) => (float[1, 2, 3] h, float[3, 2, 3] z) {
        all, h = LSTM <hidden_size = 3> (x, rows_x, rows_h)
        s = Squeeze (all, first)
        [root] r = Sqrt (s)
        [behind] z = MatMul (r, u)
    }""",
    rows_x=numbers(1, 12, 4),
    rows_h=numbers(1, 12, 3),
    first=np.array([1]),
    u=numbers(3, 3),
)
SAMPLES = [{"x": numbers(4, 8, seed=seed)} for seed in range(3)]


def fine(seed):
    """An x whose product with w is positive everywhere."""
    wanted = 1 + np.abs(numbers(4, 8, seed=seed))
    return {"x": np.linalg.solve(numbers(8, 8).T, wanted.T).T.astype(np.float32)}


def test_what_is_not_a_number_in_every_sample_stays_float_by_name():
    result = quantize(LOGS, SAMPLES)
    left = {n["name"]: n["reason"] for n in result.report["summary"]["float_nodes"]}
    reason = "'r' holds NaN or infinite values in every sample"
    assert left == {"root": reason, "behind": reason}
    found, expected = (session(m).run(None, SAMPLES[0]) for m in (result.model, LOGS))
    assert np.abs(found[0] - expected[0]).max() < 0.5
    assert np.isnan(found[1]).any()
    assert verify(result.model, LOGS, SAMPLES).verdict == result.verdict == "incomplete"


def test_a_table_holds_nothing_of_it_and_serves_quantize_as_the_samples_do():
    table = calibrate(LOGS, SAMPLES).table
    assert "r" not in table.tensors and "k" in table.tensors
    assert (
        quantize(LOGS, SAMPLES, calibration_table=table).model.graph
        == quantize(LOGS, SAMPLES).model.graph
    )


def test_states_that_are_watched_are_those_of_all_steps():
    """A node that gives no cells has them watched all the same."""
    samples = [{"x": numbers(3, 2, 4, seed=seed)} for seed in range(3)]
    table = calibrate(STATES, samples).table
    left = quantize(STATES, samples, calibration_table=table).report["summary"]["float_nodes"]
    assert {each["name"] for each in left} == {"root", "behind"}
    assert quantize(STATES, samples).report["summary"]["float_nodes"] == left


def test_in_one_sample_alone_it_is_an_error_or_the_sample_is_skipped():
    mixed = [fine(0), SAMPLES[0], fine(1)]
    message = r"data\[1\]: tensor 'r' holds NaN or infinite values in the float model"
    for run in (quantize, calibrate):
        with pytest.raises(DataError, match=message):
            run(LOGS, mixed)
    result = quantize(LOGS, mixed, on_bad_sample="skip")
    assert [each["name"] for each in result.report["samples"]["skipped"]] == ["data[1]"]
    assert not result.report["summary"]["float_nodes"]


@pytest.mark.parametrize("run", [quantize, calibrate])
def test_where_every_output_is_not_a_number_it_is_an_error(run):
    with pytest.raises(DataError, match="holds NaN or infinite values in the float model"):
        run(DAMAGED, SAMPLES)


def test_damaged_samples_are_an_error_as_ever():
    damaged = [{"x": np.full((4, 8), np.nan, np.float32)}]
    with pytest.raises(DataError, match="input 'x' holds NaN or infinite values"):
        quantize(LOGS, damaged)
