"""Each op that has a form as TOSA: nodes in the reference model, integers of the reference."""

import pytest
import numpy as np
from hypothesis import assume, given

from opsets.qpasses_v1 import OPS
from opsets.rounding import LAST_STEP
from qpasses.emit.tosa.lowerings import LOWERINGS
from tests.support.op_cases import CASES
from tests.support.op_edges import edges_of
from tests.support.thoroughness import exactly, some
from tests.support.tosa_nodes import needs_tools, refusal, run_nodes

LOWERED = [name for name in OPS if name in LOWERINGS]
every_lowered_op = pytest.mark.parametrize("name", LOWERED)

NODES = {"IntLayerNorm": 15, "ILayerNorm": 15, "TableSoftmax": 36, "IntLogSoftmax": 15}
"""Of other ops 60 random ones for `make thorough`: these have long programs."""

REFUSED_EDGES = {
    ("IntAveragePool", "three dimensions"): "an average over three dimensions",
}
"""What is refused of ``edges_of``, by op and kind, and a part of the message."""


def shifts_to_the_left(_inputs, attributes):
    return attributes["rounding"] in LAST_STEP


def is_over_volumes(_inputs, attributes):
    return len(attributes["kernel_shape"]) == 3


def sums_beyond_31_bits(inputs, attributes):
    longest = inputs["x"].shape[attributes["axis"]]
    return int(inputs["denominators"].max()) * longest >= 1 << 31


REFUSED_AT_RANDOM = [
    ("its sums wrap as they are shifted to the left", OPS, shifts_to_the_left),
    ("an average over three dimensions", ["IntAveragePool"], is_over_volumes),
    ("a sum of exponentials that", ["TableSoftmax"], sums_beyond_31_bits),
]
"""A part of the message, the ops, and what holds for each node that is refused so."""

CHANGES = {
    "as drawn": np.array,
    "all bits turned": np.invert,
    "the lowest codes": lambda x: np.full_like(x, np.iinfo(x.dtype).min),
    "the highest codes": lambda x: np.full_like(x, np.iinfo(x.dtype).max),
}


def drawn(name):
    """Random nodes; tensors without elements are none of TOSA's."""
    found = []

    @exactly(some(NODES.get(name, 60)))
    @given(CASES[name])
    def draw(case):
        assume(all(np.size(array) for array in case.inputs))
        found.append(case)

    draw()
    return found


def is_known(name, case, reason):
    inputs = dict(zip(OPS[name].inputs, case.inputs, strict=True))
    return any(
        reason.startswith(part) and name in ops and holds(inputs, case.attributes)
        for part, ops, holds in REFUSED_AT_RANDOM
    )


def compare(name, cases, folder, changes=(np.array,)):
    """All of them in one program: no integer differs."""
    elements = 0
    for label, found, expected in run_nodes(OPS[name], cases, folder, changes):
        message = f"{name}, {label}: {cases[label]}"
        np.testing.assert_array_equal(found.reshape(expected.shape), expected, message)
        elements += expected.size
    assert elements > len(cases)


@needs_tools
@every_lowered_op
def test_random_nodes_give_the_integers_of_the_reference(name, tmp_path):
    taken = {}
    for place, case in enumerate(drawn(name)):
        if reason := refusal(OPS[name], case):
            assert is_known(name, case, reason), (reason, case)
        else:
            taken[place] = case
    compare(name, taken, tmp_path, CHANGES.values())


@needs_tools
@every_lowered_op
def test_all_codes_roundings_and_ends_of_sums_give_the_integers_of_the_reference(
    name, tmp_path
):
    taken, kinds = {}, REFUSED_EDGES
    for label, case in edges_of(name).items():
        part, reason = kinds.get((name, label[-1]), ""), refusal(OPS[name], case)
        assert part in reason and bool(part) == bool(reason), (label, reason)
        if not reason:
            taken[label] = case
    roundings = {rounding for _, rounding, _ in taken}
    assert roundings == set(OPS[name].roundings or [""])
    compare(name, taken, tmp_path)
