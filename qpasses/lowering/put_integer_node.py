"""How a pass ends: an integer node in the place of float ones, its inputs, its record."""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.ir.graph import Graph, Node, Tensor, add_node, constant
from qpasses.ir.patterns import AnyStored
from qpasses.ir.record import AnyQuantization, NodeRecord, scales_of
from qpasses.ir.rewriting import REWRITTEN, Context, Rewritten


def put_integer_node(
    graph: Graph,
    op: str,
    name: str,
    inputs: Sequence[Tensor],
    y: Tensor | Sequence[Tensor],
    attributes: Mapping[str, Any],
    record: NodeRecord,
    context: Context,
) -> Rewritten:
    """Let a node ``op`` of domain qpasses write ``y``; its body is portable until a proof.

    ``y``: its output, or all of them.
    ``inputs`` are those of the op, in order; ``record`` says what it stands for.
    """
    known = constants_of(op, inputs)
    record.overload = OPS[op].body("portable", known, attributes).overload
    context.record.nodes[name] = record
    outputs = y if isinstance(y, Sequence) else [y]
    add_node(graph, op, name, inputs, outputs, attributes=dict(attributes), domain=DOMAIN)
    return REWRITTEN


def constants_of(op: str, inputs: Sequence[Tensor]) -> dict[str, NDArray[Any]]:
    """By input name, the values of those ``inputs`` of ``op`` that are constants."""
    given = zip(OPS[op].inputs, map(constant, inputs), strict=False)
    return {name: value for name, value in given if value is not None}


def sources(*nodes: Node) -> list[str]:
    """The names of the float nodes that an integer node stands for."""
    return [node.name for node in nodes]


def scales(**ends: AnyStored) -> dict[str, list[float]]:
    """By input name, or ``y``, the scales of stored tensors."""
    return {name: scales_of(each.quantization) for name, each in ends.items()}


def with_zero(x: AnyStored, context: Context) -> list[Tensor]:
    """The inputs that a stored operand is: its codes and its zero point."""
    meaning = x.quantization
    return [x.tensor, context.scalar(meaning.dtype, meaning.zero_point)]


def own_constants(
    name: str, numbers: Mapping[str, NDArray[Any]], context: Context
) -> list[Tensor]:
    """``numbers`` as constants of the node ``name`` alone, called after it."""
    return [context.constant(f"{name}.{key}", value) for key, value in numbers.items()]


def shared_tables(
    name: str, numbers: Mapping[str, NDArray[Any]], context: Context
) -> list[Tensor]:
    """``numbers`` as constants that nodes with equal ones share, called after the first."""
    return [context.table(f"{name}.{key}", value) for key, value in numbers.items()]


def output_codes(
    y: AnyQuantization, bounds: tuple[int, int], context: Context
) -> list[Tensor]:
    """The last inputs of most ops: zero point and smallest and largest code of the output."""
    return [context.scalar(y.dtype, code) for code in (y.zero_point, *bounds)]
