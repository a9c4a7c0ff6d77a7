"""Memory is given back where weights are many, and time is not lost where they are few."""

import gc

import pytest

from calibration import memory
from calibration.memory import MANY


@pytest.mark.parametrize(("weight_bytes", "collections"), [(0, 0), (MANY - 1, 0), (MANY, 1)])
def test_garbage_is_collected_where_weights_are_many(weight_bytes, collections, monkeypatch):
    found = []
    monkeypatch.setattr(memory.gc, "collect", lambda: found.append(gc.isenabled()))
    memory.give_back(weight_bytes)
    assert len(found) == collections


def test_other_systems_have_nothing_to_trim(monkeypatch):
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    monkeypatch.setattr(memory.ctypes, "CDLL", None)  # is not asked
    memory.give_back(MANY)
