"""What onnxruntime does without and ONNX's checker asks for: order, types, single names."""

import heapq
from collections.abc import Iterator, Sequence

import onnx

from qpasses.ir.model_nodes import nested_graphs
from qpasses.load.dense import has_sparse, make_dense


def completed(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with outputs that have types, plain constants written once, nodes in order.

    The model itself if nothing is missing, else a copy.
    """
    graphs = [*nested_graphs(model.graph)]
    is_sorted = all(_order(graph.node) is None for graph in graphs)
    is_whole = not any(_untyped(each) or _has_sizes_below_0(each) for each in graphs)
    if is_sorted and is_whole and not any(map(_repeated, graphs)) and not has_sparse(model):
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    make_dense(made)
    if any(not value.HasField("type") for value in made.graph.output):
        _infer_outputs(made)
    for graph in nested_graphs(made.graph):
        _complete_types(graph)
        _free_sizes_below_0(graph)
        for place in reversed(_repeated(graph)):
            del graph.node[place]
        if order := _order(graph.node):
            nodes = [graph.node[place].SerializeToString() for place in order]
            del graph.node[:]
            graph.node.extend(map(onnx.NodeProto.FromString, nodes))
    return made


def _untyped(graph: onnx.GraphProto) -> bool:
    return not all(value.HasField("type") for value in [*graph.output, *graph.value_info])


def _complete_types(graph: onnx.GraphProto) -> None:
    """Outputs without a type have that which the file says elsewhere."""
    known = {value.name: value for value in graph.value_info if value.HasField("type")}
    for value in graph.output:
        if not value.HasField("type") and value.name in known:
            value.CopyFrom(known[value.name])
    kept = [onnx.ValueInfoProto.FromString(v.SerializeToString()) for v in known.values()]
    del graph.value_info[:]
    graph.value_info.extend(kept)


def _infer_outputs(model: onnx.ModelProto) -> None:
    """Give outputs without a type that which follows from the nodes, if any does."""
    inferred = onnx.shape_inference.infer_shapes(model)
    known = {
        value.name: value for value in [*inferred.graph.output, *inferred.graph.value_info]
    }
    for value in model.graph.output:
        if not value.HasField("type") and value.name in known:
            value.CopyFrom(known[value.name])


def _values(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    return [*graph.input, *graph.output, *graph.value_info]


def _has_sizes_below_0(graph: onnx.GraphProto) -> bool:
    return any(
        dim.dim_value < 0
        for value in _values(graph)
        for dim in value.type.tensor_type.shape.dim
    )


def _free_sizes_below_0(graph: onnx.GraphProto) -> None:
    """A size of -1 says what no size says: that it is free."""
    for value in _values(graph):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value < 0:
                dim.ClearField("dim_value")


def _repeated(graph: onnx.GraphProto) -> list[int]:
    """The places of Constant nodes whose tensor another one writes: the last one counts."""
    places = [place for place, node in enumerate(graph.node) if node.op_type == "Constant"]
    last = {graph.node[place].output[0]: place for place in places}
    return [place for place in places if place != last[graph.node[place].output[0]]]


def _order(nodes: Sequence[onnx.NodeProto]) -> list[int] | None:
    """The places of ``nodes``, each behind those that write what it reads.

    They stay in their order as far as may be. None if they are in order, or read each other in
    a circle.
    """
    writers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    before = [{writers[name] for name in _read(node) if name in writers} for node in nodes]
    if all(place > max(found, default=-1) for place, found in enumerate(before)):
        return None
    readers: list[list[int]] = [[] for _ in nodes]
    for place, found in enumerate(before):
        for writer in found:
            readers[writer].append(place)
    missing = [len(found) for found in before]
    ready = [place for place, count in enumerate(missing) if not count]
    order = []
    while ready:
        place = heapq.heappop(ready)
        order.append(place)
        for reader in readers[place]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    return order if len(order) == len(nodes) else None


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads, its bodies included."""
    yield from node.input
    for attribute in node.attribute:
        for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            yield from (
                name for graph in nested_graphs(body) for n in graph.node for name in n.input
            )
            yield from (value.name for graph in nested_graphs(body) for value in graph.output)
