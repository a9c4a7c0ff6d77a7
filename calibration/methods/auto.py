"""auto: the method of least expected error for the tensor at hand."""

from collections.abc import Callable, Iterable

from calibration.methods.expected_error import expected_error
from calibration.methods.wanted import Wanted
from calibration.statistics import Range, Statistics


def least_error(
    methods: Iterable[str],
    threshold: Callable[[str, Statistics, Wanted], Range],
    seen: Statistics,
    wanted: Wanted,
) -> tuple[str, Range]:
    """The name and the range of the method of least expected error; of equals the first."""
    ranges = {name: threshold(name, seen, wanted) for name in methods}
    best = min(ranges, key=lambda name: expected_error(seen, ranges[name], wanted))
    return best, ranges[best]
