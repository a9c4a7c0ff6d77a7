"""octav: the clipping threshold of least squared error, by Newton's recursion."""

import numpy as np

from calibration.methods.spread import Spread
from calibration.methods.wanted import Wanted, level_bits, within
from calibration.statistics import Range, Statistics

MOST_STEPS = 100


def octav(seen: Statistics, wanted: Wanted) -> Range:
    """Sakr et al., "Optimal Clipping and Magnitude-aware Differentiation" (2022), eq. 6.

    s <- sum |x| [|x| > s] / (4**-b / 3 * #(0 < |x| <= s) + #(|x| > s)) from the mean of the
    |x| that are not zero, until it stays. Its zero of the derivative: with steps of 2 s / 2**b
    rounding costs s**2 4**-b / 3 each. b is the bits where both signs are stored; where all
    levels serve one sign the steps are half as wide, so that b is one more.
    """
    magnitudes = Spread.of_magnitudes(seen)
    rounding = 4.0 ** -level_bits(seen, wanted) / 3
    threshold = magnitudes.sum / magnitudes.total
    for _ in range(MOST_STEPS):
        previous, threshold = threshold, _step(magnitudes, rounding, threshold)
        if abs(threshold - previous) <= 1e-12 * previous:
            break
    return within(seen, wanted, threshold)


def _step(magnitudes: Spread, rounding: float, threshold: float) -> float:
    """The next threshold; the same one where nothing is above it."""
    above, beyond, _ = (float(x[0]) for x in magnitudes.above(np.array([threshold])))
    if above == 0:
        return threshold
    total = beyond + threshold * above
    return total / (rounding * (magnitudes.total - above) + above)
