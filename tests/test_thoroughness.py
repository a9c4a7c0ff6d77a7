"""What `make test` leaves out of a product: pairs, but no value of any choice."""

from itertools import combinations, product

import pytest

from tests.support import thoroughness


@pytest.mark.parametrize("sizes", list(product(range(1, 7), repeat=2)))
def test_of_two_choices_every_value_is_taken(sizes, monkeypatch):
    monkeypatch.setattr(thoroughness, "THOROUGH", False)
    rows = thoroughness.together(*map(range, sizes))
    assert len(rows) == len({*rows})
    for place, size in enumerate(sizes):
        assert {row[place] for row in rows} == {*range(size)}


@pytest.mark.parametrize(("size", "step"), [(1, 1), (2, 2), (8, 4), (9, 6), (40, 6)])
def test_of_one_choice_tests_with_other_phases_take_all_values(size, step, monkeypatch):
    monkeypatch.setattr(thoroughness, "THOROUGH", False)
    taken = [thoroughness.together(range(size), phase=phase) for phase in range(step)]
    assert sorted(value for rows in taken for (value,) in rows) == [*range(size)]


def test_of_more_choices_any_two_values_meet(monkeypatch):
    monkeypatch.setattr(thoroughness, "THOROUGH", False)
    sizes = 2, 3, 4
    rows = thoroughness.together(*map(range, sizes))
    for one, other in combinations(range(3), 2):
        met = {(row[one], row[other]) for row in rows}
        assert met == {*product(range(sizes[one]), range(sizes[other]))}
