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


def likely_warnings(chosen: Plan, known: Mapping[str, AnyQuantization]) -> list[str]:
    """Which inputs and outputs, stored in two ways, may be states that nobody named."""
    found = []
    for starts, ends in chosen.likely:
        ways = {
            known.get(chosen.stored[name])
            for name in (*starts, *ends)
            if name in chosen.tensors and name in chosen.stored
        }
        if len(ways) > 1:
            given, after = (" or ".join(map(repr, names)) for names in (starts, ends))
            is_one = len(starts) == len(ends) == 1
            option = f"{starts[0]}={ends[0]}" if is_one else "INPUT=OUTPUT"
            found.append(
                f"output {after} may be the next value of input {given}, and is stored in "
                f"another way: --states {option} gives a state one scale, so that it can be "
                "fed back as it is"
            )
    return found


def state_warnings(chosen: Plan, found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which states are rounded anew when they are fed back, an end of them being stored."""
    floats = [pair for pair, ends in chosen.loose.items() if len(ends) == len(pair)]
    return [
        f"state {each['input']!r} and its next value {each['output']!r} do not share a scale: "
        f"{each['reason']}: what is fed back is rounded anew"
        for each in found
        if not each["tied"] and (each["input"], each["output"]) not in floats
    ]
