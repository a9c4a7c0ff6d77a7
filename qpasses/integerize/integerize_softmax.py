"""IntegerizeSoftmax: Softmax becomes two tables and one division."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from opsets.realised import quotient_rounding
from qpasses.integerize.numbers.softmax_tables import largest_entry, softmax_tables
from qpasses.integerize.requantized import Site
from qpasses.ir.graph import Graph, Node, add_node, is_float, rank
from qpasses.ir.patterns import Stored, clamp, stored_input, stored_output
from qpasses.ir.record import NodeRecord
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass


class IntegerizeSoftmax(Pass):
    """Replace a quantized Softmax by two tables of exponentials and one division.

    before: ``y = Q(Softmax(DQ(x)))``
    after:  ``y = qpasses.TableSoftmax <axis> (x, denominators, numerators, y_zero, ...)``
    **Approximate:** within the bound that its evidence states, for rows as long as on the
    first sample: the tables hold rounded exponentials. It is a follower: what it reads is on
    integers already, or it stays float.
    """

    op_types: ClassVar = frozenset({"Softmax"})

    def guard(self, _graph: Graph, node: Node) -> Declined | None:
        """An axis that can be counted from the end."""
        if is_float(node.outputs[0]) and not rank(node.inputs[0]):
            return Declined("Softmax of a rank that is not known")
        return None

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Fill the tables for the length of the rows, put TableSoftmax in place."""
        x = stored_input(node.inputs[0], context.settings)
        found = stored_output(graph, node, context.settings)
        if context.settings.softmax != "table" or (x is None and found is None):
            return NOT_MINE  # another form, or in float
        if x is None or found is None:
            return Declined("input or output is not quantized per tensor to 8 bits")
        axis = axis_from_end(node)
        length = row_length(x, axis, context)
        if length is None:
            return Declined("Softmax over rows whose length is not known on the first sample")
        bits = context.settings.softmax_bits
        if not (largest := largest_entry(length, bits)):
            return Declined(f"Softmax over rows too long for an accumulator of {bits} bits")
        site = Site(node, *found)
        _put(graph, site, x, _constants(site, x, largest), axis, length, context)
        return REWRITTEN


def _constants(site: Site, x: Stored, largest: int) -> dict[str, NDArray[Any]]:
    """The inputs of the node behind x, by name."""
    y = site.y.quantization
    low, high = clamp(site.absorbed, y)
    denominators, numerators = softmax_tables(x.quantization.scale, y.scale, largest)
    return {
        "denominators": denominators,
        "numerators": numerators,
        "y_zero": y.zero,
        "y_min": np.array(low, y.dtype),
        "y_max": np.array(high, y.dtype),
    }


def _put(
    graph: Graph,
    site: Site,
    x: Stored,
    given: dict[str, NDArray[Any]],
    axis: int,
    length: int,
    context: Context,
) -> None:
    """TableSoftmax in place of the site, and its record."""
    name, rounding = site.node.name, quotient_rounding(context.target)
    scales = x.quantization.scale, site.y.quantization.scale
    attributes = {"axis": axis, "published": 0, "rounding": rounding}
    context.record.nodes[name] = NodeRecord(
        source=[name, *(each.name for each in site.absorbed)],
        scales={"x": [scales[0]], "y": [scales[1]]},
        overload=OPS["TableSoftmax"].body("portable", given, attributes).overload,
        cells=length,
    )
    constants = [
        context.table(f"{name}.{key}", value)
        if value.ndim
        else context.scalar(value.dtype.name, int(value))
        for key, value in given.items()
    ]
    add_node(
        graph,
        "TableSoftmax",
        name,
        [x.tensor, *constants],
        [site.y.tensor],
        attributes=attributes,
        domain=DOMAIN,
    )


def axis_from_end(node: Node) -> int:
    """Along which axis a Softmax goes, negative; its rank is known."""
    dims = rank(node.inputs[0]) or 1
    return int(node.attrs.get("axis", -1)) % dims - dims


def row_length(x: Stored, axis: int, context: Context) -> int | None:
    """How many codes a row has, on the first sample."""
    shape = context.sizes.get(x.tensor.name, x.tensor.shape)
    return max(1, size) if isinstance(size := shape[axis], int) else None
