"""Going on after a stop: the same table, each sample once, no checkpoint of another run."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import qpasses
from calibration.samples import Samples
from opsets.errors import DataError
from tests.support.commands import USAGE, assert_refused, run
from tests.support.small_models import cnn, pictures, save

CALIBRATE_SLOWLY = """
import signal, sys, time
from calibration.samples import Samples
from qpasses.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # as at a terminal: see nohup
collecting, read = sys.modules["calibration.collect"], Samples.read
collecting.CHECKPOINT_SECONDS = 0.05

def slowly(self, position):
    time.sleep(0.1)
    return read(self, position)

Samples.read = slowly
main()
"""


class Stopped(KeyboardInterrupt):
    """Raised by a progress callback."""


def stopping_after(count):
    """Progress that raises once ``count`` samples were taken."""
    steps = []

    def progress(stage, total):
        def advance():
            if stage == "calibrate":
                steps.append(stage)
                if len(steps) == count:
                    raise Stopped

        return advance

    return progress


class Bench:
    """A folder with a model, samples in files, and the table of an uninterrupted run."""

    def __init__(self, folder, count=30):
        self.folder, self.count = folder, count
        self.model, self.data = folder / "float.onnx", folder / "data"
        self.table = folder / "table.json"
        self.checkpoint = folder / "table.json.checkpoint"
        whole = folder / "whole.json"
        if not whole.exists():
            self.data.mkdir()
            save(folder, self.model.name, cnn())
            for at in range(count):
                scale = np.float32(2.0 ** (at % 7 - 3))
                save(self.data, f"{at}.npy", pictures(1, seed=at) * scale)
            qpasses.calibrate(self.model, self.data, whole)
        self.whole = whole.read_bytes()

    def calibrate(self, **options):
        return qpasses.calibrate(self.model, self.data, self.table, **options)

    def stop_after(self, count, **options):
        """A run that is stopped; it leaves a checkpoint and no table."""
        with pytest.raises(Stopped):
            self.calibrate(progress=stopping_after(count), **options)
        assert self.checkpoint.exists() and not self.table.exists()

    def assert_whole(self):
        """The table is that of an uninterrupted run, and nothing else is left behind."""
        assert self.table.read_bytes() == self.whole
        found = {path.name for path in self.folder.iterdir()}
        assert found == {"float.onnx", "data", "table.json", "whole.json"}


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    return Bench(tmp_path_factory.mktemp("bench"))


@pytest.fixture
def bench(tmp_path, untouched):
    """A copy for a test of its own."""
    return Bench(shutil.copytree(untouched.folder, tmp_path, dirs_exist_ok=True))


@pytest.fixture(scope="module")
def stopped(untouched, tmp_path_factory):
    """The folder of a run that was stopped, to be copied."""
    folder = tmp_path_factory.mktemp("stopped")
    bench = Bench(shutil.copytree(untouched.folder, folder, dirs_exist_ok=True))
    bench.stop_after(5, workers=1)
    return folder


# Interrupted


@pytest.mark.thinned
@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("count", [1, 13, 30])
def test_a_run_that_was_interrupted_goes_on_and_counts_each_sample_once(bench, workers, count):
    bench.stop_after(count, workers=workers)
    result = bench.calibrate(workers=workers)
    assert result.table.samples == bench.count
    assert count <= result.report["samples"]["resumed"] <= bench.count
    bench.assert_whole()


def test_a_run_may_be_interrupted_again_and_again_with_other_workers(bench):
    for workers in (1, 3, 2):
        bench.stop_after(3, workers=workers)
    bench.calibrate()
    bench.assert_whole()


def test_where_one_worker_stops_the_others_take_no_more_samples(bench, monkeypatch):
    """However late the one that waits for them wakes."""
    collecting, started, read = sys.modules["calibration.collect"], [], Samples.read
    wait = collecting.wait
    monkeypatch.setattr(collecting, "wait", lambda jobs, *_: (time.sleep(0.5), wait(jobs))[1])
    monkeypatch.setattr(Samples, "read", lambda *of: (started.append(of[1]), read(*of))[1])
    bench.stop_after(3, workers=2)
    assert max(started) <= 3  # three were taken, and one was in work by the other


def test_skipped_samples_are_remembered(bench):
    save(bench.data, "3.npy", b"no array")
    save(bench.data, "17.npy", pictures(1) * np.float32(np.nan))
    whole = qpasses.calibrate(
        bench.model, bench.data, bench.folder / "whole.json", on_bad_sample="skip"
    )
    bench.whole = (bench.folder / "whole.json").read_bytes()
    bench.stop_after(10, workers=1, on_bad_sample="skip")
    result = bench.calibrate(on_bad_sample="skip")
    skipped = result.report["samples"]["skipped"]
    assert [each["name"] for each in skipped] == ["17.npy", "3.npy"]
    assert skipped == whole.report["samples"]["skipped"]
    assert result.table.samples == 28
    bench.assert_whole()


def slow_process(bench):
    command = [sys.executable, "-c", CALIBRATE_SLOWLY, "calibrate", str(bench.model)]
    where = ["--data", str(bench.data), "-o", str(bench.table), "--workers", "2"]
    return subprocess.Popen(
        command + where, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ}
    )


def wait_for(path, process, seconds=60):
    end = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end, "no checkpoint"
        time.sleep(0.01)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_process_that_was_stopped_by_a_signal_goes_on(tmp_path, sent):
    bench = Bench(tmp_path, 60)
    process = slow_process(bench)
    wait_for(bench.checkpoint, process)
    process.send_signal(sent)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert bench.checkpoint.exists() and not bench.table.exists()
    for path in bench.folder.glob(".table.json*"):
        path.unlink()  # a file that was being written when the process was killed
    ended = run("calibrate", bench.model, "--data", bench.data, "-o", bench.table)
    assert ended.code == 0, ended.err
    bench.assert_whole()


# Refused


def test_a_run_that_met_a_bad_sample_goes_on_without_it(bench):
    bench.stop_after(10, workers=1)
    entries = json.loads(bench.checkpoint.read_bytes())
    result = bench.calibrate(on_bad_sample="skip")
    assert result.report["samples"]["resumed"] == entries["done"][0][1]
    bench.assert_whole()


def test_samples_that_were_left_out_are_no_errors_later(bench):
    save(bench.data, "3.npy", b"no array")
    bench.stop_after(10, workers=1, on_bad_sample="skip")
    with pytest.raises(DataError, match="left out 1 bad samples: go on with --on-bad-sample"):
        bench.calibrate()
    bench.calibrate(restart=True, on_bad_sample="skip")


def another_model(bench):
    save(bench.folder, "float.onnx", cnn(seed=1))


def one_sample_more(bench):
    save(bench.data, "99.npy", pictures(1))


def not_all_samples(bench):
    return {"samples": 20}


def only_extremes(bench):
    return {"histograms": False}


def other_tensors(bench):
    return {"op_types_to_quantize": ["Conv"]}


@pytest.mark.thinned
@pytest.mark.parametrize(
    "change",
    [another_model, one_sample_more, not_all_samples, only_extremes, other_tensors],
)
def test_the_checkpoint_of_another_run_is_refused_with_the_cure(bench, change):
    bench.stop_after(5)
    before = bench.checkpoint.read_bytes()
    options = change(bench) or {}
    with pytest.raises(qpasses.UsageError) as raised:
        bench.calibrate(**options)
    message = str(raised.value)
    assert message.startswith(f"{bench.checkpoint}: is the checkpoint of another run")
    assert "--restart" in message
    assert bench.checkpoint.read_bytes() == before
    bench.calibrate(restart=True, **options)
    assert not bench.checkpoint.exists()
    expected = bench.folder / "expected.json"
    qpasses.calibrate(bench.model, bench.data, expected, **options)
    assert bench.table.read_bytes() == expected.read_bytes()


DAMAGES = {
    "empty": lambda content: b"",
    "cut off": lambda content: content[: len(content) // 2],
    "no JSON": lambda content: b"\xff\xfe",
    "a list": lambda content: b"[]",
    "another file": lambda content: b'{"schema": "qpasses.calibration/1"}',
    "no table": lambda content: without(content, "table"),
    "no done": lambda content: without(content, "done"),
    "done is a number": lambda content: with_entry(content, "done", 3),
    "done is not of pairs": lambda content: with_entry(content, "done", [[1, 2, 3]]),
    "done goes down": lambda content: with_entry(content, "done", [[9, 2]]),
    "done overlaps": lambda content: with_entry(content, "done", [[0, 5], [3, 8]]),
    "done is more than was counted": lambda content: with_entry(content, "done", [[0, 30]]),
    "skipped is a list": lambda content: with_entry(content, "skipped", ["a"]),
    "more skipped than done": lambda content: with_entry(
        content, "skipped", {str(k): "why" for k in range(99)}
    ),
}


def without(content, key):
    entries = json.loads(content)
    del entries[key]
    return json.dumps(entries).encode()


def with_entry(content, key, value):
    return json.dumps({**json.loads(content), key: value}).encode()


@pytest.mark.thinned
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_refused_and_restart_ignores_it(tmp_path, stopped, damage):
    bench = Bench(shutil.copytree(stopped, tmp_path, dirs_exist_ok=True))
    bench.checkpoint.write_bytes(DAMAGES[damage](bench.checkpoint.read_bytes()))
    given = "calibrate", bench.model, "--data", bench.data, "-o", bench.table
    assert_refused(run(*given), USAGE, bench.checkpoint)
    assert not bench.table.exists()
    assert run(*given, "--restart").code == 0
    bench.assert_whole()


def test_a_run_without_an_output_leaves_no_checkpoint(bench):
    with pytest.raises(Stopped):
        qpasses.calibrate(bench.model, bench.data, progress=stopping_after(4))
    assert not bench.checkpoint.exists()


@pytest.mark.parametrize("folded", [1, 100])
def test_other_feeds_of_a_list_are_another_run(bench, folded):
    model, feeds = cnn(), list(pictures(30)[:, None])
    with pytest.raises(Stopped):
        qpasses.calibrate(model, feeds, bench.table, workers=1, progress=stopping_after(9))
    assert bench.checkpoint.exists()
    others = [feed * np.float32(folded) for feed in feeds]
    if folded == 1:
        again = qpasses.calibrate(model, others, bench.table)
        assert again.report["samples"]["resumed"] == 9
    else:
        with pytest.raises(DataError, match="checkpoint of another run"):
            qpasses.calibrate(model, others, bench.table)
