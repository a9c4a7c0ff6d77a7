"""Nets that become TFLite files, held to onnxruntime by LiteRT's reference kernels."""

from dataclasses import replace
from pathlib import Path

from calibration import input_specs, open_samples
from opsets.target import load_target
from qpasses import quantize
from qpasses.checking.beside.litert_check import check_litert
from qpasses.ir.progress import no_progress
from tests.support.tosa_nets import feeds

TARGET = replace(load_target("tflite"), name="litert-like", scales="double")
"""Rounds twice, by scales in double: what CONV_2D does, also for Gemm."""


def integer_of(made, target=TARGET, **options):
    return quantize(made, feeds(made), accuracy="fast", target=target, **options).model


def check(made, target=TARGET, **options):
    """Exported, run on samples in LiteRT: no stored integer differs."""
    integer = integer_of(made, target, **options)
    samples = open_samples(feeds(made)[:3], input_specs(made))
    found = check_litert(integer, Path("m"), made, samples, no_progress, all_tensors=True)
    assert not found.problems
    assert (found.samples, found.differences, found.first) == (3, 0, "")
    assert found.elements > 0
    return integer, found
