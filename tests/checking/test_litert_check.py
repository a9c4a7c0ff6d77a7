"""`qpasses verify --with litert`: what judges, what is reported, what a bad file does."""

from contextlib import closing
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from opsets.errors import ModelError, UsageError
from opsets.target import load_target
from qpasses import export, quantize, verify
from qpasses.checking.beside import litert_check, litert_tools
from qpasses.checking.beside.litert_tools import REFERENCE, LitertProcess
from qpasses.report.terminal import print_report
from tests.support.litert import needs_litert, needs_tflm
from tests.support.litert_nets import integer_of
from tests.support.small_models import numbers
from tests.support.tosa_nets import C6, K, feeds, net

BODY = "[one] a = Conv (x, k, c) [two] b = Relu (a) [three] y = Conv (b, d)"


def deep():
    return net(BODY, k=K, c=C6, d=numbers(2, 6, 1, 1))


def verified(made, integer, **options):
    return verify(integer, made, feeds(made)[:3], other_programs=["litert"], **options)


@needs_litert
def test_the_reference_kernels_judge_and_the_others_are_reported():
    made = deep()
    found = verified(made, integer_of(made))
    assert found.verdict == "ok", found.report["summary"]["problems"]
    said = found.report["checks"]["litert"]
    assert (said["samples"], said["tensors"], said["differences"]) == (3, 1, 0)
    assert said["program"] == "LiteRT's reference kernels (BUILTIN_REF)"
    assert said["others"].keys() == {"BUILTIN_WITHOUT_DEFAULT_DELEGATES", "AUTO"}
    assert not any(each["problem"] for each in said["others"].values())
    written = StringIO()
    print_report(Console(file=written, width=400), found.report)
    assert "0 differ from onnxruntime's" in written.getvalue()
    assert "LiteRT (AUTO), for information" in written.getvalue()


@needs_tflm
def test_tflite_micro_judges_what_is_for_it():
    made = deep()
    integer = integer_of(made, load_target("tflm"))
    found = verify(integer, made, feeds(made)[:3], other_programs=["tflm"], all_tensors=True)
    assert found.verdict == "ok", found.report["summary"]["problems"]
    said = found.report["checks"]["tflm"]
    assert (said["samples"], said["tensors"], said["differences"]) == (3, 3, 0)
    assert said["program"] == "TensorFlow Lite Micro's kernels"
    assert "BUILTIN_REF" in said["others"]


def test_tflite_micro_is_asked_for_where_it_is_not(monkeypatch):
    monkeypatch.setattr(litert_tools, "find_spec", lambda name: name != "tflite_micro" or None)
    with pytest.raises(UsageError, match="--with tflm needs tflite-micro: pip install"):
        litert_tools.check_installed("tflm")


@needs_litert
def test_all_stored_tensors_are_compared_where_that_is_asked_for():
    made = deep()
    integer = integer_of(made)
    said = verified(made, integer, all_tensors=True).report["checks"]["litert"]
    assert (said["tensors"], said["differences"]) == (3, 0)  # the input too
    assert said["elements"] == 3 * (4 * 7 * 6 + 6 * 5 * 4 + 2 * 5 * 4)


def changed(monkeypatch, change):
    usual = litert_check.emit_tflite

    def emit(read, **options):
        file = usual(read, **options)
        change(file.program)
        return file

    monkeypatch.setattr(litert_check, "emit_tflite", emit)


@needs_litert
def test_a_file_that_differs_fails_and_the_first_node_is_named(monkeypatch):
    made = deep()
    integer = integer_of(made)

    def turn(program):
        weights = next(each for each in program.tensors if each.name == "three/weights")
        weights.values = -weights.values

    changed(monkeypatch, turn)
    found = verified(made, integer, all_tensors=True)
    assert found.verdict == "failed"
    assert "other integers than onnxruntime" in found.report["summary"]["problems"][0]
    assert "first at node 'three'" in found.report["summary"]["problems"][0]
    said = found.report["checks"]["litert"]
    assert (said["samples"], said["first"]) == (3, "three")
    assert said["differences"] > 0


@needs_litert
def test_a_file_that_ends_the_process_is_a_problem(monkeypatch):
    made = deep()
    integer = integer_of(made)

    def break_version(program):
        program.operators[0] = replace(program.operators[0], version=99)

    changed(monkeypatch, break_version)
    found = verified(made, integer)
    assert found.verdict == "failed"
    (problem,) = found.report["summary"]["problems"]
    assert problem.startswith("LiteRT (BUILTIN_REF) does not load the file: ")
    assert "Didn't find op" in problem


@needs_litert
def test_an_abort_is_an_error_and_no_more(tmp_path):
    made = deep()
    place = tmp_path / "m.tflite"
    export(integer_of(made), place)
    with closing(LitertProcess(place, REFERENCE, tmp_path, keep=False)) as process:
        process._process.send_signal(6)
        with pytest.raises(ModelError, match=r"fails: its process ended \(SIGABRT\)"):
            process.run({0: np.zeros((1, 7, 6, 4), np.int8)}, [0])


@needs_litert
def test_what_ends_other_kernels_is_reported(monkeypatch):
    made = deep()
    integer = integer_of(made)
    usual = LitertProcess.run

    def run(self, given, wanted):
        if "AUTO" in self._title:
            raise ModelError("LiteRT (AUTO) fails: its process ended (SIGABRT)")
        return usual(self, given, wanted)

    monkeypatch.setattr(LitertProcess, "run", run)
    found = verified(made, integer)
    assert found.verdict == "ok"
    assert "SIGABRT" in found.report["checks"]["litert"]["others"]["AUTO"]["problem"]


def test_without_litert_it_is_said_what_to_install(monkeypatch):
    made = deep()
    monkeypatch.setattr(litert_tools, "find_spec", lambda _: None)
    with pytest.raises(
        UsageError, match=r"--with litert needs .*pip install 'qpasses\[tflite\]'"
    ):
        verified(made, integer_of(made))


@needs_litert
def test_a_graph_that_has_no_file_says_why():
    made = deep()
    with pytest.raises(ModelError, match="quantize with --target litert"):
        verified(made, quantize(made, feeds(made), accuracy="fast").model)
