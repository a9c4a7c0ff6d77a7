"""An If, Loop or Scan that is excluded stays in float with all that is inside of it."""

import pytest

import qpasses
from opsets.errors import UsageError
from opsets.op import DOMAIN
from qpasses.ir.model_nodes import nodes_of
from tests.support.bodies_nets import body_feeds, body_net


def quantized(name, *patterns):
    original, feeds = body_net(name), body_feeds(name)
    made = qpasses.quantize(original, feeds, nodes_to_exclude=patterns)
    found = qpasses.verify(made.model, original, feeds)
    assert (found.report["summary"]["problems"], found.verdict) == ([], made.verdict)
    return made


def integer_names(made):
    return {node.name for node in nodes_of(made.model) if node.domain == DOMAIN}


WHOLES = {
    "branches": "choice",
    "loop": "loop",
    "scan": "Scan",
    "a branch in a branch": "If",
    "a branch in a loop": "Loop",
    "a loop in a loop": "Loop",
    "a state that grows": "Loop",
}
"""By case the outermost node with bodies."""


@pytest.mark.thinned
@pytest.mark.parametrize("name", WHOLES)
def test_nothing_in_an_excluded_node_is_integer(name):
    whole = WHOLES[name]
    made = quantized(name, whole)
    assert not [each for each in integer_names(made) if each.startswith(f"{whole}/")]
    reasons = {e["name"]: e["reason"] for e in made.report["summary"]["float_nodes"]}
    inside = [each for each in reasons if each.startswith(f"{whole}/") and "MatMul" in each]
    assert {reasons[each] for each in inside} <= {f"excluded by {whole!r}"}
    if name != "scan":  # all of it is one
        assert integer_names(made)


def test_an_inner_node_is_called_by_its_place():
    made = quantized("a loop in a branch", "If/then/Loop")
    assert not [each for each in integer_names(made) if each.startswith("If/then/Loop/")]
    assert integer_names(made)


@pytest.mark.parametrize("name", ["branches", "loop"])
def test_what_a_node_with_bodies_writes_stands_for_it(name):
    whole = WHOLES[name]
    assert integer_names(quantized(name, "y")) == integer_names(quantized(name, whole))


def test_a_node_beside_is_not_excluded_with_it():
    assert "first" in integer_names(quantized("branches", "choice"))


def test_a_name_that_is_nearly_that_of_a_loop_is_told():
    original, feeds = body_net("loop"), body_feeds("loop")
    with pytest.raises(UsageError, match="did you mean 'loop'"):
        qpasses.quantize(original, feeds, nodes_to_exclude=["loup"])
