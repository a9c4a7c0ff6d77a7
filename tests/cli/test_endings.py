"""How a command ends that cannot go on: told to stop, or with a full disk."""

import os
import signal

import pytest

from opsets.errors import UsageError
from qpasses.emit import report_file
from tests.support.commands import USAGE, Desk, assert_refused
from tests.support.small_models import cnn, pictures


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path, cnn(), pictures())


@pytest.fixture
def full_disk(monkeypatch):
    def refuse(files):
        (path,) = files
        raise UsageError(f"{path}: cannot be written: No space left on device")

    monkeypatch.setattr(report_file, "write_together", refuse)


@pytest.mark.usefixtures("full_disk")
def test_a_report_that_finds_no_place_says_that_the_model_did(desk):
    ended = desk.quantize()
    assert_refused(ended, USAGE, "out.json", "No space left", "out.onnx is written and whole")
    assert desk.output.exists()


@pytest.mark.usefixtures("full_disk")
def test_a_report_that_finds_no_place_says_the_verdict_of_verify(desk):
    desk.quantize()
    assert_refused(desk.verify(), USAGE, "out.json", "No space left", "the verdict is ok")


@pytest.mark.parametrize(
    ("sent", "code", "said"),
    [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")],
)
def test_a_command_that_is_told_to_stop_says_so(desk, monkeypatch, sent, code, said):
    ended = told_to_stop(desk, monkeypatch, lambda *_: os.kill(os.getpid(), sent))
    assert (ended.code, said in ended.err) == (code, True)
    assert not desk.output.exists()


def test_so_does_one_that_imports_a_module_of_c_meanwhile(desk, monkeypatch):
    def importing(*_):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt as error:
            raise ImportError("initialization failed") from error

    ended = told_to_stop(desk, monkeypatch, importing)
    assert (ended.code, ended.err.strip()) == (130, "interrupted")


def told_to_stop(desk, monkeypatch, meanwhile):
    """How quantize ends, with ``meanwhile`` in the middle of it."""
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr("qpasses.jobs.widening.quantized", meanwhile)
    try:
        return desk.quantize()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
