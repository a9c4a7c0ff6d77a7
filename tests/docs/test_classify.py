"""The program in C++ of docs/deploying.md, with headers of onnxruntime or a stand-in."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import qpasses
from opsets import native
from tests.bench.documents import DOCS, ROOT

DIGITS = ROOT / "models/digits_cnn"


def installed():
    """Flags for g++ of an onnxruntime with headers; nothing without one."""
    if not shutil.which("pkg-config"):
        return []
    asked = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "libonnxruntime"],
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.split() if asked.returncode == 0 else []


def of_the_package(folder):
    """Of the library in onnxruntime's Python package, which has no headers."""
    found = sorted(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*"))
    if not found:
        pytest.skip("neither pkg-config nor onnxruntime's package has libonnxruntime.so")
    (folder / "libonnxruntime.so.1").symlink_to(found[0])
    stand_in = ROOT / "tests/data/onnxruntime"
    return [f"-I{stand_in}", folder / "libonnxruntime.so.1", f"-Wl,-rpath,{folder}", "-ldl"]


@pytest.fixture(scope="module")
def classify(tmp_path_factory):
    if not shutil.which("g++"):
        pytest.skip("there is no g++")
    folder = tmp_path_factory.mktemp("classify")
    flags = installed() or of_the_package(folder)
    program = folder / "classify"
    source = DOCS / "classify.cpp"
    subprocess.run(["g++", "-std=c++17", source, *flags, "-o", program], check=True)

    def run(*arguments):
        return subprocess.run(
            [program, *arguments], capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.skipif(native.library() is None, reason="there was no compiler for kernels")
def test_it_finds_the_classes_that_python_finds(classify, tmp_path):
    place, sample = tmp_path / "int.onnx", tmp_path / "sample.f32"
    data = DIGITS / "calibration.npz"
    qpasses.quantize(DIGITS / "digits_cnn.onnx", data, place, accuracy="fast")
    session = qpasses.session(place)
    with np.load(DIGITS / "test.npz") as test:
        images = test["image"][:8, None]
    for image in images:
        image.tofile(sample)
        done = classify(place, qpasses.native_library(), sample)
        assert done.returncode == 0, done.stderr
        (scores,) = session.run(None, {"image": image})
        assert int(done.stdout) == scores.argmax()


def test_it_says_what_is_wrong(classify, tmp_path):
    done = classify(tmp_path / "none.onnx", tmp_path / "none.so", tmp_path / "none.f32")
    assert done.returncode == 1
    assert "none" in done.stderr
    assert classify().returncode == 2
