"""Large arrays of a .npz are read as they are needed, and are what numpy reads."""

import zipfile

import numpy as np
import pytest

from calibration.archives import LARGE, archived, let_go
from calibration.samples import open_samples
from opsets.errors import DataError
from tests.support.feeds import FREE_BATCH

MANY = np.arange(LARGE, dtype=np.float32).reshape(8, 16, -1)
ARRAYS = {
    "plain": MANY,
    "fortran": np.asfortranarray(MANY),
    "large endian": MANY.astype(">f8"),
    "bytes": np.ones(LARGE, np.uint8),
    "few": np.arange(3),
    "none": np.zeros((0, LARGE)),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_those_that_numpy_reads(save, tmp_path):
    path = tmp_path / "all.npz"
    save(path, **ARRAYS)
    with np.load(path) as content:
        found = archived(path, content)
    assert [*found] == [*ARRAYS]
    for name, values in ARRAYS.items():
        for _ in range(2):
            np.testing.assert_array_equal(found[name], values)
            assert found[name].dtype == values.dtype
            let_go(found[name][1:])
        is_view = save is np.savez and values.nbytes >= LARGE
        assert isinstance(found[name], np.memmap) == is_view


def test_what_numpy_refuses_or_leaves_out_it_refuses_or_leaves_out(tmp_path):
    path = tmp_path / "all.npz"
    np.savez(path, x=np.array([{}] * LARGE))
    with np.load(path) as content, pytest.raises(ValueError, match="allow_pickle"):
        archived(path, content)


def test_a_file_with_a_bit_that_was_lost_is_refused(tmp_path):
    path = tmp_path / "all.npz"
    np.savez(path, x=np.zeros((4, 1, 256, 512), np.float32))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"all\.npz: cannot be read.*CRC"):
        open_samples(path, FREE_BATCH)


def test_an_entry_that_is_cut_or_no_array_is_what_numpy_makes_of_it(tmp_path):
    whole, path = tmp_path / "whole.npz", tmp_path / "all.npz"
    np.savez(whole, x=np.ones((4, LARGE), np.uint8))
    with zipfile.ZipFile(whole) as archive, zipfile.ZipFile(path, "w") as made:
        made.writestr("x.npy", archive.read("x.npy")[:-1000])
        made.writestr("other.npy", archive.read("x.npy"))
        made.writestr("labels.json", b"[0]" * LARGE)
    with np.load(path) as content:
        with pytest.raises(ValueError, match="EOF"):
            archived(path, content)
        assert archived(path, {"labels.json": content["labels.json"]}) == {
            "labels.json": b"[0]" * LARGE
        }
