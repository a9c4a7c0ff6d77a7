"""States: inputs of a graph whose next values are outputs of it, which one scale is for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from qpasses.ir.flow import CARRIED, CARRIED_OUT, JOINED
from qpasses.ir.graph import (
    STORE,
    Graph,
    Node,
    Tensor,
    input_at,
    is_float,
    is_graph_output,
    varies,
)
from qpasses.ir.moving import moves
from qpasses.ir.record import Quantization
from qpasses.ir.recurrent_nodes import GATES, INITIAL_H
from qpasses.ir.state_names import state_pairs
from qpasses.place.last_steps import last_steps

STATES: Mapping[str, Mapping[int, int]] = {
    "GRU": {5: 1},
    "LSTM": {5: 1, 6: 2},
    "RNN": {5: 1},
}
"""By recurrent op: at which input a state comes in, at which output its next value leaves."""

LAYING = frozenset(
    {"Concat", "Expand", "Flatten", "Gather", "Reshape", "Slice", "Split", "Squeeze"}
    | {"Transpose", "Unsqueeze", JOINED, STORE}
)
"""Ops that move a state, or a part of it, from its input to where it is used and back."""

CUTTING = frozenset({"Gather", "Slice", "Split"})
"""Ops that take from a cache and what was joined to it what the next step needs."""


@dataclass(frozen=True)
class _Step:
    """A tensor that holds a state on its way.

    ``stage``: ``given``, as it came in; ``joined``, with what is new; ``next``, as it leaves;
    ``last``, as it leaves among the outputs of all steps.
    """

    tensor: Tensor
    stage: str


def find_states(graph: Graph, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Input and output of each state, by name: those that ``texts`` say, and those that are
    seen, in the order of the inputs.

    A state is seen by what becomes of an input. It comes, moved at most, to a recurrent node,
    a Loop or a Scan as a state of that, whose next value comes to an output; or it is joined
    to something by a Concat, and a Slice of that comes to an output. Branches of an If move
    what they give. Sizes of input and output agree where they are known. Where no next value
    comes to an output, what the last step of a recurrent node writes may. Where that makes
    several pairs of one end, none is seen.
    """
    said = state_pairs(texts)
    names = {name for pair in said for name in pair}
    found = list[tuple[str, str]]()
    for given in filter(is_float, graph.inputs):
        pairs = dict[str, list[tuple[str, str]]]()
        for stage, end in _ends_of(graph, given):
            if _fits(given, end) and names.isdisjoint((given.name, end.name)):
                pairs.setdefault(stage, []).append((given.name, end.name))
        found += pairs.get("next", pairs.get("last", []))
    starts, ends = ([pair[place] for pair in found] for place in (0, 1))
    alone = [(a, b) for a, b in found if starts.count(a) == 1 and ends.count(b) == 1]
    order = {tensor.name: place for place, tensor in enumerate(graph.inputs)}
    return sorted([*said, *alone], key=lambda pair: order.get(pair[0], len(order)))


def _ends_of(graph: Graph, given: Tensor) -> list[tuple[str, Tensor]]:
    """The outputs that hold the next value of ``given``, by stage, each once."""
    waiting, seen = [_Step(given, "given")], set[tuple[int, str]]()
    ends = list[tuple[str, Tensor]]()
    while waiting:
        step = waiting.pop()
        if (id(step.tensor), step.stage) in seen:
            continue
        seen.add((id(step.tensor), step.stage))
        if step.stage in ("next", "last") and is_graph_output(graph, step.tensor):
            ends.append((step.stage, step.tensor))
        for reader in {id(node): node for node in step.tensor.outputs}.values():
            waiting += _through(reader, step)
    return ends


def carried(node: Node) -> Mapping[int, int]:
    """At which inputs states come into a node, and at which outputs their next values leave.

    A Loop reads its trips and condition before them, a Scan what it goes along behind them.
    """
    if node.op == "Loop":
        return {place: place - 2 for place in range(2, len(node.inputs))}
    if node.op == "Scan":
        return {place: place for place in range(len(node.inputs) - node.attrs[_ALONG])}
    return STATES.get(node.op, {})


_ALONG = "num_scan_inputs"


def _through(node: Node, step: _Step) -> Iterator[_Step]:
    """Where ``node`` brings what it reads of a state."""
    if step.stage == "given":
        for place, result in carried(node).items():
            is_read = place < len(node.inputs) and node.inputs[place] is step.tensor
            if is_read and result < len(node.outputs):
                yield _Step(node.outputs[result], "next")
        if node.op in GATES and input_at(node, INITIAL_H) is step.tensor:
            yield from (_Step(each, "last") for each in last_steps(node))
        if node.op == CARRIED:
            readers = (each for each in node.outputs[0].outputs if each.op == CARRIED_OUT)
            for end in {id(each): each for each in readers}.values():
                if end.inputs[1] is node.outputs[0]:
                    yield _Step(end.outputs[0], "next")
    is_moved = node.op in ("Concat", JOINED) or node.inputs[0] is step.tensor
    if node.op not in LAYING or not moves(node) or not is_moved:
        return
    stages = [step.stage]
    others = (each for each in node.inputs if each is not step.tensor)
    if step.stage == "given" and node.op == "Concat" and any(map(varies, others)):
        stages.append("joined")
    if step.stage == "joined" and node.op in CUTTING:
        stages = ["next"]
    yield from (_Step(end, stage) for end in node.outputs for stage in stages)


def _fits(given: Tensor, end: Tensor) -> bool:
    """Whether both have the same type, and the same sizes where these are known."""
    if given.dtype != end.dtype or given.shape is None or end.shape is None:
        return False
    pairs = [*zip(given.shape, end.shape, strict=False)]
    known = all(a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))
    return len(given.shape) == len(end.shape) and known


def tied_states(
    graph: Graph, states: Sequence[tuple[str, str]], parameters: Mapping[str, Quantization]
) -> list[list[int]]:
    """By their places, inputs and outputs of the ``states`` that are stored in one way.

    A quantized model may say itself that they are not.
    """
    starts, ends = ([each.name for each in part] for part in (graph.inputs, graph.outputs))
    return [
        [starts.index(start), ends.index(end)]
        for start, end in states
        if parameters[start] == parameters[end]
    ]
