"""IntegerizeLayerNorm: normalization over rows, by an integer square root."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opsets.multipliers import ScaleError
from opsets.realised import quotient_rounding
from qpasses.ir.graph import Graph, Node, input_at, is_float, is_used, rank
from qpasses.ir.patterns import (
    AnyStored,
    any_stored_input,
    clamp,
    real_value_of,
    stored_input,
    stored_output,
    value_of,
)
from qpasses.ir.record import SIGNALS, NodeRecord
from qpasses.ir.rewriting import NOT_MINE, Context, Declined, Outcome, Pass
from qpasses.ir.shapes import keeps_shape
from qpasses.ir.stages import NORMS, UNCENTERED
from qpasses.ir.unknown_sizes import FREE
from qpasses.lowering.numbers.norm_numbers import Norm, norm_numbers
from qpasses.lowering.put_integer_node import (
    output_codes,
    own_constants,
    put_integer_node,
    scales,
    sources,
    with_zero,
)


class IntegerizeLayerNorm(Pass):
    """Replace a quantized Layer-, Instance- or RMSNormalization by one integer node.

    before: ``y = Q(LayerNormalization(DQ(x), gamma, beta))``
    after:  ``y = qpasses.IntLayerNorm <axis> (x, x_zero, multiplier, bias, ...)``
    RMSNormalization, and onnxruntime's SimplifiedLayerNormalization, take no mean away. An
    InstanceNormalization may read channels that have parameters of their own.
    **Approximate:** within the bound that its evidence states, far below a step of y: mean
    and variance are exact, the square root and its inverse have as many bits as fit.
    """

    op_types: ClassVar = NORMS

    def guard(self, graph: Graph, node: Node) -> Declined | None:
        """One result, rows of a known size, constant gamma and beta."""
        if not is_float(node.outputs[0]):
            return None
        if any(tensor.name and is_used(graph, tensor) for tensor in node.outputs[1:]):
            return Declined(f"{node.op} whose mean or deviation is read")
        given = [input_at(node, 1), input_at(node, 2)]
        values = [value_of(tensor) for tensor in given if tensor is not None]
        if any(value is None or not np.isfinite(value).all() for value in values):
            return Declined(f"{node.op} with a gamma or beta that is not constant and finite")
        row = row_of(node)
        if row is None:
            return Declined(f"{node.op} over an axis whose size is not known: {FREE}")
        by_row = values if node.op != "InstanceNormalization" else []
        shape = node.inputs[0].shape
        if any(value is not None and not keeps_shape(shape, value) for value in by_row):
            return Declined(f"{node.op} with a gamma or beta along an axis of unknown size")
        return None

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Find the integers, put IntLayerNorm in place."""
        x: AnyStored | None = stored_input(node.inputs[0], context.settings, SIGNALS)
        if x is None and node.op == "InstanceNormalization":
            x = any_stored_input(node.inputs[0], context.settings, SIGNALS)
        found = stored_output(graph, node, context.settings, SIGNALS)
        if x is None and found is None:
            return NOT_MINE  # in float, or I-ViT's already
        if x is None or found is None:
            return Declined("input or output is not quantized per tensor to 8 bits")
        y, absorbed = found
        row = row_of(node)
        assert row is not None, node.name
        gamma, beta = (factors_of(node, index, row) for index in (1, 2))
        cells, is_centered = int(np.prod(row)), node.op not in UNCENTERED
        norm = Norm(-len(row), cells, gamma, beta, epsilon_of(node), is_centered)
        meaning = y.quantization
        try:
            numbers, shape = norm_numbers(x.quantization, meaning, norm)
        except ScaleError as error:
            return Declined(f"{node.op}: {error}")
        attributes = {**shape, "rounding": quotient_rounding(context.target)}
        inputs = [
            *with_zero(x, context),
            *own_constants(node.name, numbers, context),
            *output_codes(meaning, clamp(absorbed, meaning), context),
        ]
        record = NodeRecord(sources(node, *absorbed), scales(x=x, y=y), cells=norm.cells)
        return put_integer_node(
            graph, "IntLayerNorm", node.name, inputs, y.tensor, attributes, record, context
        )


def row_of(node: Node) -> list[int] | None:
    """The sizes of the axes that are normalized over, if they are known."""
    shape, dims = node.inputs[0].shape, rank(node.inputs[0])
    if not dims or shape is None:
        return None
    by_channel = node.op == "InstanceNormalization"
    first = 2 if by_channel else int(node.attrs.get("axis", -1)) % dims
    sizes = list(shape[first:])
    return sizes if all(isinstance(size, int) for size in sizes) else None


def _shape(node: Node, row: list[int]) -> list[int]:
    """Of gamma and beta: one for each place of a row, or for each channel.

    Those that differ by more axes than a row has, as of groups, keep the axes they have.
    """
    values = [value_of(tensor) for tensor in node.inputs[1:3]]
    given = [value for value in values if value is not None]
    if node.op == "InstanceNormalization":
        return [given[0].size, *[1] * len(row)]
    if all(keeps_shape(row, value) for value in given):
        return row
    return list(np.broadcast_shapes(*(value.shape for value in given)))


def factors_of(node: Node, index: int, row: list[int]) -> NDArray[np.float32]:
    """Gamma or beta as the node has it; beta is 0 where there is none."""
    tensor, shape = input_at(node, index), _shape(node, row)
    value: Any = np.zeros(1) if tensor is None else real_value_of(tensor)
    if node.op == "InstanceNormalization":
        value = np.reshape(value, shape)
    return np.ascontiguousarray(np.broadcast_to(value, shape), np.float32)


def epsilon_of(node: Node) -> float:
    """As float32, of which the attribute is one."""
    return float(np.float32(node.attrs.get("epsilon", 1e-5)))
