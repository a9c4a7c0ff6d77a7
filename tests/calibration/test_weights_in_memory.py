"""Weights that onnxruntime reads where they lie in memory: results are as of one message."""

import errno
import gc
import os
import tempfile
import weakref

import numpy as np
import onnx
import pytest

from calibration import Session, held_weights, large_weights
from calibration.held_weights import holding, with_held
from calibration.large_weights import handed_over
from opsets.errors import UsageError
from tests.support.small_models import model, numbers

PRODUCT = "g (float[N, 30] x) => (float[N, 40] y) { y = MatMul (x, w) }"

GIVEN_OUT = "g (float[N, 30] x) => (float[N, 40] y, float[30, 40] w) { y = MatMul (x, w) }"
READ_INSIDE = """
g (float[N, 30] x, bool c) => (float[N, 40] y) {
    y = If (c) <
        then_branch = a () => (float[N, 40] p) { p = MatMul (x, w) },
        else_branch = b () => (float[N, 40] q) { n = Neg (x) q = MatMul (n, w) }>
}"""


@pytest.fixture(autouse=True)
def no_weights_are_few(monkeypatch):
    monkeypatch.setattr(large_weights, "_MUCH", 0)


def made(text, *, unread=False, is_input=False):
    """A model whose weights ``w`` are large; with others that no node reads."""
    weights = {"w": numbers(30, 40)} | ({"u": numbers(30, 50)} if unread else {})
    built = model(text, opset=21, **weights)
    if is_input:
        for name, values in weights.items():
            value = onnx.helper.make_tensor_value_info(
                name, onnx.TensorProto.FLOAT, values.shape
            )
            built.graph.input.append(value)
    return built


CASES = {
    "usual": (made(PRODUCT), {}),
    "some that nothing reads": (made(PRODUCT, unread=True), {}),
    "as inputs": (made(PRODUCT, unread=True, is_input=True), {}),
    "as inputs that are given": (made(PRODUCT, is_input=True), {"w": numbers(30, 40) * 2}),
    "as an output": (made(GIVEN_OUT), {}),
    "read in a branch": (made(READ_INSIDE), {"c": np.array(False)}),
}


@pytest.fixture(params=["in memory", "in a file"])
def place(request, tmp_path, monkeypatch):
    """Where onnxruntime finds weights: of many it maps a file. The folder for it."""
    if request.param == "in a file":
        monkeypatch.setattr(held_weights, "MANY", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def held(monkeypatch):
    """All weights of models that are asked for by it are held."""
    for limit in ("MANY", "HELD_FROM", "LARGE"):
        monkeypatch.setattr(held_weights, limit, 0)
    with holding():
        yield with_held


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_held_weights_are_read_where_they_are_with_the_same_results(case, optimize, held):
    built, others = CASES[case]
    feed = {"x": numbers(3, 30)} | others
    expected = Session(built.SerializeToString(), optimize=optimize).run(None, feed)
    for in_place in (True, False):
        found = Session(held(built), optimize=optimize, in_place=in_place).run(None, feed)
        for there, here in zip(expected, found, strict=True):
            np.testing.assert_array_equal(here, there)


def test_weights_that_are_not_read_in_place_may_be_let_go(held):
    built = held(made(PRODUCT))
    values = weakref.ref(held_weights.values_of(built.graph.initializer[0]))
    feed = {"x": numbers(3, 30)}
    in_place, apart = (Session(built, in_place=each) for each in (True, False))
    expected = apart.run(None, feed)[0]
    held_weights.let_go(built, [])
    assert values() is not None
    np.testing.assert_array_equal(in_place.run(None, feed)[0], expected)
    del in_place
    gc.collect()
    assert values() is None
    np.testing.assert_array_equal(apart.run(None, feed)[0], expected)


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_one_message(case, optimize, place):
    built, others = CASES[case]
    before = built.SerializeToString()
    feed = {"x": numbers(3, 30)} | others
    expected = Session(built.SerializeToString(), optimize=optimize).run(None, feed)
    found = Session(built, optimize=optimize).run(None, feed)
    for there, here in zip(expected, found, strict=True):
        np.testing.assert_array_equal(here, there)
    assert built.SerializeToString() == before


@pytest.mark.skipif(os.name != "posix", reason="only there files may go while they are mapped")
def test_no_file_is_left_while_a_session_lives(place):
    session = Session(made(PRODUCT))
    assert not any(place.iterdir())
    assert session.run(None, {"x": numbers(3, 30)})[0].shape == (3, 40)


def test_a_full_disk_is_a_clear_error(tmp_path, monkeypatch):
    def full(_lines):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(held_weights, "MANY", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(large_weights, "weights_apart", full)
    with pytest.raises(UsageError, match="temporary files cannot be written: No space left"):
        Session(made(PRODUCT))
    gc.collect()
    assert not any(tmp_path.iterdir())


def test_weights_are_no_part_of_the_message_whether_they_are_read_or_not():
    message, weights = handed_over(made(PRODUCT, unread=True))
    assert [*weights] == ["w"]
    assert len(message) < 500


def test_unread_weights_that_are_inputs_stay_for_those_who_do_not_give_them():
    message, weights = handed_over(made(PRODUCT, unread=True, is_input=True))
    assert [*weights] == ["w"]
    assert 4 * 30 * 50 < len(message) < 4 * 30 * 50 + 600


def test_few_weights_stay_in_the_message(monkeypatch):
    monkeypatch.setattr(large_weights, "_MUCH", 30 * 40 * 4 + 1)
    built = made(PRODUCT)
    assert handed_over(built) == (built.SerializeToString(deterministic=True), {})


def test_other_outputs_are_asked_for_in_place_of_the_models_own(place):
    there = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    session = Session(made(GIVEN_OUT), outputs=[there])
    assert session.outputs == ["y"]


TURNED = """
g (float[1, 40, 40] x) => (float[1, 40, 40] y) {
    a = Transpose <perm = [0, 2, 1]> (x)
    b = %s
    y = Transpose <perm = [0, 2, 1]> (b)
}"""

TURNINGS = {
    "a factor": ("Mul (a, w)", {"w": numbers(40, 40)}),
    "a factor of rows": ("Mul (a, w)", {"w": numbers(40, 1)}),
    "a mask": ("Where (w, a, x)", {"w": numbers(40, 40) > 0}),
}


@pytest.mark.parametrize("is_held", [True, False])
@pytest.mark.parametrize("case", TURNINGS)
def test_weights_that_the_optimizer_turns_are_read_as_it_left_them(case, is_held, held, place):
    node, weights = TURNINGS[case]
    plain = model(TURNED % node, opset=21, **weights)
    feed = {"x": numbers(1, 40, 40)}
    expected = Session(plain.SerializeToString(), optimize=False).run(None, feed)
    given = held(plain) if is_held else plain
    for outputs in ((), given.graph.output):
        found = Session(given, outputs=outputs).run(None, feed)
        np.testing.assert_array_equal(found, expected)
