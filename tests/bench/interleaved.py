"""Several things measured in rounds: each in turn, so that other load falls on all of them."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_SECONDS = 0.01
"""In each round every one runs for about so long before it is the next one's turn."""


def interleaved(
    work: Sequence[Callable[[], Any]], rounds: int, pause: float = 0
) -> NDArray[np.float64]:
    """Seconds of a call, [rounds, work]; the order rotates, with a ``pause`` before each."""
    times, repeats = np.zeros((rounds, len(work))), [1] * len(work)

    def block(i: int) -> float:
        start = time.perf_counter()
        for _ in range(repeats[i]):
            work[i]()
        return (time.perf_counter() - start) / repeats[i]

    for i in range(len(work)):
        repeats[i] = max(1, round(BLOCK_SECONDS / min(block(i) for _ in range(10))))
    for turn in range(rounds):
        for i in range(turn, turn + len(work)):
            time.sleep(pause)
            times[turn, i % len(work)] = block(i % len(work))
    return times
