"""Orders of axes: what a Reshape leaves where it lies."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qpasses.emit.layouts import channels_last, regrouped, without
from tests.support.thoroughness import thoroughly


@st.composite
def reshapes(draw):
    """Two shapes of as many elements, and an order of the first one's axes."""
    primes = draw(st.lists(st.sampled_from([2, 3, 5]), max_size=4))
    shapes = []
    for _ in range(2):
        sizes = []
        for prime in primes:
            if sizes and draw(st.booleans()):
                sizes[-1] *= prime
            else:
                sizes.append(prime)
        for place in draw(st.lists(st.integers(0, 4), max_size=2)):
            sizes.insert(place, 1)
        shapes.append(sizes)
    order = draw(st.permutations(range(len(shapes[0]))))
    return shapes[0], shapes[1], tuple(order)


@thoroughly(300)
@given(reshapes())
def test_what_is_reshaped_in_memory_is_what_onnx_reshapes(case):
    shape, wanted, order = case
    x = np.arange(prod(shape)).reshape(shape)
    read, found = regrouped(shape, wanted, order)
    assert sorted(read) == [*range(len(shape))]
    in_memory = x.transpose(read).reshape([wanted[axis] for axis in found])
    np.testing.assert_array_equal(in_memory, x.reshape(wanted).transpose(found))


STAYS = {
    "channels are split": ([1, 12, 5, 4], [1, 2, 6, 5, 4], (0, 3, 4, 1, 2)),
    "positions are joined": ([1, 255, 13, 13], [1, 3, 85, 169], (0, 3, 1, 2)),
    "axes of one go": ([1, 64, 1, 1], [1, 64], (0, 1)),
    "an axis of one comes": ([2, 3, 4, 5], [2, 1, 3, 4, 5], (0, 1, 3, 4, 2)),
}


@pytest.mark.parametrize("name", STAYS)
def test_channels_last_stay_where_they_are(name):
    shape, wanted, order = STAYS[name]
    read, found = regrouped(shape, wanted, channels_last(4))
    assert read == channels_last(4)
    assert found == order


def test_what_is_joined_across_the_channels_is_moved():
    read, found = regrouped([2, 3, 4, 5], [2, 60], channels_last(4))
    assert (read, found) == ((0, 1, 2, 3), (0, 1))


def test_without_an_axis_the_others_close_up():
    assert without((0, 2, 3, 1), [2]) == (0, 2, 1)
    assert without((0, 2, 3, 1), [1, 3]) == (0, 1)
