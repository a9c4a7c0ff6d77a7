"""Sequences turned round, with lengths that are constant or flow in: on stored integers."""

import numpy as np
import pytest

from calibration import Session
from opsets.errors import QPassesError
from qpasses import export, quantize, verify
from tests.support.small_models import model, numbers

LENGTHS = np.array([4, 2, 1])
ENDS = np.array([-1])
ROUND = {
    "constant lengths": """g (float[3, 4, 5] x) => (float[3, 4, 5] y) {
        c = MatMul (x, w)
        r = ReverseSequence <batch_axis = 0, time_axis = 1> (c, lengths)
        y = MatMul (r, w)
    }""",
    "lengths that flow in": """g (float[3, 4, 5] x, int64[3] lengths)
        => (float[3, 4, 5] y) {
        c = MatMul (x, w)
        r = ReverseSequence <batch_axis = 0, time_axis = 1> (c, lengths)
        y = MatMul (r, w)
    }""",
    "time first": """g (float[4, 3, 5] x, int64[3] lengths) => (float[4, 3, 5] y) {
        c = MatMul (x, w)
        y = ReverseSequence <batch_axis = 1, time_axis = 0> (c, lengths)
    }""",
    "nothing else": """g (float[4, 3, 5] x, int64[3] lengths) => (float[4, 3, 5] y) {
        y = ReverseSequence <batch_axis = 1, time_axis = 0> (x, lengths)
    }""",
    "pictures": """g (float[3, 2, 4, 4] x, int64[3] lengths) => (float[3, 4, 2, 4] y) {
        c = Conv <pads = [1, 1, 1, 1]> (x, k)
        r = ReverseSequence <batch_axis = 0, time_axis = 1> (c, lengths)
        y = MaxPool <kernel_shape = [2, 1], strides = [2, 1]> (r)
    }""",
    "a Slice": """g (float[3, 4, 5] x) => (float[3, 4, 5] y) {
        c = MatMul (x, w)
        r = Slice (c, ends, far, time, ends)
        y = MatMul (r, w)
    }""",
}


def made_of(name):
    text = ROUND[name]
    known = {
        **{"w": numbers(5, 5), "k": numbers(4, 2, 3, 3), "ends": ENDS},
        **{"far": np.array([-1000]), "time": np.array([1])},
    }
    known |= {} if "int64" in text else {"lengths": LENGTHS}
    return model(text, **{each: value for each, value in known.items() if each in text})


def feeds_of(made, lengths=LENGTHS, count=8):
    sizes = [dim.dim_value for dim in made.graph.input[0].type.tensor_type.shape.dim]
    others = {"lengths": lengths} if len(made.graph.input) > 1 else {}
    return [{"x": numbers(*sizes, seed=seed), **others} for seed in range(count)]


@pytest.mark.thinned
@pytest.mark.parametrize("options", [{}, {"integer_io": True}, {"tensor_types": [".*=int16"]}])
@pytest.mark.parametrize("name", ROUND)
def test_what_is_turned_round_stays_on_integers(name, options, tmp_path):
    made, path = made_of(name), tmp_path / "made.onnx"
    result = quantize(made, feeds_of(made), path, **options)
    assert result.report["summary"]["float_nodes"] == []
    assert verify(path, made, data=feeds_of(made)).verdict == "ok"


def test_lengths_are_those_of_each_feed():
    made = made_of("lengths that flow in")
    integer = Session(quantize(made, feeds_of(made)).model)
    (feed,) = feeds_of(made, np.array([1, 4, 3]), 1)
    (found,), (wanted,) = integer.run(None, feed), Session(made).run(None, feed)
    (other,) = integer.run(None, {**feed, "lengths": LENGTHS})
    assert np.abs(found - wanted).max() < 0.1 * np.abs(wanted).max()
    assert np.abs(found - other).max() > 0.1 * np.abs(wanted).max()


def test_a_program_with_constant_lengths_alone_says_so(tmp_path):
    made, path = made_of("lengths that flow in"), tmp_path / "made.onnx"
    quantize(made, feeds_of(made), path, target="tosa", integer_io=True)
    with pytest.raises(QPassesError, match="ReverseSequence"):
        export(path)
