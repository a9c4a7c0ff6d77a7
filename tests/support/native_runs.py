"""Kernels beside references: python -m tests.support.native_runs COUNT [OP...].

A line for each op: how many integers differ, and of how many. QPASSES_ISA may name several
instruction sets, with commas between: then a line for each set and op. A process of its own
for each, because the set is chosen when the library is loaded.
"""

import os
import sys
from multiprocessing import get_context

import numpy as np
from hypothesis import HealthCheck, given, settings

from calibration import Session
from opsets.native import KERNELS, library
from opsets.qpasses_v1 import OPS
from tests.support.kernels.element_cases import (
    SLOPED,
    coded_slopes,
    products,
    quotients,
    requantizations,
    rescaled_sums,
    rescalings,
    slopes,
    sums,
)
from tests.support.kernels.lookup_cases import (
    interpolations,
    interpolations_by_channel,
    lookups,
    lookups_by_channel,
    pairs,
    wide_lookups,
)
from tests.support.kernels.matrix_cases import (
    convolutions,
    convolutions_by_channel,
    products_of_matrices,
    products_of_two,
)
from tests.support.kernels.pool_cases import (
    counted_pools,
    global_pools,
    largest_pools,
    paddings,
    pools,
    reductions,
    resizes,
)
from tests.support.kernels.row_cases import (
    gemmlowp_softmaxes,
    log_softmaxes,
    norms,
    polynomial_gelus,
    polynomial_softmaxes,
    published_norms,
    shift_gelus,
    shift_softmaxes,
    softmaxes,
    softmaxes_of_words,
)
from tests.support.kernels.sequence_cases import grus, lstms, rnns
from tests.support.op_cases import CASES
from tests.support.tosa_nodes import each_output, expected, model_of_nodes


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


def models_of(name, cases, given_as=np.ascontiguousarray):
    """Of some nodes each: the model, what it is given, and what the reference gives.

    Each tensor is a buffer of its own.
    """
    op, labels = OPS[name], list(cases)
    for first in range(0, len(labels), 50):
        some = {label: cases[label] for label in labels[first : first + 50]}
        feed = {
            f"{formal}_{place}": given_as(array)
            for place, case in enumerate(some.values())
            for formal, array in zip(op.inputs, case.inputs, strict=True)
            if formal in op.data
        }
        exact = [expected(op, case) for case in some.values()]
        yield model_of_nodes(op, some, exact), feed, exact


def differing(models, file=None):
    """How many elements are unlike the reference's, and of how many."""
    wrong, count = 0, 0
    for model, feed, results in models:
        session = Session(model, operators=file or library(), arena=False)
        found = session.run(session.outputs, feed)
        wanted = [array for exact in results for array in each_output(exact)]
        for ours, exact in zip(found, wanted, strict=True):
            assert ours.dtype == exact.dtype and ours.shape == exact.shape
            wrong += int((ours != exact).sum())
            count += exact.size
    return wrong, count


SLOPED += [((2, n, 256), (n, 1)) for n in (1, 3, 20)] + [((2, 256, n), (n,)) for n in (1, 17)]

SLOPED += [
    ((2, 5, 3, 70), (3, 1)),
    ((2, 5, 3, 7), (5, 1, 7)),
    ((2, 1500), (1500,)),
    ((0, 3), (3,)),
]
"""Of x and of its slopes: one, of channels first and last, of several axes, and very many."""

EVERY = {
    "GemmlowpSoftmax": gemmlowp_softmaxes,
    "IBertGelu": polynomial_gelus,
    "IBertSoftmax": polynomial_softmaxes,
    "ILayerNorm": published_norms,
    "IntAdd": sums,
    "IntAveragePool": pools,
    "IntCodedPRelu": coded_slopes,
    "IntConv": convolutions,
    "IntConvPerChannel": convolutions_by_channel,
    "IntCountedAveragePool": counted_pools,
    "IntDiv": quotients,
    "IntGemm": products_of_matrices,
    "IntGlobalAveragePool": global_pools,
    "IntGru": grus,
    "IntLayerNorm": norms,
    "IntLogSoftmax": log_softmaxes,
    "IntLstm": lstms,
    "IntMatMul": products_of_two,
    "IntMaxPool": largest_pools,
    "IntMul": products,
    "IntPRelu": slopes,
    "IntPad": paddings,
    "IntReduce": reductions,
    "IntRescale": rescalings,
    "IntRescaledAdd": rescaled_sums,
    "IntRescaledSub": rescaled_sums,
    "IntResize": resizes,
    "IntRnn": rnns,
    "IntSub": sums,
    "Lut": lookups,
    "Lut16": wide_lookups,
    "LutInterpolated": interpolations,
    "LutInterpolatedPerChannel": interpolations_by_channel,
    "LutPair": pairs,
    "LutPerChannel": lookups_by_channel,
    "Requantize": requantizations,
    "ShiftGelu": shift_gelus,
    "Shiftmax": shift_softmaxes,
    "TableSoftmax": softmaxes,
    "TableSoftmax16": softmaxes_of_words,
}
"""All codes or pairs of codes, and every length to 70, of the numbers that are emitted."""


def run_on(isa, made):
    """Print a line for each op, of kernels that are loaded in this process alone."""
    os.environ["QPASSES_ISA"] = isa
    for name, models in made.items():
        print(isa, name, *differing(models), flush=True)


def main(count, *names):
    made = {}
    for name in names or KERNELS:
        cases = drawn(name, int(count)) | dict(EVERY[name](np.random.default_rng(0)))
        made[name] = list(models_of(name, cases))
    failed = False
    for isa in os.environ.get("QPASSES_ISA", "").split(","):
        running = get_context("fork").Process(target=run_on, args=(isa, made))
        running.start()
        running.join()
        failed |= running.exitcode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
