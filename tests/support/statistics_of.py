"""Statistics of values at hand, in one sample or in several."""

from fractions import Fraction

import numpy as np

from calibration.histogram import Histogram
from calibration.statistics import Statistics


def statistics_of(values, samples=1, histogram=True):
    """Of real values, rounded to float32, split evenly into ``samples``."""
    real = np.asarray(values, np.float32).ravel()
    each = np.array_split(real, samples)
    return Statistics(
        low=float(real.min()),
        high=float(real.max()),
        count=real.size,
        zeros=int((real == 0).sum()),
        samples=samples,
        low_sum=sum((Fraction(float(one.min())) for one in each), Fraction(0)),
        high_sum=sum((Fraction(float(one.max())) for one in each), Fraction(0)),
        histogram=Histogram.of(real) if histogram else None,
    )
