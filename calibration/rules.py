"""Rules: which method gives each tensor its range, from the statistics of a run."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from calibration.methods import METHODS, NEEDS_HISTOGRAM, Wanted, auto_choice, threshold
from calibration.statistics import LARGEST_FLOAT, Range, Statistics
from opsets.errors import DataError, UsageError


@dataclass(frozen=True)
class Override:
    """``REGEX=RULE``: what tensors do whose whole name matches.

    A rule is a method (``mse``), ``percentile:99.9``, or a range in real numbers (``-1,6``).
    """

    text: str
    pattern: re.Pattern[str]
    method: str = ""
    percentile: float | None = None
    range: Range | None = None

    @classmethod
    def parsed(cls, text: str) -> "Override":
        """The override that ``text`` describes; UsageError if it is none."""
        names, separator, rule = text.rpartition("=")
        if not separator or not names:
            raise UsageError(f"calibration override {text!r}: write REGEX=RULE")
        try:
            pattern = re.compile(names)
        except re.error as error:
            raise UsageError(
                f"calibration override {text!r}: {names!r} is no regular expression: {error}"
            ) from error
        method, colon, argument = rule.partition(":")
        if method in METHODS and not colon:
            return cls(text, pattern, method)
        if method == "percentile":
            kept = checked_percentile(
                _number(argument, text), f"calibration override {text!r}"
            )
            return cls(text, pattern, method, kept)
        low, comma, high = rule.partition(",")
        if not comma:
            near = get_close_matches(rule, METHODS, 1)
            hint = f"did you mean {near[0]}?" if near else f"methods: {', '.join(METHODS)}"
            raise UsageError(
                f"calibration override {text!r}: {rule!r} is no method, no percentile:P and "
                f"no LOW,HIGH ({hint})"
            )
        given = Range(_number(low, text), _number(high, text))
        if not -LARGEST_FLOAT <= given.low <= given.high <= LARGEST_FLOAT:  # nor NaN
            raise UsageError(f"calibration override {text!r}: {rule} is no range")
        return cls(text, pattern, range=given)


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UsageError(f"calibration override {where!r}: {text!r} is no number") from error


def checked_percentile(value: float, where: str = "percentile") -> float:
    """``value``; UsageError, with ``where``, unless it is above 50 and at most 100."""
    if not 50 < value <= 100:
        raise UsageError(f"{where}: {value} is not above 50 and at most 100")
    return value


@dataclass(frozen=True)
class Chosen:
    """The range of a tensor, and the method (or ``given``) it comes from."""

    range: Range
    method: str


@dataclass(frozen=True)
class Rules:
    """A method for all tensors but those that an override matches; the first one counts.

    ``unsigned``: tensors without a negative value are not stored as symmetric.
    """

    method: str
    wanted: Wanted
    overrides: Sequence[Override] = ()
    unsigned: bool = False

    @property
    def histograms(self) -> bool:
        """Whether extremes are not enough."""
        used = {self.method, *(override.method for override in self.overrides)}
        return bool(used & NEEDS_HISTOGRAM)

    def check(self, names: Iterable[str]) -> None:
        """Raise UsageError for an override that matches none of the tensors ``names``."""
        known = list(names)
        for override in self.overrides:
            if not any(override.pattern.fullmatch(name) for name in known):
                near = get_close_matches(override.pattern.pattern, known, 1)
                hint = f": did you mean {near[0]!r}?" if near else ""
                raise UsageError(
                    f"calibration override {override.text!r} matches no tensor that is "
                    f"observed{hint}"
                )

    def override(self, name: str) -> Override | None:
        """The one for the tensor ``name``, if there is one."""
        return next((o for o in self.overrides if o.pattern.fullmatch(name)), None)

    def cut_share(self, name: str) -> float | None:
        """Which share of its values a percentile cuts at one end of the tensor ``name``.

        None where another method, or none, is used.
        """
        override = self.override(name)
        method = self.method if override is None else override.method
        if method != "percentile":
            return None
        percentile = self.wanted.percentile
        if override is not None and override.percentile is not None:
            percentile = override.percentile
        return (100 - percentile) / 100 / (1 if self.wanted.symmetric else 2)

    def choose(self, statistics: Mapping[str, Statistics]) -> dict[str, Chosen]:
        """The range of each tensor. Raises DataError where a histogram is missing."""
        return {name: self._of(name, seen) for name, seen in statistics.items()}

    def _of(self, name: str, seen: Statistics) -> Chosen:
        override, method, wanted = self.override(name), self.method, self.wanted
        if self.unsigned and seen.low >= 0:
            wanted = replace(wanted, symmetric=False)
        if override is not None:
            if override.range is not None:
                return Chosen(override.range, "given")
            method = override.method
            if override.percentile is not None:
                wanted = replace(wanted, percentile=override.percentile)
        if method in NEEDS_HISTOGRAM and seen.histogram is None:
            raise DataError(
                f"tensor {name!r}: method {method} needs a histogram, and there is none"
            )
        if method == "auto":
            best, found = auto_choice(seen, wanted)
            return Chosen(found, best)
        return Chosen(threshold(method, seen, wanted), method)
