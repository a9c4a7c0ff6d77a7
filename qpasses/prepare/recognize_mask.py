"""RecognizeMask: what drops scores before a Softmax selects instead of being added."""

from collections.abc import Iterator
from enum import Enum, auto
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    add_node,
    constant,
    is_float,
    new_tensor,
    producer,
    rank,
    redirect,
    sole_consumer,
)
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.masks import DROPPING, Flags, Reader

_EQUAL = -(2.0**29)
"""Of scores to which at most this is added float32 keeps nothing: they are all alike."""

_LOWEST = float(np.finfo(np.float32).min)
"""In place of minus infinity, so that rows that are dropped as a whole are numbers."""


_ADDING = frozenset({"Add", "Sub"})


class _Change(Enum):
    """What became of a node that may mask scores."""

    NONE = auto()
    SOME = auto()
    NO_NAN = auto()
    """Minus infinity dropped scores: rows without any were NaN, and are not any more."""


class RecognizeMask(Pass):
    """Let what is added to scores to drop some of them before a Softmax select instead.

    before: ``y = Softmax (Add (scores, Mul (Sub (1, m), -10000)))``
    after:  ``y = Softmax (Where (Cast (m), scores, -10000))``
    **Exact** as far as exponentials of dropped scores are 0 in float32, for masks of 0 and 1.
    A row that is dropped as a whole stays as it is, by an Or with rows that have no other, or
    has equal shares where the number is so low that float32 keeps nothing of the scores. So
    has one of minus infinity, which is NaN in float; what asks for NaN behind it asks for such
    rows. A constant that drops some scores and moves others is taken apart into both.
    """

    op_types: ClassVar = frozenset({"Softmax"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite all masks that one Softmax reads scores through."""
        if node.inputs[0].dtype not in (None, np.float32):
            return NOT_MINE  # it stays float, and what drops would be of another type
        reader, dims = Reader(graph, context), rank(node.inputs[0])
        is_last = node.attrs.get("axis", -1) in (-1, (dims or 0) - 1)
        adding = [each for each in _before(graph, node, context) if each.op in _ADDING]
        if not is_last and any(_added(each, reader) for each in adding):
            return Declined("Softmax along another axis than the last of masked scores")
        floors: list[Node] = []
        changes: list[_Change] = []
        for before in _before(graph, node, context):
            found = _added(before, reader) if before.op in _ADDING else None
            if found is not None:
                changes.append(_select(graph, before, *found, reader))
            elif before.op == "Where":
                changes.append(_simplify(before, reader))
            elif before.op == "Max":
                floors.append(before)
            if before.op == "Where" and _filled(before) is not None:
                changes += [_removed(graph, each) for each in floors]
                floors = []
        if _Change.NO_NAN in changes:
            _find_dropped_rows(graph, node, reader)
        return REWRITTEN if set(changes) - {_Change.NONE} else NOT_MINE


def _before(graph: Graph, node: Node, context: Context) -> Iterator[Node]:
    """What may mask the scores that ``node`` reads, the last first, which may change."""
    tensor, reader = node.inputs[0], node
    while (before := producer(tensor)) is not None:
        is_alone = sole_consumer(graph, tensor) is reader
        if not is_alone or not is_float(tensor) or before.name in context.selection.excluded:
            return
        yield before
        if before.op == "Where":
            operand = _filled(before)
        elif before.op == "Reshape" and _ends_alike(before):
            operand = before.inputs[0]
        elif before.op == "Max":
            operand = _floored(before)
        else:
            return
        if operand is None:
            return
        tensor, reader = operand, before


def _filled(node: Node) -> Tensor | None:
    """The scores of a Where whose other side drops what is not chosen; None of another."""
    sides = node.inputs[1:]
    others = [other for t, other in zip(sides, reversed(sides), strict=True) if _drops(t)]
    return others[0] if len(others) == 1 else None


def _drops(tensor: Tensor) -> bool:
    """Whether it is a constant that drops all scores, or a number expanded to their shape."""
    value, writer = constant(tensor), producer(tensor)
    if writer is not None and writer.op == "Expand":
        value = constant(writer.inputs[0])
    return value is not None and value.size > 0 and bool((value <= DROPPING).all())


def _floored(node: Node) -> Tensor | None:
    """What a Max keeps from falling below a number that drops scores; None of another."""
    numbers = [v for t in node.inputs if (v := constant(t)) is not None and _drops(t)]
    others = [each for each in node.inputs if constant(each) is None]
    is_floor = len(numbers) == len(others) == 1 and numbers[0].size == 1
    return others[0] if is_floor else None


def _removed(graph: Graph, floor: Node) -> _Change:
    """Let scores pass by the Max ``floor``: dropped ones need none."""
    operand = _floored(floor)
    if operand is None:
        return _Change.NONE
    redirect(graph, floor.outputs[0], operand)
    return _Change.SOME


def _ends_alike(node: Node) -> bool:
    """Whether the last axis of what a Reshape reads and writes has one known size."""
    ends = [(tensor.shape or [None])[-1] for tensor in (node.inputs[0], node.outputs[0])]
    return ends[0] is not None and ends[0] == ends[1]


def _added(node: Node, reader: Reader) -> tuple[Tensor, Tensor | None, Flags] | None:
    """Scores, what else is added to them, and the mask in an Add or Sub; None without."""
    for index, tensor in enumerate(node.inputs):
        scores = node.inputs[1 - index]
        if constant(scores) is not None or (node.op == "Sub" and index == 0):
            continue
        for rest, each in [(None, tensor), *(_terms(tensor) if node.op == "Add" else [])]:
            flags = reader.read(each)
            if flags is not None and node.op == "Sub":
                flags = flags.mapped(lambda x: -x)
            if flags is not None and flags.is_mask and _is_as_wide(scores, node.outputs[0]):
                return scores, rest, flags
        value = constant(tensor)
        if value is not None and _is_as_wide(scores, node.outputs[0]):
            signed = -value if node.op == "Sub" else value
            found = _taken_apart(tensor.name, signed, reader)
            if found is not None:
                return scores, *found
    return None


def _taken_apart(
    name: str, values: NDArray[Any], reader: Reader
) -> tuple[Tensor, Flags] | None:
    """Constant ``values`` as what is added to scores, and what drops them; None without."""
    drops = values <= DROPPING
    if not drops.any() or drops.all():
        return None
    make = partial(reader.context.constant, f"{name}.is_low", drops)
    rest = np.where(drops, values.dtype.type(0), values)
    flags = Flags(float(values[drops].min()), 0.0, make)
    return reader.context.constant(f"{name}.others", rest), flags


def _terms(tensor: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The two terms that make ``tensor``, each behind the other."""
    writer = producer(tensor)
    if writer is None or writer.op != "Add":
        return []
    first, second = writer.inputs
    return [(first, second), (second, first)]


def _is_as_wide(scores: Tensor, result: Tensor) -> bool:
    """Whether a mask adds no axis to scores."""
    return rank(scores) is not None and rank(scores) == rank(result)


def _select(
    graph: Graph, node: Node, scores: Tensor, rest: Tensor | None, flags: Flags, reader: Reader
) -> _Change:
    """A Where in place of ``node``, of scores to which what is no mask is added before."""
    context = reader.context
    if rest is not None:
        total = new_tensor(context.fresh(f"{node.outputs[0].name}_unmasked"), node.outputs[0])
        add_node(graph, "Add", context.fresh(f"{node.name}.rest"), [scores, rest], [total])
        scores = total
    context.masks |= flags.assumed
    context.has_masks = True
    lowest, keeps = max(min(flags.yes, flags.no), _LOWEST), flags.yes > flags.no
    condition = flags.make()
    if lowest > _EQUAL:
        condition = reader.or_none(condition if keeps else reader.negated(condition))
        keeps = True
    fill = context.constant(f"{node.name}.lowest", np.array(lowest, np.float32))
    node.op, node.attrs = "Where", {}
    node.inputs = [condition, scores, fill] if keeps else [condition, fill, scores]
    return _Change.NO_NAN if np.isinf([flags.yes, flags.no]).any() else _Change.SOME


def _simplify(node: Node, reader: Reader) -> _Change:
    """A Where of scores: one number beside them, and a condition that no floats make."""
    scores, change = _filled(node), _Change.NONE
    if scores is None:
        return change
    place, context = 1 if node.inputs[2] is scores else 2, reader.context
    writer = producer(node.inputs[place])
    value = constant(node.inputs[place] if writer is None else writer.inputs[0])
    is_wide = writer is not None and scores.shape != node.outputs[0].shape
    if value is not None and value.size == 1 and not is_wide:
        change = _Change.NO_NAN if np.isinf(value).any() else _Change.SOME
        context.has_masks |= change is _Change.NO_NAN
        lowest = np.maximum(value.reshape(()), np.float32(_LOWEST))
        node.inputs[place] = context.constant(f"{node.name}.lowest", lowest)
    flags = reader.read(node.inputs[0]) if _made_of_floats(node.inputs[0]) else None
    if flags is not None and {flags.yes, flags.no} == {0.0, 1.0}:
        context.masks |= flags.assumed
        node.inputs[0] = flags.make() if flags.yes else reader.negated(flags.make())
        change = _Change.SOME if change is _Change.NONE else change
    return change


def _find_dropped_rows(graph: Graph, node: Node, reader: Reader) -> None:
    """Booleans in place of IsNaN of what ``node`` writes, if one Where alone drops scores."""
    asked = [each for each in node.outputs[0].outputs if each.op == "IsNaN"]
    before = producer(node.inputs[0])
    scores = _filled(before) if before is not None and before.op == "Where" else None
    if not asked or before is None or scores is None or _is_filled(scores):
        return
    keep = before.inputs[0]
    none = reader.none(keep if before.inputs[1] is scores else reader.negated(keep))
    for each in asked:
        redirect(graph, each.outputs[0], none)


def _is_filled(tensor: Tensor) -> bool:
    """Whether scores are dropped before, too."""
    writer = producer(tensor)
    return writer is not None and writer.op == "Where" and _filled(writer) is not None


def _made_of_floats(tensor: Tensor) -> bool:
    """Whether a condition is computed from floats that are no constants."""
    writer = producer(tensor)
    if writer is None:
        return is_float(tensor) and constant(tensor) is None
    return is_float(tensor) or any(map(_made_of_floats, writer.inputs))
