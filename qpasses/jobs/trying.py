"""Trying: options that findings name, one after the other, on samples that are held back."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf, isfinite
from statistics import NormalDist
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from calibration import Preprocessing, Samples
from calibration.pieces import loaded
from calibration.presets import parts_of
from opsets.errors import ModelError, UsageError
from opsets.realised import takes_words
from opsets.target import load_target, target_names
from qpasses.analysis.findings import Change, Finding
from qpasses.analysis.noise import Outputs
from qpasses.checking.reference import reference_runs
from qpasses.evidence.summary import summarize
from qpasses.ir.commands import QuantizeOptions
from qpasses.ir.edges import Edges, RealSession
from qpasses.ir.integer_commands import AnalyzeOptions
from qpasses.ir.native_sessions import has_kernels
from qpasses.ir.options import GraphOptions
from qpasses.ir.progress import Progress, no_progress
from qpasses.ir.settings import Settings, usual_options
from qpasses.jobs.benching import BODIES, KERNELS, Contender, measured
from qpasses.jobs.resolving import resolved
from qpasses.jobs.widening import made_by
from qpasses.load.arguments import Source
from qpasses.pipeline import State
from qpasses.recover.judge import NOISE_DB, Decibels

USUAL = (
    Change("accuracy", "balanced"),
    Change("activation_scales", "per-channel"),
    Change("calibration_method", "mse"),
    Change("weight_rounding", "second-order"),
)
"""What is tried besides, behind what findings name."""

BEST = Change("accuracy", "best")
"""Tried behind tensors in 16 bits that are named."""

_MOST = 8
"""So many options are tried."""

_WORDS, _FLOATS = 2, 1
"""So many of them are tensors in 16 bits, besides `BEST`, and nodes in float."""

WIDE_DB, FLOAT_DB = 30.0, 20.0
"""Tensors get 16 bits where outputs have less; nodes go back to float, last, where they do."""

_LEAST = 8
"""So many samples there have to be: a quarter of them judges."""

_FOLDS = 4
"""Quarters that judge what the others make, one after the other, where samples are few."""

_MANY = 64
"""Of so many samples one quarter is enough."""

_SECONDS = 1.0
"""So long latencies are measured."""

_ALIKE = 0.1
"""Latencies that differ by a smaller share are the same: runs of one model do."""

_CERTAIN = 0.05
"""So likely may it be that chance alone makes one of the options that are tried look good."""


@dataclass(frozen=True)
class Tried:
    """An option, what the outputs gain by it in decibels, and at what price.

    ``samples``: so many judged, the first quarter alone where nothing is gained there.
    """

    option: str
    gain_db: float | None
    samples: int
    price: str
    kept: bool

    def as_json(self) -> dict[str, Any]:
        """The fields."""
        return dict(vars(self))


@dataclass(frozen=True)
class _Fold:
    """Samples that judge, what float makes of them, and those that take no part in making."""

    judging: Samples
    expected: Sequence[Mapping[str, Any]]
    kept_out: Sequence[str]


@dataclass
class _Made:
    """What came of some options: the model, how near its outputs are to float, its cost.

    ``state`` and ``floats``: of the first fold; ``decibels``: of each fold so far.
    """

    options: Mapping[str, Any]
    state: State
    floats: int
    decibels: list[Decibels]

    @property
    def mean_db(self) -> float:
        """Of all samples that judged."""
        return float(np.concatenate(self.decibels).mean())


class Trials:
    """Options on top of those that a model was made with; what gains is kept.

    ``source``: the float model; ``asked``: with data that can be read again and again, of
    which ``samples`` are used; ``preprocessing``: of pictures. Raises UsageError for too few.
    """

    def __init__(
        self,
        source: Source,
        settings: Settings,
        asked: AnalyzeOptions,
        samples: Samples,
        preprocessing: Preprocessing | None,
    ) -> None:
        data = asked.data
        if len(samples) < _LEAST:
            raise UsageError(
                f"--try needs {_LEAST} samples at least, of which a quarter judges: there are "
                f"{len(samples)}"
            )
        is_read_again = isinstance(data, str | Sequence | np.ndarray)
        if not is_read_again and not hasattr(data, "__fspath__"):
            raise UsageError("--try reads samples again and again: give a path or a list")
        self._source, self._data = source, data
        self._reading = {"inputs": asked.inputs, "preprocessing": preprocessing}
        self.preprocessing = preprocessing
        self._samples = samples
        self.base = _options_of(settings)
        self.tried: list[Tried] = []
        self._begun: Sequence[Decibels] = []

    @property
    def begin(self) -> dict[str, Any]:
        """How many samples judged the model as it was, and how near float it was on them."""
        found = np.concatenate(self._begun)
        return {"samples": found.size, "sqnr_db": float(found.mean())}

    @property
    def _names(self) -> list[str]:
        return [value.name for value in self._source.reference.graph.output]

    def run(
        self, found: Sequence[Finding], costly: Sequence[Change], progress: Progress
    ) -> Mapping[str, Any]:
        """Try what ``found`` names, then what is usual; the options that are left.

        Behind them what takes time: tensors in 16 bits, last nodes in float, both those that
        are named, then those that are ``costly``.
        """
        named = [each.change for each in found if each.change]
        self._choose_judges(named)
        best = self._made(self.base)
        self._judge_on_all(best)  # whose figure says what is tried
        self._begun = [*best.decibels]
        usual = [each for each in (*named, *USUAL) if _needed(each) == inf]
        dear = [each for each in (*named, *costly) if each != BEST and _needed(each) < inf]
        words = [each for each in dear if each.name == "tensor_types"][:_WORDS]
        floats = [each for each in dear if each.name == "nodes_to_exclude"][:_FLOATS]
        bests = [BEST] if takes_words(self.base["target"]) else []
        dear = [each for each in (*words, *bests, *floats) if best.mean_db < _needed(each)]
        dear = self._new(dear)
        wanted = [*self._new(usual)[: _MOST - len(dear)], *dear]
        advance = progress("try options", len(wanted))
        for change in wanted:
            if best.mean_db < _needed(change):
                best = self._try(change, best)
            advance()
        return best.options

    def _new(self, changes: Sequence[Change]) -> list[Change]:
        """Each once, of those that change what there is."""
        once = dict.fromkeys(changes)
        return [each for each in once if each.applied_to(self.base) != self.base]

    def _choose_judges(self, named: Sequence[Change]) -> None:
        """Quarters of the samples, without those that are named as bad ones."""
        bad = [str(each.value) for each in named if each.name == "samples_to_exclude"]
        names = [
            name for name in self._samples.names if any(re.fullmatch(b, name) for b in bad)
        ]
        good = self._samples.without(names)
        count = 1 if len(good) >= _MANY else _FOLDS
        parts = [good.names[start::_FOLDS] for start in range(count)]
        self._folds = [self._fold(good, part) for part in parts if part]

    def _fold(self, good: Samples, part: Sequence[str]) -> _Fold:
        judging = good.without({*good.names} - {*part})
        makers = good.without(part).names
        expected = [
            dict(zip(self._names, outputs, strict=True))
            for _, _, outputs in reference_runs(self._source, judging)
        ]
        return _Fold(judging, expected, [*({*_all_names(self._samples)} - {*makers})])

    def _try(self, change: Change, best: _Made) -> _Made:
        """The better of two: as it is, or with ``change``."""
        options = change.applied_to(best.options)
        if options == best.options:
            return best
        try:
            made = self._made(options)
            gained = self._gained(made, best)
        except (UsageError, ModelError) as error:
            text = f"cannot be: {error}"
            self.tried.append(Tried(change.text, None, 0, text, kept=False))
            return best
        if not gained.any():
            text = "changes nothing"
            self.tried.append(Tried(change.text, 0.0, gained.size, text, kept=False))
            return best
        gain, kept = float(gained.mean()), is_beyond_chance(gained, _MOST)
        price = self._price(best, made)
        if not kept and gain >= NOISE_DB:
            price += f"; on {gained.size} samples that may be chance"
        self.tried.append(Tried(change.text, gain, gained.size, price, kept))
        return made if kept else best

    def _gained(self, made: _Made, best: _Made) -> Decibels:
        """Of each sample; those of other folds judge only what gains on the first one."""
        gained = made.decibels[0] - best.decibels[0]
        if gained.mean() < NOISE_DB:
            return gained
        self._judge_on_all(made)
        return np.concatenate(made.decibels) - np.concatenate(best.decibels)

    def _judge_on_all(self, made: _Made) -> None:
        """On the folds that have not judged it yet."""
        for fold in self._folds[len(made.decibels) :]:
            made.decibels.append(self._judged(made.options, fold)[1])

    def _made(self, options: Mapping[str, Any]) -> _Made:
        state, decibels = self._judged(options, self._folds[0])
        floats = summarize(state.graph, state.record, state.evidence)["float_nodes"]
        return _Made(options, state, len(floats), [decibels])

    def _judged(self, options: Mapping[str, Any], fold: _Fold) -> tuple[State, Decibels]:
        """What comes of ``options`` without the samples of ``fold``, and how near on these."""
        names = (*options.get("samples_to_exclude", ()), *map(re.escape, fold.kept_out))
        asked = QuantizeOptions(
            self._source.reference,
            self._data,
            **{**options, **self._reading, "samples_to_exclude": names},
        )
        job = resolved("quantize", asked, lambda _: self._source)
        _, state, _ = made_by(job, asked, lambda *_: None)
        edges = Edges.between(state.source, state.model, state.record)
        session = RealSession(loaded(state.model), edges)
        rows = []
        for (name, feed), expected in zip(fold.judging, fold.expected, strict=True):
            found = dict(zip(self._names, session.run(None, feed, name), strict=True))
            rows.append(_nearness(expected, found))
        return state, np.array(rows)

    def _price(self, before: _Made, made: _Made) -> str:
        """Latency beside what was, and what more is left in float."""
        kind = KERNELS if has_kernels() else BODIES
        _, feed = next(iter(self._folds[0].judging))
        pair = [
            Contender(kind, each.state.model, self._edges(each.state.model, each).feed(feed))
            for each in (before, made)
        ]
        latency = measured(pair, [1], _SECONDS, 0, no_progress).latencies[-1].ratio
        more = made.floats - before.floats
        is_same = abs(latency - 1) < _ALIKE
        text = "the same latency" if is_same else f"{latency:.2f} times the latency"
        return f"{text}, {more} nodes more in float" if more > 0 else text

    def _edges(self, model: onnx.ModelProto, made: _Made) -> Edges:
        return Edges.between(made.state.source, model, made.state.record)


def _needed(change: Change) -> float:
    """It is tried where outputs have less, in decibels."""
    if change == BEST or change.name == "tensor_types":
        return WIDE_DB
    return FLOAT_DB if change.name == "nodes_to_exclude" else inf


def is_beyond_chance(gained: Decibels, tries: int) -> bool:
    """Whether a gain [samples] is one, of the best of so many ``tries`` that gain nothing.

    By half a dB, and by Student's t of so few samples, one of ``tries`` at a time.
    """
    if gained.size < 2:
        return False
    z, free = NormalDist().inv_cdf(1 - _CERTAIN / tries), gained.size - 1
    t = z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
    error = float(gained.std(ddof=1)) / gained.size**0.5
    return bool(gained.mean() >= max(NOISE_DB, t * error))


def _nearness(expected: Mapping[str, Any], found: Mapping[str, Any]) -> float:
    """In decibels: of outputs in float; of the share of equal labels where none is."""
    arrays = {name: each for name, each in expected.items() if isinstance(each, np.ndarray)}
    real = {name: each for name, each in arrays.items() if each.dtype.kind == "f"}
    if not real:
        same = {name: _same(found[name], each) for name, each in arrays.items() if each.size}
        real = {name: np.ones(each.shape) for name, each in same.items()}
        found = {name: each.astype(np.float64) for name, each in same.items()}
    outputs = Outputs(real)
    return outputs.sqnr_db(outputs.noise(found)) or 0.0


def _same(found: Any, expected: NDArray[Any]) -> NDArray[Any]:
    """Which labels are; none where there are more or fewer."""
    if np.shape(found) != expected.shape:
        return np.zeros(expected.shape, bool)
    return np.asarray(found == expected)


def _all_names(samples: Samples) -> list[str]:
    """Those of samples that are not used too."""
    return [samples.source.name(place) for place in range(len(samples.source))]


def _options_of(settings: Settings) -> dict[str, Any]:
    """What a model was made with, as ``quantize`` takes it: what is unlike the defaults."""
    usual = vars(GraphOptions()) | usual_options(settings.target, settings.accuracy or "fast")
    given = {each.name: getattr(settings, each.name) for each in fields(GraphOptions)}
    own = {name: value for name, value in given.items() if value != usual[name]}
    if settings.accuracy == "best":
        own["accuracy"] = "balanced"  # what it chose are tensor types like others
    return {**own, "target": settings.target}


def as_toml(options: Mapping[str, Any], preprocessing: Preprocessing | None) -> str:
    """A configuration file for ``qpasses quantize --config``, deterministic."""
    lines = ["[quantize]"]
    if preprocessing is not None:
        parts = parts_of(preprocessing)
        if "layout" in parts:
            parts["picture_layout"] = parts.pop("layout")
        if "crop_fraction" in parts:
            lines.append(f"# crop_fraction {parts.pop('crop_fraction')}: in Python alone")
        options = {**options, **parts}
    for name, value in sorted(options.items()):
        if name == "target":
            shipped = value.name in target_names() and load_target(value.name) == value
            lines.append(f'target = "{value.name}"' if shipped else "# target: your own file")
        elif not isinstance(value, float) or isfinite(value):
            shown = list(value) if isinstance(value, tuple) else value
            lines.append(f"{name} = {_as_toml(shown)}")
    return "\n".join(lines) + "\n"


def _as_toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
