"""What a record documents is what passes write, and nothing else is read."""

import json
import re
from dataclasses import fields

import numpy as np
import pytest

from opsets.errors import ModelError
from qpasses import quantize, verify
from qpasses.ir.metadata import read_record
from qpasses.ir.record import SCALED, NodeRecord
from tests.support.recurrent_net import recurrent_feeds, recurrent_net
from tests.support.small_models import model, numbers

TEXT = """
g (float[N, 6, 6] x) => (float[N, 3, 6] y) {
    f = MatMul (x, w)
    t = Transpose <perm = [0, 2, 1]> (f)
    [scores] s = MatMul (f, t)
    d = Mul (s, third)
    [join] r = Add (d, x)
    [half] y = MaxPool <kernel_shape = [1], strides = [2]> (r)
}"""
FEEDS = [{"x": numbers(1, 6, 6, seed=seed)} for seed in range(3)]


def net():
    text = TEXT.replace("[N, 3, 6]", "[N, 6, 3]")
    return model(text, w=numbers(6, 6), third=np.float32(1 / 3))


@pytest.fixture(scope="module")
def made():
    return quantize(net(), FEEDS).model


def entry_of(made, name, key):
    node = next(each for each in made.graph.node if each.name == name)
    return next(each for each in node.metadata_props if each.key == f"qpasses.{key}")


def test_every_entry_of_a_node_is_explained():
    explained = set(re.findall(r"``(\w+)``", NodeRecord.__doc__))
    assert {each.name for each in fields(NodeRecord)} <= explained


def test_passes_write_the_scales_that_are_listed(made):
    recurrent = quantize(recurrent_net(), recurrent_feeds(3)).model
    records = [read_record(each)[0] for each in (made, recurrent)]
    nodes = [node for record in records for node in record.nodes.values()]
    assert {name for node in nodes for name in node.scales} == {*SCALED}


def test_a_scale_of_something_else_is_refused(made):
    entry = entry_of(made, "join", "scales")
    before = entry.value
    entry.value = json.dumps({**json.loads(before), "w_scale": [1.0]})
    with pytest.raises(ModelError, match="damaged: scales of a node"):
        read_record(made)
    entry.value = before


@pytest.mark.parametrize(
    ("key", "name"), [("macs", "multiply-accumulates"), ("cells", "cells")]
)
def test_a_count_that_a_moving_node_has_not_is_told_once(made, key, name):
    entry = entry_of(made, "half", key)
    before, entry.value = entry.value, "7"
    problems = verify(made, net(), FEEDS).report["summary"]["problems"]
    assert problems == [
        f"node 'half' (MaxPool): the recorded number of {name} is 7, expected {before}"
    ]
    entry.value = before
