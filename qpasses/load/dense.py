"""Sparse weights written out: a few runtimes read them, no rewriting does."""

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from qpasses.ir.model_nodes import nested_graphs


def has_sparse(model: onnx.ModelProto) -> bool:
    """Whether any weights are stored by position and value."""
    return any(
        graph.sparse_initializer or any(map(_sparse_value, graph.node))
        for graph in nested_graphs(model.graph)
    )


def make_dense(model: onnx.ModelProto) -> None:
    """Turn sparse initializers, and the values of Constant nodes, into plain tensors."""
    for graph in nested_graphs(model.graph):
        graph.initializer.extend(
            numpy_helper.from_array(_dense(each), each.values.name)
            for each in graph.sparse_initializer
        )
        del graph.sparse_initializer[:]
        for node in graph.node:
            if (attribute := _sparse_value(node)) is not None:
                value = numpy_helper.from_array(_dense(attribute.sparse_tensor))
                attribute.CopyFrom(helper.make_attribute("value", value))


def _sparse_value(node: onnx.NodeProto) -> onnx.AttributeProto | None:
    found = (each for each in node.attribute if each.HasField("sparse_tensor"))
    return next(found, None) if node.op_type == "Constant" else None


def _dense(tensor: onnx.SparseTensorProto) -> NDArray[np.generic]:
    """All its numbers: where none is said it is 0. Positions count through, or by axis."""
    values, places = map(numpy_helper.to_array, (tensor.values, tensor.indices))
    made = np.zeros(tuple(tensor.dims), values.dtype)
    if places.ndim == 1:
        made.reshape(-1)[places] = values
    else:
        made[tuple(places.T)] = values
    return made
