"""I-ViT's and I-BERT's forms in whole graphs, and where the defaults are better."""

from functools import cache
from math import sqrt

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import qpasses
from calibration import Session
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.shiftmax import shiftmax
from opsets.target import load_target
from qpasses import ModelError, UsageError
from qpasses.emit.overloads import with_bodies
from qpasses.ir.record import Quantization
from qpasses.lowering.numbers.published_numbers import (
    gelu_numbers,
    shift_x0,
    softmax_numbers,
)
from tests.support.commands import run
from tests.support.fault_finding import Floats
from tests.support.small_models import model, numbers

BLOCK = """
block (float[N, T, 8] x) => (float[N, T, 8] y) {
    [norm] n = LayerNormalization <epsilon = 0.00001> (x, gamma, beta)
    q = MatMul (n, w_q) k = MatMul (n, w_k) v = MatMul (n, w_v)
    t = Transpose <perm = [0, 2, 1]> (k)
    q1 = Mul (q, third)
    s = MatMul (q1, t)
    [soft] p = Softmax (s)
    o = MatMul (p, v)
    r = Add (o, x)
    h = MatMul (r, w_h)
    h1 = Div (h, root) h2 = Erf (h1) h3 = Add (h2, one) h4 = Mul (h, h3)
    [gelu] g = Mul (h4, half)
    y = MatMul (g, w_o)
}"""

FORMS = {
    "Shiftmax": ("soft", {"softmax": "shiftmax"}),
    "IBertSoftmax": ("soft", {"softmax": "ibert"}),
    "GemmlowpSoftmax": ("soft", {"softmax": "gemmlowp"}),
    "ShiftGelu": ("gelu", {"gelu": "shift"}),
    "IBertGelu": ("gelu", {"gelu": "ibert"}),
    "ILayerNorm": ("norm", {"layernorm": "ivit_short"}),
}
KINDS = {
    **dict.fromkeys(["Shiftmax", "IBertSoftmax", "GemmlowpSoftmax", "ILayerNorm"], "bounded"),
    **dict.fromkeys(["ShiftGelu", "IBertGelu"], "exhaustive"),
}
each_op = pytest.mark.parametrize("op", FORMS)
each_paper = pytest.mark.parametrize(
    "ops", [("Shiftmax", "ShiftGelu", "ILayerNorm"), ("IBertSoftmax", "IBertGelu")]
)
"""Forms that one block holds together; each alone, beside the defaults, is for the faults."""


def block():
    weights = {f"w_{name}": numbers(8, 8, seed=i) for i, name in enumerate("qkvho")}
    weights |= {"gamma": numbers(8, seed=7) + 2, "beta": numbers(8, seed=8)}
    constants = {"third": 1 / 30, "root": sqrt(2), "one": 1, "half": 0.5}
    weights |= {name: np.float32(value) for name, value in constants.items()}
    return model(BLOCK, opset=17, **weights)


def feeds(count=4, tokens=5):
    return [{"x": numbers(1, tokens, 8, seed=seed) * 3} for seed in range(count)]


@cache
def made_with(*ops, **options):
    """Quantized once for all tests: none changes what it is given."""
    forms = {key: value for op in ops for key, value in FORMS[op][1].items()}
    return qpasses.quantize(block(), feeds(), **forms, **options)


def proof_of(made, name):
    return next(each for each in made.evidence if each.name == name)


@pytest.mark.thinned
@pytest.mark.parametrize(
    "options",
    [{}, {"bodies": "portable"}, {"activation_type": "int8"}, {"activation_bits": 6}],
    ids=["default", "portable", "int8", "six_bits"],
)
@each_paper
def test_a_form_is_integer_proved_and_verified(ops, options):
    made = made_with(*ops, **options)
    assert made.verdict == "ok" and made.report["summary"]["float_nodes"] == []
    for op in ops:
        proof = proof_of(made, FORMS[op][0])
        assert (proof.op, proof.kind, proof.mismatches) == (op, KINDS[op], 0)
    found = qpasses.verify(made.model, block(), feeds(2))
    assert (found.verdict, found.report["summary"]["problems"]) == ("ok", [])
    models = [with_bodies(made.model, each) for each in ("portable", "onnxruntime")]
    for optimize in (False, True):
        (ours,), (theirs,) = (
            Session(m, optimize=optimize).run(None, feeds()[0]) for m in models
        )
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.thinned
@pytest.mark.parametrize("target", ["tflite", "tosa", "bm1684x"])
@each_paper
def test_a_form_goes_with_the_rounding_of_a_target(ops, target):
    made = made_with(*ops, target=target)
    assert made.verdict == "ok" and all(proof_of(made, FORMS[op][0]).op == op for op in ops)
    assert qpasses.verify(made.model, block(), feeds(2)).verdict == "ok"


def test_the_target_ivit_is_integer_with_its_own_forms_and_without_tables():
    made = qpasses.quantize(block(), feeds(), target="ivit")
    assert made.verdict == "ok" and made.report["summary"]["float_nodes"] == []
    found = {node.op_type for node in made.model.graph.node}
    assert {"Shiftmax", "ShiftGelu", "ILayerNorm", "IntRescaledAdd"} <= found
    assert not any("Lut" in op or "Table" in op for op in found)
    assert qpasses.verify(made.model, block(), feeds(2)).verdict == "ok"


def test_multipliers_of_i_layer_norm_have_31_bits_or_fit_double():
    widths = {}
    for form in ("ivit", "ivit_short"):
        made = qpasses.quantize(block(), feeds(), layernorm=form)
        assert made.verdict == "ok"
        assert qpasses.verify(made.model, block(), feeds(2)).verdict == "ok"
        constants = made.model.graph.initializer
        (found,) = (each for each in constants if each.name == "norm.multiplier")
        sizes = np.abs(numpy_helper.to_array(found).astype(np.int64))
        widths[form] = {int(each).bit_length() for each in sizes}
    assert min(widths["ivit"]) >= 30  # 31 but for biases beyond 2**30
    assert max(widths["ivit_short"]) <= 18


def test_a_target_without_tables_has_no_form_with_tables():
    with pytest.raises(UsageError, match="softmax 'table' with target 'ivit'"):
        qpasses.quantize(block(), feeds(), target="ivit", softmax="table")
    made = qpasses.quantize(
        block(), feeds(), target="ivit", softmax="ibert", layernorm="exact"
    )
    found = {node.op_type for node in made.model.graph.node}
    assert made.verdict == "ok" and {"IBertSoftmax", "IntLayerNorm"} <= found


@pytest.mark.thinned
@each_op
def test_no_number_of_a_form_may_change(op):
    name, made = FORMS[op][0], made_with(op).model
    floats = Floats.of(made, block(), feeds()[0])
    assert floats.check(made).differences == []
    for place, key in enumerate(OPS[op].inputs):
        if key == "x":
            continue
        changed = onnx.ModelProto.FromString(made.SerializeToString())
        node = next(each for each in changed.graph.node if each.name == name)
        old = next(t for t in changed.graph.initializer if t.name == node.input[place])
        array = numpy_helper.to_array(old).copy()
        array.flat[-1] ^= 1
        changed.graph.initializer.append(numpy_helper.from_array(array, "changed"))
        node.input[place] = "changed"
        assert floats.differences(changed), key


@pytest.mark.thinned
@each_op
def test_no_attribute_of_a_form_may_change(op):
    name, made = FORMS[op][0], made_with(op).model
    for key in set(OPS[op].attributes) - {"rounding"}:
        changed = onnx.ModelProto.FromString(made.SerializeToString())
        node = next(each for each in changed.graph.node if each.name == name)
        (attribute,) = [each for each in node.attribute if each.name == key]
        attribute.i -= 1
        try:
            assert qpasses.verify(changed, block()).verdict == "failed", key
        except ModelError as error:
            assert "has not the inputs and attributes" in str(error), key


@each_op
def test_inspect_prints_a_form(op, tmp_path):
    path, name = tmp_path / "block.onnx", FORMS[op][0]
    onnx.save(made_with(op).model, path)
    ended = run("inspect", path, "--node", name)
    assert ended.code == 0 and op in ended.out, ended.err


def test_what_is_too_fine_or_too_coarse_is_refused():
    target = load_target("onnx")
    for form, scale, why in (
        ("shiftmax", 1e-9, "too fine"),
        ("ibert", 1e-9, "too fine"),
        ("ibert", 3.0, "too coarse"),
    ):
        with pytest.raises(UsageError, match=why):
            softmax_numbers(form, scale, Quantization(1 / 255, 0, "uint8"), 9, target)
    for form in ("shift", "ibert"):
        with pytest.raises(UsageError, match="too fine"):
            gelu_numbers(form, 1e-9, 0.1, target)


# Known failures of the published forms, which the defaults do not have.


def gelu_graph():
    text = "g (float[N, 16] x) => (float[N, 16] y) { [gelu] y = Gelu (x) }"
    return model(text, opset=20)


@pytest.mark.thinned
@pytest.mark.parametrize("row_max", [8, 16, 32, 64])
def test_gelu_far_above_zero_is_right_in_the_table_but_not_by_shifts(row_max):
    """Both exponentials of ShiftGELU are clipped there, so that its sigmoid is a half."""
    rows = np.linspace(-row_max, row_max, 160, dtype=np.float32).reshape(10, 16)
    samples = [{"x": rows}]
    worst = {}
    for form in ("table", "shift"):
        made = qpasses.quantize(
            gelu_graph(), samples, gelu=form, op_types_to_quantize=["Gelu"]
        )
        assert made.verdict == "ok"
        worst[form] = proof_of(made, "gelu").reference_max_lsb
    assert worst["table"] <= 1
    assert worst["shift"] > (3 if row_max > 8 else 1)


@pytest.mark.parametrize("scale", [1 / 64, 1 / 128])
def test_the_shares_of_197_codes_are_lost_in_8_bits_of_shiftmax(scale):
    """They sum to less than a half, in 16 bits to 2 % less; in tables not: test_softmax.py."""
    rng = np.random.default_rng(0)
    rows = rng.integers(-60, 61, (40, 197))
    sums = {
        bits: shiftmax(rows, -1, shift_x0(scale), 15, bits).sum(axis=1) / 2 ** (bits - 1)
        for bits in (8, 16)
    }
    assert sums[8].max() < 0.5
    assert (np.abs(sums[16] - 1) > 0.02).any()


@each_op
def test_the_bound_of_a_form_holds_on_any_row(op):
    proof = proof_of(made_with(op), FORMS[op][0])
    if proof.bound is None:
        assert proof.reference_max_lsb < 256 and proof.domain in (256, 256 * 257 // 2)
        return
    assert 0 <= proof.bound < proof.reference_max_lsb + 1
