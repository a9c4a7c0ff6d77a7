"""How many examples tests look at: the same ones each time, and all for ``make thorough``."""

import os
from collections import defaultdict
from itertools import product
from math import prod
from zlib import crc32

import pytest
from hypothesis import settings

from tests.support.covering import covering_pairs

THOROUGH = bool(os.environ.get("THOROUGH"))

FEW = 8
"""Of so many values of one choice every fourth is taken, of more every sixth."""

only_thorough = pytest.mark.skipif(not THOROUGH, reason="takes long: `make thorough` runs it")


def some(examples):
    """So many for ``make thorough``, else an eighth of them, but no fewer than 5."""
    return examples if THOROUGH else min(examples, max(examples // 8, 5))


def exactly(examples):
    """Settings of Hypothesis for so many."""
    return settings(deadline=None, derandomize=True, database=None, max_examples=examples)


def thoroughly(examples):
    """Settings of Hypothesis for ``some`` of so many."""
    return exactly(some(examples))


def slow(*values):
    """Parameters of a test that only ``make thorough`` runs."""
    return pytest.param(*values, marks=only_thorough)


def together(*choices, phase=0):
    """Rows of one value for each choice: the whole product, or what stands for it.

    That is, of one choice every sixth value, every fourth of few, from ``phase`` on; of two
    every second to twelfth pair, in which each value occurs; of more, rows in which any two
    values meet.
    """
    lists = [list(each) for each in choices]
    if THOROUGH:
        return list(product(*lists))
    if len(lists) == 1:
        step = 6 if len(lists[0]) > FEW else min(4, len(lists[0]))
        return [(each,) for each in lists[0][phase % step :: step]]
    if len(lists) > 2:
        return covering_pairs(*lists)
    step = min(12, len(lists[0]), len(lists[1]))
    return [(a, b) for i, a in enumerate(lists[0]) for b in lists[1][i % step :: step]]


def thinned(items):
    """``items`` of pytest: of a function marked ``thinned`` those that ``together`` takes.

    Where some of them were asked for by name, all of those.
    """
    groups = defaultdict(list)
    for item in items:
        if item.get_closest_marker("thinned"):
            groups[item.parent.nodeid, item.originalname].append(item)
    left_out = set()
    for of_one in groups.values():
        sizes = [len(mark.args[1]) for mark in of_one[0].iter_markers("parametrize")]
        if THOROUGH or len(of_one) < prod(sizes):
            continue
        if len(of_one) > prod(sizes):
            sizes = [len(of_one)]  # of a fixture
        places = product(*map(range, sizes))  # the parametrization that is nearest first
        phase = crc32(of_one[0].originalname.encode())  # others of the same list take others
        taken = {*together(*map(range, sizes), phase=phase)}
        left_out.update(
            item.nodeid for item, at in zip(of_one, places, strict=True) if at not in taken
        )
    return [item for item in items if item.nodeid not in left_out]
