"""Comparing an evidence file with what was computed again: nothing in it is believed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from qpasses.emit.certificate import Certificate

MOST_DIFFERENCES = 10
"""So many fields that differ are listed; all are counted."""

_BY_NAME = {"nodes": "node", "moved": "moved node", "float_nodes": "float node"}
"""The lists whose entries are compared by name, in any order."""

_IN_ANY_ORDER = "totals.portable_nodes"
"""A list of names: nodes that depend on each other in no way are loaded in another order."""

_MISSING = object()


@dataclass
class Compared:
    """``problems`` and ``notes``, one sentence each; how many fields differ in all."""

    differences: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def compare_certificate(found: Certificate, recomputed: Certificate, name: str) -> Compared:
    """Where ``found``, called ``name`` in messages, says what was not ``recomputed``.

    Evidence of another float model is one problem, however much differs. Where the digest of
    the integer model alone differs, the file was saved anew or a constant renamed: a note.
    """
    different = list(_differences(found, recomputed))
    digests = [
        each
        for each in different
        if each.field.endswith("_model.sha256") and isinstance(each.found, str)
    ]
    others = [each for each in different if each not in digests]
    result = Compared(len(different))
    if [each.field for each in digests] == ["integer_model.sha256"] and not others:
        note = "every node is the same, but the file has another digest: was it saved anew?"
        return Compared(notes=[f"{name}: {note}"])
    if digests:
        result.problems.append(f"{name}: evidence of another model: {digests[0]}")
        others = [] if digests[0].field.startswith("float") else others
    result.problems += [f"{name}: {each}" for each in others[:MOST_DIFFERENCES]]
    if len(others) > MOST_DIFFERENCES:
        more = len(others) - MOST_DIFFERENCES
        result.problems.append(f"{name}: and {more} more fields are not what was recomputed")
    return result


@dataclass(frozen=True)
class _Difference:
    """A field, of the node ``where`` if that is not empty, with both values."""

    where: str
    field: str
    found: Any
    expected: Any

    def __str__(self) -> str:
        ours, theirs = map(_shown, (self.found, self.expected))
        return f"{self.where}{self.field} is {ours}, recomputed {theirs}"


def _differences(found: Certificate, wanted: Certificate) -> Iterator[_Difference]:
    for key in [*wanted, *sorted(found.keys() - wanted.keys())]:
        ours, theirs = found.get(key, _MISSING), wanted.get(key, _MISSING)
        if key in _BY_NAME and _are_named(ours):
            yield from _named(_BY_NAME[key], ours, theirs)
        else:
            yield from _fields("", key, ours, theirs)


def _are_named(entries: Any) -> bool:
    """Whether this is a list of objects of which each has a name of its own."""
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        return False
    names = [each.get("name") for each in entries]
    texts = all(isinstance(name, str) for name in names)
    return texts and len(set(names)) == len(names)


def _named(what: str, found: Any, wanted: Any) -> Iterator[_Difference]:
    ours, theirs = ({each["name"]: each for each in side} for side in (found, wanted))
    for name in [*theirs, *(name for name in ours if name not in theirs)]:
        where = f"{what} {name!r}: "
        if name in ours and name in theirs:
            for key in [*theirs[name], *sorted(ours[name].keys() - theirs[name].keys())]:
                pair = (side[name].get(key, _MISSING) for side in (ours, theirs))
                yield from _fields(where, key, *pair)
        else:
            pair = (name if name in side else _MISSING for side in (ours, theirs))
            yield _Difference(where, "name", *pair)


def _fields(where: str, key: str, found: Any, wanted: Any) -> Iterator[_Difference]:
    """The field ``key``, or the fields inside of it, that differ in value or type."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for inner in sorted(found.keys() | wanted.keys()):
            pair = (side.get(inner, _MISSING) for side in (found, wanted))
            yield from _fields(where, f"{key}.{inner}", *pair)
    elif key == _IN_ANY_ORDER and _are_names(found) and _are_names(wanted):
        if sorted(found) != sorted(wanted):
            yield _Difference(where, key, found, wanted)
    elif _text(found) != _text(wanted):
        yield _Difference(where, key, found, wanted)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _text(value: Any) -> str:
    """As JSON: true is not 1, and 1.0 is not 1."""
    return "missing" if value is _MISSING else json.dumps(value, sort_keys=True)


_LONGEST = 80


def _shown(value: Any) -> str:
    text = _text(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
