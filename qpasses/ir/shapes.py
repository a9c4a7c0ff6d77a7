"""Shapes: types and sizes of every tensor, inferred, and checked on a real sample."""

from collections.abc import Iterable, Sequence

import numpy as np
import onnx

from calibration import Session
from opsets.declaration import keeps_shape as keeps_shape
from qpasses.ir.cutting import cut
from qpasses.ir.inner_shapes import with_inner_shapes, with_states
from qpasses.ir.model_nodes import SIMPLIFIED, is_simplified, nested_graphs, nodes_of
from qpasses.ir.runtime import Arrays
from qpasses.ir.splicing import spliced

_SIZED = frozenset(
    {"AveragePool", "ConvTranspose", "GlobalAveragePool", "ReduceMean", "Resize"}
)
"""Ops whose integer form depends on the sizes of what they read, or gives others."""

FIRST = "the first sample"
"""On which sizes are asked for, as errors call it."""


def true_shapes(model: onnx.ModelProto, sample: Arrays | None) -> onnx.ModelProto:
    """``infer_types``, without sizes that are others on ``sample``.

    ONNX's rule for ceil_mode below opset 22 counts windows that start in the padding, which
    onnxruntime does not have: 4 for 3 behind a MaxPool. That for ConvTranspose with auto_pad
    adds output_padding twice.
    """
    inferred = infer_types(model, sample)
    if sample is None:
        return inferred
    graphs = [*nested_graphs(inferred.graph)]
    values = {v.name: v for graph in graphs for v in (*graph.value_info, *graph.output)}
    asked = [name for node in nodes_of(inferred) for name in _asked(node)]
    if not _mistaken(inferred, sample, [values[name] for name in asked if name in values]):
        return inferred
    fixed = all(_is_fixed(value) for value in inferred.graph.input)
    for value, sizes in _mistaken(inferred, sample, values.values()):
        shape = value.type.tensor_type.shape
        is_new = len(shape.dim) != len(sizes)
        if is_new:
            del shape.dim[:]
            shape.dim.extend(onnx.TensorShapeProto.Dimension() for _ in sizes)
        for dim, size in zip(shape.dim, sizes, strict=True):
            if is_new or dim.dim_value not in (0, size):  # free ones follow from data
                dim.Clear()
                if fixed:
                    dim.dim_value = size
    return inferred


def _asked(node: onnx.NodeProto) -> list[str]:
    """The tensors whose sizes the passes, or onnxruntime's optimizer, go by."""
    named = {attribute.name for attribute in node.attribute}
    is_asked = node.op_type in _SIZED or named & {"auto_pad", "ceil_mode"}
    return [node.input[0], node.output[0]] if is_asked else []


def _is_fixed(value: onnx.ValueInfoProto) -> bool:
    return all(_sizes(value))


def _mistaken(
    model: onnx.ModelProto, sample: Arrays, values: Iterable[onnx.ValueInfoProto]
) -> list[tuple[onnx.ValueInfoProto, Sequence[int]]]:
    """Those of ``values`` that have other sizes on ``sample`` than they say, with these."""
    said = [value for value in values if any(_sizes(value))]
    flat = spliced(model) if said else model
    if flat is not model:
        flat = cut(flat)  # without what nothing in a body reads
        written = {name for node in nodes_of(flat) for name in node.output}
        said = [value for value in said if value.name in written]
    if not said:
        return []
    names = [value.name for value in said]
    found = Session(_watching(flat, names), optimize=False).run(names, sample, FIRST)
    outside = {value.name for value in (*model.graph.input, *model.graph.output)}
    outside |= {name for node in model.graph.node for name in node.output}
    sizes = [np.shape(array) for array in found]
    pairs = [
        (value, real if value.name in outside else _of_one(value, real))
        for value, real in zip(said, sizes, strict=True)
    ]
    return [(value, real) for value, real in pairs if not _fits(_sizes(value), real)]


def _of_one(value: onnx.ValueInfoProto, sizes: Sequence[int]) -> Sequence[int]:
    """The sizes in one iteration, if ``sizes`` are those of a stack of them.

    What it says itself where they tell nothing: of a branch that was not taken.
    """
    count = len(_sizes(value))
    if 0 in sizes or not count <= len(sizes) <= count + 1:
        return _sizes(value)
    return sizes[len(sizes) - count :]


def _sizes(value: onnx.ValueInfoProto) -> list[int]:
    return [dim.dim_value for dim in value.type.tensor_type.shape.dim]


def _fits(said: Sequence[int], real: Sequence[int]) -> bool:
    """Whether sizes, 0 where they are free, are those of a real array."""
    return len(said) == len(real) and all(
        size in (0, other) for size, other in zip(said, real, strict=True)
    )


def infer_types(model: onnx.ModelProto, sample: Arrays | None) -> onnx.ModelProto:
    """``infer_shapes``; what ONNX cannot infer takes the type and rank it has on ``sample``.

    Operators of other domains hide the types of everything behind them.
    """
    inferred = infer_shapes(model)
    graph = inferred.graph
    known = {value.name for value in [*graph.value_info, *graph.output]}
    unknown = [
        name for node in graph.node for name in node.output if name and name not in known
    ]
    if not unknown or sample is None:
        return inferred
    found = Session(_watching(model, unknown), optimize=False).run(unknown, sample, FIRST)
    for name, value in zip(unknown, found, strict=True):
        if isinstance(value, np.ndarray):
            elem_type = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            info = onnx.helper.make_tensor_value_info(name, elem_type, [None] * value.ndim)
            graph.value_info.append(info)
    return infer_shapes(inferred)


def infer_shapes(model: onnx.ModelProto, inside: bool = True) -> onnx.ModelProto:
    """``model`` with value_info for every tensor whose type can be inferred.

    ``inside``: of what bodies compute too, which may be written otherwise then. What ONNX does
    not know of RMSNormalization it knows of LayerNormalization.
    """
    return with_inner_shapes(model, _inferred) if inside else _inferred(model)


def infer_states(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model``, whose bodies say what sizes are known of what they read."""
    return with_states(model, _inferred)


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    unknown = [index for index, node in enumerate(nodes_of(model)) if is_simplified(node)]
    if not unknown:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    known = onnx.ModelProto()
    known.CopyFrom(model)
    nodes = list(nodes_of(known))
    for index in unknown:
        nodes[index].op_type = "LayerNormalization"
    inferred = onnx.shape_inference.infer_shapes(known, data_prop=True)
    nodes = list(nodes_of(inferred))
    for index in unknown:
        nodes[index].op_type = SIMPLIFIED
    return inferred


def _watching(model: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
    """``model`` with the tensors ``names`` among its outputs."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    present = {value.name for value in watched.graph.output}
    watched.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in names if name not in present
    )
    return watched
