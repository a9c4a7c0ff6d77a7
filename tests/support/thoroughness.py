"""How many random examples tests look at: the same ones each time."""

import os

from hypothesis import settings

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
