"""Programs beside onnxruntime: what they are given, what differs, what is missing."""

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from opsets.errors import ModelError, UsageError
from qpasses import quantize, verify
from qpasses.checking.beside import other_programs, tools
from qpasses.checking.beside.tosa_tools import ReferenceModel
from qpasses.emit.tosa.profile import PRO_INT_8K
from qpasses.report.terminal import print_report
from tests.support.channel_nets import channel_feeds, channel_net
from tests.support.small_models import numbers
from tests.support.tosa_nets import C6, K, feeds, needs_iree, net
from tests.support.tosa_nodes import needs_tools


@needs_tools
def test_the_report_says_what_the_reference_model_gave():
    made = net("a = Conv (x, k, c) y = HardSwish (a)", k=K, c=C6)
    integer = quantize(made, feeds(made), accuracy="fast").model
    found = verify(integer, made, feeds(made)[:3], other_programs=["tosa-reference"])
    written = StringIO()
    print_report(Console(file=written, width=400), found.report)
    assert "0 differ from onnxruntime's" in written.getvalue()
    assert found.verdict == "ok", found.report["summary"]["problems"]
    said = found.report["checks"]["tosa_reference"]
    assert (said["samples"], said["differences"], said["first"]) == (3, 0, "")
    assert said["elements"] > 0


@needs_tools
def test_samples_of_another_size_get_a_program_of_their_own():
    made = channel_net(size="h")
    samples = channel_feeds()
    integer = quantize(made, samples, accuracy="fast").model
    others = [samples[0], {"x": samples[1]["x"][:, :, :6, :5]}]
    found = verify(integer, made, others, other_programs=["tosa-reference"])
    assert found.report["checks"]["tosa_reference"]["differences"] == 0
    assert found.report["checks"]["tosa_reference"]["samples"] == 2


@needs_tools
def test_a_program_that_differs_fails_and_the_first_node_is_named(monkeypatch):
    made = net(
        "[one] a = Conv (x, k, c) [two] b = HardSwish (a) [three] y = Conv (b, d)",
        k=K,
        c=C6,
        d=numbers(2, 6, 1, 1),
    )
    integer = quantize(made, feeds(made), accuracy="fast").model
    wrong_tables(monkeypatch)
    found = verify(integer, made, feeds(made)[:1], other_programs=["tosa-reference"])
    assert found.verdict == "failed"
    (problem,) = found.report["summary"]["problems"]
    assert "other integers than onnxruntime" in problem
    assert "first at node 'two'" in problem


def wrong_tables(monkeypatch):
    """Programs whose tables begin one entry later than they ought to."""
    right = other_programs.emit_tosa

    def wrong(graph, **options):
        for node in graph.nodes:
            if node.op == "Lut":
                node.inputs[1].values = np.roll(node.inputs[1].values, 1)
        return right(graph, **options)

    monkeypatch.setattr(other_programs, "emit_tosa", wrong)


@needs_tools
def test_what_the_first_node_that_differs_was_given_is_saved(monkeypatch, tmp_path):
    made = net("[one] a = Conv (x, k) [two] y = HardSwish (a)", k=K)
    place = tmp_path / "int.onnx"
    quantize(made, feeds(made), place, accuracy="fast")
    wrong_tables(monkeypatch)
    found = verify(place, made, feeds(made)[:1], other_programs=["tosa-reference"])
    said = found.report["checks"]["tosa_reference"]
    assert said["saved"] == str(tmp_path / "int.differing.npz")
    with np.load(said["saved"]) as saved:
        (ours,) = (saved[name] for name in saved if name.startswith("tosa_reference."))
        (theirs,) = (saved[name] for name in saved if name.startswith("onnxruntime."))
        assert (ours != theirs).any()
        assert len(saved.files) == 3  # and what it was given


@needs_tools
def test_a_program_that_crashes_is_said_and_its_inputs_are_saved(monkeypatch, tmp_path):
    made = net("y = HardSwish (x)")
    place = tmp_path / "int.onnx"
    quantize(made, feeds(made), place, accuracy="fast")

    def crashes(*_):
        raise ModelError("TOSA's reference model fails (exit 134): aborted")

    monkeypatch.setattr(ReferenceModel, "run", crashes)
    with pytest.raises(ModelError, match=r"exit 134.*what it was given is in .*differing"):
        verify(place, made, feeds(made)[:1], other_programs=["tosa-reference"])
    assert (tmp_path / "int.differing.npz").exists()


@needs_tools
def test_all_tensors_are_compared_where_that_is_asked_for():
    made = net("a = Conv (x, k) b = HardSwish (a) y = Conv (b, d)", k=K, d=numbers(2, 6, 1, 1))
    integer = quantize(made, feeds(made), accuracy="fast").model
    some, every = (
        verify(
            *(integer, made, feeds(made)[:2]),
            other_programs=["tosa-reference"],
            all_tensors=each,
        ).report["checks"]["tosa_reference"]
        for each in (False, True)
    )
    assert some["tensors"] == 1
    assert every["tensors"] >= 3
    assert every["elements"] > some["elements"]
    assert every["differences"] == 0


@needs_iree
def test_iree_compiles_it_and_gives_the_same_integers():
    body = """
        a = Conv <pads = [1, 1, 1, 1]> (x, k, c)  b = HardSwish (a)  e = Add (b, b)
        f = GlobalAveragePool (e)  g = Flatten (f)  h = MatMul (g, m)  y = Softmax (h)
    """
    made = net(body, k=K, c=C6, m=numbers(6, 5))
    integer = quantize(made, feeds(made), accuracy="fast").model
    found = verify(integer, made, feeds(made)[:3], other_programs=["iree"], all_tensors=True)
    assert found.verdict == "ok", found.report["summary"]["problems"]
    said = found.report["checks"]["iree"]
    assert (said["samples"], said["differences"], said["program"]) == (3, 0, "IREE")
    assert said["tensors"] > 6


@needs_iree
def test_what_iree_gives_otherwise_is_found(monkeypatch):
    made = net("[one] y = HardSwish (x)")
    integer = quantize(made, feeds(made), accuracy="fast").model
    wrong_tables(monkeypatch)
    found = verify(integer, made, feeds(made)[:1], other_programs=["iree"])
    assert found.verdict == "failed"
    assert "IREE gives" in found.report["summary"]["problems"][0]


def test_a_program_that_is_not_known_is_a_mistake():
    made = net("y = Relu (x)")
    integer = quantize(made, feeds(made), accuracy="fast").model
    with pytest.raises(UsageError, match="use one of tosa-reference, iree"):
        verify(integer, made, feeds(made)[:1], other_programs=["tosa_reference"])


@needs_tools
def test_a_program_that_writes_nothing_is_said(monkeypatch):
    made = net("y = Relu (x)")
    integer = quantize(made, feeds(made), accuracy="fast").model
    usual = ReferenceModel.__init__

    def broken(self, profile):
        usual(self, profile)
        self._model = Path("/bin/true")

    monkeypatch.setattr(ReferenceModel, "__init__", broken)
    with pytest.raises(ModelError, match="ended well, and wrote no results"):
        verify(integer, made, feeds(made)[:1], other_programs=["tosa-reference"])


def test_without_the_tools_it_is_said_what_to_install(monkeypatch):
    made = net("y = Relu (x)")
    integer = quantize(made, feeds(made), accuracy="fast").model
    monkeypatch.setattr(tools.sys, "executable", "/nowhere/python")
    monkeypatch.setattr(tools.shutil, "which", lambda _: None)
    with pytest.raises(
        UsageError, match=r"needs the program tosa-opt.*pip install --no-deps tosa-tools"
    ):
        verify(integer, made, feeds(made)[:1], other_programs=["tosa-reference"])


def test_without_iree_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(tools.sys, "executable", "/nowhere/python")
    monkeypatch.setattr(tools.shutil, "which", lambda _: None)
    with pytest.raises(UsageError, match=r"iree-compile: pip install iree-base-compiler"):
        other_programs.runner_of("iree", PRO_INT_8K)


def test_all_tensors_without_another_program_are_a_mistake():
    made = net("y = Relu (x)")
    integer = quantize(made, feeds(made), accuracy="fast").model
    with pytest.raises(UsageError, match="all_tensors is about what --with runs"):
        verify(integer, made, feeds(made)[:1], all_tensors=True)


def test_without_samples_nothing_can_be_run():
    made = net("y = Relu (x)")
    integer = quantize(made, feeds(made), accuracy="fast").model
    with pytest.raises(UsageError, match="--with runs samples"):
        verify(integer, made, other_programs=["tosa-reference"])
