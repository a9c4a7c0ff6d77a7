"""Latency: models beside one another, run in turns, and what takes longest in one of them."""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from calibration.inputs import Feed, InputSpec, input_specs
from calibration.session import inference_session, serialized
from opsets.errors import ModelError
from qpasses.checking.sample_runs import differences
from qpasses.ir.edges import Edges
from qpasses.ir.native_sessions import has_kernels, register
from qpasses.ir.progress import Advance, Progress
from qpasses.ir.record import Record

FLOAT, QDQ, BODIES, KERNELS = "float", "Q/DQ", "integer, bodies", "integer, kernels"
"""What is measured, in this order."""

_SPINNING = 0.05
"""So many seconds idle threads of another session spin, on cores that the next one needs."""

_BLOCK = 0.01
"""For about so many seconds a model runs before it is the next one's turn."""

_LEAST = 5
"""So many turns each model has at least."""

_STEPS = 20
"""In so many steps the time passes that is measured."""


Model = onnx.ModelProto | Path
"""In memory, or a file."""


@dataclass(frozen=True)
class Contender:
    """A model to be measured, and a feed for it."""

    graph: str
    model: Model
    feed: Feed

    def session(self, threads: int, profile: str = "") -> ort.InferenceSession:
        """As a user would load it. Raises ModelError if onnxruntime cannot."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        if profile:
            options.enable_profiling, options.profile_file_prefix = True, profile
        if self.graph == KERNELS:
            register(options)
        source = str(self.model) if isinstance(self.model, Path) else serialized(self.model)
        return inference_session(source, options)


@dataclass(frozen=True)
class Latency:
    """Milliseconds of ``runs`` of a model on so many ``threads``: quartiles and the least.

    Of blocks of runs the mean. ``ratio``: the median of what it took over what the first model
    took in the same round.
    """

    graph: str
    threads: int
    median_ms: float
    low_ms: float
    high_ms: float
    least_ms: float
    ratio: float
    runs: int


@dataclass(frozen=True)
class SlowNode:
    """A node as onnxruntime runs it: milliseconds a run, and its share of all nodes."""

    name: str
    op: str
    milliseconds: float
    share: float


@dataclass
class Benchmark:
    """What was measured; ``differing``: elements of outputs, of bodies and kernels.

    ``slowest``: of the last contender on the first number of threads.
    """

    latencies: list[Latency] = field(default_factory=list)
    slowest: list[SlowNode] = field(default_factory=list)
    differing: int = 0

    def as_json(self) -> dict[str, Any]:
        """The fields."""
        return asdict(self)


def contenders_of(
    integer: Model,
    original: Model | None,
    qdq: Model | None,
    feed: Feed,
    edges: Edges | None,
) -> list[Contender]:
    """All that there are, in order; ``feed`` is that of ``original``, if it is given."""
    ours = feed if edges is None else edges.feed(feed)
    real = [(FLOAT, original), (QDQ, qdq)]
    found = [Contender(name, model, feed) for name, model in real if model is not None]
    found.append(Contender(BODIES, integer, ours))
    if has_kernels():
        found.append(Contender(KERNELS, integer, ours))
    return found


def sized_specs(integer: onnx.ModelProto, record: Record) -> list[InputSpec]:
    """What the integer model takes, where it is free of the sizes that are recorded."""
    return [
        replace(spec, shape=tuple(record.sizes.get(spec.name, spec.shape)))
        if None in spec.shape
        else spec
        for spec in input_specs(integer)
    ]


def measured(
    contenders: Sequence[Contender],
    threads: Sequence[int],
    seconds: float,
    nodes: int,
    progress: Progress,
) -> Benchmark:
    """Each of ``contenders`` for about so many seconds on each number of ``threads``."""
    found = Benchmark()
    for count in threads:
        what = "1 thread" if count == 1 else f"{count} threads"
        measuring = progress(f"measure on {what}", _STEPS)
        found.latencies += _in_turns(contenders, count, seconds, measuring)
    advance = progress("find the slowest nodes", 1)
    found.slowest = _slowest(contenders[-1], threads[0], seconds, nodes)
    found.differing = _differing({each.graph: each for each in contenders})
    advance()
    return found


def _in_turns(
    contenders: Sequence[Contender], threads: int, seconds: float, advance: Advance
) -> list[Latency]:
    """A block of runs of each after the other, the order rotating, until the time is over.

    ``advance`` is called in each ``_STEPS``-th part of the time.
    """
    sessions = [each.session(threads) for each in contenders]
    pairs, repeats = list(zip(sessions, contenders, strict=True)), []
    for pair in pairs:
        quickest = min(_run(*pair) for _ in range(3))
        repeats.append(max(1, round(_BLOCK / quickest)))
    rounds, count, start = list[list[float]](), len(pairs), time.perf_counter()
    step, told = seconds * count / _STEPS, 0
    while len(rounds) < _LEAST or time.perf_counter() < start + step * _STEPS:
        times = [0.0] * count
        for turn in range(len(rounds), len(rounds) + count):
            if threads != 1:
                time.sleep(_SPINNING)
            place = turn % count
            spent = sum(_run(*pairs[place]) for _ in range(repeats[place]))
            times[place] = spent / repeats[place]
        rounds.append(times)
        while told < _STEPS and time.perf_counter() >= start + step * (told + 1):
            told += 1
            advance()
    for _ in range(told, _STEPS):
        advance()
    found = np.array(rounds)
    return [
        _latency(each, threads, found[:, place], found[:, 0], repeats[place])
        for place, each in enumerate(contenders)
    ]


def _latency(of: Contender, threads: int, seconds: Any, first: Any, repeats: int) -> Latency:
    median, low, high, least = np.percentile(1e3 * seconds, [50, 25, 75, 0]).tolist()
    ratio = float(np.median(seconds / first))
    runs = len(seconds) * repeats
    return Latency(of.graph, threads, median, low, high, least, ratio, runs)


def _run(session: ort.InferenceSession, of: Contender) -> float:
    """Seconds of one run."""
    start = time.perf_counter()
    try:
        session.run(None, dict(of.feed))
    except Exception as error:
        raise ModelError(f"onnxruntime cannot run the {of.graph} model: {error}") from error
    return time.perf_counter() - start


def _slowest(of: Contender, threads: int, seconds: float, most: int) -> list[SlowNode]:
    """By onnxruntime's own profile."""
    with tempfile.TemporaryDirectory(prefix="qpasses-") as folder:
        session = of.session(threads, profile=f"{folder}/run")
        runs, end = 0, time.perf_counter() + seconds / 2
        while runs < _LEAST or time.perf_counter() < end:
            _run(session, of)
            runs += 1
        events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    spent: Counter[tuple[str, str]] = Counter()
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            op = event["args"]["op_name"]
            spent[event["name"].removesuffix("_kernel_time"), op] += event["dur"]
    total = max(spent.total(), 1)
    return [
        SlowNode(name, op, dur / runs / 1e3, dur / total)
        for (name, op), dur in spent.most_common(most)
    ]


def _differing(contenders: Mapping[str, Contender]) -> int:
    """How many elements of outputs bodies and kernels give otherwise, if both are there."""
    if not {BODIES, KERNELS} <= contenders.keys():
        return 0
    ours, theirs = (
        contenders[name].session(1).run(None, dict(contenders[name].feed))
        for name in (KERNELS, BODIES)
    )
    return differences(ours, theirs)
