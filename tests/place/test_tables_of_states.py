"""Tables of recurrent nets: states and cells are in them, and models of them are the same."""

import numpy as np
import pytest

import qpasses
from tests.support.bodies_nets import voice_feeds, voice_net
from tests.support.recurrent_nets import GATES, Net
from tests.support.small_models import session


def of_one(op):
    model, feed = Net(op).made()
    return model, [
        {name: values * np.float32(factor) for name, values in feed.items()}
        for factor in (1, 2, 3)
    ]


NETS = {
    **{op: lambda op=op: of_one(op) for op in GATES},
    "in branches": lambda: (voice_net(), voice_feeds()),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", NETS)
def test_a_model_made_of_a_table_computes_what_one_made_of_its_samples_does(name, tmp_path):
    original, feeds = NETS[name]()
    table = tmp_path / "table.json"
    qpasses.calibrate(original, feeds, table)
    models = [
        qpasses.quantize(original, feeds).model,
        qpasses.quantize(original, feeds, calibration_table=table).model,
    ]
    runs = [[session(each).run(None, feed) for feed in feeds] for each in models]
    for ours, theirs in zip(*runs, strict=True):
        for found, expected in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(found, expected)
