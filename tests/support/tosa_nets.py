"""Nets that become TOSA programs, held to onnxruntime by the reference model."""

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from calibration import input_specs, open_samples
from qpasses import quantize
from qpasses.checking.beside import other_programs
from qpasses.emit.tosa.profile import PRO_INT_8K
from qpasses.ir.progress import no_progress
from tests.support.small_models import model, numbers

needs_iree = pytest.mark.skipif(
    not (Path(sys.executable).parent / "iree-compile").is_file()
    and shutil.which("iree-compile") is None,
    reason="IREE is not installed: pip install iree-base-compiler iree-base-runtime",
)
IMAGE = "float[1, 4, 7, 6]"
ROWS = "float[1, 6, 8]"

K = numbers(6, 4, 3, 3) / 3
D = numbers(8, 1, 3, 3) / 3
C6, C8 = numbers(6) / 4, numbers(8) / 4


def net(body, source=IMAGE, **weights):
    places = "int64" if "TopK" in body or "Arg" in body else "float"
    ends = "float[] y" if not re.search(r"\bz = ", body) else f"float[] y, {places}[] z"
    inputs = source if " x" in source else f"{source} x"
    return model(f"g ({inputs}) => ({ends}) {{ {body} }}", opset=18, **weights)


def feeds(made, count=12, seed=1):
    return [
        {each.name: column[k] for each, column in zip(made.graph.input, columns, strict=True)}
        for columns in [[values(each, count, seed) for each in made.graph.input]]
        for k in range(count)
    ]


def values(end, count, seed):
    kind = end.type.tensor_type
    shape = count, *(each.dim_value for each in kind.shape.dim)
    if kind.elem_type == TensorProto.FLOAT:
        return numbers(*shape, seed=seed)
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    return np.random.default_rng(seed).integers(-6, 6, shape).astype(dtype)


def check(made, samples, **options):
    """Exported, run on samples in the reference model: no integer differs."""
    integer = quantize(made, samples, accuracy="fast", **options).model
    runner = other_programs.runner_of("tosa-reference", PRO_INT_8K)
    feeds = open_samples(samples[:3], input_specs(made))
    found = other_programs.check_with(runner, integer, Path("m"), made, feeds, no_progress)
    assert not found.problems
    assert (found.samples, found.differences, found.first) == (3, 0, "")
    assert found.elements > 0
    return integer
