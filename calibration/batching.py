"""Batching: several samples in one run, where that gives the very same values."""

from collections.abc import Sequence

import numpy as np

from calibration.inputs import Feed, tensors
from calibration.observed_model import ShownModel
from calibration.tally import SLOTS

MOST_BYTES = 2 << 20
"""Of observed tensors, and of inputs, in one batch: more would only take memory."""

MOST_SAMPLES = SLOTS

SHARE = 32
"""At most this part of all samples is a batch: trying it out costs two of them."""


_HUGE = 1e4
"""Noise on larger numbers might overflow, in float16."""


def signature(feed: Feed) -> dict[str, tuple[int, ...]]:
    """The shapes of a feed."""
    return {name: np.shape(array) for name, array in tensors(feed).items()}


def joined_feed(feeds: Sequence[Feed]) -> Feed:
    """Feeds of tensors of the same shapes as one, joined along the first axis."""
    each = [tensors(feed) for feed in feeds]
    return {name: np.concatenate([one[name] for one in each]) for name in feeds[0]}


def batch_size(bytes_each: int, samples: int) -> int:
    """How many of ``samples`` samples may be worth running at once.

    ``bytes_each``: of the observed tensors of one, or of its inputs where they are larger.
    """
    return min(MOST_BYTES // max(1, bytes_each), MOST_SAMPLES, samples // SHARE)


def are_alike(feeds: Sequence[Feed]) -> bool:
    """Whether all are single samples of one shape."""
    shapes = signature(feeds[0])
    single = all(shape[:1] == (1,) for shape in shapes.values())
    single = single and shapes.keys() == feeds[0].keys()
    return single and all(signature(feed) == shapes for feed in feeds)


def is_the_same(model: ShownModel, feeds: Sequence[Feed]) -> bool:
    """Whether ``feeds``, of one shape, give the same bits alone and in a batch.

    ``model`` treats rows by themselves (see rowwise.py), but kernels may add in another order
    for other sizes. Whether one does follows from the sizes alone: so all observed tensors of
    a batch are compared with those of single runs here, once. The numbers are moved a little
    before: sums of zeros, or of small whole numbers, are the same in any order.
    """
    random = np.random.default_rng(0)
    tried = [_moved(feed, random) for feed in feeds]
    together = model.run(joined_feed(tried))
    single = [model.run(feed) for feed in tried]
    return all(
        np.array_equal(
            together[k].array().view(np.uint32),
            np.concatenate([each[k].array() for each in single]).view(np.uint32),
        )
        for k in range(len(together))
    )


def _moved(feed: Feed, random: np.random.Generator) -> Feed:
    """Real numbers with noise; whole ones at random, for a model that looks nothing up."""
    found = dict(feed)
    for name, array in tensors(feed).items():
        if array.dtype.kind == "f":
            noise = random.standard_normal(array.shape)
            largest = float(np.abs(array).max(initial=0))
            usual = 0 < largest < _HUGE  # neither is NaN
            moved = array + noise * largest / 8 if usual else noise
            found[name] = moved.astype(array.dtype)
        elif array.dtype.kind in "iu":
            found[name] = random.integers(0, 128, array.shape).astype(array.dtype)
    return found
