"""Control flow as passes see it: the nodes of bodies among the others, and what joins them.

An If, Loop or Scan is gone from a spliced graph. What its bodies compute stands beside what is
around it, and a node of domain FLOW for each value says how it comes in and goes out:

- ``Joined (condition, then, else)``: a result of an If;
- ``Begun (trips, goes_on)``: number and condition of an iteration, of a Loop alone;
- ``Carried (initial)``: a state as an iteration finds it;
- ``Element (sequence)``: what an iteration of a Scan gets of a sequence;
- ``CarriedOut (given, found, goes_on)``: a state in the end; ``given`` is what an iteration
  makes of the one ``found``;
- ``Collected (given, goes_on)``: what all iterations give, stacked.

All but ``Begun`` only move values: what holds for a Concat holds for them. ``of`` names the
node they stand for, ``place`` the value.
"""

from collections.abc import Mapping

FLOW = "qpasses.flow"

JOINED, BEGUN, CARRIED, ELEMENT = "Joined", "Begun", "Carried", "Element"
CARRIED_OUT, COLLECTED = "CarriedOut", "Collected"

ENTERING = frozenset({BEGUN, CARRIED, ELEMENT})
"""What hands values to an iteration: they read outside and write inside."""

LEAVING = frozenset({JOINED, CARRIED_OUT, COLLECTED})
"""What gives results: they read inside and write outside."""

VALUES = ENTERING | LEAVING
"""All of them."""

GIVEN: Mapping[str, Mapping[int, str]] = {
    JOINED: {1: "then", 2: "else"},
    CARRIED_OUT: {0: "body", 1: "body", 2: "body"},
    COLLECTED: {0: "body", 1: "body"},
}
"""By op that leaves: the inputs that stand inside, and the body that each is of."""

ATTRIBUTES: Mapping[str, str] = {
    "then": "then_branch",
    "else": "else_branch",
    "body": "body",
}
"""By body: the attribute that holds it."""


def mark(op: str, place: int) -> str:
    """What stands for a value is called so behind the name of the node whose value it is."""
    return f"{op}_{place}"


def inside(of: str, body: str) -> str:
    """What the names of the nodes of a body begin with."""
    return f"{of}/{body}/"
