"""The shipped targets, with the usual forms for ops that a test is not about."""

from dataclasses import replace

from opsets.target import load_target

USUAL = {
    "add": "one_rounding",
    "slopes": "multipliers",
    "average_pool": "requantized",
    "mean": "requantized",
}


def plain(name):
    """A shipped target, or ``ruy``: TFLite's with the roundings of its optimized kernels."""
    if name == "ruy":
        return replace(plain("tflm"), name="ruy-plain", rounding="ruy")
    return replace(load_target(name), name=f"{name}-plain", **USUAL)
