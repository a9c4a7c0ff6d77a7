"""Recurrent nets whose rows come before their steps, which onnxruntime does not run."""

from collections.abc import Iterator, Mapping, Sequence

from onnx import ModelProto, NodeProto, helper

from qpasses.ir.graph import fresh
from qpasses.ir.model_nodes import nested_graphs, nodes_of

_RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
_INPUTS: Mapping[int, Sequence[int]] = {0: (1, 0, 2), 5: (1, 0, 2), 6: (1, 0, 2)}
_OUTPUTS: Mapping[int, Sequence[int]] = {0: (2, 0, 1, 3), 1: (1, 0, 2), 2: (1, 0, 2)}
"""By place: how what has rows first is transposed from or to what has them later."""


def time_first(model: ModelProto) -> ModelProto:
    """``model``, LSTM, GRU and RNN of layout 1 written as those of layout 0.

    before: ``y, h = GRU <layout = 1> (x, w, r, b, "", start)``
    after:  ``xt = Transpose (x); st = Transpose (start); yt, ht = GRU (xt, w, r, b, "", st);
    y = Transpose (yt); h = Transpose (ht)``
    The model itself where there is none, else a copy.
    """
    if not any(map(_has_rows_first, nodes_of(model))):
        return model
    made = ModelProto()
    made.CopyFrom(model)
    taken = {
        name
        for graph in nested_graphs(made.graph)
        for names in [[each.name for each in (*graph.input, *graph.initializer)]]
        + [[node.name, *node.input, *node.output] for node in graph.node]
        for name in names
    }
    for graph in nested_graphs(made.graph):
        nodes = [new for node in graph.node for new in _written(node, taken)]
        del graph.node[:]
        graph.node.extend(nodes)
    return made


def _has_rows_first(node: NodeProto) -> bool:
    if node.op_type not in _RECURRENT or node.domain:
        return False
    return any(each.name == "layout" and each.i == 1 for each in node.attribute)


def _written(node: NodeProto, taken: set[str]) -> Iterator[NodeProto]:
    """``node``, or what stands for it."""
    if not _has_rows_first(node):
        yield node
        return
    made, behind = NodeProto(), []
    made.CopyFrom(node)
    del made.attribute[:]
    made.attribute.extend(each for each in node.attribute if each.name != "layout")
    for place, order in _INPUTS.items():
        if place < len(node.input) and node.input[place]:
            made.input[place] = fresh(f"{node.input[place]}.time_first", taken)
            yield _transposed(node.input[place], made.input[place], order, taken)
    for place, order in _OUTPUTS.items():
        if place < len(node.output) and node.output[place]:
            made.output[place] = fresh(f"{node.output[place]}.time_first", taken)
            behind.append(_transposed(made.output[place], node.output[place], order, taken))
    yield made
    yield from behind


def _transposed(x: str, y: str, order: Sequence[int], taken: set[str]) -> NodeProto:
    return helper.make_node("Transpose", [x], [y], fresh(f"{y}/Transpose", taken), perm=order)
