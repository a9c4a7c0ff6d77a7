"""Sizes of the tensors of a float graph, for recorded sizes of its inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from qpasses.ir.graph import Graph, Node, constant
from qpasses.ir.interchange import export_graph, import_graph, prepared_model
from qpasses.ir.model_nodes import nested_graphs
from qpasses.ir.run_sizes import run_sizes
from qpasses.ir.shapes import infer_shapes

_LARGE = 1024


def sizes_of(graph: Graph, inputs: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    """By tensor, where all sizes are numbers once free ones take those of ``inputs``.

    Inferred, or where inference ends those of a run.
    """
    model = export_graph(graph)
    for body in nested_graphs(model.graph):
        del body.value_info[:]
        for value in body.output:
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
    for tensor in model.graph.initializer:
        if prod(tensor.dims) > _LARGE:  # no size is computed from so many numbers
            tensor.ClearField("raw_data")
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        for dim, size in zip(dims, inputs.get(value.name, []), strict=False):
            dim.dim_value = size
    sized = import_graph(infer_shapes(model))
    tensors = [*sized.inputs, *(t for node in sized.nodes for t in node.outputs)]
    shapes = {tensor.name: tensor.shape for tensor in tensors}
    known: dict[str, Sequence[int]] = {
        name: list(shape)
        for name, shape in shapes.items()
        if shape is not None and all(isinstance(size, int) for size in shape)
    }
    lost = [name for name in shapes if name and name not in known]
    return known | (run_sizes(prepared_model(graph), inputs, lost) if lost else {})


@dataclass(frozen=True)
class Counted:
    """What is measured of a float graph: how often nodes of iterations run, and products.

    By name; of those that run in no iteration nothing is said, nor of what is not known.
    """

    times: Mapping[str, int] = field(default_factory=dict)
    macs: Mapping[str, int] = field(default_factory=dict)

    def of(self, node: Node, sizes: Mapping[str, Sequence[int]]) -> int:
        """The multiply-accumulates of a node in all iterations, by ``sizes`` if it has any."""
        return self.total(node, products_of(node, sizes))

    def total(self, node: Node, once: int) -> int:
        """The same where one iteration takes ``once``, 0 if that is not known."""
        return once * self.times.get(node.name, 1) or self.macs.get(node.name, 0)


def products_of(node: Node, sizes: Mapping[str, Sequence[int]]) -> int:
    """The multiply-accumulates of a Conv, Gemm or MatMul; 0 where sizes are not known."""
    y, weights = sizes.get(node.outputs[0].name), constant(node.inputs[1])
    if y is None or (weights is None and node.inputs[1].name not in sizes):
        return 0
    if node.op == "Conv" and weights is not None:
        return int(prod(y) * prod(weights.shape[1:]))
    x = sizes.get(node.inputs[0].name)
    if x is None and (value := constant(node.inputs[0])) is not None:
        x = value.shape
    return int(prod(y) * x[-1]) if x else 0
