"""What a thread makes ahead: order, room, errors, and an end."""

from threading import Event, active_count

import pytest

from qpasses.checking import running_ahead
from qpasses.checking.running_ahead import Ahead


def test_items_come_in_their_order_and_what_is_raised_comes_behind_them():
    def items():
        yield from range(50)
        raise ValueError("the fifty-first")

    made, found = Ahead(items(), lambda _: 1), []
    with pytest.raises(ValueError, match="the fifty-first"):
        for each in made:
            found.append(each)
    assert found == [*range(50)]
    made.close()


def test_no_more_is_made_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(running_ahead, "MOST_AHEAD", 20)
    begun, made = [], Event()

    def items():
        for number in range(9):
            begun.append(number)
            if number == 2:
                made.set()
            yield number

    ahead = Ahead(items(), lambda _: 10)
    assert made.wait(10)
    assert begun == [0, 1, 2]  # two wait to be asked for, the third for room
    assert list(ahead) == [*range(9)]
    ahead.close()


def test_an_item_larger_than_all_room_is_made_all_the_same(monkeypatch):
    monkeypatch.setattr(running_ahead, "MOST_AHEAD", 1)
    ahead = Ahead(range(3), lambda _: 10)
    assert list(ahead) == [0, 1, 2]
    ahead.close()


def test_closing_ends_the_thread_though_nobody_asked_for_anything(monkeypatch):
    monkeypatch.setattr(running_ahead, "MOST_AHEAD", 1)
    before = active_count()
    Ahead(iter(int, 1), lambda _: 10).close()
    assert active_count() == before
