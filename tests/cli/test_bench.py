"""qpasses bench: latencies side by side, the slowest nodes, and whether kernels agree."""

import numpy as np
import pytest

import qpasses
from opsets import native
from qpasses.ir import native_sessions
from qpasses.jobs import benching
from tests.support.commands import MODEL, USAGE, Desk, assert_refused, read_json, run
from tests.support.small_models import cnn, model, numbers, pictures

SHORT = ["--seconds", "0.01"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    desk = Desk(tmp_path_factory.mktemp("bench"), cnn(), pictures())
    assert desk.quantize().code == 0
    return desk


def benched(desk, *options):
    ended = run("bench", desk.output, *SHORT, *options, "--json", desk.folder / "bench.json")
    return ended, read_json(desk.folder / "bench.json")[
        "benchmark"
    ] if ended.code == 0 else None


def graphs(found):
    return [each["graph"] for each in found["latencies"]]


def test_an_integer_model_alone_is_measured_on_made_up_numbers(desk):
    ended, found = benched(desk)
    assert graphs(found) == ["integer, bodies", "integer, kernels"]
    assert "1 sample of random numbers" in ended.out
    for each in found["latencies"]:
        assert 0 < each["least_ms"] <= each["low_ms"] <= each["median_ms"] <= each["high_ms"]
        assert each["runs"] >= 5
    assert found["latencies"][0]["ratio"] == 1
    assert found["differing"] == 0
    assert 0 < sum(each["share"] for each in found["slowest"]) <= 1.0001
    assert any(each["op"] == "IntConv" for each in found["slowest"])


def test_float_and_qdq_models_are_measured_too_on_each_number_of_threads(desk):
    qdq = desk.folder / "qdq.onnx"
    assert (
        run("quantize", desk.model, "--data", desk.data, "-o", qdq, "--emit", "qdq").code == 0
    )
    options = ["--against", desk.model, "--data", desk.data, "--qdq", qdq, "--threads", "1,2"]
    ended, found = benched(desk, *options, "--nodes", 2)
    once = ["float", "Q/DQ", "integer, bodies", "integer, kernels"]
    assert graphs(found) == 2 * once
    assert [each["threads"] for each in found["latencies"]] == [1] * 4 + [2] * 4
    assert len(found["slowest"]) == 2
    assert "/ float" in ended.out


def test_free_sizes_are_those_of_quantize_or_given(tmp_path):
    made = model("g (float[N, L] x) => (float[N, L] y) { y = Sigmoid (x) }")
    desk = Desk(tmp_path, made, numbers(3, 40))
    assert desk.quantize().code == 0
    assert benched(desk)[1]["differing"] == 0
    assert benched(desk, "--input-shape", "2,9")[1]["differing"] == 0


def test_stored_inputs_are_fed_as_such(tmp_path):
    desk = Desk(tmp_path, cnn(), pictures())
    assert desk.quantize("--integer-io").code == 0
    assert benched(desk, "--against", desk.model, "--data", desk.data)[0].code == 0
    assert benched(desk)[0].code == 0


def test_python_has_it_too(desk):
    report = qpasses.bench(desk.output, seconds=0.01, threads=[1]).report
    assert report["summary"]["verdict"] == "ok"


def test_without_kernels_bodies_are_measured_and_it_says_so(desk, monkeypatch):
    monkeypatch.setattr(native_sessions, "library", lambda: None)
    ended, found = benched(desk)
    assert graphs(found) == ["integer, bodies"]
    assert "kernels were not compiled" in ended.out


@pytest.mark.skipif(native.library() is None, reason="there was no compiler for kernels")
@pytest.mark.parametrize("command", ["bench", "verify"])
def test_an_instruction_set_that_is_not_there_is_a_mistake_of_the_user(
    desk, command, monkeypatch
):
    monkeypatch.setenv("QPASSES_ISA", "sse9")
    ended = run(command, desk.output)
    assert_refused(ended, USAGE, "QPASSES_ISA names an instruction set that this processor")


@pytest.mark.skipif(native.library() is None, reason="there was no compiler for kernels")
def test_kernels_that_give_other_integers_are_a_failure(desk, monkeypatch):
    monkeypatch.setattr(benching, "_differing", lambda contenders: 3)
    ended = run("bench", desk.output, *SHORT)
    assert ended.code == 1
    assert "kernels give 3 elements of outputs otherwise than bodies" in ended.out


def test_elements_that_differ_are_counted():
    one = benching.Contender(benching.BODIES, cnn(), {"x": pictures(2)})
    other = benching.Contender(benching.KERNELS, cnn(), {"x": pictures(2) + np.float32(1)})
    found = benching._differing({each.graph: each for each in (one, other)})
    assert found > 0


@pytest.mark.parametrize("given", ["0", "1,", "two", "-1", "1;2", "", "2000"])
def test_threads_that_cannot_be_are_refused(desk, given):
    assert_refused(run("bench", desk.output, "--threads", given), USAGE, "threads")


def test_a_float_model_is_no_integer_model(desk):
    assert_refused(run("bench", desk.model), MODEL, desk.model)


def test_a_report_in_place_of_an_input_is_refused(desk):
    assert_refused(run("bench", desk.output, "--json", desk.output), USAGE, desk.output)
