"""Collection on a Ray cluster: shards of the samples as tasks, merged as they come back.

A shard whose worker is lost is done again by Ray; the others are kept. Each machine reads the
samples itself, so files must lie where every machine finds them.
"""

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import Any

import onnx

from calibration.collect import (
    CHECKPOINT_SECONDS,
    EXTREMES,
    NOTHING,
    Collected,
    Run,
    Spans,
    collect_part,
    cores,
    outside,
)
from calibration.held_weights import whole
from calibration.samples import Samples
from calibration.session import serialized
from opsets.errors import QPassesError, UsageError

SHARDS_PER_CORE = 4
"""More than one, so that a lost shard is little work and none waits long for the last."""

MOST_SAMPLES = 1024
"""In a shard."""

CONNECT_SECONDS = 10.0
"""So long a cluster may take to answer."""

Span = tuple[int, int]


def collect_on_ray(
    model: onnx.ModelProto,
    tensors: Sequence[str],
    samples: Samples,
    run: Run,
    start: Collected = NOTHING,
    *,
    address: str | None = None,
) -> Collected:
    """What ``collect`` does, on the cluster at ``address``; None: on cores of this machine.

    Raises as ``collect`` does, and QPassesError for a shard that loses its worker again and
    again; UsageError if Ray is not installed or the cluster cannot be reached.
    """
    with _cluster(address, run.workers or cores()) as ray:
        here = int(ray.cluster_resources().get("CPU", 1))
        shards = _shards(outside(start.done, len(samples)), SHARDS_PER_CORE * here)
        quiet = replace(run, workers=1, progress=EXTREMES.progress, save=None)
        shared = ray.put((serialized(whole(model)), list(tensors), samples, quiet))
        task = ray.remote(num_cpus=1)(_collect_shard)
        running = {task.remote(shared, shard): shard for shard in shards}
        try:
            return _gathered(ray, running, samples, run, start).checked(tensors, samples.specs)
        finally:
            for left in running:
                ray.cancel(left, force=True)


def _collect_shard(shared: Any, shard: Span) -> Collected | QPassesError:
    """In a worker: the statistics of the samples of ``shard``, or what is wrong with one."""
    content, tensors, samples, run = shared
    model = onnx.ModelProto.FromString(content)
    try:
        return collect_part(model, tensors, samples.between(*shard), run)
    except QPassesError as error:
        return error


def _gathered(
    ray: Any, running: dict[Any, Span], samples: Samples, run: Run, found: Collected
) -> Collected:
    """The results of all tasks; each is taken out of ``running`` when it has ended."""
    saved = monotonic()
    failed: dict[Span, QPassesError] = {}
    try:
        while any(not failed or shard < min(failed) for shard in running.values()):
            ended, _ = ray.wait([*running])
            first, end = shard = running.pop(ended[0])
            result = _result(ray, ended[0], samples, shard)
            if isinstance(result, QPassesError):
                failed[shard] = result
                continue
            found = found.merged(Collected(result.tensors, [shard], result.skipped))
            for _ in range(first, end):
                run.progress()
            if run.save and monotonic() - saved > CHECKPOINT_SECONDS:
                run.save(found)
                saved = monotonic()
    except BaseException:
        if run.save:
            run.save(found)
        raise
    if failed:
        if run.save:
            run.save(found)
        raise failed[min(failed)]
    return found


def _result(ray: Any, task: Any, samples: Samples, shard: Span) -> Collected | QPassesError:
    try:
        found: Collected | QPassesError = ray.get(task)
    except ray.exceptions.RayTaskError:
        raise  # a fault of ours: with its traceback
    except ray.exceptions.RayError as error:
        first, last = samples.name(shard[0]), samples.name(shard[1] - 1)
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        return QPassesError(
            f"Ray lost the workers on the samples {first} to {last} again and again "
            f"(out of memory?): {reason}"
        )
    return found


def _shards(left: Spans, wanted: int) -> list[Span]:
    """The positions in runs of about the same length, at least ``wanted`` where possible."""
    count = sum(end - first for first, end in left)
    size = max(1, min(MOST_SAMPLES, count // max(wanted, 1)))
    return [(at, min(at + size, end)) for first, end in left for at in range(first, end, size)]


def _check_reachable(address: str | None) -> None:
    """UsageError if nothing answers at HOST:PORT, for which Ray itself waits for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return  # "auto", or none
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"no Ray cluster at {address}: {error}") from error


@contextmanager
def _cluster(address: str | None, workers: int) -> Iterator[Any]:
    """Ray, connected; one that was started here is stopped again."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise UsageError("engine 'ray' needs Ray: pip install 'qpasses[ray]'") from error
    if ray.is_initialized():
        yield ray
        return
    _check_reachable(address)
    mine: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False}
    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.ERROR,
            **({} if address else mine),
        )
    except (ConnectionError, RuntimeError, ValueError, AssertionError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UsageError(f"no Ray cluster at {address or 'this machine'}: {reason}") from error
    try:
        yield ray
    finally:
        ray.shutdown()
