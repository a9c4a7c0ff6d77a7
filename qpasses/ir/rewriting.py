"""The contract of a pass, and the manager that applies passes and holds them to it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from opsets.errors import ModelError
from opsets.op import Flavour
from opsets.target import Target
from qpasses.ir.changes import LARGE, SMALL, Snapshot, described
from qpasses.ir.given import Given
from qpasses.ir.graph import (
    Graph,
    Node,
    Taken,
    Tensor,
    fresh,
    is_float,
    names,
    new_constant,
    producer,
    type_name,
)
from qpasses.ir.order import tidy
from qpasses.ir.record import Quantization, Record
from qpasses.ir.selection import Selection
from qpasses.ir.settings import Settings
from qpasses.ir.stages import check_structure


@dataclass(frozen=True)
class Rewritten:
    """The pass has changed the graph."""


@dataclass(frozen=True)
class NotMine:
    """The node is none that the pass is for: nothing is to be said of it."""


@dataclass(frozen=True)
class Declined:
    """Why a pass leaves a node alone, in words the user can act on.

    ``of``: the names of the nodes that stay because of that, where it is not the node that the
    pass was asked about.
    """

    reason: str
    of: Sequence[str] = ()


Outcome: TypeAlias = Rewritten | Declined | NotMine
"""What a pass did with a node. But for ``Rewritten`` the graph is as it was."""

REWRITTEN, NOT_MINE = Rewritten(), NotMine()


@dataclass(frozen=True)
class States:
    """How a recurrent node stores what it writes of all steps, and the state of 16 bits that
    it keeps: the cell of an LSTM, the hidden state of a GRU, of a plain RNN that of all steps.
    """

    hidden: Quantization
    cell: Quantization

    def of_outputs(self, op: str) -> list[Quantization]:
        """How each output is stored: of all steps, the last states."""
        if op == "LSTM":
            return [self.hidden, self.hidden, self.cell]
        return [self.hidden, self.cell]


@dataclass
class Context:
    """What passes share: settings, the nodes to leave alone, and the record they write.

    ``sizes``: of each tensor where they are known on the first sample, by name. ``times``: how
    often a node of an iteration runs then; 0 where that is not known. ``masks``:
    inputs of the graph that are taken to hold only 0 and 1. ``has_masks``: whether scores
    are selected that were added to. ``quantizable``: op types that can become integer; None
    where the user's wishes were held against them before. ``given``: what a model that is
    quantized already says of its tensors. ``states``: of recurrent nodes, by name.
    """

    settings: Settings
    selection: Selection = field(default_factory=Selection)
    record: Record = field(default_factory=Record)
    sizes: dict[str, list[int]] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    _taken: Taken = field(default_factory=Taken)
    _scalars: dict[str, Tensor] = field(default_factory=dict)
    _tables: dict[tuple[str, tuple[int, ...], bytes], Tensor] = field(default_factory=dict)
    masks: set[str] = field(default_factory=set)
    has_masks: bool = False
    quantizable: Set[str] | None = None
    given: Given = field(default_factory=Given)
    states: dict[str, States] = field(default_factory=dict)
    _conditions: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        """Whose integer arithmetic to use."""
        return self.settings.target

    @property
    def flavour(self) -> Flavour:
        """The wanted bodies."""
        return self.settings.flavour

    def adopt(self, graph: Graph) -> None:
        """Take the names of ``graph`` and its bodies as taken."""
        for each in (graph, *graph.subgraphs(recursive=True)):
            self._taken |= names(each)

    def fresh(self, wanted: str) -> str:
        """``wanted``, or a name like it that nothing in the graph has."""
        return fresh(wanted, self._taken)

    def constant(self, wanted: str, values: NDArray[Any]) -> Tensor:
        """A new constant called ``wanted`` or like it."""
        return new_constant(self.fresh(wanted), values)

    def table(self, wanted: str, values: NDArray[Any]) -> Tensor:
        """The one constant of these values: nodes share equal tables."""
        key = type_name(values.dtype), values.shape, values.tobytes()
        if key not in self._tables:
            self._tables[key] = self.constant(wanted, values)
        return self._tables[key]

    def condition(self, tensor: Tensor, make: Callable[[], Tensor]) -> Tensor:
        """What ``make`` makes of ``tensor``, once: readers of a mask share its booleans.

        The tensor is kept too: its id is that of no other.
        """
        if id(tensor) not in self._conditions:
            self._conditions[id(tensor)] = tensor, make()
        return self._conditions[id(tensor)][1]

    def scalar(self, dtype: str, value: int) -> Tensor:
        """The one constant of this type and value: zero points and clamps are shared."""
        name = f"{dtype}_{value}".replace("-", "minus_")
        if name not in self._scalars:
            self._scalars[name] = self.constant(name, np.array(value, dtype))
        return self._scalars[name]


def rename_between(first: Node, last: Node, context: Context) -> None:
    """New names for what lies between two nodes of a row, whose values a pass has changed.

    A name stands for the same values in the original graph.
    """
    while last is not first:
        (tensor,) = [each for each in last.inputs if is_float(each) and producer(each)]
        tensor.name = context.fresh(f"{tensor.name}_for_{last.name}")
        (last,) = tensor.inputs


class Pass(ABC):
    """Rewrites nodes of the op types it names, one at a time.

    A pass keeps no state between nodes. ``guard`` looks at the node alone and may be asked
    before quantization; ``rewrite`` says what it did, and the manager holds it to that.
    """

    op_types: ClassVar[frozenset[str]]

    @property
    def name(self) -> str:
        """The class name in kebab-case."""
        return _in_kebab_case(type(self).__name__)

    def takes(self, node: Node) -> bool:
        """Whether ``node`` is one of those that this pass is asked about, of ``op_types``."""
        return node.op in self.op_types

    def guard(self, _graph: Graph, _node: Node) -> Declined | None:
        """Why this node can never be rewritten, or None."""
        return None

    @abstractmethod
    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite ``node`` in place, or say why not, or that it is another's."""


@cache
def _in_kebab_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


@dataclass(frozen=True)
class Watch:
    """Who looks on: ``after`` is called with name and graph after each pass.

    ``stop_after`` names the last pass to run.
    """

    after: Callable[[str, Graph], None] = lambda _name, _graph: None
    stop_after: str | None = None

    def stops_in(self, passes: Sequence[Pass]) -> bool:
        """Whether the last pass to run is one of ``passes``."""
        return self.stop_after in [each.name for each in passes]


UNWATCHED = Watch()


def run_passes(
    passes: Sequence[Pass], graph: Graph, context: Context, watch: Watch = UNWATCHED
) -> None:
    """Apply each pass to each node it names, in order; check what it did after each.

    Excluded nodes are passed over; what a rewrite adds inherits the selection of its node.
    Raises ModelError, naming the pass, for one that did something else than it says, or left
    a graph that is none.
    """
    context.adopt(graph)
    ops, whole = {node.op for node in graph.nodes}, None
    for position, each in enumerate(passes):
        asked, has_rewritten = _asked(each, graph, ops), False
        if asked:
            whole = whole or Snapshot(graph)
            has_rewritten = _run_pass(each, graph, asked, context, whole)
        if has_rewritten or position == 0:  # else it is as the pass before has left it
            tidy(graph)
            check_structure(graph, each.name)
            ops, whole = {node.op for node in graph.nodes}, None
        watch.after(each.name, graph)
        if each.name == watch.stop_after:
            return


def _asked(each: Pass, graph: Graph, ops: Set[str]) -> list[Node]:
    """The nodes of ``graph`` that ``each`` is asked about; ``ops``: the op types there are."""
    if each.op_types.isdisjoint(ops):
        return []
    return [node for node in graph.nodes if each.takes(node)]


def _run_pass(
    each: Pass, graph: Graph, asked: Sequence[Node], context: Context, whole: Snapshot
) -> bool:
    """Ask ``each`` about the nodes ``asked``; whether it has rewritten any.

    ``whole``: the graph before it. Where that is found to be true still it serves the next.
    """
    before: Snapshot | None = whole
    has_rewritten, still_true = False, True
    for node in asked:
        if not node.outputs or node.name in context.selection.excluded:
            continue  # an earlier rewrite of this pass took it away, or the user did
        count = len(graph.nodes)
        if count > SMALL:
            before = Snapshot(graph, node) if count <= LARGE else None
        elif before is None or not (still_true and before.is_whole):
            before = Snapshot(graph)
        outcome = _checked_outcome(each, graph, node, context, before)
        still_true = not isinstance(outcome, Rewritten)
        if isinstance(outcome, Declined):
            for name in outcome.of or [node.name]:
                context.record.declined.setdefault(name, outcome.reason)
        has_rewritten |= isinstance(outcome, Rewritten)
        for new in graph.nodes[count:]:
            context.selection.inherit(new, node)
    if whole.is_true() is has_rewritten:
        raise ModelError(
            _false_claim(each, "all nodes it was asked about", has_rewritten, asked)
        )
    return has_rewritten


def _checked_outcome(
    each: Pass, graph: Graph, node: Node, context: Context, before: Snapshot | None
) -> Outcome:
    """What ``each`` did with ``node``. Raises ModelError if that is not what it says.

    ``before``: of a small graph all, of a larger one what is near, and nothing of one with
    thousands of nodes: what was changed may lie farther away, and of that the whole is
    compared when the pass is through.
    """
    if before is None:
        return each.guard(graph, node) or each.rewrite(graph, node, context)
    near, record = before.near(node), context.record
    written = len(record.nodes), len(record.tensors)
    outcome = each.guard(graph, node) or each.rewrite(graph, node, context)
    is_same = before.is_true() and (len(record.nodes), len(record.tensors)) == written
    is_sure = not is_same or before.is_whole
    if is_sure and is_same is isinstance(outcome, Rewritten):
        raise ModelError(_false_claim(each, f"{node.op} {node.name!r}", is_same, near))
    return outcome


def _false_claim(each: Pass, what: str, said_rewritten: bool, near: Sequence[Node]) -> str:
    said = "rewrote" if said_rewritten else "left alone"
    did = "is as it was" if said_rewritten else "has changed"
    return (
        f"pass {each.name} says that it {said} {what}, but the graph {did}: please report "
        f"this model. Around it:\n{described(near[:_SHOWN])}"
    )


_SHOWN = 12
"""So many nodes are printed with a failure."""
