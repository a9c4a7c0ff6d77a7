"""States as reports tell of them: which can be fed back as they are stored."""

from collections.abc import Mapping, Sequence
from typing import Any

from qpasses.ir.record import AnyQuantization
from qpasses.place.planning import Plan


def states_as_json(chosen: Plan, known: Mapping[str, AnyQuantization]) -> list[dict[str, Any]]:
    """``states`` of a report; ``known``: how what stores a tensor is stored."""
    found = []
    for pair in chosen.states:
        one, other = (known.get(chosen.stored[name]) for name in pair)
        found.append(_entry(pair, "" if one == other else _TWO_WAYS))
    for pair, floats in chosen.loose.items():
        found.append(_entry(pair, f"{' and '.join(map(repr, floats))} in float"))
    return found


_TWO_WAYS = "the model itself stores them in two ways"


def _entry(pair: tuple[str, str], reason: str) -> dict[str, Any]:
    return {"input": pair[0], "output": pair[1], "tied": not reason, "reason": reason}


def state_warnings(chosen: Plan, found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which states are rounded anew when they are fed back, an end of them being stored."""
    floats = [pair for pair, ends in chosen.loose.items() if len(ends) == len(pair)]
    return [
        f"state {each['input']!r} and its next value {each['output']!r} do not share a scale: "
        f"{each['reason']}: what is fed back is rounded anew"
        for each in found
        if not each["tied"] and (each["input"], each["output"]) not in floats
    ]
