"""ResizeToMatMul: interpolation that mixes more than two places is a product."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from calibration import Session
from qpasses.ir.graph import Graph, Node, Tensor, constant, input_at
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.ir.runtime import IR_VERSION
from qpasses.prepare.recognition.expansion import Expansion

LARGEST = 1 << 22
"""So many numbers a matrix may hold: from 2,048 places to as many."""


class ResizeToMatMul(Pass):
    """Replace a cubic Resize, and one with antialias, by products with constant matrices.

    before: ``y = Resize <mode = "cubic"> (x, , scales)`` of x [N, C, H, W]
    after:  ``r = MatMul (x, columns); t = Transpose (r); u = MatMul (t, rows); y = Transpose
            (u)``, with columns [W, W'] and rows [H, H']
    **Exact** up to float32: a Resize is linear in each axis by itself, and a matrix is what
    onnxruntime's Resize makes of the unit matrix.
    """

    op_types: ClassVar = frozenset({"Resize"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite what linear taps do not say, from and to known sizes, of float32."""
        is_wide = node.attrs.get("mode") == "cubic" or node.attrs.get("antialias", 0)
        cropped = node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
        if not is_wide or cropped or node.outputs[0].dtype != np.float32:
            return NOT_MINE
        if node.attrs.get("mode", "nearest") == "nearest":
            return NOT_MINE
        axes = _axes(node)
        if axes is None:
            return Declined("Resize of more than two places from or to unknown sizes")
        shape, after = list(node.inputs[0].shape), list(node.outputs[0].shape)
        dims, first = len(shape), node.inputs[0]
        if any(shape[axis] * after[axis] > LARGEST for axis in axes):
            return Declined("Resize of more than two places that a large matrix would take")
        matrices = {
            axis: _matrix(node, graph.opset, axis, scale) for axis, scale in axes.items()
        }
        if not matrices:
            return NOT_MINE
        made, x = Expansion(graph, node, context), first
        for number, axis in enumerate(sorted(matrices, reverse=True)):
            y = made.y if number == len(matrices) - 1 else None
            x = _product(made, x, (axis, dims), matrices[axis], y)
        return REWRITTEN


def _product(
    made: Expansion, x: Tensor, place: tuple[int, int], matrix: NDArray[Any], y: Tensor | None
) -> Tensor:
    """``x`` with an axis, of so many, times ``matrix``."""
    axis, dims = place
    weights = made.constant(f"axis_{axis}", matrix)
    if axis == dims - 1:
        return made.add("MatMul", f"along_{axis}", [x, weights], y)
    order = [*range(dims)]
    order[axis], order[-1] = dims - 1, axis
    turned = made.add("Transpose", f"turned_{axis}", [x], perm=order)
    product = made.add("MatMul", f"product_{axis}", [turned, weights])
    return made.add("Transpose", f"along_{axis}", [product], y, perm=order)


def _axes(node: Node) -> dict[int, float | None] | None:
    """The axes that change, with their scales where these are given; None if not known.

    Where no size changes none does: onnxruntime copies, whatever the scales are.
    """
    factors, sizes = (constant(input_at(node, index)) for index in (2, 3))
    given = factors if factors is not None and factors.size else None
    before, after = node.inputs[0].shape, node.outputs[0].shape
    policy = node.attrs.get("keep_aspect_ratio_policy", "stretch")
    if before is None or after is None or (given is None and sizes is None):
        return None
    if policy != "stretch":
        return None
    if list(before) == list(after) and all(isinstance(size, int) for size in before):
        return {}
    listed = node.attrs.get("axes") or range(len(before))
    scales = {} if given is None else dict(zip(listed, given.tolist(), strict=True))
    found: dict[int, float | None] = {}
    for axis, (size, wanted) in enumerate(zip(before, after, strict=True)):
        scale = scales.get(axis % len(before), scales.get(axis - len(before)))
        if scale == 1 or (scale is None and size == wanted):
            continue
        if not (isinstance(size, int) and isinstance(wanted, int)):
            return None
        found[axis] = scale
    return found


def _matrix(node: Node, opset: int, axis: int, scale: float | None) -> NDArray[np.float32]:
    """[before, after]: what Resize makes of each unit vector along the axis.

    Beside an axis that is doubled: without any that changes, onnxruntime would copy.
    """
    before, after = (int(each.shape[axis]) for each in (node.inputs[0], node.outputs[0]))
    attributes = {key: value for key, value in node.attrs.items() if key != "axes"}
    if scale is None:
        name, value = "sizes", np.array([before, 1, 2, after], np.int64)
    else:
        name, value = "scales", np.array([1, 1, 2, scale], np.float32)
    inputs = ["x", "", name] if name == "scales" else ["x", "", "", name]
    unit, kind = np.eye(before, dtype=np.float32)[:, None, None], TensorProto.FLOAT
    resize = helper.make_node("Resize", inputs, ["y"], **attributes)
    graph = helper.make_graph(
        [resize],
        "resize",
        [helper.make_tensor_value_info("x", kind, unit.shape)],
        [helper.make_tensor_value_info("y", kind, [before, 1, None, None])],
        [numpy_helper.from_array(value, name)],
    )
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
    (found,) = Session(model, optimize=False, threads=1).run(None, {"x": unit})
    return np.asarray(found[:, 0, 0], np.float32)
