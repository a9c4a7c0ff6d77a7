"""Roles of ops and kinds of nodes that several rooms go by, and what every graph is."""

from enum import Enum

from opsets.declaration import SIGNALS, Scaling
from opsets.errors import ModelError
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.ir.changes import described, neighbours
from qpasses.ir.graph import Graph, Node, constant, is_float
from qpasses.ir.model_nodes import SIMPLIFIED
from qpasses.ir.moving import MOVING

CLAMPING = frozenset({"Relu", "Clip"})
"""Activations that become the clamp of the node before them, or a Clip of stored integers."""

LOOKUPS = frozenset(op.name for op in OPS.values() if op.scaling is Scaling.TABLE)
"""Ops of domain qpasses that look their result up in their last input."""

TABULATED = LOOKUPS | {op.name for op in OPS.values() if op.scaling is Scaling.WIDE_TABLE}
"""With those that interpolate: their table is the first input behind what flows in."""

SLOPED = frozenset(op.name for op in OPS.values() if op.scaling is Scaling.SLOPES)
"""Ops of domain qpasses for LeakyRelu and PRelu, which record their slopes."""

RECURRENT = frozenset(op.name for op in OPS.values() if op.scaling is Scaling.RECURRENT)
"""Ops of domain qpasses that go through all steps of sequences, and record activations."""

QUANTIZING = frozenset({"QuantizeLinear", "DequantizeLinear"})


UNCENTERED = frozenset({"RMSNormalization", SIMPLIFIED})
"""Ops that do not take the mean away."""


NORMS = frozenset({"LayerNormalization", "InstanceNormalization"}) | UNCENTERED
"""Ops that IntLayerNorm computes."""


MEASURING = frozenset({"Shape", "Size"})
"""Ops whose result depends on the shape alone."""

LOCATING = frozenset({"ArgMax", "ArgMin"})
"""Ops that give positions, by the order of the values."""

COMPARING = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
"""Ops that say of two numbers whether they are so."""


class Kind(Enum):
    """What a node of an integer graph is."""

    INTEGER = "an op on stored integers"
    EDGE = "a step between float and stored integers"
    FLOAT = "an op on floats"
    SHAPE = "arithmetic on sizes"


def kind(node: Node) -> Kind:
    """Integer op, Q/DQ at the edge of the integer part, float op, or shape arithmetic.

    A Q/DQ node whose scale is found at run time computes with floats.
    """
    if node.domain == DOMAIN:
        return Kind.INTEGER
    if node.op in QUANTIZING:
        found = all(each.is_empty() or constant(each) is not None for each in node.inputs[1:])
        return Kind.EDGE if found else Kind.FLOAT
    if node.op in ("Shape", "Size"):
        return Kind.SHAPE
    is_moved = node.op in MOVING or node.op in CLAMPING
    if is_moved and str(node.outputs[0].dtype) in SIGNALS:
        return Kind.INTEGER  # though the factors of a Resize are float
    if any(is_float(tensor) for tensor in [*node.inputs, *node.outputs]):
        return Kind.FLOAT
    return Kind.SHAPE


def check_structure(graph: Graph, after: str) -> None:
    """Raise ModelError, naming the pass, if the graph is not in SSA form or has loose ends."""
    written = {id(tensor) for tensor in graph.inputs}
    names: set[str] = set()
    for node in graph.nodes:
        if node.domain == DOMAIN and node.op not in OPS:
            raise ModelError(
                f"after {after}: node {node.name!r} has unknown op {node.op!r}:\n"
                f"{described(neighbours(node))}"
            )
        for tensor in node.inputs:
            loose = (
                not tensor.is_empty() and tensor.inputs == [] and not hasattr(tensor, "values")
            )
            if loose and id(tensor) not in written:
                raise ModelError(
                    f"after {after}: nothing writes {tensor.name!r}, which "
                    f"{node.name!r} ({node.op}) reads:\n{described(neighbours(node))}"
                )
        for tensor in node.outputs:
            if tensor.name and tensor.name in names:
                raise ModelError(
                    f"after {after}: {tensor.name!r} is written twice, at last by "
                    f"{node.name!r} ({node.op}):\n{described(neighbours(node))}"
                )
            names.add(tensor.name)
