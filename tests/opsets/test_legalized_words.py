"""Target tosa with 16 bits: the multipliers of MLIR's legalization, digit for digit."""

import json
from pathlib import Path

import numpy as np
import pytest

from opsets.forms import ADD_FORMS, LEFT_SHIFTS
from opsets.multipliers import ScaleError
from opsets.qpasses_v1 import OPS
from opsets.realised import takes_words, word_sum_multiplier
from opsets.scales import SCALES
from opsets.target import Target, load_target
from qpasses.ir.runtime import run_op
from qpasses.lowering.numbers.word_numbers import word_multiplier
from tests.support.conformance import each

LEGALIZED = json.loads((Path(__file__).parent / "legalized_words.json").read_text("utf-8"))
"""What tosa-converter-for-tflite made: write_legalized_words.py."""

TOSA = load_target("tosa")


@pytest.mark.parametrize("case", LEGALIZED["CONV_2D"], ids=str)
def test_sums_of_products_have_the_multipliers_of_15_bits(case):
    derive = SCALES[TOSA.scales].derive
    shifts = np.broadcast_to(case["shift"], 3)
    theirs = list(zip(case["multiplier"], shifts.tolist(), strict=True))
    scales = [derive("IntConv", (case["x"], w), case["y"]) for w in case["w"]]
    assert [TOSA.word_sum_multiplier(scale) for scale in scales] == theirs
    assert [word_sum_multiplier(scale, TOSA) for scale in scales] == theirs
    assert [word_multiplier(scale, 1 << 20, TOSA) for scale in scales] == theirs


def test_some_scales_lie_beside_a_tie():
    near = 0
    for case in LEGALIZED["CONV_2D"]:
        shifts = np.broadcast_to(case["shift"], 3).tolist()
        exact = [
            case["x"] * w / case["y"] * 2.0**s for w, s in zip(case["w"], shifts, strict=True)
        ]
        near += sum(abs(value % 1 - 0.5) < 0.01 for value in exact)
    assert near > 10


@pytest.mark.parametrize("op", ["ADD", "SUB"])
def test_sums_have_the_left_shift_and_multipliers_of_words(op):
    form = ADD_FORMS[TOSA.add_form(has_words=True)]
    left = LEFT_SHIFTS[TOSA.add_form(has_words=True)]
    for case in LEGALIZED[op]:
        ours = form.numbers(case["a"], case["b"], case["y"], TOSA)
        theirs = [
            (multiplier, shift if is_lifted or place == 2 else shift + left)  # else folded
            for place, (is_lifted, multiplier, shift) in enumerate(case["rescales"])
        ]
        assert ours == theirs


def test_products_have_multipliers_of_31_bits():
    """The converter multiplies their scales in float32, target tosa in double."""
    for case in LEGALIZED["MUL"]:
        scales, (*operands, (_, *theirs)) = (case["a"], case["b"]), case["rescales"]
        assert [each[1:] for each in operands] == [[1 << 30, 30]] * 2  # as they are
        narrow = SCALES["tflite"].derive("IntMul", scales, case["y"])
        assert [*TOSA.elementwise_multiplier(narrow)] == theirs
        multiplier, shift = TOSA.elementwise_multiplier(
            SCALES[TOSA.scales].derive("IntMul", scales, case["y"])
        )
        assert shift == theirs[1] and abs(multiplier / theirs[0] - 1) < 2**-22


def test_a_scale_that_takes_sums_out_of_int32_is_an_error():
    assert word_multiplier(2.0**-7, (1 << 37) - 1, TOSA) == (1 << 14, 21)
    with pytest.raises(ScaleError, match="leave 32 bits"):
        word_multiplier(2.0**-6, (1 << 37) - 1, TOSA)
    with pytest.raises(ScaleError, match="times the largest"):
        word_multiplier(2.0**13, 1, TOSA)


def test_a_sum_that_reads_bytes_has_the_multipliers_of_others():
    assert word_multiplier(0.3, 1 << 20, TOSA, reads_words=False) == TOSA.scale_to_multiplier(
        0.3
    )
    assert word_multiplier(0.3, 1 << 20, TOSA, elementwise=True) == (1288490189, 32)


def test_a_target_without_the_rule_has_no_sums_of_16_bits():
    rules = TOSA.rules() | {"word_multiplier": None, "word_multiplier_bits": None}
    assert takes_words(TOSA) and not takes_words(Target(**rules))


@each("tosa_rescale", "cases", lambda r: r["in_dtype"] == "int16" and not r["scale32"])
def test_rescales_of_int16_by_15_bits_are_nodes(case):
    """Of every body; int48 has the same arithmetic, on sums."""
    x, op = np.array(case["x"], np.int16), OPS["IntRescale"]
    numbers = [np.array(case[name], np.int32) for name in ("multiplier", "shift")]
    ends = [np.int16(n) for n in (case["out_zp"], -(1 << 15), (1 << 15) - 1)]
    inputs, attributes = [x, np.int16(case["in_zp"]), *numbers, *ends], {"rounding": "half_up"}
    assert op.reference(*inputs, **attributes).tolist() == case["y"]
    constants = dict(zip(list(op.inputs)[1:], inputs[1:], strict=True))
    taking = [body for body in op.bodies if body.accepts(constants, attributes)]
    assert {body.flavour for body in taking} == {"onnxruntime", "portable"}
    for body in taking:
        assert run_op(op.name, body, inputs, attributes).tolist() == case["y"]
