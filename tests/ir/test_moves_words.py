"""Which ops move codes of 16 bits is what the installed onnxruntime has kernels for."""

import numpy as np
import onnxruntime as ort
import pytest

from qpasses.ir.flow import VALUES
from qpasses.ir.graph import STORE
from qpasses.ir.interchange import import_graph
from qpasses.ir.moving import MOVING
from tests.support.standard_nodes import STANDARD, standard_model

MOVED = sorted(MOVING.keys() - {STORE} - VALUES)
OF_TWO_OPS = "places that vary", "codes are places"
KINDS = [(op, kind) for op in MOVED for kind in STANDARD[op] if kind not in OF_TWO_OPS]
LEVELS = [
    ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
]
MISSING = (
    ort.capi.onnxruntime_pybind11_state.NotImplemented,
    (ort.capi.onnxruntime_pybind11_state.InvalidGraph),
)


def session(op, kind, dtype, level):
    options = ort.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 4
    content = standard_model(op, kind, dtype).SerializeToString()
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def feeds(found):
    random = np.random.default_rng(0)
    ends = np.array([-32768, -32767, -1, 0, 1, 255, 256, 32767])
    for each in found.get_inputs():
        values = random.permutation(np.resize(ends, np.prod(each.shape))).reshape(each.shape)
        yield each.name, each.type, values


@pytest.mark.parametrize("level", LEVELS, ids=["plain", "optimized"])
@pytest.mark.parametrize(("op", "kind"), KINDS, ids=[f"{op}: {kind}" for op, kind in KINDS])
def test_words_are_moved_as_real_numbers_by_the_ops_that_are_said_to(op, kind, level):
    (node,) = import_graph(standard_model(op, kind, "int16")).nodes
    if not MOVING[node.op].words:
        with pytest.raises(MISSING):
            session(op, kind, "int16", level)
        return
    words, reals = (session(op, kind, each, level) for each in ("int16", "float"))
    given = list(feeds(words))
    as_bool = {name for name, dtype, _ in given if dtype == "tensor(bool)"}
    fed = [
        {n: v > 0 if n in as_bool else v.astype(dtype) for n, _, v in given}
        for dtype in (np.int16, np.float32)
    ]
    for ours, theirs in zip(words.run(None, fed[0]), reals.run(None, fed[1]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
