"""The Q/DQ model: float nodes between QuantizeLinear and DequantizeLinear, for other tools."""

import onnx

from qpasses.emit.provenance import Provenance, sign
from qpasses.ir.graph import Graph
from qpasses.ir.interchange import prepared_model


def emit_qdq(graph: Graph, provenance: Provenance) -> onnx.ModelProto:
    """The graph after ``place`` as a model of standard ONNX ops."""
    model = prepared_model(graph)
    sign(model, provenance)
    return model
