"""Graphs of many nodes: the work grows as they do, whatever their shape."""

from cProfile import Profile

import numpy as np
import pytest

from qpasses import quantize
from tests.bench.large_graphs import SHAPE, SHAPES
from tests.support.thoroughness import THOROUGH

FEED = {"x": np.linspace(-1, 1, np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)}

SLACK = 1.25
"""Twice as many nodes take so many times twice the work at most; quadratic work is 2."""


def calls(shape, count, **options):
    """How often a function of Python was called: a measure of work that repeats."""
    model, profile = SHAPES[shape](count), Profile()
    with profile:
        quantize(model, [FEED], **options)
    return sum(each.callcount for each in profile.getstats())


@pytest.mark.parametrize("shape", ["wide_join", "shared_joins"])
def test_the_work_up_to_the_qdq_graph_is_linear_in_the_nodes(shape):
    counts = (80, 160, 320) if THOROUGH else (40, 80, 160)
    quantize(SHAPES[shape](30), [FEED], emit="qdq")  # what is done once is done
    few, more, many = (calls(shape, count, emit="qdq") for count in counts)
    assert many - more <= 2 * SLACK * (more - few)


@pytest.mark.parametrize("shape", ["convs"])
def test_the_work_of_the_integer_graph_is_linear_in_the_nodes(shape):
    quantize(SHAPES[shape](70), [FEED])
    few, more, many = (calls(shape, count) for count in (70, 110, 190))
    assert many - more <= 2 * SLACK * (more - few)


@pytest.mark.thinned
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_becomes_integer(shape):
    summary = quantize(SHAPES[shape](24), [FEED]).report["summary"]
    assert summary["verdict"] == "ok"
