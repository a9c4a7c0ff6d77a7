"""What TFLite has no operator for: exact on int32, in LiteRT's reference kernels."""

import numpy as np
import pytest

from calibration import Session
from opsets.qpasses_v1 import OPS
from qpasses.emit.tflite.emit_tflite import emit_tflite
from qpasses.emit.tflite.litert_arithmetic import resize_rows
from qpasses.emit.tflite.litert_ops import (
    LOWERINGS,
    paired_codes,
    sequence_lstms,
    weighted_sums,
)
from qpasses.ir.interchange import import_graph
from qpasses.ir.record import Quantization, Record
from qpasses.load.integer_model import IntegerModel
from tests.emit.test_tosa_ops import (
    FEW,
    REFUSED_STANDARD,
    at_an_end,
    drawn,
    expected,
    stored_at_random,
)
from tests.support.litert import RUNTIMES, needs_litert
from tests.support.litert_files import emitted_file, refusal_of, run_file
from tests.support.op_cases import Case
from tests.support.op_edges import edges_of
from tests.support.standard_nodes import STANDARD, moved_first, side_by_side, standard_model
from tests.support.tosa_nodes import model_of_nodes, saturated

SCALED = {
    *(*paired_codes.LOWERINGS, *sequence_lstms.LOWERINGS, *weighted_sums.LOWERINGS),
    *("GemmlowpSoftmax", "IntCodedPRelu", "IntCountedAveragePool", "IntReduce"),
}
"""What takes the scales of a record: tests/emit/test_tflite_nets.py."""

NO_INT16 = "ARG_MAX", "GATHER", "REDUCE_MAX", "REDUCE_MIN"
NO_INT32 = *NO_INT16, "FLOOR_DIV", "FLOOR_MOD", "RIGHT_SHIFT", "SELECT_V2", "SUM", "TRANSPOSE"

REFUSED = {
    *(
        ("IntCast", f"tensor 'x_0' is {of}, of which no operator works")
        for of in ("uint16", "uint32")
    ),
    ("IntMaxPool", "MAX_POOL_2D gives no positions, and its windows have no gaps"),
    ("IntMaxPool", "windows over 3 axes"),
    ("TableSoftmax", "a sum of exponentials that is negative, or has more than 31 bits"),
    ("IntLayerNorm", "a variance of more than 62 bits"),
    ("ILayerNorm", "rows whose squares have more than 30 bits"),
    *(
        (op, "its sums wrap as they are shifted to the left")
        for op in ("IBertSoftmax", "ShiftGelu", "Shiftmax")
    ),
}
"""What is refused of some nodes of an op."""

LACKING = {
    "litert": [],
    "tflm": [
        *(f"TensorFlow Lite Micro has no {op} of int32" for op in NO_INT32),
        *(f"TensorFlow Lite Micro has no {op} of int16" for op in (*NO_INT16, "EQUAL")),
        "TensorFlow Lite Micro has no TRANSPOSE of bool",
        "6 axes: TRANSPOSE has 5 at most",
    ],
}

REFUSED_KINDS = REFUSED_STANDARD | {
    ("MaxPool", "with positions"): "MAX_POOL_2D gives no positions",
    ("MaxPool", "three dimensions"): "windows over 3 axes",
}

EXACT = [name for name in OPS if name in LOWERINGS and name not in SCALED]


@pytest.mark.thinned
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", EXACT)
def test_nodes_give_the_integers_of_the_reference(name, runtime, tmp_path):
    op, taken = OPS[name], {}
    cases = {f"random {place}": case for place, case in enumerate(drawn(name))}
    cases |= {f"{label}, at an end": at_an_end(op, case) for label, case in cases.items()}
    for label, case in {**cases, **edges_of(name)}.items():
        reason = refusal_of(model_of_nodes(op, {"it": case}), runtime)
        if reason:
            assert (name, reason) in REFUSED or reason in LACKING[runtime], label
        else:
            taken[label] = case
    assert len(taken) >= FEW or runtime == "tflm"
    if not taken:
        return
    exact = [expected(op, case) for case in taken.values()]
    file = emitted_file(model_of_nodes(op, taken, exact), runtime)
    feed = {
        f"{formal}_{place}": saturated(array) if array.dtype == np.int64 else array
        for place, case in enumerate(taken.values())
        for formal, array in zip(op.inputs, case.inputs, strict=True)
    }
    found = run_file(file, feed, tmp_path, runtime)
    (result,) = op.outputs
    for place, (label, wanted) in enumerate(zip(taken, exact, strict=True)):
        assert np.array_equal(found[f"{result}_{place}"], wanted), (label, taken[label])


@pytest.mark.thinned
@needs_litert
@pytest.mark.parametrize("moved", [False, True], ids=["as they are", "behind a Transpose"])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_standard_ops_give_the_integers_of_onnxruntime(dtype, moved, tmp_path):
    taken = {}
    for op, kinds in STANDARD.items():
        for kind in kinds:
            made = standard_model(op, kind, dtype)
            made = moved_first(made) if moved else made
            part, reason = REFUSED_KINDS.get((op, kind), ""), refusal_of(made)
            assert part in reason and bool(part) == bool(reason), (op, kind, reason)
            if not reason:
                taken[f"{op}, {kind}"] = made
    whole = side_by_side(taken)
    feed = dict(stored_at_random(whole))
    found = run_file(emitted_file(whole), feed, tmp_path)
    session = Session(whole, optimize=False)
    theirs = dict(zip(session.outputs, session.run(session.outputs, feed), strict=True))
    labels = {node.output[0]: node.name for node in whole.graph.node}
    wrong = [
        labels.get(name, name)
        for name, exact in theirs.items()
        if not np.array_equal(found[name], exact)
    ]
    assert not wrong


@needs_litert
@pytest.mark.parametrize("mode", ["asymmetric", "align_corners", "half_pixel"])
@pytest.mark.parametrize("sizes", [(8, 10), (9, 3), (5, 13)])
def test_a_resize_with_the_runtimes_coefficients_is_its_operator(sizes, mode, tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 5)).astype(np.uint8)
    how = {name: name == mode for name in ("align_corners", "half_pixel")}
    whole = np.zeros((2, 1), np.int64), np.array([[1], [0]])
    rows = [whole, *(resize_rows(a, b, **how) for a, b in zip((4, 5), sizes, strict=True))]
    indices, coefficients = (
        np.concatenate(e, axis=1).astype(np.int32) for e in zip(*rows, strict=True)
    )
    zero, shift = np.uint8(128), np.array([21], np.int32)
    ends = np.uint8(128), np.uint8(0), np.uint8(255)
    case = Case(
        [x, zero, indices, coefficients, np.array([2], np.int32), shift, *ends],
        {"dims": 2, "x_sizes": [1, 4, 5], "y_sizes": [1, *sizes], "rounding": "half_away"},
    )
    op, means = OPS["IntResize"], Quantization(0.5, 100, "uint8")
    made = model_of_nodes(op, {"it": case})
    record = Record(tensors={"x_0": means, "y_0": means})
    file = emit_tflite(IntegerModel(made, import_graph(made), record, None, {}))
    assert file.operations["RESIZE_BILINEAR"] == 1
    found = run_file(file, {"x_0": x}, tmp_path)
    assert np.array_equal(found["y_0"], expected(op, case))
