"""FoldBatchNormalization: put the affine map of a BatchNormalization into weights and bias."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    add_node,
    constant,
    input_at,
    is_used,
    new_tensor,
    producer,
    rank,
    sole_consumer,
    write_for,
)
from qpasses.ir.overflow import overflows
from qpasses.ir.rewriting import REWRITTEN, Context, Declined, Outcome, Pass


class FoldBatchNormalization(Pass):
    """Fold BatchNormalization into Conv, ConvTranspose or Gemm; alone it is a 1x1 Conv.

    before: ``c = Conv (x, w, b); y = BatchNormalization (c, gamma, beta, mean, var)``
    after:  ``y = Conv (x, w * k, (b - mean) * k + beta)`` with ``k = gamma / sqrt(var + eps)``
    Of rows in front of a Gemm it scales that one's weights along what they sum; of other rows
    it is a product and a sum.
    **Exact** in real arithmetic; k is computed in float64, so float results move by rounding.
    """

    op_types: ClassVar = frozenset({"BatchNormalization"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Scale the weights of the producer, or turn the node into a depthwise Conv."""
        affine = _affine(graph, node)
        if isinstance(affine, Declined):
            return affine
        factor, offset = affine
        before = producer(node.inputs[0])
        if (
            before is not None
            and can_absorb(graph, before, node, factor.size)
            and scale_outputs(before, factor, offset, context)
        ):
            write_for(before, node)
            return REWRITTEN
        if overflows(np.float32, factor, offset):
            return Declined("BatchNormalization by factors that float32 does not hold")
        if node.outputs[0].dtype != np.float32:
            return Declined(f"BatchNormalization in {node.outputs[0].dtype} alone")
        dims, behind = rank(node.inputs[0]), sole_consumer(graph, node.outputs[0])
        if dims == 2 and behind is not None and _can_take(behind, node):
            scaled = _scaled_inputs(behind, factor, offset, context)
            if scaled is None:
                return Declined("BatchNormalization too large for the weights behind it")
            behind.inputs = [node.inputs[0], *scaled]
            node.outputs.clear()
            return REWRITTEN
        if dims is None or dims < 2:
            return Declined("BatchNormalization of no known rank, or of no channels")
        if dims == 2:
            _become_product_and_sum(graph, node, factor, offset, context)
        else:
            _become_depthwise(node, factor, offset, context)
        return REWRITTEN


def _affine(
    graph: Graph, node: Node
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | Declined:
    values = [constant(tensor) for tensor in node.inputs[1:5]]
    if any(value is None for value in values):
        return Declined("BatchNormalization with parameters that are not constant")
    if node.attrs.get("training_mode", 0) or any(is_used(graph, t) for t in node.outputs[1:]):
        return Declined("BatchNormalization in training mode: export the model for inference")
    gamma, beta, mean, var = (np.asarray(value, np.float64) for value in values)
    factor = gamma / np.sqrt(var + float(node.attrs.get("epsilon", 1e-5)))
    return factor, beta - mean * factor


def can_absorb(graph: Graph, before: Node, node: Node, channels: int) -> bool:
    """Whether ``before`` has constants to scale, one bias per channel, and no other reader."""
    alone = sole_consumer(graph, before.outputs[0]) is node
    if before.op not in ("Conv", "ConvTranspose", "Gemm") or not alone:
        return False
    if any(before.attrs.get(factor, 1.0) != 1.0 for factor in ("alpha", "beta")):
        return False
    if constant(before.inputs[1]) is None or input_at(before, 2) is None:
        return constant(before.inputs[1]) is not None
    bias = constant(before.inputs[2])
    return bias is not None and bias.shape in ((channels,), (1, channels))


def scale_outputs(
    before: Node,
    factor: NDArray[np.float64],
    offset: NDArray[np.float64],
    context: Context,
) -> bool:
    """Multiply what ``before`` writes with ``factor`` and add ``offset``, for each channel.

    Whether its type holds what becomes of its constants; else they stay as they are.
    """
    bias = _values(before, 2) if input_at(before, 2) is not None else np.zeros_like(offset)
    along = _along_outputs(before, factor)
    weights = _values(before, 1) * along
    total = bias.reshape(-1) * factor + offset
    if overflows(before.outputs[0].dtype, weights, total):
        return False
    folded = _constants(before, weights, total, context)
    context.given.carry(before.inputs[1], folded[0], lambda codes: codes.scaled(along))
    before.inputs = [before.inputs[0], *folded]
    return True


def _along_outputs(before: Node, factor: NDArray[np.float64]) -> NDArray[np.float64]:
    """``factor`` of each output channel, shaped to multiply the weights of ``before``."""
    shape = before.inputs[1].shape
    if before.op == "ConvTranspose":  # [C, M / group, ...], C by group
        by_group = factor.reshape(-1, shape[1])
        rows = by_group.repeat(shape[0] // len(by_group), axis=0)
        return rows.reshape(*shape[:2], *[1] * (len(shape) - 2))
    if before.op == "Gemm" and not before.attrs.get("transB", 0):
        return factor.reshape(1, -1)
    return factor.reshape(-1, *[1] * (len(shape) - 1))


def _can_take(behind: Node, node: Node) -> bool:
    """Whether ``behind`` is a Gemm of what ``node`` writes with constants to scale."""
    if behind.op != "Gemm" or behind.inputs[0] is not node.outputs[0]:
        return False
    plain = {"alpha": 1.0, "beta": 1.0, "transA": 0}
    if any(behind.attrs.get(name, value) != value for name, value in plain.items()):
        return False
    bias = input_at(behind, 2)
    return constant(behind.inputs[1]) is not None and (
        bias is None or constant(bias) is not None
    )


def _scaled_inputs(
    behind: Node,
    factor: NDArray[np.float64],
    offset: NDArray[np.float64],
    context: Context,
) -> list[Tensor] | None:
    """Weights and bias with the factor and offset of each input, if float32 holds them."""
    weights = _values(behind, 1)
    turned = bool(behind.attrs.get("transB", 0))
    sums = offset @ (weights.T if turned else weights)
    bias = _values(behind, 2) if input_at(behind, 2) is not None else 0.0
    scaled = weights * (factor if turned else factor.reshape(-1, 1))
    if overflows(np.float32, scaled, bias + sums):
        return None
    return _constants(behind, scaled, bias + sums, context)


def _become_depthwise(
    node: Node, factor: NDArray[np.float64], offset: NDArray[np.float64], context: Context
) -> None:
    kernel = [1] * (len(node.inputs[0].shape) - 2)
    node.op = "Conv"
    node.attrs.clear()
    node.attrs.update(kernel_shape=kernel, group=factor.size)
    weights = factor.reshape(-1, 1, *kernel)
    node.inputs = [node.inputs[0], *_constants(node, weights, offset, context)]
    node.outputs = [node.outputs[0]]


def _become_product_and_sum(
    graph: Graph,
    node: Node,
    factor: NDArray[np.float64],
    offset: NDArray[np.float64],
    context: Context,
) -> None:
    weights, bias = _constants(node, factor, offset, context)
    y = node.outputs[0]
    scaled = new_tensor(f"{node.name}.scaled", y)
    add_node(graph, "Add", f"{node.name}.sum", [scaled, bias], [y])
    node.op = "Mul"
    node.attrs.clear()
    node.inputs, node.outputs = [node.inputs[0], weights], [scaled]


def _values(node: Node, index: int) -> NDArray[np.float64]:
    return np.asarray(constant(node.inputs[index]), np.float64)


def _constants(
    node: Node, weights: NDArray[np.float64], bias: NDArray[np.float64], context: Context
) -> list[Tensor]:
    parameters = {"weight": weights, "bias": bias}
    return [
        context.constant(f"{node.name}.folded_{name}", values.astype(node.outputs[0].dtype))
        for name, values in parameters.items()
    ]
