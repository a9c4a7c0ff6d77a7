"""Kernels beside references: python -m tests.support.native_runs COUNT, a line for each op.

A process of its own, because the instruction set is chosen when the library is loaded.
"""

import sys

import numpy as np
from hypothesis import HealthCheck, given, settings

from calibration import Session
from opsets.native import KERNELS, library
from opsets.qpasses_v1 import OPS
from tests.support.op_cases import CASES, Case
from tests.support.tosa_nodes import expected, model_of_nodes


def drawn(name, count):
    cases = {}

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(CASES[name])
    def draw(case):
        cases[f"{len(cases)}"] = case

    draw()
    return cases


def differing(name, cases):
    """How many elements are unlike the reference's, and of how many."""
    op, wrong, count = OPS[name], 0, 0
    labels = list(cases)
    for first in range(0, len(labels), 50):
        some = {label: cases[label] for label in labels[first : first + 50]}
        model = model_of_nodes(op, some)
        session = Session(model, operators=library())
        feed = {
            f"{formal}_{place}": np.ascontiguousarray(array)
            for place, case in enumerate(some.values())
            for formal, array in zip(op.inputs, case.inputs, strict=True)
            if formal in op.data
        }
        found = session.run(session.outputs, feed)
        for ours, case in zip(found, some.values(), strict=True):
            exact = expected(op, case)
            assert ours.dtype == exact.dtype and ours.shape == exact.shape
            wrong += int((ours != exact).sum())
            count += exact.size
    return wrong, count


def of_every_length(name):
    """Rows of 1 to 70 codes, of the numbers that are emitted for such."""
    rng, cases = np.random.default_rng(0), {}
    for cells in range(1, 71):
        x = rng.integers(0, 256, (3, cells)).astype(np.uint8)
        ends = [np.array(each, np.uint8) for each in (100, 0, 255)]
        if name == "IntLayerNorm":
            numbers = [
                np.uint8(17),
                rng.integers(-(1 << 23), 1 << 23, cells).astype(np.int32),
                rng.integers(-(1 << 40), 1 << 40, cells),
                np.int32(38),
                np.int64(1 << 30),
            ]
            attributes = {"axis": -1, "cells": cells, "centered": 1, "root_bits": 13}
            attributes |= {"factor_bits": 52, "norm_bits": 20, "rounding": "half_to_even"}
        else:
            falling = np.exp(-np.arange(256) / 20) * (1 << 20)
            numbers = [falling.astype(np.int32), (falling * 255).astype(np.int64)]
            attributes = {"axis": -1, "published": 0, "rounding": "half_to_even"}
        inputs = [x, *map(np.asarray, numbers), *ends]
        cases[f"length {cells}"] = Case(inputs, attributes)
    return cases


if __name__ == "__main__":
    for name in KERNELS:
        cases = drawn(name, int(sys.argv[1])) | (
            of_every_length(name) if name in ("IntLayerNorm", "TableSoftmax") else {}
        )
        print(name, *differing(name, cases))
