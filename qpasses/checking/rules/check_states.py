"""States: an input whose next value is an output is stored as that is."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from qpasses.checking.meaning import Pair
from qpasses.checking.rules.check_moving import MOVED
from qpasses.ir.graph import Graph, Node, Tensor, is_float, producer, varies
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
    shown = [
        (start, end)
        for end in range(len(ends))
        for start in _starts_of(graph, end)
        if is_float(graph.inputs[start]) and known.isdisjoint((("in", start), ("out", end)))
    ]
    firsts, lasts = ([each[k] for each in shown] for k in (0, 1))
    return said + [(a, b) for a, b in shown if firsts.count(a) == lasts.count(b) == 1]


def _starts_of(graph: Graph, place: int) -> Iterator[int]:
    """The inputs that the output at ``place`` is the next value of: followed backwards.

    ``cut``: whether a node took a part on the way, ``before``: whether it was found whose
    next value it is, so that what is read now is the state as it came in.
    """
    end = graph.outputs[place]
    places = {id(tensor): index for index, tensor in enumerate(graph.inputs)}
    waiting, seen = [(end, False, False)], set[tuple[int, bool, bool]]()
    found = set[int]()
    while waiting:
        tensor, cut, before = waiting.pop()
        if (id(tensor), cut, before) in seen:
            continue
        seen.add((id(tensor), cut, before))
        if before and id(tensor) in places and _may_be_one(tensor, end):
            found.add(places[id(tensor)])
        node = producer(tensor)
        if node is None:
            continue
        state = _state_of(node, tensor)
        if state is not None and not before:
            waiting.append((state, False, True))
        if node.op not in _LAID:
            continue
        parts = [each for each in node.inputs[MOVED[node.op][0]] if varies(each)]
        is_join = node.op == "Concat" and len({*map(id, parts)}) > 1
        for part in parts:
            waiting.append((part, cut or (not before and node.op in _CUT), before))
            if cut and not before and is_join:
                waiting.append((part, False, True))
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
