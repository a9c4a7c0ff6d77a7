"""Weights in files beside the model: links as model hubs make them, places in a file."""

import onnx
import pytest

from opsets.errors import ModelError
from qpasses.load.external_data import external_files
from qpasses.load.reading import read_model
from tests.support.small_models import cnn


@pytest.fixture
def hub(tmp_path):
    """A folder of blobs, and a snapshot of links to them, as a cache holds a model."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    onnx.save(
        cnn(),
        blobs / "cnn.onnx",
        save_as_external_data=True,
        location="weights",
        size_threshold=0,
    )
    for place, name in (("cnn.onnx", "cnn.onnx"), ("weights", "weights")):
        (blobs / place).rename(blobs / f"{place}-blob")
        (snapshot / name).symlink_to(f"../../blobs/{place}-blob")
    return snapshot


def plain(made):
    return {each.name: onnx.numpy_helper.to_array(each).tobytes() for each in made}


def test_links_of_a_cache_are_followed(hub):
    read = read_model(hub / "cnn.onnx")
    assert plain(read.graph.initializer) == plain(cnn().graph.initializer)
    assert external_files(hub / "cnn.onnx") == [hub / "weights"]


def test_links_out_of_the_folder_of_an_ordinary_model_are_not(hub):
    whole = (hub / "cnn.onnx").read_bytes()
    (hub / "cnn.onnx").unlink()
    (hub / "cnn.onnx").write_bytes(whole)
    with pytest.raises(ModelError, match="'weights', which is not in the model's folder"):
        read_model(hub / "cnn.onnx")


def test_a_model_that_holds_its_weights_has_no_files_beside_it(tmp_path):
    onnx.save(cnn(), tmp_path / "cnn.onnx")
    assert external_files(tmp_path / "cnn.onnx") == []
    (tmp_path / "empty.onnx").touch()
    assert external_files(tmp_path / "empty.onnx") == []
    assert external_files(tmp_path) == []
