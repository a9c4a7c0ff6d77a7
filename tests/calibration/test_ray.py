"""Collection on a Ray cluster: the table of a local run, whatever happens to the workers."""

import os
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

import numpy as np
import pytest

from calibration import Run, collect, input_specs, open_samples
from calibration.arrays import ArrayFolder
from calibration.collect import NOTHING, Collected, collect_part
from calibration.samples import Samples
from opsets.errors import DataError, QPassesError, UsageError
from tests.support.small_models import cnn, pictures, save

ray = pytest.importorskip("ray")
from calibration import ray_engine  # noqa: E402
from calibration.ray_engine import collect_on_ray  # noqa: E402

CNN = cnn()
TENSORS = ["x", "a", "r", "p", "f", "y"]
ALL = Run(histograms=True)
SKIPPING = replace(ALL, skip_bad=True)


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """One of two cores that the user has started."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    ray.shutdown()


@pytest.fixture
def folder(tmp_path):
    """Samples in files: 16, of different ranges."""
    for at in range(16):
        save(tmp_path, f"{at}.npy", pictures(1, seed=at) * np.float32(2.0 ** (at % 5)))
    return tmp_path


def samples_in(folder):
    return open_samples(folder, input_specs(CNN))


def same(one, other):
    """Tensors, positions and what was skipped are the same."""
    return (
        one.tensors == other.tensors
        and [*map(tuple, one.done)] == [*map(tuple, other.done)]
        and dict(one.skipped) == dict(other.skipped)
    )


def make_bad(folder, *positions):
    for at in positions:
        save(folder, f"{at}.npy", pictures(1) * np.float32(np.nan))


# The same as locally


@pytest.mark.parametrize("histograms", [True, False])
def test_the_shards_of_a_cluster_give_what_a_local_run_finds(folder, histograms):
    steps = []
    run = Run(histograms, progress=lambda: steps.append(1))
    found = collect_on_ray(CNN, TENSORS, samples_in(folder), run)
    assert same(found, collect(CNN, TENSORS, samples_in(folder), Run(histograms)))
    assert len(steps) == found.samples == 16


def test_a_ray_that_is_there_is_used_and_left_running(folder):
    before = ray.get_runtime_context().get_node_id()
    collect_on_ray(CNN, TENSORS, samples_in(folder), ALL)
    assert ray.is_initialized()
    assert ray.get_runtime_context().get_node_id() == before


def test_a_run_goes_on_between_the_samples_that_are_done(folder):
    samples, start, steps = samples_in(folder), NOTHING, []
    for span in ((0, 1), (4, 6), (15, 16)):
        part = collect_part(CNN, TENSORS, samples.between(*span), ALL)
        start = start.merged(Collected(part.tensors, [span]))
    run = replace(ALL, progress=lambda: steps.append(1))
    found = collect_on_ray(CNN, TENSORS, samples, run, start)
    assert same(found, collect(CNN, TENSORS, samples, ALL))
    assert len(steps) == 12
    assert same(collect_on_ray(CNN, TENSORS, samples, run, found), found)


# Bad samples


def test_the_first_bad_sample_is_named_as_locally(folder):
    make_bad(folder, 5, 6, 14)
    (folder / "9.npy").write_bytes(b"no array")
    saved, messages = [], []
    for engine in (collect, collect_on_ray):
        with pytest.raises(DataError) as raised:
            engine(CNN, TENSORS, samples_in(folder), replace(ALL, save=saved.append))
        messages.append(str(raised.value))
    assert messages[0].startswith("5.npy: ")
    assert messages == messages[:1] * 2
    start = saved[-1]
    assert all(seen.samples == start.samples for seen in start.tensors.values())


def test_bad_samples_are_skipped_also_where_all_of_a_shard_are_bad(folder):
    make_bad(folder, 0, 1, 2, 3, 4, 9)
    found = collect_on_ray(CNN, TENSORS, samples_in(folder), SKIPPING)
    assert same(found, collect(CNN, TENSORS, samples_in(folder), SKIPPING))
    assert len(found.skipped) == 6


def test_if_all_samples_are_bad_the_error_says_so(folder):
    make_bad(folder, *range(16))
    with pytest.raises(DataError, match="none of 16 samples could be used"):
        collect_on_ray(CNN, TENSORS, samples_in(folder), SKIPPING)


# Workers that are lost, runs that are stopped


@dataclass(frozen=True)
class Deadly(ArrayFolder):
    """Files, some of which kill who reads them: so often, counted by files in ``marks``."""

    marks: Path
    deadly: tuple[int, ...]
    times: int

    def read(self, index):
        if index in self.deadly:
            for time in range(self.times):
                try:
                    (self.marks / f"{index}-{time}").touch(exist_ok=False)
                except FileExistsError:
                    continue
                os.kill(os.getpid(), signal.SIGKILL)
        return super().read(index)


def deadly_samples(folder, tmp_path_factory, times, *deadly):
    samples = samples_in(folder)
    marks = tmp_path_factory.mktemp("marks")
    names = samples.source.names
    kind = samples.specs, samples.naming
    source = Deadly(folder, names, *kind, marks, deadly, times)
    return Samples(source, samples.specs, samples.chosen), marks


def test_the_shard_of_a_worker_that_is_killed_is_done_again(folder, tmp_path_factory):
    samples, marks = deadly_samples(folder, tmp_path_factory, 1, 3, 12)
    steps = []
    run = replace(ALL, progress=lambda: steps.append(1))
    found = collect_on_ray(CNN, TENSORS, samples, run)
    assert len(list(marks.iterdir())) == 2
    assert same(found, collect(CNN, TENSORS, samples_in(folder), ALL))
    assert len(steps) == 16


def test_a_shard_that_always_kills_its_worker_is_an_error_that_names_it(
    folder, tmp_path_factory
):
    samples, _ = deadly_samples(folder, tmp_path_factory, 99, 7)
    saved = []
    with pytest.raises(QPassesError, match=r"lost the workers on the samples .*again"):
        collect_on_ray(CNN, TENSORS, samples, replace(ALL, save=saved.append))
    found = collect(CNN, TENSORS, samples_in(folder), ALL, saved[-1])
    assert same(found, collect(CNN, TENSORS, samples_in(folder), ALL))


def test_a_run_that_is_interrupted_saves_what_was_found(folder):
    samples, saved, steps = samples_in(folder), [], []

    def progress():
        steps.append(1)
        if len(steps) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect_on_ray(
            CNN, TENSORS, samples, replace(ALL, progress=progress, save=saved.append)
        )
    assert 0 < saved[-1].samples < 16
    found = collect_on_ray(CNN, TENSORS, samples, ALL, saved[-1])
    assert same(found, collect(CNN, TENSORS, samples, ALL))


def test_an_exception_while_saving_ends_the_run(folder, monkeypatch):
    monkeypatch.setattr(ray_engine, "CHECKPOINT_SECONDS", 0.0)

    def full(found):
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space left"):
        collect_on_ray(CNN, TENSORS, samples_in(folder), replace(ALL, save=full))


# Clusters that are not there


@pytest.fixture
def no_cluster(monkeypatch):
    """As if none had been started."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **options: pytest.fail("connected"))


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "ray://127.0.0.1:1", "[::1]:1", "no.such:1"]
)
def test_a_cluster_that_does_not_answer_is_a_usage_error_at_once(folder, no_cluster, address):
    begun = monotonic()
    with pytest.raises(UsageError) as raised:
        collect_on_ray(CNN, TENSORS, samples_in(folder), ALL, address=address)
    assert str(raised.value).startswith(f"no Ray cluster at {address}: ")
    assert len(str(raised.value).splitlines()) == 1
    assert monotonic() - begun < 20


def test_without_ray_the_error_says_how_to_install_it(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="pip install"):
        collect_on_ray(CNN, TENSORS, samples_in(folder), ALL)
