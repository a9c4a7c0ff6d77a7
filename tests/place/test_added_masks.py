"""Masks that are added to scores: of any size, as inputs and constants, in all samples."""

import numpy as np
import pytest

from calibration import Session
from opsets.errors import DataError
from qpasses import calibrate, quantize, verify
from qpasses.ir.metadata import read_record
from qpasses.load.added_masks import added_masks
from tests.support.small_models import model, numbers

LENGTH, SIZE = 12, 16
LOWEST = np.finfo(np.float32).min
DISTANCES = -np.abs(np.arange(LENGTH)[:, None] - np.arange(LENGTH)) / np.float32(4)
CAUSAL = np.triu(np.ones((LENGTH, LENGTH), bool), 1)


def attention(text, inputs="", **constants):
    """One head, whose scores are masked as ``text`` says."""
    return model(
        f"""net (float[1, {LENGTH}, {SIZE}] x{inputs}) => (float[1, {LENGTH}, {SIZE}] y) {{
            q = MatMul (x, wq)
            k = MatMul (x, wk)
            across = Transpose <perm = [0, 2, 1]> (k)
            products = MatMul (q, across)
            scores = Mul (products, scale)
            {text}
            p = Softmax <axis = -1> (masked)
            y = MatMul (p, x)
        }}""",
        wq=numbers(SIZE, SIZE) / 3,
        wk=numbers(SIZE, SIZE) / 3,
        scale=np.float32(0.25),
        axis=np.array([1]),
        **constants,
    )


def rows(low, seed, *shape):
    """0 for the first words of a text, and ``low`` for what follows."""
    length = 3 + seed % (LENGTH - 2)
    where = np.arange(LENGTH) >= length
    return np.broadcast_to(np.where(where, np.float32(low), np.float32(0)), shape).copy()


def texts(count, low, *shape, seed=0):
    feeds = range(seed, seed + count)
    return [
        {"x": numbers(1, LENGTH, SIZE, seed=at), "mask": rows(low, at, *shape)} for at in feeds
    ]


def sqnr_db(original, made, feeds):
    sessions = Session(original), Session(made)
    real, found = (
        np.concatenate([each.run(None, feed)[0] for feed in feeds]) for each in sessions
    )
    return 10 * np.log10(np.square(real).sum() / np.square(real - found).sum())


def check(original, feeds, others, least=22):
    found = quantize(original, feeds)
    assert found.verdict == "ok"
    assert verify(found.model, original, others).verdict == "ok"
    assert sqnr_db(original, found.model, others) > least
    return found


ADDED = {
    "as it is": ("masked = Add (scores, mask)", [1, 1, LENGTH]),
    "a mask for each row": ("masked = Add (mask, scores)", [1, LENGTH, LENGTH]),
    "moved before": ("m = Unsqueeze (mask, axis) masked = Add (scores, m)", [1, LENGTH]),
}


@pytest.mark.thinned
@pytest.mark.parametrize("low", [-100, -1e4, -1e9, LOWEST, -np.inf])
@pytest.mark.parametrize("form", ADDED)
def test_an_input_that_drops_scores_costs_them_nothing(form, low):
    text, shape = ADDED[form]
    given = ", ".join(map(str, shape))
    original = attention(text, f", float[{given}] mask")
    check(original, texts(20, low, *shape), texts(20, low, *shape, seed=50))


@pytest.mark.parametrize("high", [100, 1e4, -LOWEST])
def test_an_input_may_be_subtracted_as_well(high):
    shape = [1, 1, LENGTH]
    given = ", ".join(map(str, shape))
    original = attention("masked = Sub (scores, mask)", f", float[{given}] mask")
    check(original, texts(20, high, *shape), texts(20, high, *shape, seed=50))


@pytest.mark.thinned
@pytest.mark.parametrize("low", [-100, -1e4])
@pytest.mark.parametrize("op", ["Add", "Sub"])
def test_what_two_scores_read_in_other_ways_is_stored_as_it_is_seen(op, low):
    """Nothing is clipped where one reader would miss it."""
    other = "Sub" if op == "Add" else "Add"
    original = attention(
        f"""first = {op} (scores, mask)
        shares = Softmax <axis = -1> (first)
        o = MatMul (shares, scores)
        masked = {other} (o, mask)""",
        f", float[1, 1, {LENGTH}] mask",
    )
    found = quantize(original, texts(20, low, 1, 1, LENGTH))
    (stored,) = [
        each for name, each in read_record(found.model)[0].tensors.items() if "mask_" in name
    ]
    assert stored.scale == pytest.approx(-low / 255)


def test_every_layer_reads_the_mask():
    original = attention(
        """first = Add (scores, mask)
        shares = Softmax <axis = -1> (first)
        o = MatMul (shares, scores)
        masked = Add (o, mask)""",
        f", float[1, 1, {LENGTH}] mask",
    )
    check(original, texts(20, -1e4, 1, 1, LENGTH), texts(9, -1e4, 1, 1, LENGTH, seed=50))


def test_a_table_of_the_same_samples_gives_the_same_model():
    original = attention(ADDED["as it is"][0], f", float[1, 1, {LENGTH}] mask")
    feeds = texts(6, -np.inf, 1, 1, LENGTH)
    table = calibrate(original, feeds).table
    made = [
        quantize(original, feeds, accuracy="fast"),
        quantize(original, calibration_table=table),
    ]
    assert made[0].model.graph == made[1].model.graph


@pytest.mark.thinned
@pytest.mark.parametrize("low", [-1e4, -np.inf])
@pytest.mark.parametrize("op", ["Add", "Sub"])
def test_a_constant_that_drops_some_and_moves_others_does_both(low, op):
    sign = 1 if op == "Add" else -1
    mask = sign * np.where(CAUSAL, np.float32(low), DISTANCES).astype(np.float32)
    original = attention(f"masked = {op} (scores, mask)", mask=mask)
    feeds, others = (
        [{"x": numbers(1, LENGTH, SIZE, seed=seed + at)} for at in range(20)]
        for seed in (0, 50)
    )
    found = check(original, feeds, others)
    assert "Where" in {node.op_type for node in found.model.graph.node}


def test_what_does_not_drop_scores_that_lie_far_apart_is_stored_as_it_is_seen():
    """As those of SwinV2, cosines times 100, beside its -100."""
    original = attention(
        "far = Mul (scores, far_apart) masked = Add (far, mask)",
        f", float[1, 1, {LENGTH}] mask",
        far_apart=np.float32(40),
    )
    found = quantize(original, texts(20, -100, 1, 1, LENGTH))
    (stored,) = [
        each for name, each in read_record(found.model)[0].tensors.items() if "mask_" in name
    ]
    assert stored.scale == pytest.approx(100 / 255)


def test_what_drops_nothing_is_stored_as_it_is_seen():
    original = attention("masked = Add (scores, mask)", f", float[1, 1, {LENGTH}] mask")
    found = check(original, texts(20, -5, 1, 1, LENGTH), texts(9, -5, 1, 1, LENGTH, seed=50))
    (stored,) = [
        each for name, each in read_record(found.model)[0].tensors.items() if "mask_" in name
    ]
    assert stored.scale == pytest.approx(5 / 255)


OTHERS = {
    "it is an output": ("masked = Add (scores, mask)", "mask"),
    "something else reads it": ("masked = Add (scores, mask) z = Exp (mask)", "z"),
    "its sum is an output": ("masked = Add (scores, mask)", "masked"),
    "it is multiplied": ("m = Mul (mask, scale) masked = Add (scores, m)", None),
}


@pytest.mark.parametrize("other", OTHERS)
def test_minus_infinity_is_an_error_where_it_may_mean_more(other):
    text, name = OTHERS[other]
    original = attention(text, f", float[1, 1, {LENGTH}] mask")
    if name is not None:
        value = original.graph.output.add()
        value.name = name
        value.type.tensor_type.elem_type = 1
    assert added_masks(original) == frozenset()
    feeds = [texts(1, low, 1, 1, LENGTH)[0] for low in (-np.inf, 0)]
    with pytest.raises(DataError, match="mask"):
        quantize(original, feeds)
