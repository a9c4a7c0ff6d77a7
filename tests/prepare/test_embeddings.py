"""Embeddings: one-hot rows and rows looked up by integer ids, on stored integers."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import qpasses
from calibration import Session
from opsets.target import load_target
from qpasses.ir.interchange import prepared_model
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.prepare.canonical import prepare
from tests.support.small_models import model, numbers

WORDS, WIDTH = 6, 4

ONE_HOT = {
    "tensorflow": """
        h = OneHot <axis = -1> (ids, depth, off_on)
        flat = Reshape (h, rows)
        p = MatMul (flat, w)
        sizes = Shape (h)
        leading = Gather (sizes, two)
        shape = Concat <axis = 0> (leading, columns)
        e = Reshape (p, shape)""",
    "pytorch": "k = OneHot (ids, depth, bits) h = Cast <to = 1> (k) e = MatMul (h, w)",
    "gemm": """
        h = OneHot <axis = 2> (ids, depth, unlike)
        flat = Reshape (h, rows)
        p = Gemm <alpha = 0.5, transB = 1> (flat, turned, bias)
        e = Reshape (p, whole)""",
}

BEHIND = "g = Sigmoid (e) s = Mul (e, g) a = Add (s, bias) y = MatMul (a, last)"


def written(form, opset=13, length=5):
    ends = f"(int64[N, {length}] ids) => (float[N, {length}, 3] y)"
    w = numbers(WORDS, WIDTH)
    return model(
        f"net {ends} {{ {ONE_HOT[form]} {BEHIND} }}",
        opset=opset,
        depth=np.int64(WORDS),
        off_on=np.float32([0, 1]),
        bits=np.array([0, 1]),
        unlike=np.float32([0.25, 3]),
        rows=np.array([-1, WORDS]),
        whole=np.array([-1, length, WIDTH]),
        two=np.array([0, 1]),
        columns=np.array([WIDTH]),
        w=w,
        turned=w.T,
        bias=numbers(WIDTH, seed=1),
        last=numbers(WIDTH, 3, seed=2),
    )


def feeds(count=4, low=0, high=WORDS, length=5):
    rng = np.random.default_rng(0)
    return [{"ids": rng.integers(low, high, (2, length))} for _ in range(count)]


@pytest.mark.thinned
@pytest.mark.parametrize("opset", [11, 13, 18, 21])
@pytest.mark.parametrize("form", ONE_HOT)
@pytest.mark.parametrize("length", [1, 5])
def test_every_id_gives_what_one_hot_rows_give(form, opset, length):
    made = written(form, opset, length)
    (first,) = feeds(1, length=length)
    graph = prepare(made, first, Context(Settings(load_target("onnx"))))
    assert not {"OneHot", "Sigmoid", "Mul"} & {node.op for node in graph.nodes}
    for feed in feeds(8, -2 * WORDS - 3, 2 * WORDS + 3, length):
        (found,) = Session(prepared_model(graph)).run(None, feed)
        (expected,) = Session(made).run(None, feed)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.thinned
@pytest.mark.parametrize("options", [{}, {"activation_type": "int8"}, {"target": "tflite"}])
@pytest.mark.parametrize("form", ONE_HOT)
def test_ids_are_looked_up_in_stored_integers(form, options):
    made = written(form)
    result = qpasses.quantize(made, feeds(), **options)
    assert result.verdict == "ok" and result.report["summary"]["integer_only"]
    constants = {each.name: each for each in result.model.graph.initializer}
    gathers = [node for node in result.model.graph.node if node.op_type == "Gather"]
    (table,) = [name for node in gathers if (name := node.input[0]) in constants]
    assert numpy_helper.to_array(constants[table]).dtype == options.get(
        "activation_type", "uint8"
    )
    assert qpasses.verify(result.model, made, feeds(2)).verdict == "ok"
    for feed in feeds(4, -WORDS, WORDS):
        (found,) = Session(result.model).run(None, feed)
        (expected,) = Session(made).run(None, feed)
        assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


LOOKED_UP = {
    "three tables": """
        a = Gather (words, ids) b = Gather (kinds, others) c = Gather (places, order)
        s = Add (a, b) t = Add (s, c) n = LayerNormalization (t, bias, bias)
        y = MatMul (n, last)""",
    "a table and constants": """
        a = Gather (words, ids) s = Add (a, places) y = MatMul (s, last)""",
    "a mean": """
        a = Gather (words, ids) m = ReduceMean <axes = [1]> (a) y = MatMul (m, last)""",
    "a sum": "a = Gather (words, ids) y = ReduceSum (a, one)",
    "a product": """
        a = Gather (words, ids) b = Gather (kinds, others) p = Mul (a, b)
        y = MatMul (p, last)""",
}


@pytest.mark.thinned
@pytest.mark.parametrize("form", LOOKED_UP)
def test_what_is_made_of_tables_is_integer(form):
    made = model(
        f"net (int64[2, 5] ids, int32[2, 5] others) => (float[] y) {{ {LOOKED_UP[form]} }}",
        words=numbers(WORDS, WIDTH),
        kinds=numbers(3, WIDTH, seed=1),
        places=numbers(5, WIDTH, seed=2),
        order=np.arange(5),
        one=np.array([1]),
        bias=numbers(WIDTH, seed=1),
        last=numbers(WIDTH, 3, seed=2),
    )
    shape = (2, 1 if form in ("a mean", "a sum") else 5, WIDTH if form == "a sum" else 3)
    made.graph.output[0].CopyFrom(
        onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)
    )
    rng = np.random.default_rng(1)
    samples = [
        {**feed, "others": rng.integers(0, 3, (2, 5)).astype(np.int32)} for feed in feeds()
    ]
    result = qpasses.quantize(made, samples)
    assert result.verdict == "ok" and result.report["summary"]["integer_only"]
    assert qpasses.verify(result.model, made, samples).verdict == "ok"
    for feed in samples:
        (found,) = Session(result.model).run(None, feed)
        (expected,) = Session(made).run(None, feed)
        assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


def test_a_table_that_nothing_computes_with_stays_float():
    text = "net (int64[2, 5] ids) => (float[2, 5, 4] y) { y = Gather (words, ids) }"
    result = qpasses.quantize(model(text, words=numbers(WORDS, WIDTH)), feeds())
    (left,) = result.report["summary"]["float_nodes"]
    assert left["reason"] == "Gather with no integer node next to it: it would only be rounded"


def test_no_number_of_a_table_may_change():
    made = written("pytorch")
    result = qpasses.quantize(made, feeds())
    changed = onnx.ModelProto.FromString(result.model.SerializeToString())
    node = next(each for each in changed.graph.node if each.op_type == "Gather")
    table = next(each for each in changed.graph.initializer if each.name == node.input[0])
    values = numpy_helper.to_array(table).copy()
    values.flat[0] ^= 1
    table.CopyFrom(numpy_helper.from_array(values, table.name))
    assert qpasses.verify(changed, made, feeds(2)).verdict == "failed"
