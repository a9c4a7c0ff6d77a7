"""Nets that become TFLite files, held to onnxruntime by LiteRT's reference kernels."""

from pathlib import Path

from calibration import input_specs, open_samples
from opsets.target import load_target
from qpasses import quantize
from qpasses.checking.beside.litert_check import check_litert
from qpasses.ir.progress import no_progress
from tests.support.litert_served import judge_alone
from tests.support.tosa_nets import feeds

TARGET = load_target("litert")


def integer_of(made, target=TARGET, **options):
    return quantize(made, feeds(made), accuracy="fast", target=target, **options).model


def check(made, target=TARGET, runtime="litert", **options):
    """Exported, run on samples in LiteRT or TFLite Micro: no stored integer differs."""
    integer = integer_of(made, target, **options)
    samples = open_samples(feeds(made)[:3], input_specs(made))
    with judge_alone():
        found = check_litert(
            *(integer, Path("m"), made, samples, no_progress),
            runtime=runtime,
            all_tensors=True,
        )
    assert not found.problems
    assert (found.samples, found.differences, found.first) == (3, 0, "")
    assert found.elements > 0
    return integer, found
