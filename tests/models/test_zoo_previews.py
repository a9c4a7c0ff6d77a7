"""What is foreseen of real networks is what becomes of them."""

import pytest

import qpasses
from qpasses.evidence.summary import float_nodes
from qpasses.ir.commands import QuantizeOptions
from qpasses.jobs.resolving import resolved
from qpasses.load.arguments import given_source
from qpasses.pipeline import STAGES, integerized
from tests.support import zoo_models
from tests.support.thoroughness import only_thorough

UP_TO_INTEGERS = STAGES[: STAGES.index(integerized) + 1]
SAMPLES = 4

RECURRENT = {
    "dtln_1": [],
    "g2pm_bilstm": ["ids:1,12"],
    "nsnet2_gru": ["input:1,20,161"],
}
"""Networks with recurrent layers, and the sizes that they leave free."""


def integer_graph(name):
    """The graph, the record and the sizes of its inputs, from samples."""
    entry = zoo_models.ENTRIES[name]
    asked = QuantizeOptions(
        entry.model,
        entry.calibration,
        samples=SAMPLES,
        preprocessing=entry.preprocessing,
        accuracy="fast",
    )
    state = resolved("quantize", asked, given_source).start
    for stage in UP_TO_INTEGERS:
        state = stage(state)
    return state.graph, state.record


SOON = ("mtcnn_rnet", "super_resolution_x3", "magika_standard_v2_1")
"""Networks that take no time."""


@pytest.mark.parametrize(
    "name",
    [
        *zoo_models.networks(SOON),
        *(
            pytest.param(name, marks=[*zoo_models.NEEDS_ZOO, only_thorough])
            for name, entry in zoo_models.ENTRIES.items()
            if entry.zoo and name not in SOON
        ),
    ],
)
def test_the_float_nodes_are_those_that_were_foreseen(name):
    graph, record = integer_graph(name)
    found = qpasses.preview(zoo_models.path(name), input_shape=record.sizes)
    open_ = {each["name"] for each in found.foreseen.by_ranges}
    left = [each for each in float_nodes(graph, record) if each["name"] not in open_]
    assert left == list(found.foreseen.float_nodes)
    assert found.foreseen.macs == sum(record.macs.values())


@pytest.mark.parametrize("name", zoo_models.networks(RECURRENT))
def test_recurrent_layers_are_foreseen_and_count(name):
    foreseen = qpasses.preview(zoo_models.path(name), input_shape=RECURRENT[name]).foreseen
    assert (foreseen.float_nodes, foreseen.macs_not_counted) == ([], [])
    assert foreseen.integer_macs == foreseen.macs > 0
