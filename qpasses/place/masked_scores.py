"""Masked scores: how far below the lowest of them the code of what is dropped lies."""

from dataclasses import dataclass, replace
from math import log

from calibration import Range
from qpasses.ir.graph import Graph, Node, Tensor, is_graph_output, producer
from qpasses.ir.moving import moved, moves
from qpasses.ir.patterns import data_inputs, real_value_of
from qpasses.ir.rewriting import Context
from qpasses.place.planning import Plan
from qpasses.place.ranges import MASKED, Ranges
from qpasses.place.tensor_parameters import step_of
from qpasses.prepare.recognition.masks import DROPPING

_LONGEST = 1 << 16
"""The length of rows where it is not known."""


@dataclass(frozen=True)
class Masked:
    """The names of masked scores before a Softmax, and of the ``scores`` they are made of.

    ``readers``: the Softmax nodes that read them, by way of moving ones too.
    """

    result: str
    scores: str
    readers: tuple[Node, ...]


def masked(graph: Graph, chosen: Plan) -> list[Masked]:
    """The tensors of masked scores that are going to be stored, in graph order."""
    found, moved_on = [], _read_by_softmax(graph)
    for name, tensor in chosen.tensors.items():
        scores = _scores(tensor) if id(tensor) in moved_on else None
        readers = _readers(graph, tensor) if scores is not None else ()
        if scores is not None and scores.name in chosen.tensors and readers:
            found.append(Masked(name, scores.name, readers))
    return found


def _read_by_softmax(graph: Graph) -> set[int]:
    """The tensors, by id, that a Softmax reads, itself or by way of moving nodes."""
    waiting = [node.inputs[0] for node in graph.nodes if node.op == "Softmax"]
    found = set(map(id, waiting))
    while waiting:
        writer = producer(waiting.pop())
        for tensor in moved(writer) if writer is not None and moves(writer) else ():
            if id(tensor) not in found:
                found.add(id(tensor))
                waiting.append(tensor)
    return found


def with_masked_ranges(graph: Graph, chosen: Plan, found: Ranges, context: Context) -> Ranges:
    """``found``, and what masked scores are stored with: the lowest code drops them.

    With n codes in a row, the lowest score s and steps of y, exponentials of what lies
    ``log(2 * n / y)`` below s are together less than half a step beside that of any score.
    """
    ranges, methods = dict(found.ranges), dict(found.methods)
    for each in masked(graph, chosen):
        if each.scores not in found.ranges:
            continue
        scores = found.ranges[each.scores]
        room = max(_room(reader, found, context) for reader in each.readers)
        ranges[each.result] = Range(scores.low - room, scores.high)
        methods[each.result] = MASKED
    return replace(found, ranges=ranges, methods=methods)


def with_added_masks(graph: Graph, chosen: Plan, found: Ranges, context: Context) -> Ranges:
    """``found``, and how masks are stored that are added to scores, like inputs of the graph.

    Scores and what is dropped lie apart by more than a code of all: a mask is stored down to
    where even the highest score falls to the code that drops all, ``_room`` below the lowest,
    if it was seen as low. What is lower is that, as long as a row has a score that is not
    dropped. Masks that are subtracted are the same the other way round.
    """
    ranges, methods = dict(found.ranges), dict(found.methods)
    for mask in [t for t in chosen.tensors.values() if t.name in found.ranges]:
        for op, turned in (("Add", _as_it_is), ("Sub", _turned)):
            real = turned(found.ranges[mask.name])
            if not real.low <= _FAR < real.high:
                continue
            sums = [_sum(graph, op, reader, mask, found) for reader in mask.outputs]
            known = [each for each in sums if each is not None]
            if not known or len(known) < len(sums):
                continue
            high, lowest = max(real.high, 0.0), 0.0
            stored = dict[str, Range]()
            for result, scores, readers in known:
                low = scores.low - max(_room(each, found, context) for each in readers)
                stored[result.name] = Range(low, scores.high + high)
                lowest = min(lowest, low - scores.high)
            if real.low <= lowest:
                stored[mask.name] = turned(Range(lowest, high))
                ranges |= stored
                methods |= dict.fromkeys(stored, MASKED)
    return replace(found, ranges=ranges, methods=methods)


_FAR = -64.0
"""Biases of scores are not as low; what is drops a score, where scores lie nearer together."""


def _as_it_is(real: Range) -> Range:
    return real


def _turned(real: Range) -> Range:
    return Range(-real.high, -real.low)


def _sum(
    graph: Graph, op: str, node: Node, mask: Tensor, found: Ranges
) -> tuple[Tensor, Range, tuple[Node, ...]] | None:
    """Masked scores, the range of the scores, and the Softmax nodes; None of another node."""
    others = [each for each in node.inputs if each is not mask]
    if node.op != op or len(others) != 1 or others[0].name not in found.ranges:
        return None
    if op == "Sub" and node.inputs[0] is mask:
        return None
    scores, readers = found.ranges[others[0].name], _readers(graph, node.outputs[0])
    return (node.outputs[0], scores, readers) if readers and scores.low > DROPPING else None


def _room(softmax: Node, found: Ranges, context: Context) -> float:
    x, y = softmax.inputs[0], softmax.outputs[0].name
    sizes = context.sizes.get(x.name)
    length = max(1, sizes[softmax.attrs.get("axis", -1)]) if sizes else _LONGEST
    real = found.ranges.get(y, Range(0.0, 1 / length))
    step = step_of(real, context.settings) if real.high > 0 else 1.0
    return log(2 * length / min(step, 1.0))


def _scores(tensor: Tensor) -> Tensor | None:
    """The scores that reach ``tensor`` through each Where that drops some, if there is one."""
    found = None
    while (node := producer(tensor)) is not None and moves(node) and node.op != "Pad":
        sides = data_inputs(node)
        if len(sides) != 1 or (node.op == "Where" and not _drops(node)):
            break
        found, tensor = sides[0] if node.op == "Where" else found, sides[0]
    return found


def _drops(node: Node) -> bool:
    """Whether the constant of a Where drops scores, wherever it is."""
    values = [value for t in node.inputs[1:] if (value := real_value_of(t)) is not None]
    return len(values) == 1 and values[0].size > 0 and bool((values[0] <= DROPPING).all())


def _readers(graph: Graph, tensor: Tensor) -> tuple[Node, ...]:
    """The Softmax nodes that read ``tensor``; none if anything else does."""
    found: list[Node] = []
    waiting: list[Tensor] = [tensor]
    while waiting:
        each = waiting.pop()
        if is_graph_output(graph, each):
            return ()
        for reader in each.outputs:
            if reader.op == "Softmax":
                found.append(reader)
            elif moves(reader) and (reader.op != "Where" or _drops(reader)):
                waiting += reader.outputs
            else:
                return ()
    return tuple(found)
