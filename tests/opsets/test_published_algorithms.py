"""I-ViT's and I-BERT's ops against what their own modules compute, in exact integers."""

import numpy as np

from opsets.qpasses_v1.i_bert_gelu import polynomial_erf
from opsets.qpasses_v1.i_layer_norm import normalize
from opsets.qpasses_v1.shift_gelu import shift_sigmoid
from opsets.qpasses_v1.shiftmax import shiftmax
from qpasses.ir.runtime import run_op
from qpasses.lowering.numbers.published_numbers import (
    I_BERT_ERF_BITS,
    I_VIT_SLOPE,
    SHIFT_GELU_BITS,
    erf_polynomial,
    i_layer_norm_bias,
    shift_x0,
)
from tests.support.conformance import each, float32, needs_vectors

pytestmark = needs_vectors

EVEN = {"rounding": "half_to_even"}
AS_IT_IS = [np.array(2, np.int32), np.array(1, np.int32)]
"""A multiplier and a shift that change nothing."""


def exact(case, wanted, published):
    """The integers of a record, which the published floats are where nothing was rounded."""
    return case[published] if case.get("exact_equals_float32") else case[wanted]


def is_exact(case):
    return case["scale_kind"] == "dyadic"


def int8_ends(low, high):
    return [np.array(value, np.int8) for value in (0, low, high)]


@each("ivit_shiftmax", "", is_exact)
def test_shiftmax(case):
    x, scale = np.array(case["x_int"]), float32(case["scale_f32_hex"])
    expected = exact(case, "out_int_exact", "out_int_float32")
    assert shift_x0(float(scale)) == case["x0"]
    found = shiftmax(x, case["axis"], case["x0"], case["n"], case["output_bit"])
    assert found.tolist() == expected
    if case["output_bit"] == 8:
        inputs = [x.astype(np.int8), *AS_IT_IS, *int8_ends(-128, 127)]
        given = {"axis": -1, "x0": case["x0"], "fraction_bits": 15, "output_bits": 8, **EVEN}
        assert run_op("Shiftmax", "portable", inputs, given).tolist() == expected


@each("ivit_shiftgelu", "", is_exact)
def test_shift_gelu(case):
    x, scale = np.array(case["x_int"]), float32(case["scale_f32_hex"])
    expected = np.array(exact(case, "sigmoid_int_exact", "sigmoid_int_float32"))
    assert shift_x0(float(scale), I_VIT_SLOPE) == case["x0"] and case["n"] == SHIFT_GELU_BITS
    assert (shift_sigmoid(x, -1, case["x0"], case["n"], 8) == expected).all()
    ends = [np.array(value, np.uint8) for value in (128, 0, 255)]
    inputs = [x.astype(np.int8), np.array(0, np.int8), *AS_IT_IS, *ends]
    inputs[3] = np.array(8, np.int32)  # x * sigmoid / 128 fits 8 bits
    given = {"axis": -1, "x0": case["x0"], "fraction_bits": 23, "output_bits": 8, **EVEN}
    found = run_op("ShiftGelu", "portable", inputs, given).astype(int) - 128
    assert (found == np.rint(x * expected / 128)).all()


@each("ivit_layernorm", "", is_exact)
def test_i_layer_norm(case):
    wanted = {name: np.array(value) for name, value in case["exact"].items()}
    mean, root, factor, normal = normalize(np.array(case["x_int"]), case["C"])
    for name, found in (("mean_int", mean), ("std_int", root), ("factor", factor)):
        assert (found[..., 0] == wanted[name]).all()
    assert (normal == wanted["y_int"]).all()
    gamma, beta = (np.array(case[name], np.float32) for name in ("weight", "bias"))
    bias = np.array(i_layer_norm_bias(gamma, beta, case["C"]))
    assert (bias == wanted["bias_int"]).all()
    assert (normal + bias == wanted["y_plus_bias"]).all()
    if case["in_bits"] == 8:
        scale = [np.full(case["C"], each, np.int32) for each in (1, 25)]
        inputs = [np.array(case["x_int"], np.int8), np.array(0, np.int8), bias, *scale]
        inputs += int8_ends(-128, 127)
        found = run_op("ILayerNorm", "portable", inputs, {"cells": case["C"], **EVEN})
        expected = np.clip(np.rint(wanted["y_plus_bias"] / 2**25), -128, 127)
        assert (found == expected).all()


@each("ibert_poly", "cases", lambda case: case["op"] == "ibert_gelu")
def test_i_bert_gelu(case):
    x, scale = np.arange(-128, 128), case["scale"]
    numbers, _ = erf_polynomial(scale)
    assert numbers == {"b": case["b_int"], "c": case["c_int"], "one": case["shift_int"]}
    erf = polynomial_erf(x, numbers["b"], numbers["c"], case["n"])
    assert case["n"] == I_BERT_ERF_BITS and erf.tolist() == case["erf_int"]
    assert (x * (erf + numbers["one"])).tolist() == case["out_int"]
    shift, ends = np.array(4, np.int32), int8_ends(-128, 127)
    inputs = [x.astype(np.int8), np.array(0, np.int8), np.array(1, np.int32), shift, *ends]
    found = run_op("IBertGelu", "portable", inputs, {**numbers, "fraction_bits": 14, **EVEN})
    assert (found == np.clip(np.rint(-np.array(case["out_int"]) / 16), -128, 127)).all()
