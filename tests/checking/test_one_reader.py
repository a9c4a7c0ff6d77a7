"""Samples that users give as a sequence of their own, which knows no threads."""

import time
from collections.abc import Sequence

import qpasses
from tests.support.small_models import cnn, pictures


class Seeking(Sequence):
    """Goes to a place first and reads there then, as a file is read."""

    def __init__(self, feeds):
        self._feeds, self._place = feeds, 0

    def __len__(self):
        return len(self._feeds)

    def __getitem__(self, index):
        self._place = index
        time.sleep(0.002)
        assert self._place == index, "another thread came between"
        return self._feeds[self._place]


def test_verify_reads_a_sequence_in_one_thread_at_a_time():
    data = Seeking([each[None] for each in pictures()])
    result = qpasses.quantize(cnn(), data)
    assert qpasses.verify(result.model, cnn(), data).verdict == "ok"
