"""Ends of nets that read sequences, and embeddings of ids that flow in: on integers."""

import re

import numpy as np
import pytest

from qpasses import quantize, verify
from tests.support.small_models import model, numbers

FORMS = {
    "log": "g (float[1, T, 8] x) => (float[1, T, 12] y) { c = MatMul (x, w) %s }",
    "argmax": "g (float[1, T, 8] x) => (int64[1, T] y) { c = MatMul (x, w) %s }",
    "three": "g (float[1, T, 8] x) => (float[1, T, 3] v, int64[1, T, 3] y)"
    " { c = MatMul (x, w) %s }",
    "turned": "g (float[1, T, 8] x) => (float[1, 12, T] y) { c = MatMul (x, w) %s }",
    "ids": "g (int64[1, T] ids) => (float[1, T, 12] y) { %s y = MatMul (r, w) }",
    "small ids": "g (int32[1, T] ids) => (float[1, T, 12] y) { %s y = MatMul (r, w) }",
    "time first": "g (int64[1, T] ids) => (float[T, 1, 12] y) { %s y = MatMul (r, w) }",
    "placed": "g (int64[1, 6] ids) => (float[1, 6, 12] y) { %s y = MatMul (r, w) }",
}
ENDS = {
    "LogSoftmax": ("log", "y = LogSoftmax <axis = 2> (c)"),
    "Softmax": ("log", "y = Softmax <axis = 2> (c)"),
    "LogSoftmax of turned": (
        "turned",
        "t = Transpose <perm = [0, 2, 1]> (c) y = LogSoftmax <axis = 1> (t)",
    ),
    "ArgMax": ("argmax", "y = ArgMax <axis = 2, keepdims = 0> (c)"),
    "ArgMax of Softmax": (
        "argmax",
        "s = Softmax <axis = 2> (c) y = ArgMax <axis = 2, keepdims = 0> (s)",
    ),
    "TopK": ("three", "v, y = TopK <axis = 2> (c, three)"),
    "TopK of LogSoftmax": (
        "three",
        "s = LogSoftmax <axis = 2> (c) v, y = TopK <axis = 2> (s, three)",
    ),
    "Gather": ("ids", "r = Gather (rows, ids)"),
    "Gather by int32": ("small ids", "r = Gather (rows, ids)"),
    "Gather, time first": (
        "time first",
        "e = Gather (rows, ids) r = Transpose <perm = [1, 0, 2]> (e)",
    ),
    "Gather and places": ("placed", "e = Gather (rows, ids) r = Add (e, places)"),
}
CONSTANTS = {
    **{"w": numbers(8, 12), "rows": numbers(20, 8), "places": numbers(6, 8)},
    "three": np.array([3]),
}


@pytest.mark.thinned
@pytest.mark.parametrize("options", [{}, {"integer_io": True}])
@pytest.mark.parametrize("name", ENDS)
def test_nothing_is_left_in_float(name, options, tmp_path):
    form, body = ENDS[name]
    text, path = FORMS[form] % body, tmp_path / "made.onnx"
    words = {*re.findall(r"\w+", text)}
    made = model(text, **{each: value for each, value in CONSTANTS.items() if each in words})
    rng = np.random.default_rng(0)
    kind = made.graph.input[0].type.tensor_type.elem_type
    feeds = [
        {"x": numbers(1, 6, 8, seed=seed)}
        if "float[1, T, 8] x" in text
        else {"ids": rng.integers(0, 20, (1, 6)).astype(np.int32 if kind == 6 else np.int64)}
        for seed in range(8)
    ]
    result = quantize(made, feeds, path, **options)
    assert result.report["summary"]["float_nodes"] == []
    assert not [each for each in result.report["warnings"] if "stays float" in each]
    report = verify(path, made, data=feeds)
    assert report.verdict == "ok"
    for output in report.report["accuracy"]["outputs"]:
        assert output["sqnr_db"] > 30 or output["agreement"] > 0.9
