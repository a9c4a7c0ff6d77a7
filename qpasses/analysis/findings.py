"""Findings: in words with numbers, why tensors cost what they cost, and what may help."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite, prod
from statistics import median
from typing import Any

from qpasses.analysis.observed import Observed

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """An option of ``quantize`` by its name in Python, and what it becomes.

    ``is_more``: what comes before the values that it has.
    """

    name: str
    value: str | bool
    is_more: bool = False

    @property
    def text(self) -> str:
        """As it is on the command line."""
        flag = f"--{self.name.replace('_', '-')}"
        return flag if self.value is True else shlex.join([flag, str(self.value)])

    def applied_to(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """``options`` with it."""
        known = options.get(self.name, ())
        value = (self.value, *known) if self.is_more else self.value
        return {**options, self.name: value}


@dataclass(frozen=True)
class Finding:
    """What was found of a tensor, or of the samples.

    ``share``: of the noise that all tensors cause; ``change``: that may help, or None where no
    option does.
    """

    kind: str
    text: str
    tensor: str | None = None
    share: float = 0.0
    change: Change | None = None

    def as_json(self) -> dict[str, Any]:
        """The fields, the change as an ``option`` of the command line."""
        fields = {name: value for name, value in vars(self).items() if name != "change"}
        return fields | {"option": self.change and self.change.text}


@dataclass(frozen=True)
class Case:
    """A tensor that costs something: its row, all rows, the configuration of the model.

    ``has_words``: whether its target has sums of 16 bits.
    """

    row: Row
    rows: Sequence[Row]
    configuration: Mapping[str, Any]
    has_words: bool

    @property
    def share(self) -> float:
        """Of the noise."""
        cost = self.row["cost"]
        return 0.0 if cost is None else cost["share"] or 0.0

    @property
    def is_heard(self) -> bool:
        """Whether what it alone does to the outputs is worth a word."""
        alone = self.row["cost"]["alone_db"]
        return alone is not None and alone < _QUIET

    @property
    def codes(self) -> int:
        """How many the tensor has."""
        return 1 << (
            16 if self.row["type"] == "int16" else self.configuration["activation_bits"]
        )

    def found(self, kind: str, text: str, change: Change | None = None) -> Finding:
        """A finding of this tensor; without a change if nothing that it alone is helps."""
        gain = self.row["cost"]["gain_db"]
        if change is not None and change.is_more:
            is_float = change.name == "nodes_to_exclude"  # which is said where it was measured
            least = 0.0 if is_float else _GAINING
            if (least if gain is None else gain) < _GAINING:
                change = None
        text = f"{self.row['real']}: {text}"
        return Finding(kind, text, self.row["tensor"], self.share, change)


_GAINING = 0.2
"""What the outputs gain at least where a change of one tensor is worth a try, in decibels."""

_QUIET = 35.0
"""What alone leaves the outputs so many decibels is left alone."""

Rule = Callable[[Case], Iterator[Finding]]

_COSTLY = 0.02
"""A tensor of a smaller share of the noise is not looked at."""

_MOST = 12
"""So many tensors are looked at, the costliest first."""


def findings(
    rows: Sequence[Row],
    observed: Mapping[str, Observed],
    samples: Sequence[tuple[str, float | None]],
    configuration: Mapping[str, Any],
    has_words: bool,
) -> list[Finding]:
    """Of samples first, then of tensors, the costliest first.

    ``has_words``: whether the target has sums of 16 bits.
    ``samples``: names, and how far the outputs of each are off, in decibels.
    """
    found = [*_bad_samples(observed, samples), *_too_few(rows, configuration)]
    cases = [Case(row, rows, configuration, has_words) for row in rows]
    cases = [case for case in cases if case.share >= _COSTLY]
    for case in sorted(cases, key=lambda case: -case.share)[:_MOST]:
        rules = _OF_WEIGHTS if case.row["kind"] == "weights" else _OF_ACTIVATIONS
        found += next(filter(None, ([*rule(case)] for rule in rules)), [])
    return [*_each_once(found), *_dead(rows, len(samples))]


def costly_in_words(rows: Sequence[Row]) -> list[Change]:
    """The costliest activations of 8 bits, all of them in 16; nothing if there are none."""
    narrow = [row for row in rows if row["kind"] != "weights" and row["type"] != "int16"]
    names = [row["real"] for row in _costliest(narrow)]
    return [_in_words(names)] if names else []


def costly_in_float(rows: Sequence[Row]) -> list[Change]:
    """The nodes that write the costliest tensors, each left in float."""
    return [*map(_in_float, _costliest(rows))]


def _costliest(rows: Sequence[Row]) -> list[Row]:
    """Of those that the outputs gain by, the costliest first."""
    gaining = [
        row
        for row in rows
        if (cost := row["cost"]) and cost["share"] and (cost["gain_db"] or 0.0) >= _GAINING
    ]
    return sorted(gaining, key=lambda row: -row["cost"]["share"])[:_FEW]


_FEW = 3


def _each_once(found: Sequence[Finding]) -> Iterator[Finding]:
    """With each change where it is named first."""
    named = set[Change]()
    for each in found:
        yield replace(each, change=None) if each.change in named else each
        named |= {each.change} if each.change else set()


def _beyond_samples(seen: Observed) -> tuple[int, float]:
    """The sample that reaches farthest, and how many times as far as the next one."""
    reach = [max(abs(low), abs(high)) for low, high in seen.extremes]
    order = sorted(range(len(reach)), key=reach.__getitem__)
    first, second = order[-1], order[-2]
    return first, reach[first] / reach[second] if reach[second] else 1.0


def _bad_samples(
    observed: Mapping[str, Observed], samples: Sequence[tuple[str, float | None]]
) -> Iterator[Finding]:
    """One sample that alone makes many ranges wider."""
    tensors = [seen for seen in observed.values() if len(seen.extremes) == len(samples)]
    if len(samples) < _ENOUGH or not tensors:
        return
    beyond = [_beyond_samples(seen) for seen in tensors]
    far = [(place, times) for place, times in beyond if times >= _FAR]
    places = [place for place, _ in far]
    worst = max({*places}, key=places.count, default=None)
    if worst is None or places.count(worst) < max(2, len(tensors) / 4):
        return
    times = median(times for place, times in far if place == worst)
    yield Finding(
        "bad sample",
        f"sample {samples[worst][0]} reaches {times:.3g} times as far as any other in "
        f"{places.count(worst)} of {len(tensors)} tensors: where it is calibrated on, ranges "
        "are too wide for the rest. Leave it out if it is unlike what the model is to see",
        share=1.0,
        change=Change("samples_to_exclude", re.escape(samples[worst][0]), is_more=True),
    )


_ENOUGH = 4
_FAR = 2.0


def _too_few(rows: Sequence[Row], configuration: Mapping[str, Any]) -> Iterator[Finding]:
    """Ranges that many tensors go beyond, on samples that are like those they are of."""
    kept = [row for row in rows if row["clipped"] is not None and not _is_cut(row)]
    beyond = [row for row in kept if row["clipped"] > _SOME]
    count = configuration["samples"]
    if (
        count
        and len(kept) >= _ENOUGH
        and not configuration["calibration_overrides"]
        and configuration["calibration_method"] == "minmax"
        and len(beyond) > len(kept) / 4
    ):
        yield Finding(
            "too few samples",
            f"{len(beyond)} of {len(kept)} tensors go beyond their ranges, which are of "
            f"{count} samples: calibrate on more, or on others that are like these",
            share=1.0,
        )


_SOME = 1e-4


def _masks(case: Case) -> Iterator[Finding]:
    """Numbers that only say that something is left out."""
    row = case.row
    counts, edges = row["histogram"]["counts"], row["histogram"]["edges"]
    low, high = row["range"]
    between = [
        count
        for count, (begin, end) in zip(counts, pairwise(edges), strict=True)
        if 0.9 * low < begin and end < 0.1 * low
    ]
    is_read = _DISTRIBUTIONS.intersection(row["read_by"])
    if low < -_MASKED and high < _MASKED / 10 and is_read and not any(between):
        yield case.found(
            "mask",
            f"reaches down to {row['smallest']:.3g}, a mask as it seems: one step of its "
            f"codes is {_step(row):.3g}",
            _range(row, min(row["largest"], 0.0) - 100, max(row["largest"], 0.0)),
        )


_MASKED = 1e3

_DISTRIBUTIONS = frozenset(
    {
        *("TableSoftmax", "TableSoftmax16", "GemmlowpSoftmax", "IntLogSoftmax"),
        *("Shiftmax", "IBertSoftmax", "Softmax", "LogSoftmax"),
    }
)


def _wide(case: Case) -> Iterator[Finding]:
    """A range of which the values take a small part."""
    row = case.row
    if row["smallest"] is None or isinstance(row["scale"], list):
        return
    low, high = row["range"]
    smallest, largest = min(row["smallest"], 0.0), max(row["largest"], 0.0)
    used = (largest - smallest) / (high - low)
    if not 0 < used < _USED:
        return
    text = (
        f"uses {max(2, round(used * case.codes)):,} of its {case.codes:,} codes: values are "
        f"from {smallest:.4g} to {largest:.4g}, the range from {low:.4g} to {high:.4g}"
    )
    joined = [
        other
        for other in case.rows
        if other is not row
        and other["kind"] == "activation"
        and (other["scale"], other["zero_point"]) == (row["scale"], row["zero_point"])
        and other["smallest"] is not None
        and max(-other["smallest"], other["largest"]) > 2 * max(-smallest, largest)
    ]
    if joined:
        text += f", which it shares with {joined[0]['real']}"
        yield case.found("unlike ranges joined", text)
    else:
        yield case.found("wide range", text, _range(row, smallest, largest))


_USED = 1 / 3


def _clipped(case: Case) -> Iterator[Finding]:
    """Tails that the range cuts off."""
    row = case.row
    if not row["split"] or row["split"]["clipping"] < _MUCH or not row["clipped"]:
        return
    if _is_cut(row):  # what is beyond may be what nobody reads
        return
    low, high = row["range"]
    yield case.found(
        "clipped tails",
        f"{row['clipped']:.2%} of its numbers are beyond its range from {low:.4g} to "
        f"{high:.4g} (they reach from {row['smallest']:.4g} to {row['largest']:.4g}), which "
        f"makes {row['split']['clipping']:.0%} of its own error",
        _range(row, min(row["smallest"], low), max(row["largest"], high)),
    )


_MUCH = 0.3


def _outlier_channels(case: Case) -> Iterator[Finding]:
    """Channels that are much larger than the rest, and have one scale with them."""
    row, channels = case.row, case.row["channels"]
    if channels is None or isinstance(row["scale"], list):
        return
    reach = channels["largest"]
    if not all(map(isfinite, reach)) or not (middle := median(reach)):
        return
    widest = max(range(len(reach)), key=reach.__getitem__)
    is_free = row["free_channels"]
    if reach[widest] < (_OUTLYING if is_free else 2 * _OUTLYING) * middle:
        return
    low, high = row["range"]
    codes = max(1, round(case.codes * middle / (high - low)))
    yield case.found(
        "outlier channels",
        f"channel {widest} reaches {reach[widest]:.4g}, the median one {middle:.4g}: that has "
        f"{codes} codes on either side of zero in the one scale that all have",
        Change("activation_scales", "per-channel") if is_free else _wider(case),
    )


_OUTLYING = 4.0


def _divisors(case: Case) -> Iterator[Finding]:
    """Quotients, roots and logarithms of what is small in steps of its codes."""
    row, local = case.row, case.row["local_sqnr_db"]
    steep = _STEEP.intersection(row["function"])
    if steep and local is not None and local < _LOW:
        yield case.found(
            "small divisors",
            f"its table ({', '.join(row['function'])}) has {local:.1f} dB alone: it is steep "
            "where what it reads is a few steps of the codes from zero",
            _what_it_reads_wider(case),
        )
        return
    steep = _STEEP.intersection(row["read_by"])
    if steep and case.is_heard:
        alone = _db(row["cost"]["alone_db"])
        yield case.found(
            "small divisors",
            f"is read by {', '.join(sorted(steep))}, which is steep near zero: its rounding "
            f"alone leaves the outputs {alone}",
            _wider(case),
        )


_STEEP = frozenset({"Div", "Reciprocal", "Pow", "Log", "Sqrt"})
_LOW = 15.0


def _coarse(case: Case) -> Iterator[Finding]:
    """Values that are small in steps of the codes: few reach far."""
    row = case.row
    counts, edges = row["histogram"]["counts"], row["histogram"]["edges"]
    total = sum(counts)
    if not total or isinstance(row["scale"], list):
        return
    centres = [(a + b) / 2 for a, b in pairwise(edges)]
    mean = sum(c * n for c, n in zip(centres, counts, strict=True)) / total
    deviation = sum((c - mean) ** 2 * n for c, n in zip(centres, counts, strict=True)) / total
    steps = deviation**0.5 / _step(row)
    if steps < _FEW_STEPS and case.is_heard:
        is_mse = case.configuration["calibration_method"] in ("mse", "auto")
        yield case.found(
            "long tails",
            f"its standard deviation is {steps:.1f} of {case.codes:,} steps: few numbers "
            f"reach as far as {row['range'][1]:.4g}, most lie close together",
            None if is_mse else _override(row, "mse"),
        )


_FEW_STEPS = 12.0


def _rounded(case: Case) -> Iterator[Finding]:
    """Nothing but that it has eight bits."""
    row = case.row
    if not case.is_heard:
        return
    better = _BETTER.get(case.configuration["accuracy"])
    better = better if case.has_words or better != "best" else None
    alone = _db(row["cost"]["alone_db"])
    yield case.found(
        "eight bits",
        f"rounding it to {case.codes:,} codes alone leaves the outputs {alone}",
        _wider(case) if better is None else Change("accuracy", better),
    )


_BETTER = {"fast": "balanced", "balanced": "best"}


def _weights(case: Case) -> Iterator[Finding]:
    """Weights in 8 bits."""
    configuration = case.configuration
    if not case.is_heard:
        return
    if not configuration["per_channel"]:
        change, why = Change("per_channel", True), ": all output channels share a scale"
    elif configuration["weight_rounding"] in ("nearest", "sum-preserving"):
        change, why = Change("weight_rounding", "second-order"), ": they are the nearest codes"
    else:
        change, why = _in_float(case.row), ""
    alone = _db(case.row["cost"]["alone_db"])
    yield case.found("weights", f"its weights alone leave the outputs {alone}{why}", change)


def _dead(rows: Sequence[Row], samples: int) -> Iterator[Finding]:
    """Channels that hold one number on all samples, of the tensor that has most of them."""
    found = []
    for row in rows:
        low, high = ((row["channels"] or {}).get(end, []) for end in ("low", "high"))
        dead = sum(a == b for a, b in zip(low, high, strict=True))
        if samples * prod(row["shape"]) < _SEEN * max(len(low), 1) and samples < _TOLD:
            continue
        if len(low) >= _MANY and len(low) / 4 < dead < len(low):
            found.append((dead, len(low), row))
    if not found:
        return
    dead, channels, row = max(found, key=lambda each: each[0])
    others = f", and many of {len(found) - 1} other tensors," if len(found) > 1 else ""
    yield Finding(
        "dead channels",
        f"{row['real']}: {dead} of {channels} channels{others} hold one number on all "
        "samples: they could be pruned",
        row["tensor"],
    )


_MANY, _TOLD, _SEEN = 8, 16, 1000
"""Channels; samples, or numbers of each channel, from which on these are told of."""


_OF_ACTIVATIONS: Sequence[Rule] = (
    *(_masks, _wide, _clipped, _outlier_channels, _divisors, _coarse, _rounded),
)
_OF_WEIGHTS: Sequence[Rule] = (_weights,)
"""The first that finds something says it."""


def _step(row: Row) -> float:
    scale = row["scale"]
    return max(scale) if isinstance(scale, list) else float(scale)


def _wider(case: Case) -> Change:
    """It in 16 bits; in float with what reads it where it has them, or the target has none."""
    row = case.row
    if row["type"] == "int16" or not case.has_words:
        return _around_in_float(row)
    return _in_words([row["real"]])


def _what_it_reads_wider(case: Case) -> Change:
    """The same of the tensors of 8 bits that its node reads; its node in float without any."""
    types = {row["real"]: row["type"] for row in case.rows if row["kind"] != "weights"}
    narrow = [name for name in case.row["reads"] if types.get(name, "") != "int16"]
    return _in_words(narrow) if narrow and case.has_words else _in_float(case.row)


def _in_words(names: Sequence[str]) -> Change:
    """These float tensors in 16 bits."""
    return Change("tensor_types", f"{'|'.join(map(re.escape, names))}=int16", is_more=True)


def _in_float(row: Row) -> Change:
    """The node that writes it, by the name of the tensor; of an input those that read it."""
    if row["op"] == "QuantizeLinear":
        return _around_in_float(row)
    return Change("nodes_to_exclude", re.escape(row["real"]), is_more=True)


def _is_cut(row: Row) -> bool:
    """Whether only parts of it are read, or it is a mask whose range leaves it out."""
    is_mask = row["smallest"] is not None and row["smallest"] < -_MASKED < row["range"][0]
    return is_mask or (bool(row["read_by"]) and _CUTTING.issuperset(row["read_by"]))


_CUTTING = frozenset({"Slice", "Pad", "Gather", "GatherND", "GatherElements", "Split"})


def _around_in_float(row: Row) -> Change:
    """The nodes that write and read it."""
    pattern = "|".join(map(re.escape, row["around"]))
    return Change("nodes_to_exclude", pattern, is_more=True)


def _override(row: Row, rule: str) -> Change | None:
    """None where several tensors have its range."""
    if row["range_of"] is None:
        return None
    name = re.escape(row["range_of"])
    return Change("calibration_overrides", f"{name}={rule}", is_more=True)


def _range(row: Row, low: float, high: float) -> Change | None:
    return _override(row, f"{low:.6g},{high:.6g}")


def _db(value: float | None) -> str:
    return "without signal" if value is None else f"at {value:.1f} dB"
