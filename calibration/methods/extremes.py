"""minmax and moving-average: ranges from the extremes alone."""

from calibration.methods.wanted import Wanted
from calibration.statistics import Range, Statistics


def minmax(seen: Statistics, wanted: Wanted) -> Range:
    """From the smallest to the largest value."""
    return _made_symmetric(seen.range) if wanted.symmetric else seen.range


def moving_average(seen: Statistics, wanted: Wanted) -> Range:
    """The mean over samples of each sample's extremes, rounded once.

    Every sample weighs the same. onnxruntime's method of this name weighs later samples more,
    so that it depends on their order; this one does not.
    """
    mean = Range(float(seen.low_sum / seen.samples), float(seen.high_sum / seen.samples))
    return _made_symmetric(mean) if wanted.symmetric else mean


def _made_symmetric(extremes: Range) -> Range:
    threshold = max(abs(extremes.low), abs(extremes.high))
    return Range(-threshold, threshold)
