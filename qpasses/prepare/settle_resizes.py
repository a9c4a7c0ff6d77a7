"""Sizes of Resizes that nothing but a run tells: constants, along the axes they are for."""

from collections.abc import Mapping, Sequence

import numpy as np

from calibration.inputs import tensors
from qpasses.ir.graph import (
    Graph,
    Node,
    absent,
    constant,
    fresh,
    input_at,
    names,
    new_constant,
)
from qpasses.ir.interchange import prepared_model
from qpasses.ir.run_sizes import run_sizes
from qpasses.ir.runtime import Arrays

_WITH_AXES = 18
"""The first opset whose Resize has sizes for some axes alone."""

Sizes = Mapping[str, Sequence[int]]


def settle_resizes(graph: Graph, sample: Arrays | None) -> bool:
    """Give Resizes to computed sizes those that they have in every run; whether there are any.

    before: ``y = Resize(x, , , Concat(Slice(Shape(x)), ...))``
    after:  ``y = Resize <axes = [2, 3]> (x, , , sizes)``
    Runs are on made-up numbers, of the sizes of ``sample`` and of free ones that are larger by
    one: what is the same in all does not follow from what is free. An axis that is as long
    before as behind is none to resize along. **Exact** as far as the sizes are.
    """
    asked = [node for node in graph.nodes if _is_computed(node)]
    if not asked or sample is None or graph.opset < _WITH_AXES:
        return False
    ends = [t.name for node in asked for t in (node.inputs[0], node.outputs[0])]
    given = {name: values.shape for name, values in tensors(sample).items()}
    runs = _runs(graph, given, ends)
    taken, found = names(graph), False
    for node in asked:
        axes = _axes(node, runs)
        if axes:
            sizes = [runs[0][node.outputs[0].name][axis] for axis in axes]
            name = fresh(f"{node.name}.sizes", taken)
            node.inputs[2] = absent()  # onnxruntime counts empty scales for axes
            node.inputs[3] = new_constant(name, np.array(sizes, np.int64))
            node.attrs["axes"] = axes
            found = True
    return found


def _is_computed(node: Node) -> bool:
    sizes = input_at(node, 3) if node.op == "Resize" and not node.domain else None
    plain = node.attrs.get("keep_aspect_ratio_policy", "stretch") == "stretch"
    return sizes is not None and constant(sizes) is None and plain and "axes" not in node.attrs


def _runs(graph: Graph, inputs: Sizes, ends: Sequence[str]) -> list[Sizes]:
    """The sizes of the tensors ``ends``, for those of ``inputs`` and for larger free ones."""
    model = prepared_model(graph)
    wanted = dict.fromkeys(ends)
    fed = [name for name in wanted if name in inputs]
    larger = {
        tensor.name: [
            size + (not isinstance(said, int))
            for size, said in zip(
                inputs[tensor.name], tensor.shape or inputs[tensor.name], strict=True
            )
        ]
        for tensor in graph.inputs
    }
    return [
        {name: given[name] for name in fed}
        | run_sizes(model, given, [name for name in wanted if name not in inputs])
        for given in (inputs, larger)
    ]


def _axes(node: Node, runs: Sequence[Sizes]) -> list[int]:
    """Those that are resized along, if all their sizes are the same in all ``runs``."""
    x, y = node.inputs[0].name, node.outputs[0].name
    if not all(x in run and y in run for run in runs):
        return []
    pairs = [list(zip(run[x], run[y], strict=True)) for run in runs]
    axes = [
        axis
        for axis, ends in enumerate(zip(*pairs, strict=True))
        if any(before != after for before, after in ends)
    ]
    return axes if all(run[axis] == pairs[0][axis] for run in pairs for axis in axes) else []
