"""Every thirtieth case of onnx's own tests comes through; what judges them sees what is wrong.

All of them, in processes of their own: `make survival`.
"""

import os
import signal
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.bench.lone_worker import DiedError, HungError, LoneWorker
from tests.bench.onnx_backend_cases import Case, cases
from tests.bench.survival import described, figures
from tests.bench.survival_outcome import BROKEN, Row, decibels, outcome, runs, unlike
from tests.support.small_models import model, numbers

STEP = 30


def test_every_thirtieth_case_comes_through_like_the_original_or_is_refused():
    chosen = [case for case in cases()[::STEP] if not runs(case)]
    rows = [outcome(case) for case in chosen]
    assert [described(row) for row in rows if row.outcome in BROKEN or row.wrong] == []
    assert len({row.op for row in rows}) > 40
    assert {row.family for row in rows} == {each.family for each in cases()}


def test_names_families_and_ops_of_the_cases():
    known = {case.name: case for case in cases()}
    assert len(known) == len(cases()) > 1900
    assert known["test_celu_expanded"].op == "Celu"
    converted = known["test_Conv2d_dilated"]  # its weights are inputs too
    assert (converted.family, [*converted.feeds[0]]) == ("pytorch-converted", ["0"])
    assert converted.has_float_inputs and not known["test_and2d"].has_float_inputs


# What judges


def small():
    text = "g (float[2, 3] x, int64[2] i) => (float[2, 3] y, int64[2] j) { %s }"
    made = model(text % "y = Relu (x) j = Neg (i)")
    feed = {"x": numbers(2, 3), "i": np.array([1, 2])}
    return Case("case", "node", "Relu", made, [feed]), text


def test_a_model_is_not_unlike_itself():
    case, _ = small()
    assert unlike(case, case.model) == ([], 200.0)


OTHERS = {
    "y = Relu (x) j = Abs (i)": "output 'j': 2 of 2 elements of int64",
    "y = Softmax (i) j = Neg (i)": "onnxruntime does not run it: ",
    "y = Relu (x) j = Neg (h)": "onnxruntime does not run it: ",
}


@pytest.mark.parametrize("body", OTHERS)
def test_another_result_is_seen(body):
    case, text = small()
    (problem,), _ = unlike(case, model(text % body))
    assert problem.startswith(OTHERS[body])


def renamed(graph):
    graph.input[0].name = graph.node[0].input[0] = "other"


def of_another_type(graph):
    graph.output[1].type.tensor_type.elem_type = TensorProto.INT32
    graph.node[1].op_type = "Cast"
    graph.node[1].attribute.append(helper.make_attribute("to", TensorProto.INT32))


def of_another_shape(graph):
    graph.output[0].type.tensor_type.shape.dim[0].dim_param = "N"


def of_another_rank(graph):
    graph.output[0].type.tensor_type.shape.dim.add()


def without_shape(graph):
    graph.output[0].type.tensor_type.ClearField("shape")


CHANGES = {
    renamed: "names of inputs",
    of_another_type: "type declared of 'j'",
    of_another_shape: "shape declared of 'y'",
    of_another_rank: "rank declared of 'y'",
    without_shape: "rank declared of 'y'",
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_declaration_is_seen(change):
    case, _ = small()
    made = onnx.ModelProto()
    made.CopyFrom(case.model)
    change(made.graph)
    assert CHANGES[change] in unlike(case, made)[0]


def test_an_exception_is_a_traceback_with_its_place(monkeypatch):
    case, _ = small()

    def fails(*_):
        raise ZeroDivisionError("by zero\nand more")

    monkeypatch.setattr("qpasses.quantize", fails)
    row = outcome(case)
    assert row.outcome == "traceback"
    assert row.reason.startswith("ZeroDivisionError in tests/models/test_survival.py:")
    assert row.reason.endswith(": by zero")


def test_decibels_of_equal_of_noisy_and_of_endless_outputs():
    real = np.array([1.0, -1.0, np.inf])
    assert decibels(real, real) == 200
    assert decibels(real, np.array([1.1, -1.1, 0])) == pytest.approx(20)
    assert decibels(real, np.array([1, np.nan, np.inf])) == -200


def test_figures_count_by_op_and_hide_names_of_tensors_in_reasons():
    rows = [
        Row("a", "node", "Abs", True, "incomplete", left=[("Abs", f"of '{t}'") for t in "xy"]),
        Row("b", "node", "Abs", True, "refused", "the node's 'x' isn't"),
        Row("c", "node", "Abs", False, "ok", wrong=["rank"], sqnr_db=3.14),
    ]
    found = figures(rows)
    assert found.ops == {"Abs": {"far": 1, "incomplete": 1, "ok": 1, "refused": 1, "wrong": 1}}
    assert found.float_inputs == {"incomplete": 1, "refused": 1}
    assert found.reasons == {"refused": {"the node's '...' isn't": ["b"]}}
    assert (found.wrong, found.far) == ({"c": ["rank"]}, {"c": 3.1})
    assert found.left == [("Abs", "of '...'", 2, 1)]


# The process beside


def test_a_worker_is_replaced_where_a_job_hangs_or_kills_it():
    with LoneWorker(0.5) as worker:
        with pytest.raises(HungError):
            worker.run(time.sleep, 60)
        assert worker.run(abs, -1) == 1
        with pytest.raises(DiedError, match=str(int(signal.SIGSEGV))):
            worker.run(os.kill, worker.pid, signal.SIGSEGV)
        assert worker.run(abs, -2) == 2


def test_what_fails_in_the_process_beside_ends_the_run():
    with LoneWorker(5) as worker, pytest.raises(RuntimeError, match="divmod failed"):
        worker.run(divmod, 1, 0)
