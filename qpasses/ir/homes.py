"""Homes: which body each node of a spliced graph is in; see flow.py.

That follows from who reads it, whatever passes made of the graph: it stands in the innermost
body that holds all of its readers, but in no iteration that it does not depend on. So a branch
computes what it alone needs, and a loop nothing twice.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import onnx
from onnx import GraphProto, NodeProto, helper

from calibration.large_weights import names_read
from opsets.errors import ModelError
from qpasses.ir.flow import (
    BEGUN,
    CARRIED,
    CARRIED_OUT,
    COLLECTED,
    ELEMENT,
    ENTERING,
    FLOW,
    GIVEN,
    JOINED,
)

Region: TypeAlias = tuple[tuple[str, str], ...]
"""From the outermost in: the node whose body it is, and which body; () is the graph itself."""


def is_flow(node: NodeProto) -> bool:
    """Whether ``node`` stands for a value that enters or leaves a body."""
    return bool(node.domain == FLOW)


def regions(flat: onnx.ModelProto) -> dict[str, Region]:
    """By name of a tensor that a node of ``flat`` writes: where it stands."""
    return Homes(flat.graph.node, flat.graph).tensors()


def unit_of(node: NodeProto) -> str:
    """The name of the node that a node of domain FLOW stands for a value of."""
    return str(attribute_of(node, "of"))


def attribute_of(node: NodeProto, name: str) -> int | str:
    """An attribute that each node of domain FLOW has."""
    found = next(each for each in node.attribute if each.name == name)
    value = helper.get_attribute_value(found)
    return value.decode() if isinstance(value, bytes) else value


@dataclass
class Unit:
    """A node that was spliced: what enters and leaves its bodies, in the order of places."""

    name: str
    entering: list[int] = field(default_factory=list)
    leaving: list[int] = field(default_factory=list)

    @property
    def markers(self) -> list[int]:
        """All of them."""
        return [*self.entering, *self.leaving]


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def _evaluated(
    keys: Iterable[Key],
    needed: Callable[[Key], Sequence[Key]],
    made: Callable[[Key, Mapping[Key, Value]], Value],
) -> dict[Key, Value]:
    """What is ``made`` of each key, once all that is ``needed`` for it is; no recursion."""
    known, begun, waiting = dict[Key, Value](), set[Key](), [*keys]
    while waiting:
        key = waiting[-1]
        missing = [] if key in known else [each for each in needed(key) if each not in known]
        if missing and key in begun:
            raise ModelError("a body reads what follows from it")
        if missing:
            begun.add(key)
            waiting += missing
        elif waiting.pop() not in known:
            known[key] = made(key, known)
    return known


Item: TypeAlias = int | str
"""A node, by its place, or a unit, by its name."""


class Homes:
    """Where each node of a spliced graph stands."""

    def __init__(self, nodes: Sequence[NodeProto], graph: GraphProto) -> None:
        self.nodes = nodes
        self.units: dict[str, Unit] = {}
        self.reads = [names_read([node]) for node in nodes]
        self._readers: dict[str, list[int]] = {}
        self._writers: dict[str, int] = {}
        self.ends = {value.name for value in graph.output}
        for place, node in enumerate(nodes):
            for name in self.reads[place]:
                self._readers.setdefault(name, []).append(place)
            self._writers.update(dict.fromkeys(filter(None, node.output), place))
            if is_flow(node):
                unit = self.units.setdefault(unit_of(node), Unit(unit_of(node)))
                (unit.entering if node.op_type in ENTERING else unit.leaving).append(place)
        for unit in self.units.values():
            for ends in (unit.entering, unit.leaving):
                ends.sort(key=self._order)
        ordinary = [place for place, node in enumerate(nodes) if not is_flow(node)]
        items: list[Item] = [*ordinary, *self.units]
        self._open = _evaluated([*range(len(nodes)), *self.units], self._before, self._opened)
        self.homes: dict[Item, Region] = _evaluated(items, self._behind, self._home)

    def _order(self, place: int) -> tuple[int, int]:
        node = self.nodes[place]
        ops = (BEGUN, CARRIED, ELEMENT, JOINED, CARRIED_OUT, COLLECTED)
        return ops.index(node.op_type), int(attribute_of(node, "place"))

    def item(self, place: int) -> Item:
        """The node at ``place``, or the unit that it is of."""
        node = self.nodes[place]
        return unit_of(node) if is_flow(node) else place

    def tensors(self) -> dict[str, Region]:
        """By name of a tensor: the region that holds it."""
        found = {}
        for place, node in enumerate(self.nodes):
            home = self.homes[self.item(place)]
            if is_flow(node) and node.op_type in ENTERING:
                home = (*home, (unit_of(node), "body"))
            found.update(dict.fromkeys(node.output, home))
        return found

    def _writes(self, key: Item) -> Iterator[str]:
        places = self.units[key].leaving if isinstance(key, str) else [key]
        return (name for place in places for name in self.nodes[place].output)

    def _before(self, key: Item) -> list[Item]:
        """What has to be known before it is what iterations ``key`` depends on."""
        if isinstance(key, str):
            return [
                self._writers[name]
                for place in self.units[key].markers
                for name in self.reads[place]
                if name in self._writers
            ]
        node = self.nodes[key]
        if is_flow(node) and node.op_type not in ENTERING:
            return [unit_of(node)]
        return [self._writers[name] for name in self.reads[key] if name in self._writers]

    def _opened(self, key: Item, known: Mapping[Item, frozenset[str]]) -> frozenset[str]:
        """The units in whose iterations ``key`` has other values."""
        found = frozenset[str]().union(*(known[each] for each in self._before(key)))
        if isinstance(key, str):
            return found - {key}
        node = self.nodes[key]
        return found | {unit_of(node)} if is_flow(node) and node.op_type in ENTERING else found

    def _behind(self, key: Item) -> list[Item]:
        return [
            self.item(reader)
            for name in self._writes(key)
            for reader in self._readers.get(name, ())
            if self.item(reader) != key
        ]

    def _home(self, key: Item, known: Mapping[Item, Region]) -> Region:
        found: Region | None = None
        for name in self._writes(key):
            if name in self.ends:
                return ()
            for reader in self._readers.get(name, ()):
                for region in self._wanted(reader, name, known):
                    found = region if found is None else _common(found, region)
        home = found or ()
        while home and home[-1][1] == "body" and home[-1][0] not in self._open[key]:
            home = home[:-1]
        return home

    def _wanted(
        self, reader: int, name: str, known: Mapping[Item, Region]
    ) -> Iterator[Region]:
        """The regions in which the node at ``reader`` reads the tensor ``name``."""
        node, around = self.nodes[reader], known[self.item(reader)]
        given = GIVEN.get(node.op_type, {}) if is_flow(node) else {}
        for place, read in enumerate(node.input) if given else ():
            if read == name:
                body = given.get(place)
                yield (*around, (unit_of(node), body)) if body else around
        if not given:
            yield around


def _common(one: Region, other: Region) -> Region:
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return one[:count]
