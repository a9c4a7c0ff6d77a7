"""States: an input whose next value is an output is stored as that is."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from qpasses.checking.meaning import Pair
from qpasses.checking.rules.check_moving import MOVED
from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    constant,
    input_at,
    is_float,
    producer,
    varies,
)
from qpasses.ir.record import AnyQuantization, Quantization
from qpasses.ir.state_names import state_pairs

_AS_STATE: Mapping[tuple[str, int], int] = {
    ("GRU", 1): 5,
    ("LSTM", 1): 5,
    ("LSTM", 2): 6,
    ("RNN", 1): 5,
}
"""By recurrent op and output that is a next value: the input that this is the value of."""

_LAID = frozenset(
    ("Concat", "Expand", "Flatten", "Gather", "Reshape", "Slice", "Split", "Squeeze")
) | {"Joined", "Transpose", "Unsqueeze"}
_CUT = frozenset(("Gather", "Slice", "Split"))


def check_states(pair: Pair) -> Iterator[str]:
    """One scale and type for both ends, and the metadata say so.

    What a quantized model stores in two ways, as it says itself, is no difference.
    """
    tied, is_quantized = [], bool(pair.known.meanings)
    for start, end in _wanted(pair):
        given, following = _given_as(pair, start), _follows_as(pair, end)
        if given is None or following is None:
            continue
        if _alike(given, following):
            tied.append([start, end])
        elif not is_quantized:
            one, other = pair.real.inputs[start].name, pair.real.outputs[end].name
            yield (
                f"state {one!r} is stored as {given}, its next value {other!r} as "
                f"{following}: what one step gives is not what the next one reads"
            )
    if sorted(pair.record.states) != sorted(tied):
        yield "the model's metadata on states are not what its graph says"


def _wanted(pair: Pair) -> list[tuple[int, int]]:
    """The places of the states that the user named, and of those that the graph shows."""
    graph = pair.real
    starts, ends = ([each.name for each in part] for part in (graph.inputs, graph.outputs))
    said = [
        (starts.index(start), ends.index(end))
        for start, end in state_pairs(pair.settings.states)
        if start in starts and end in ends
    ]
    known = {("in", start) for start, _ in said} | {("out", end) for _, end in said}
    every = [
        (start, end, by_steps)
        for end in range(len(ends))
        for start, by_steps in _starts_of(graph, end)
        if is_float(graph.inputs[start]) and known.isdisjoint((("in", start), ("out", end)))
    ]
    whole = {start for start, _, by_steps in every if not by_steps}
    shown = sorted({(a, b) for a, b, by_steps in every if not (by_steps and a in whole)})
    firsts, lasts = ([each[k] for each in shown] for k in (0, 1))
    return said + [(a, b) for a, b in shown if firsts.count(a) == lasts.count(b) == 1]


def _starts_of(graph: Graph, place: int) -> Iterator[tuple[int, bool]]:
    """The inputs that the output at ``place`` is the next value of: followed backwards.

    ``cut``: whether a node took a part on the way, ``before``: whether it was found whose
    next value it is, so that what is read now is the state as it came in. With each, whether
    it is what a last step writes among others.
    """
    end = graph.outputs[place]
    places = {id(tensor): index for index, tensor in enumerate(graph.inputs)}
    waiting, seen = [(end, False, False, False)], set[tuple[int, bool, bool, bool]]()
    found = set[tuple[int, bool]]()
    while waiting:
        tensor, cut, before, by_steps = waiting.pop()
        if (id(tensor), cut, before, by_steps) in seen:
            continue
        seen.add((id(tensor), cut, before, by_steps))
        if before and id(tensor) in places and _may_be_one(tensor, end):
            found.add((places[id(tensor)], by_steps))
        node = producer(tensor)
        if node is None:
            continue
        state = _state_of(node, tensor)
        if state is not None and not before:
            waiting.append((state, False, True, by_steps))
        state = _of_last_step(tensor)
        if state is not None and not before:
            waiting.append((state, False, True, True))
        if node.op not in _LAID:
            continue
        parts = [each for each in node.inputs[MOVED[node.op][0]] if varies(each)]
        is_join = node.op == "Concat" and len({*map(id, parts)}) > 1
        for part in parts:
            is_cut = cut or (not before and node.op in _CUT)
            waiting.append((part, is_cut, before, by_steps))
            if cut and not before and is_join:
                waiting.append((part, False, True, by_steps))
    yield from sorted(found)


def _state_of(node: Node, tensor: Tensor) -> Tensor | None:
    """What a recurrent node starts from, of which ``tensor`` is the next value."""
    if node.op == "CarriedOut":
        found = producer(node.inputs[1])
        return found.inputs[0] if found is not None and found.op == "Carried" else None
    for place, output in enumerate(node.outputs):
        slot = _AS_STATE.get((node.op, place))
        if node.op == "Loop":
            slot = place + 2
        elif node.op == "Scan" and place < len(node.inputs) - node.attrs["num_scan_inputs"]:
            slot = place
        if output is tensor and slot is not None and slot < len(node.inputs):
            return node.inputs[slot]
    return None


def _of_last_step(tensor: Tensor) -> Tensor | None:
    """What a forward node starts from whose last step writes ``tensor``."""
    node = producer(tensor)
    if node is None or node.op in _RECURRENT:
        is_one = tensor.shape is not None and tensor.shape[0] == 1
        return _start_of_steps(node, tensor) if node is not None and is_one else None
    if not node.inputs:
        return None
    tensor, axis = node.inputs[0], _last_taken(node)
    while axis is not None and (node := producer(tensor)) is not None:
        if node.op in _RECURRENT:
            return _start_of_steps(node, tensor) if axis == 0 else None
        rank, tensor = len(tensor.shape or ()), node.inputs[0]
        axes = constant(input_at(node, 1)) if node.op == "Squeeze" else None
        if axes is not None:
            left = {each % (rank + axes.size) for each in axes.tolist()}
            axis = [k for k in range(rank + axes.size) if k not in left][axis]
        else:
            is_turned = node.op == "Transpose"
            axis = node.attrs.get("perm", range(rank)[::-1])[axis] if is_turned else None
    return None


_RECURRENT = ("GRU", "LSTM", "RNN")


def _start_of_steps(node: Node, tensor: Tensor) -> Tensor | None:
    """The state of a forward node whose first output, time first, of all rows, it is."""
    is_forward = node.attrs.get("direction", "forward") == "forward"
    is_usual = is_forward and not node.attrs.get("layout", 0) and input_at(node, 4) is None
    return input_at(node, 5) if is_usual and tensor is node.outputs[0] else None


def _last_taken(node: Node) -> int | None:
    """Along which axis a Gather or a Slice takes the last place alone."""
    shape = node.inputs[0].shape
    given = [constant(each) for each in node.inputs[1:]]
    if shape is None or any(each is None or each.size != 1 for each in given):
        return None
    numbers = [int(each.item()) for each in given if each is not None]
    if node.op == "Gather":
        axis = int(node.attrs.get("axis", 0)) % len(shape)
        is_last = numbers[0] == -1 or numbers[0] + 1 == shape[axis]
    elif node.op == "Slice" and len(numbers) > 2 and numbers[3:] in ([], [1]):
        start, end, axis = numbers[0], numbers[1], numbers[2] % len(shape)
        size = shape[axis] if isinstance(shape[axis], int) else 2**31 - 1
        is_last = start in (-1, size - 1) and end >= size
    else:
        return None
    return axis if is_last else None


def _may_be_one(start: Tensor, end: Tensor) -> bool:
    """Whether types are equal, and sizes where both are numbers."""
    if start.dtype != end.dtype or start.shape is None or end.shape is None:
        return False
    if len(start.shape) != len(end.shape):
        return False
    pairs = zip(start.shape, end.shape, strict=True)
    return not any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)


def _alike(given: AnyQuantization, following: AnyQuantization) -> bool:
    """Whether one code means one number; fewer of them may be given than could be read."""
    ways = [
        replace(each, bits=8, narrow=False) if isinstance(each, Quantization) else each
        for each in (given, following)
    ]
    return ways[0] == ways[1]


def _given_as(pair: Pair, place: int) -> AnyQuantization | None:
    """How the input at ``place`` is stored where it comes in; None if nothing stores it."""
    tensor = pair.integer.inputs[place]
    stored = pair.meanings[tensor.name].stored
    for node in tensor.outputs:
        known = pair.meanings.get(node.outputs[0].name)
        if node.op == "QuantizeLinear" and known is not None:
            stored = stored or known.stored
    return stored


def _follows_as(pair: Pair, place: int) -> AnyQuantization | None:
    """How the output at ``place`` is stored; None if it is computed in float."""
    tensor = pair.integer.outputs[place]
    meaning, node = pair.meanings.get(tensor.name), producer(tensor)
    if meaning is not None and meaning.stored is not None:
        return meaning.stored
    if node is None or node.op != "DequantizeLinear":
        return None
    stored = pair.meanings.get(node.inputs[0].name)
    return None if stored is None else stored.stored
