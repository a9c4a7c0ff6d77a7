"""Divisors: what makes one is part of the table of a quotient, so that none is rounded."""

import json

import numpy as np
import onnx
import pytest

from calibration import Session
from qpasses import integerize, quantize, verify
from qpasses.ir.metadata import PREFIX
from tests.support.small_models import model, numbers


def quotient(body, outputs="float[N, 6, 8] y", **constants):
    """Of two products a and b."""
    return model(
        f"""net (float[N, 6, 8] x) => ({outputs}) {{
            a = MatMul (x, w)
            b = MatMul (x, v)
            {body}
        }}""",
        w=numbers(8, 8) / 3,
        v=numbers(8, 8) / 3,
        **constants,
    )


def samples(count, seed=0):
    return [{"x": numbers(1, 6, 8, seed=seed + at)} for at in range(count)]


def ops(made):
    return [node.op_type for node in made.graph.node if node.domain == "qpasses"]


def sqnr_db(original, made, feeds):
    sessions = Session(original), Session(made)
    real, found = (
        np.concatenate([each.run(None, feed)[0] for feed in feeds]) for each in sessions
    )
    return 10 * np.log10(np.square(real).sum() / np.square(real - found).sum())


EXP = "s = Mul (b, two) e = Exp (s) y = Div (a, e)"
TWO = {"two": np.float32(2)}
AXES = {"last": np.array([-1])}

TAKEN = {
    "an exponential": (EXP, TWO, 25),
    "a shifted Sigmoid": (
        "s = Sigmoid (b) t = Add (s, two) y = Div (a, t)",
        {"two": np.float32(0.01)},
        20,
    ),
    "read twice inside": (
        "s = Exp (b) r = Sqrt (s) t = Mul (s, r) y = Div (a, t)",
        {},
        25,
    ),
    "behind a clamp": (
        "r = Relu (b) q = Mul (r, r) s = Add (q, two) y = Div (a, s)",
        {"two": np.float32(0.1)},
        28,
    ),
    "of a difference": (
        """m = ReduceMean <axes = [-1], keepdims = 1> (b) d = Sub (b, m) q = Mul (d, d)
        s = Add (q, two) y = Div (a, s)""",
        {"two": np.float32(0.1)},
        20,
    ),
    "of sums, broadcast": (
        """p = Abs (a) s = ReduceSum <keepdims = 1> (p, last) t = Add (s, two)
        y = Div (a, t)""",
        AXES | TWO,
        30,
    ),
}


@pytest.mark.thinned
@pytest.mark.parametrize("bodies", ["onnxruntime", "portable"])
@pytest.mark.parametrize("name", TAKEN)
def test_what_makes_a_divisor_is_part_of_the_quotient(name, bodies):
    body, constants, least = TAKEN[name]
    original, others = quotient(body, **constants), samples(6, seed=50)
    found = quantize(original, samples(20), bodies=bodies)
    assert found.verdict == "ok"
    assert verify(found.model, original, others).verdict == "ok"
    assert ops(found.model)[-1] == "LutPair"
    assert "Lut" not in ops(found.model)[2 if "Abs" not in body else 3 :]
    assert sqnr_db(original, found.model, samples(20)) > least


@pytest.mark.thinned
@pytest.mark.parametrize("types", ["y=int16", "a=int16", ".*=int16"])
@pytest.mark.parametrize("name", TAKEN)
def test_divisors_of_words_are_stored_by_their_largest_result(name, types):
    """As `verify` expects them, which recomputes their scale."""
    body, constants, _ = TAKEN[name]
    original = quotient(body, **constants)
    found = quantize(original, samples(8), accuracy="fast", tensor_types=[types])
    assert verify(found.model, original, samples(2)).verdict == found.verdict != "failed"


NOT_TAKEN = {
    "read elsewhere": (EXP + " z = Tanh (e)", ", float[N, 6, 8] z"),
    "an output": (EXP, ", float[N, 6, 8] e"),
    "between is read": (EXP + " z = Tanh (s)", ", float[N, 6, 8] z"),
    "numbers along an axis": ("s = Mul (b, row) e = Exp (s) y = Div (a, e)", ""),
    "the numerator": ("s = Mul (b, two) e = Exp (s) y = Div (e, a)", ""),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", NOT_TAKEN)
def test_what_else_is_read_is_stored(name):
    body, more = NOT_TAKEN[name]
    constants = TWO | {"row": np.abs(numbers(8))}
    original = quotient(body, f"float[N, 6, 8] y{more}", **constants)
    found = quantize(original, samples(8))
    assert found.verdict == verify(found.model, original, samples(3)).verdict == "ok"
    made = ops(found.model)
    assert "LutPair" in made and {"Lut", "LutPerChannel"} & {*made}


def test_what_is_excluded_is_not_taken():
    original = quotient("[alone] s = Mul (b, two) e = Exp (s) y = Div (a, e)", **TWO)
    found = quantize(original, samples(8), nodes_to_exclude=["alone"])
    left = [each["name"] for each in found.report["summary"]["float_nodes"]]
    assert left == ["alone", "Exp", "Div"]
    assert verify(found.model, original, samples(3)).verdict == found.verdict


def test_a_quantized_model_has_the_same_quotient():
    original = quotient(EXP, **TWO)
    made = integerize(quantize(original, samples(8), emit="qdq").model)
    assert ops(made.model) == ["IntGemm", "IntGemm", "LutPair"]
    assert made.verdict == "ok"


FORGED = {
    "less": lambda names: names[1:],
    "the Div alone": lambda names: names[-1:],
    "another order": lambda names: [names[-1], *names[:-1]],
    "more": lambda names: ["MatMul", *names],
}


@pytest.mark.parametrize("name", FORGED)
def test_a_record_that_names_other_nodes_is_found(name):
    original = quotient(EXP, **TWO)
    forged = onnx.ModelProto()
    forged.CopyFrom(quantize(original, samples(4)).model)
    (node,) = [n for n in forged.graph.node if n.op_type == "LutPair"]
    (entry,) = [e for e in node.metadata_props if e.key == PREFIX + "source"]
    names = json.loads(entry.value)
    assert len(names) == 3
    entry.value = json.dumps(FORGED[name](names))
    found = verify(forged, original, samples(2))
    assert found.verdict == "failed"
    assert any(
        "LutPair" in each or "Div" in each for each in found.report["summary"]["problems"]
    )
