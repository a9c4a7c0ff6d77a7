"""Masked scores are looked for where a Softmax may read them, nowhere else."""

import numpy as np
import pytest

from opsets.target import load_target
from qpasses.ir.interchange import import_graph
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.ir.shapes import infer_shapes
from qpasses.lowering import QUANTIZABLE
from qpasses.place import masked_scores
from qpasses.place.planning import plan
from tests.support.small_models import model, numbers

LOWEST = np.float32(-3e38)

MOVED = """
g (float[4, 4] x, bool[4, 4] drop) => (float[N, M] y) {
    s = MatMul (x, w)
    t = Transpose (s)
    u = Where (drop, low, t)
    v = Transpose (u)
    END
}"""


@pytest.mark.parametrize(
    ("end", "found"),
    [("y = Softmax (v)", ["u", "v"]), ("y = MatMul (v, w)", [])],
)
def test_only_what_a_softmax_reads_is_followed_back(end, found, monkeypatch):
    text = MOVED.replace("END", end)
    graph = import_graph(infer_shapes(model(text, opset=18, w=numbers(4, 4), low=LOWEST)))
    chosen = plan(graph, Context(Settings(load_target("onnx")), quantizable=QUANTIZABLE))
    followed, scores = [], masked_scores._scores
    monkeypatch.setattr(
        masked_scores, "_scores", lambda tensor: followed.append(tensor.name) or scores(tensor)
    )
    assert [each.result for each in masked_scores.masked(graph, chosen)] == found
    assert bool(followed) is bool(found)
