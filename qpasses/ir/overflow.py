"""Numbers that are folded into others, and are too large for their type then."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def overflows(dtype: Any, *folded: NDArray[np.float64]) -> bool:
    """Whether any of the numbers ``folded``, as they were computed, is none of ``dtype``."""
    most = float(np.finfo(dtype).max)
    return not all((np.abs(values) <= most).all() for values in folded)
