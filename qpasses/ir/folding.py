"""Folding: what depends on no input is computed, sizes and the branches of If too."""

import numpy as np

from calibration.draws import DRAWN
from qpasses.ir.flow import CARRIED_OUT, FLOW, JOINED
from qpasses.ir.graph import (
    Graph,
    Node,
    add_node,
    constant,
    fresh,
    is_graph,
    is_graph_output,
    names,
    new_constant,
    new_tensor,
    varies,
)
from qpasses.ir.order import drop_unread, sort_nodes


def fold_constants(graph: Graph) -> bool:
    """Compute what depends on no input; shapes too, where they are known.

    A branch that is always taken takes the place of its If; whether there was one, of whose
    tensors little is known, or a state that no iteration changes.
    """
    _fold(graph)
    has_taken = False
    while _take_branches(graph, graph):
        has_taken = True
        _fold(graph)
    return has_taken


def _fold(graph: Graph) -> None:
    _cut_shapes(graph)
    if any(map(_may_fold, graph.nodes)):
        _fold_nodes(graph)
    for each in (graph, *graph.subgraphs(recursive=True)):
        _name_wholes(each)
    drop_unread(graph)


def _may_fold(node: Node) -> bool:
    """Whether onnx-graphsurgeon may find anything to fold here, or from here on.

    What it folds begins with constants alone, with a shape that is known, or in a body; and it
    takes casts of shapes away. Of a graph without any it would make copies, for nothing.
    """
    if node.op in _FOLDED or any(map(is_graph, node.attrs.values())):
        return True
    return not any(map(varies, node.inputs))


_FOLDED = frozenset({"Cast", "Constant", "Shape"})


def _fold_nodes(graph: Graph) -> None:
    """Bodies behind the graph around them; graphsurgeon would fold what draws there too."""
    graph.fold_constants(
        recurse_subgraphs=False, flatten_subgraphs=False, should_exclude_node=_draws
    )
    for inner in graph.subgraphs():
        inner.ir_version = graph.ir_version  # else the newest of onnx
        _fold_nodes(inner)


def _draws(node: Node) -> bool:
    """Whether its results, or those of a node of its bodies, are others in each run.

    Or in each iteration. Or no tensors: graphsurgeon, which takes a sequence for one, folds
    nothing then.
    """
    if node.domain == FLOW or node.op in _OF_NO_TENSORS:
        return True
    bodies = [each for each in node.attrs.values() if is_graph(each)]
    is_training = node.op == "Dropout" and len(node.inputs) > 2
    return node.op in DRAWN or is_training or any(_draws(n) for g in bodies for n in g.nodes)


_OF_NO_TENSORS = frozenset(
    {
        *("Optional", "OptionalGetElement", "SequenceConstruct", "SequenceEmpty"),
        *("SequenceErase", "SequenceInsert", "SequenceMap", "SplitToSequence", "StringSplit"),
    }
)
"""What gives sequences, or tensors that may not be there."""


def _cut_shapes(graph: Graph) -> None:
    """Let a Slice cut what a Shape gives a part of: onnx-graphsurgeon folds it as a whole."""
    taken = names(graph)
    for inner in (value for n in graph.nodes for value in n.attrs.values() if is_graph(value)):
        _cut_shapes(inner)
    for node in [each for each in graph.nodes if each.op == "Shape"]:
        start, end = node.attrs.pop("start", 0), node.attrs.pop("end", _LAST)
        if (start, end) == (0, _LAST):
            continue
        (part,) = node.outputs
        whole = new_tensor(fresh(f"{part.name}_whole", taken), part)
        whole.shape = None if node.inputs[0].shape is None else [len(node.inputs[0].shape)]
        node.outputs = [whole]
        ends = [
            new_constant(fresh(f"{part.name}_{what}", taken), np.array([value]))
            for what, value in (("start", start), ("end", end))
        ]
        add_node(graph, "Slice", fresh(f"{node.name}_part", taken), [whole, *ends], [part])
    sort_nodes(graph)


_LAST = (1 << 63) - 1


def _name_wholes(graph: Graph) -> None:
    """Let a Slice of all there is be an Identity: PyTorch writes ``x[:, t]`` with one.

    ONNX's inference would take its sizes for unknown ones.
    """
    for node in filter(_takes_all, graph.nodes):
        if is_graph_output(graph, node.outputs[0]):
            continue  # an Identity might connect an input to it
        node.op, node.attrs, node.inputs = "Identity", {}, node.inputs[:1]


def _takes_all(node: Node) -> bool:
    """Whether ``node`` is a Slice of all, of tensors of any sizes."""
    if node.op != "Slice" or node.domain or len(node.inputs) < 3:
        return False
    starts, ends, *others = map(constant, node.inputs[1:])
    if starts is None or ends is None or any(each is None for each in others):
        return False
    is_in_steps = len(others) < 2 or bool(np.all(np.asarray(others[1]) == 1))
    return is_in_steps and not starts.any() and bool(np.all(ends >= _LONGEST))


_LONGEST = (1 << 31) - 1
"""What exporters write for the end of an axis, or anything above."""


def _take_branches(graph: Graph, whole: Graph) -> bool:
    """Put the branch in the place of each If of a constant in ``graph``; whether there is any.

    ``whole``: ``graph``, or what it is a body in. onnx-graphsurgeon, asked to do so, lets
    outputs of the If be written by nobody that the branch reads itself or has from outside.
    """
    inner = [_take_branches(each, whole) for each in graph.subgraphs()]
    found = [(node, branch) for node in graph.nodes if (branch := _branch_taken(node))]
    for node, branch in found:
        place = next(i for i, each in enumerate(graph.nodes) if each is node)
        results = list(node.outputs)
        node.inputs.clear()
        node.outputs.clear()
        del graph.nodes[place]
        made = _freed(branch, whole)
        for inside, outside in zip(branch.outputs, results, strict=True):
            if not outside.is_empty():
                name = f"{node.name or node.op}_{outside.name}"
                made.append(Node("Identity", name, {}, [inside], [outside]))
        graph.nodes[place:place] = made
    settled = _settle_joined(graph), _settle_states(graph)
    return any(settled) or bool(found) or any(inner)


def _settle_joined(graph: Graph) -> bool:
    """Let the results of each spliced If of a constant be those of one branch."""
    found = [node for node in graph.nodes if node.op == JOINED and _is_known(node)]
    for node in found:
        condition, then, other = node.inputs
        taken = then if np.asarray(condition.values).item() else other
        node.op, node.domain, node.attrs, node.inputs = "Identity", None, {}, [taken]
    return bool(found)


def _settle_states(graph: Graph) -> bool:
    """Let what iterations leave as they find it be read as it is outside: weights are so."""
    found = [n for n in graph.nodes if n.op == CARRIED_OUT and n.inputs[0] is n.inputs[1]]
    for node in found:
        start = node.inputs[1].inputs[0]
        given = start.inputs[0]
        for each in (start, node):
            each.op, each.domain, each.attrs, each.inputs = "Identity", None, {}, [given]
    return bool(found)


def _is_known(node: Node) -> bool:
    condition = constant(node.inputs[0])
    return condition is not None and condition.size == 1


def _branch_taken(node: Node) -> Graph | None:
    if node.op != "If" or not _is_known(node):
        return None
    condition = np.asarray(node.inputs[0].values)
    return node.attrs["then_branch" if condition.item() else "else_branch"]


def _freed(branch: Graph, whole: Graph) -> list[Node]:
    """The nodes of ``branch``, they and what they write under names that are free."""
    bodies = [whole, *whole.subgraphs(recursive=True), *branch.subgraphs(recursive=True)]
    taken = set[str]().union(*map(names, bodies))
    for node in branch.nodes:
        node.name = fresh(node.name or node.op, taken)
        for tensor in node.outputs:
            if not tensor.is_empty():
                tensor.name = fresh(tensor.name, taken)
    return list(branch.nodes)
