"""QONNX's ways to round, on numbers and as nodes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Rounding:
    """``steps``: what is done to the number, or to its magnitude where ``by_magnitude``.

    A step is an op, or a number that is added.
    """

    steps: Sequence[str | float]
    by_magnitude: bool = True

    def __call__(self, values: Floats) -> Floats:
        """Round."""
        found = np.abs(values) if self.by_magnitude else values
        for step in self.steps:
            found = _STEPS[step](found) if isinstance(step, str) else found + np.float32(step)
        return np.sign(values) * found if self.by_magnitude else found


_STEPS: Mapping[str, Callable[[Floats], Floats]] = {
    "Round": np.rint,
    "Ceil": np.ceil,
    "Floor": np.floor,
}

ROUNDINGS: Mapping[str, Rounding] = {
    "ROUND": Rounding(["Round"], by_magnitude=False),
    "HALF_EVEN": Rounding(["Round"], by_magnitude=False),
    "CEIL": Rounding(["Ceil"], by_magnitude=False),
    "FLOOR": Rounding(["Floor"], by_magnitude=False),
    "UP": Rounding(["Ceil"]),
    "DOWN": Rounding(["Floor"]),
    "ROUND_TO_ZERO": Rounding(["Floor"]),
    "HALF_UP": Rounding([0.5, "Floor"]),
    "HALF_DOWN": Rounding([-0.5, "Ceil"]),
}
"""By name: UP and DOWN are away from zero and towards it."""
