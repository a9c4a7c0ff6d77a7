"""IntegerizePRelu: LeakyRelu and PRelu by a multiplier on each side of zero."""

from typing import ClassVar

import numpy as np

from opsets.op import DOMAIN, Flavour
from opsets.qpasses_v1 import OPS
from opsets.realised import quotient_rounding
from qpasses.elementwise import made_of, slopes_of, takes_multipliers
from qpasses.evidence.slopes import choose_slopes
from qpasses.function import Function
from qpasses.graph import Graph, Node, add_node
from qpasses.passes.base import Context, Declined, Pass
from qpasses.patterns import quantized_by, stored_input
from qpasses.record import NodeRecord


class IntegerizePRelu(Pass):
    """Multiply what lies above and below zero, where that is wanted or no table can.

    before: ``y = Q(PRelu(DQ(x), slopes))``
    after:  ``y = qpasses.IntPRelu(x, x_zero, multiplier, shift, slope_multiplier, ...)``
    **Exact** up to the multipliers: the codes that differ from real arithmetic are counted in
    the evidence. For a LeakyRelu or PRelu that is a chain of its own, with
    ``--activation-form multiplier`` or slopes that differ along several axes.
    """

    op_types: ClassVar = frozenset({"QuantizeLinear"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Declined | None:
        """Choose the multipliers on all codes, put IntPRelu in place."""
        settings, end = context.settings, node.inputs[0]
        nodes, source = made_of(end, context.selection.excluded)
        if source is None or not takes_multipliers(nodes, settings.activation_form):
            return None
        x, y = stored_input(source, settings), quantized_by(node, settings)
        slopes = slopes_of(nodes[0])
        if x is None or y is None or slopes is None:
            return None
        if x.quantization.dtype != y.quantization.dtype:
            return None
        slopes = slopes.reshape(() if slopes.size == 1 else slopes.shape)
        meaning, name = y.quantization, nodes[0].name
        ends = [
            context.scalar(meaning.dtype, v) for v in (meaning.zero_point, *meaning.limits)
        ]
        clamps = {"y_min": ends[1].values, "y_max": ends[2].values}
        attributes = {"rounding": quotient_rounding(context.target)}
        op = OPS["IntPRelu"]
        judged: Flavour = "onnxruntime" if context.target.fast_kernels else "portable"
        kernel = op.body(judged, clamps, attributes).kernel
        assert kernel is not None, op.name
        choice = choose_slopes(x.quantization, meaning, slopes, kernel, context.target)
        flavour = context.flavour if choice.exact.all() else "portable"
        context.record.nodes[name] = NodeRecord(
            source=[name],
            scales={"x": [x.quantization.scale], "y": [meaning.scale]},
            overload=op.body(flavour, clamps, attributes).overload,
            function=Function.of(nodes, [source], end, graph.opset).as_text(),
        )
        multipliers = {
            "multiplier": choice.multiplier[0],
            "shift": choice.shift[0],
            "slope_multiplier": choice.multiplier[1:].reshape(slopes.shape),
            "slope_shift": choice.shift[1:].reshape(slopes.shape),
        }
        inputs = [
            x.tensor,
            context.scalar(meaning.dtype, x.quantization.zero_point),
            *(
                context.constant(f"{name}.{each}", value.astype(np.int32))
                for each, value in multipliers.items()
            ),
            *ends,
        ]
        made = add_node(
            graph, op.name, name, inputs, [y.tensor], attributes=attributes, domain=DOMAIN
        )
        context.selection.inherit(made, nodes[0])
        return None
