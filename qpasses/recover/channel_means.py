"""The mean of each channel of tensors, one of a sample, as outputs of a model."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_AXES_READ = 18
"""From this opset on reductions read their axes."""


def add_means(model: onnx.ModelProto, axes: Mapping[str, tuple[int, int]]) -> Sequence[str]:
    """Give ``model`` outputs, float32 [C] each; returned are their names.

    ``axes``: by tensor, its rank and the axis of its channels.
    """
    graph, made = model.graph, []
    opset = next(each.version for each in model.opset_import if each.domain == "")
    for name, (rank, axis) in axes.items():
        mean, others = f"{name}::mean", [k for k in range(rank) if k != axis]
        node = helper.make_node("ReduceMean", [name], [mean], keepdims=0)
        if opset >= _AXES_READ:
            node.input.append(f"{name}::axes")
            graph.initializer.append(numpy_helper.from_array(np.array(others), node.input[1]))
        else:
            node.attribute.append(helper.make_attribute("axes", others))
        graph.node.append(node)
        graph.output.append(helper.make_tensor_value_info(mean, TensorProto.FLOAT, None))
        made.append(mean)
    return made
