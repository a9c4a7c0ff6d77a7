"""The nodes of an ONNX model, those of bodies included."""

from collections.abc import Iterator

import onnx


def nested_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """``graph`` and the bodies of its If, Loop and Scan nodes, innermost first."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type not in _MAY_HOLD_GRAPHS:
                continue  # most: asking the type is a third of asking for both fields
            for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from nested_graphs(body)
    yield graph


_MAY_HOLD_GRAPHS = frozenset(
    {
        onnx.AttributeProto.UNDEFINED,  # as files of ONNX's first versions have it
        onnx.AttributeProto.GRAPH,
        onnx.AttributeProto.GRAPHS,
    }
)


def nodes_of(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """The nodes of all graphs of ``model``."""
    return (node for graph in nested_graphs(model.graph) for node in graph.node)


SIMPLIFIED = "SimplifiedLayerNormalization"
"""RMSNormalization as onnxruntime has it: in the domain of ONNX, which does not know it."""


def is_simplified(node: onnx.NodeProto) -> bool:
    """Whether it is the normalization that only onnxruntime knows."""
    return bool(node.op_type == SIMPLIFIED and not node.domain)
