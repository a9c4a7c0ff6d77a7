"""Both bodies on samples: what counts as a difference, and where it is first."""

import numpy as np
import pytest

from qpasses.checking.sample_runs import BothBodies

ONES, TWOS = np.ones(3, np.uint8), np.full(3, 2, np.uint8)


def never():
    pytest.fail("the model as it is gives what the portable bodies give")


def test_both_are_run_optimized_only_where_the_model_as_it_is_gives_something_else():
    bodies = BothBodies(["y"])
    bodies.compare({"y": ONES}, {"y": ONES}, {"y": ONES}, never)
    assert bodies.problem == ""


def test_what_optimizing_changes_in_both_alike_is_no_difference_of_bodies():
    bodies = BothBodies(["y"])
    bodies.compare({"y": TWOS}, {"y": ONES}, {"y": ONES}, lambda: [[TWOS], [TWOS]])
    assert bodies.problem == ""
    bodies.compare({"y": TWOS}, {"y": ONES}, {"y": ONES}, lambda: [[TWOS], [ONES]])
    assert "0 output elements unoptimized, 3 optimized" in bodies.problem


def test_the_first_stored_tensor_that_differs_is_named():
    bodies = BothBodies(["x", "y"])
    bodies.compare_inside({"x": ONES, "y": ONES}, {"x": ONES, "y": TWOS}, "a sample")
    bodies.compare_inside({"x": ONES, "y": ONES}, {"x": TWOS, "y": TWOS}, "another")
    assert bodies.problem.endswith("first in tensor 'y' of a sample")
