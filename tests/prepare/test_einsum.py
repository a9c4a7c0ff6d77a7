"""Einsum, CumSum and DFT as the products and sums that they are."""

import numpy as np
import pytest

from qpasses import quantize, verify
from tests.support.small_models import model, numbers, session

PAIRS = {
    "ij,jk->ik": ((3, 4), (4, 5)),
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
    "bqhd,bkhd->bhqk": ((2, 3, 4, 5), (2, 6, 4, 5)),
    "bhqk,bkhd->bqhd": ((2, 4, 3, 6), (2, 6, 4, 5)),
    "...ij,...jk->...ik": ((2, 3, 4), (2, 4, 5)),
    "...ij,jk": ((2, 3, 4), (4, 5)),
    "bchw,bkc->bkhw": ((2, 3, 4, 5), (2, 6, 3)),
    "ijkl,mkl->ijm": ((2, 3, 4, 5), (6, 4, 5)),
    "i,i": ((7,), (7,)),
    "i,j->ij": ((3,), (4,)),
    "bij,bj->bji": ((2, 3, 4), (2, 4)),
    "nctv,vw->nctw": ((2, 3, 4, 5), (5, 6)),
}
ALONE = {
    "ij->ji": (3, 4),
    "ij->i": (3, 4),
    "abc->": (2, 3, 4),
    "...ij->...ji": (2, 3, 4),
    "abcd->ca": (2, 3, 4, 5),
}


def decibels(made, result, feed):
    expected, found = (session(each).run(None, feed)[0] for each in (made, result.model))
    assert expected.shape == found.shape
    noise, signal = np.square(expected - found).sum(), np.square(expected).sum()
    return 10 * np.log10(signal / noise) if noise else np.inf


def two_branches(equation, shapes):
    """Both operands are on integers: tables stand before them."""
    sizes = [", ".join(map(str, each)) for each in shapes]
    return model(
        f"""net (float[{sizes[0]}] a, float[{sizes[1]}] b) => (float[] y) {{
            s = Tanh (a)
            t = Tanh (b)
            [product] y = Einsum <equation = "{equation}"> (s, t)
        }}""",
        opset=17,
    )


def untyped(made, dims):
    """``made``, with a result of so many free dimensions."""
    shape = made.graph.output[0].type.tensor_type.shape
    shape.SetInParent()
    for k in range(dims):
        shape.dim.add().dim_param = f"D{k}"
    return made


@pytest.mark.thinned
@pytest.mark.parametrize("equation", PAIRS)
def test_an_einsum_of_two_tensors_is_integer(equation):
    shapes = PAIRS[equation]
    arrays = [numbers(*each, seed=k) for k, each in enumerate(shapes)]
    made = untyped(two_branches(equation, shapes), np.einsum(equation, *arrays).ndim)
    feed = dict(zip("ab", arrays, strict=True))
    result = quantize(made, [feed])
    assert not result.report["summary"]["float_nodes"]
    assert decibels(made, result, feed) > 25
    assert verify(result.model, made, [feed]).verdict == result.verdict == "ok"


@pytest.mark.parametrize("equation", ALONE)
def test_an_einsum_of_one_tensor_moves_and_sums(equation):
    x = numbers(*ALONE[equation])
    sizes = ", ".join(map(str, x.shape))
    made = untyped(
        model(
            f"""net (float[{sizes}] x) => (float[] y) {{
                s = Tanh (x)
                y = Einsum <equation = "{equation}"> (s)
            }}""",
            opset=17,
        ),
        np.einsum(equation, x).ndim,
    )
    result = quantize(made, [{"x": x}])
    assert not result.report["summary"]["float_nodes"]
    assert decibels(made, result, {"x": x}) > 25


def test_a_diagonal_and_free_sizes_that_are_joined_are_left_by_name():
    made = model(
        """net (float[N, M, 4] a, float[N, M, 4] b, float[3, 3] c) =>
                (float[4, 4] y, float[3] d) {
            [free] y = Einsum <equation = "nmi,nmj->ij"> (a, b)
            [diagonal] d = Einsum <equation = "ii->i"> (c)
        }""",
        opset=17,
    )
    feed = {"a": numbers(2, 3, 4), "b": numbers(2, 3, 4, seed=1), "c": numbers(3, 3)}
    left = {
        n["name"]: n["reason"] for n in quantize(made, [feed]).report["summary"]["float_nodes"]
    }
    assert left["free"].startswith("Einsum over indices of sizes that differ, or are not")
    assert left["diagonal"] == "Einsum with a diagonal, or of tensors of unknown rank"


SUMS = ["", "<exclusive = 1>", "<reverse = 1>", "<exclusive = 1, reverse = 1>"]


@pytest.mark.thinned
@pytest.mark.parametrize("attributes", SUMS)
@pytest.mark.parametrize("axis", [1, -1])
def test_running_sums_are_products_with_a_triangle(axis, attributes):
    text = f"net (float[N, 5, 6] x) => (float[N, 5, 6] y) {{ y = CumSum {attributes} (x, k) }}"
    made, x = model(text, opset=17, k=np.int64(axis)), numbers(3, 5, 6)
    result = quantize(made, [{"x": x}])
    assert result.verdict == "ok"
    assert decibels(made, result, {"x": x}) > 25


WAVES = {
    "real": ("<axis = 1>", (2, 8, 1), None),
    "complex": ("<axis = 1>", (2, 8, 2), None),
    "inverse": ("<axis = 1, inverse = 1>", (2, 8, 2), None),
    "onesided": ("<axis = 1, onesided = 1>", (2, 8, 1), None),
    "another axis": ("<axis = 1>", (2, 6, 3, 1), None),
    "cut off": ("<axis = 1>", (2, 8, 1), 6),
    "filled up": ("<axis = 1>", (2, 8, 1), 10),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", WAVES)
def test_a_fourier_transform_is_a_product_with_its_waves(name):
    attributes, shape, length = WAVES[name]
    given = {} if length is None else {"n": np.int64(length)}
    ends = ", ".join(f"D{k}" for k in range(len(shape)))
    sizes = ", ".join(map(str, shape))
    arguments = "x" if length is None else "x, n"
    text = (
        f"net (float[{sizes}] x) => (float[{ends}] y) {{ y = DFT {attributes} ({arguments}) }}"
    )
    made, x = model(text, opset=17, **given), numbers(*shape)
    result = quantize(made, [{"x": x}])
    assert result.verdict == "ok"
    assert decibels(made, result, {"x": x}) > 25
