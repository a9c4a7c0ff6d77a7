"""Values that lie in a file are the values that were put there."""

import gc
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from opsets.errors import UsageError
from qpasses.analysis.kept import LARGE, Kept

ARRAYS = {
    "large": np.arange(LARGE, dtype=np.float32).reshape(4, -1),
    "turned": np.arange(LARGE, dtype=np.int64).reshape(2, -1).T,
    "bytes": np.ones((3, LARGE), np.uint8),
    "small": np.float32([1, np.nan]),
    "scalar": np.float32(3),
    "empty": np.zeros((0, LARGE), np.float32),
    "texts": np.array(["a", "b"], object),
}


def test_what_is_read_is_what_was_written_and_large_arrays_are_not_held():
    kept = Kept()
    kept.update(ARRAYS)
    kept["sequence"] = [ARRAYS["large"]]
    kept.same("again", "turned")
    assert [*kept] == [*ARRAYS, "sequence", "again"] and len(kept) == len(ARRAYS) + 2
    for name, values in ARRAYS.items():
        found = kept[name]
        np.testing.assert_array_equal(found, values)
        assert found.dtype == values.dtype
        assert (found is kept[name]) == (values.nbytes < LARGE)
    del kept["turned"]
    np.testing.assert_array_equal(kept["again"], ARRAYS["turned"])
    assert "turned" not in kept
    kept.close()
    assert not kept


def test_many_threads_read_at_once():
    kept = Kept()
    for number in range(8):
        kept[str(number)] = np.full(LARGE, number, np.float32)
    with ThreadPoolExecutor(4) as threads:
        found = [*threads.map(lambda k: set(kept[str(k % 8)].tolist()), range(64))]
    assert found == [{float(k % 8)} for k in range(64)]
    kept.close()


def test_a_full_disk_is_an_error_that_says_where(monkeypatch):
    class Full:
        def seek(self, _):
            pass

        def write(self, _):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    with pytest.raises(UsageError, match=r"No space left on device.*TMPDIR"):
        Kept()["x"] = ARRAYS["large"]
    gc.collect()
