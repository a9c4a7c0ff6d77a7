"""Batching: several samples in one run, where that gives the very same values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.counting import Values
from calibration.inputs import Feed
from calibration.observed_model import ObservedModel

MOST_BYTES = 2 << 20
"""Of observed tensors in one batch: more would only take memory."""

MOST_SAMPLES = 64

SHARE = 32
"""At most this part of all samples is a batch: trying it out costs two of them."""


_HUGE = 1e4
"""Noise on larger numbers might overflow, in float16."""


def signature(feed: Feed) -> dict[str, tuple[int, ...]]:
    """The shapes of a feed."""
    return {name: np.shape(array) for name, array in feed.items()}


def joined_feed(feeds: Sequence[Feed]) -> Feed:
    """Feeds of the same shapes as one, joined along the first axis."""
    return {name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]}


def batch_size(model: ObservedModel, feeds: Sequence[Feed], samples: int) -> int:
    """How many of ``samples`` samples of one shape may run at once; 1 where none gains.

    ``feeds``: the first of them, up to MOST_SAMPLES. ``model`` treats rows by themselves (see
    rowwise.py), but kernels may add in another order for other sizes. Whether one does follows
    from the sizes alone: so all observed tensors of a batch are compared with those of single
    runs here, bit by bit, once. The numbers are moved a little before: sums of zeros, or of
    small whole numbers, are the same in any order.
    """
    shapes = signature(feeds[0])
    if any(shape[:1] != (1,) for shape in shapes.values()):
        return 1
    alone = _observed(model, feeds[0])
    bytes_each = max(1, sum(array.nbytes for array in alone.values()))
    size = min(MOST_BYTES // bytes_each, MOST_SAMPLES, samples // SHARE, len(feeds))
    if size < 2 or any(signature(feed) != shapes for feed in feeds[:size]):
        return 1
    random = np.random.default_rng(0)
    tried = [_moved(feed, random) for feed in feeds[:size]]
    single = [_observed(model, feed) for feed in tried]
    together = _observed(model, joined_feed(tried))
    same = all(
        np.array_equal(
            array.view(np.uint32),
            np.concatenate([each[name] for each in single]).view(np.uint32),
        )
        for name, array in together.items()
    )
    return size if same else 1


def _moved(feed: Feed, random: np.random.Generator) -> Feed:
    """Real numbers with noise; whole ones at random, for a model that looks nothing up."""
    found = dict(feed)
    for name, array in feed.items():
        if array.dtype.kind == "f":
            noise = random.standard_normal(array.shape)
            largest = float(np.abs(array).max(initial=0))
            usual = 0 < largest < _HUGE  # neither is NaN
            moved = array + noise * largest / 8 if usual else noise
            found[name] = moved.astype(array.dtype)
        elif array.dtype.kind in "iu":
            found[name] = random.integers(0, 128, array.shape).astype(array.dtype)
    return found


def _observed(model: ObservedModel, feed: Feed) -> Mapping[str, NDArray[Any]]:
    """What ``model`` shows of a feed, flat."""
    found: dict[str, NDArray[Any]] = {}

    def take(names: Sequence[str], values: Sequence[Values]) -> None:
        found.update({n: v.array().copy() for n, v in zip(names, values, strict=True)})

    model.run(feed, take)
    return found
