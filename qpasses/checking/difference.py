"""Difference: two models of one float model, node by node."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from opsets.errors import UsageError
from qpasses.checking.compared_nodes import Compared, Entry, Place, Side, plain, read_side
from qpasses.ir.stages import QUANTIZING

SIDES = "one", "other"
"""How the two models are called, in this order."""


@dataclass(frozen=True)
class Unlike:
    """What differs: as each model has it; of ``size`` numbers so many ``differ``, if several.

    None stands for what a model has not.
    """

    what: str
    one: Any
    other: Any
    size: int = 1
    differ: int = 1


@dataclass(frozen=True)
class UnlikeNode:
    """A node that both models have, by its name in each, and what differs."""

    one: str
    other: str
    unlike: Sequence[Unlike]


@dataclass(frozen=True)
class Alone:
    """A node that the model ``side`` alone has; ``within``: what computes it in the other."""

    side: str
    name: str
    op: str
    within: str = ""


@dataclass(frozen=True)
class Difference:
    """Two models beside one another. ``same_float_model`` is None where neither says it."""

    one: Compared
    other: Compared
    same_float_model: bool | None
    ends: Sequence[Unlike]
    nodes: Sequence[UnlikeNode]
    alone: Sequence[Alone]

    def __repr__(self) -> str:
        return f"Difference(same={self.is_same}, {len(self.nodes)} nodes differ)"

    @property
    def is_same(self) -> bool:
        """Whether both compute the same, node by node: files may differ nevertheless."""
        return not (self.ends or self.nodes or self.alone)

    def as_json(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {"same": self.is_same} | asdict(self)


def difference(
    one: tuple[onnx.ModelProto, Path], other: tuple[onnx.ModelProto, Path]
) -> Difference:
    """Where two models, each with its path, differ: integer models of this tool, or float.

    Nodes belong together by name, else by the float nodes that both stand for. Raises
    UsageError if none do, ModelError for a model that cannot be read.
    """
    sides = read_side(*one), read_side(*other)
    entries = sides[0].entries, sides[1].entries
    pairs = _pairs(*entries)
    if all(entries[0][name].op in QUANTIZING for name in pairs):
        raise UsageError(
            f"{one[1]} and {other[1]} have no node in common, neither by name nor by the "
            "float nodes that they stand for: give two models of one float model"
        )
    return Difference(
        sides[0].compared,
        sides[1].compared,
        same_float_model=_same_float_model(*sides),
        ends=[
            *_unlike_facts(sides[0].ends, sides[1].ends, is_whole=True),
            *_unlike_outputs(*sides, pairs),
        ],
        nodes=[each for each in _nodes(*sides, pairs) if each.unlike],
        alone=[
            *_alone(SIDES[0], *entries, pairs.keys()),
            *_alone(SIDES[1], *entries[::-1], pairs.values()),
        ],
    )


def _pairs(one: Mapping[str, Entry], other: Mapping[str, Entry]) -> dict[str, str]:
    """By name in the one, the name in the other."""
    left = {
        source: name
        for name, entry in other.items()
        if name not in one
        for source in entry.source
    }
    pairs, taken = dict[str, str](), set[str]()
    for name, entry in one.items():
        by_source = (left[each] for each in entry.source if each in left)
        found = name if name in other else next((n for n in by_source if n not in taken), None)
        if found is not None:
            pairs[name] = found
            taken.add(found)
    return pairs


def _same_float_model(one: Side, other: Side) -> bool | None:
    if not (one.compared.is_integer or other.compared.is_integer):
        return None
    return one.float_sha256 == other.float_sha256


def _nodes(one: Side, other: Side, pairs: Mapping[str, str]) -> Iterator[UnlikeNode]:
    is_whole = one.compared.is_integer == other.compared.is_integer
    edges = _Edges(one, other, pairs)
    for name, its in pairs.items():
        a, b = one.entries[name], other.entries[its]
        unlike = [] if a.op == b.op else [Unlike("op", a.op, b.op)]
        is_same_op = is_whole and not unlike
        unlike += _unlike_facts(a.facts, b.facts, is_same_op)
        unlike += _unlike_arrays(a.arrays, b.arrays, is_same_op)
        if is_same_op and edges.differ(a.reads, b.reads):
            unlike.append(Unlike("reads", _shown_places(a.reads), _shown_places(b.reads)))
        yield UnlikeNode(name, its, unlike)


def _unlike_outputs(one: Side, other: Side, pairs: Mapping[str, str]) -> Iterator[Unlike]:
    """Outputs that other nodes write."""
    edges = _Edges(one, other, pairs)
    for name in (each for each in one.outputs if each in other.outputs):
        a, b = [one.outputs[name]], [other.outputs[name]]
        if edges.differ(a, b):
            yield Unlike(f"output {name} is of", _shown_places(a), _shown_places(b))


class _Edges:
    """Which tensors of two models are the same, so far as both have who writes them."""

    def __init__(self, one: Side, other: Side, pairs: Mapping[str, str]) -> None:
        self._pairs, self._one = pairs, one.entries
        self._alone = other.entries.keys() - pairs.values()

    def differ(self, one: Sequence[Place], other: Sequence[Place]) -> bool:
        ours = [
            (self._pairs.get(name) if name in self._one else name, place)
            for name, place in one
        ]
        are_known = all(name is not None for name, _ in ours)
        are_known = are_known and not any(name in self._alone for name, _ in other)
        return are_known and ours != list(other)


def _shown_places(places: Sequence[Place]) -> list[str]:
    return [f"{name}:{place}" if place > 0 else name for name, place in places]


def _unlike_facts(
    one: Mapping[str, Any], other: Mapping[str, Any], is_whole: bool
) -> Iterator[Unlike]:
    """Facts that differ; those that one side alone has only if both should have the same."""
    for key in dict.fromkeys([*one, *other]):
        is_compared = is_whole or (key in one and key in other)
        if is_compared and one.get(key) != other.get(key):
            yield Unlike(key, one.get(key), other.get(key))


def _unlike_arrays(
    one: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]], is_whole: bool
) -> Iterator[Unlike]:
    for key in dict.fromkeys([*one, *other]):
        a, b = one.get(key), other.get(key)
        if a is None or b is None:
            if is_whole:
                one_has, other_has = (None if v is None else _shown(v) for v in (a, b))
                yield Unlike(key, one_has, other_has)
            continue
        is_alike = a.shape == b.shape and a.dtype == b.dtype
        differ = int((_bits(a) != _bits(b)).sum()) if is_alike else max(a.size, b.size)
        if differ:
            yield Unlike(key, _shown(a), _shown(b), max(a.size, b.size), differ)


def _bits(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers as they are compared: NaN is like itself, and 0 unlike -0."""
    whole = np.ascontiguousarray(values)
    return whole.view(f"u{values.dtype.itemsize}") if values.dtype.kind == "f" else whole


def _shown(values: NDArray[Any]) -> Any:
    """A number as it is, of more than one the type and the shape."""
    return plain(values.item()) if values.size == 1 else f"{values.dtype}{list(values.shape)}"


def _alone(
    side: str,
    entries: Mapping[str, Entry],
    others: Mapping[str, Entry],
    paired: Collection[str],
) -> Iterator[Alone]:
    """The nodes of a side that have none on the other."""
    computing = {source: name for name, each in others.items() for source in each.source}
    writing = {
        written: name
        for name, each in others.items()
        for written in each.writes
        if each.op not in QUANTIZING
    }
    readers: dict[str, list[str]] = {}
    for name, entry in entries.items():
        for place, _ in entry.reads:
            readers.setdefault(place, []).append(name)
    for name, entry in entries.items():
        if name not in paired:
            within = [computing[each] for each in entry.source if each in computing]
            if entry.op not in QUANTIZING:  # what a node took in before has lost its name
                within += [writing[each] for each in entry.writes if each in writing]
                before = {computing.get(place) for place, _ in entry.reads}
                behind = {computing.get(place) for place in readers.get(name, ())}
                within += sorted(each for each in before & behind if each)
            yield Alone(side, name, entry.op, next(iter(within), ""))
