"""How many examples tests look at, random ones and products: the same ones each time."""

import os
from itertools import product

from hypothesis import settings

from tests.support.covering import covering_pairs

FEWER = 1 if os.environ.get("THOROUGH") else 3


def some(examples):
    """So many for ``make thorough``, a third of them, but no fewer than 5, else."""
    return min(examples, max(examples // FEWER, 5))


def exactly(examples):
    """Settings of Hypothesis for so many."""
    return settings(deadline=None, derandomize=True, database=None, max_examples=examples)


def thoroughly(examples):
    """Settings of Hypothesis for ``some`` of so many."""
    return exactly(some(examples))


def together(*choices):
    """Rows of one value for each choice: all for ``make thorough``, else covering pairs."""
    return list((product if FEWER == 1 else covering_pairs)(*map(list, choices)))


def every_other(first, second):
    """Pairs of two choices: all for ``make thorough``, else half, with every value."""
    pairs = [(i + j, (a, b)) for i, a in enumerate(first) for j, b in enumerate(second)]
    return [pair for place, pair in pairs if FEWER == 1 or place % 2 == 0]
