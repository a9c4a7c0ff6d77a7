"""Take apart: the Q/DQ nodes of a model become what is known of its tensors.

Each QuantizeLinear with the DequantizeLinear behind it becomes one STORE node, which no pass
looks through, and an entry in ``Given.scales``; a DequantizeLinear of a constant becomes the
real numbers, with their integers in ``Given.codes``. What is said in a way that integer nodes
cannot follow stays as it is, declined with the reason.
"""

from collections.abc import Sequence

import numpy as np

from opsets.declaration import SIGNALS
from opsets.errors import ModelError
from qpasses.ir.folding import fold_constants
from qpasses.ir.graph import (
    STORE,
    STORING,
    Graph,
    Node,
    Tensor,
    add_node,
    input_at,
    is_graph_output,
    new_tensor,
    redirect,
)
from qpasses.ir.order import tidy
from qpasses.ir.record import Quantization
from qpasses.ir.rewriting import Context
from qpasses.prepare.stored_constants import (
    DEQUANTIZE,
    QUANTIZE,
    is_known,
    linear_nodes,
    parameters,
    take_constants,
)


def take_apart(graph: Graph, context: Context) -> None:
    """Rewrite all Q/DQ nodes of ``graph``; ``context.given`` learns what they say.

    Nodes whose scales are found at run time stay. Raises ModelError, naming the node, for
    scales that are not positive and finite.
    """
    for node in graph.nodes:
        if node.op.startswith("QLinear"):
            why = f"{node.op} that has no form with Q/DQ (a warning says why)"
            context.record.declined[node.name] = why
    if not any(node.op in (QUANTIZE, DEQUANTIZE) for node in graph.nodes):
        return
    fold_constants(graph)
    context.adopt(graph)
    _drop_casts(graph)
    for node in [each for each in graph.nodes if each.op in (QUANTIZE, DEQUANTIZE)]:
        if is_known(node):
            _check_scale(node)
        else:
            context.record.declined[node.name] = f"{node.op} with a scale found at run time"
    take_constants(graph, context)
    for node in linear_nodes(graph, QUANTIZE):
        _take_store(graph, node, context)
    left: dict[int, list[Node]] = {}
    for node in linear_nodes(graph, DEQUANTIZE):
        if node.outputs:
            left.setdefault(id(node.inputs[0]), []).append(node)
    for readers in left.values():
        _take_edge(graph, readers, context)
    tidy(graph)


def _drop_casts(graph: Graph) -> None:
    """Let readers of integers that are cast to the type they have read them as they are.

    Such a cast may be an Identity by now.
    """
    for node in [each for each in graph.nodes if each.op in ("Cast", "Identity")]:
        source, result = node.inputs[0], node.outputs[0]
        stored = source.inputs and source.inputs[0].op == QUANTIZE
        if stored and source.dtype == result.dtype and not is_graph_output(graph, result):
            redirect(graph, result, source)
            node.inputs.clear()


def _check_scale(node: Node) -> None:
    scale, _ = parameters(node)
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        worst = scale[~(np.isfinite(scale) & (scale > 0))].flat[0]
        raise ModelError(
            f"{node.op} {node.name!r}: a scale is {worst!s}, it must be positive and finite"
        )


def _take_store(graph: Graph, node: Node, context: Context) -> None:
    """A STORE for a QuantizeLinear and what dequantizes its integers as they were stored."""
    stored, source = node.outputs[0], node.inputs[0]
    readers = [each for each in stored.outputs if each.op == DEQUANTIZE and is_known(each)]
    meaning = _meaning(node, context)
    if meaning is None:
        _leave(node, readers, context)
        return
    made = _put_store(graph, node.name, source, meaning, context)
    for reader in readers:
        if (other := _meaning(reader, context)) == meaning:
            _read_store(graph, reader, made, context)
        elif other is not None:
            _read_otherwise(graph, reader, made, other, context)
    if stored.outputs or is_graph_output(graph, stored):
        node.inputs[0] = made.outputs[0]  # what reads the integers themselves
        if input_at(node, 2) is None:
            zero = context.constant(f"{node.name}.zero_point", parameters(node)[1])
            node.inputs = [*node.inputs[:2], zero]
        node.name = context.fresh(f"{node.name}_again")
        if not is_graph_output(graph, stored):
            readers_of = ", ".join(sorted({each.op for each in stored.outputs}))
            context.record.declined[node.name] = f"its integers are read by {readers_of}"
        else:
            source.shape = made.outputs[0].shape = stored.shape  # free sizes have one name
            _note_edge(stored, node, context)
    else:
        node.inputs.clear()
        node.outputs.clear()


def _leave(node: Node, readers: Sequence[Node], context: Context) -> None:
    """Decline a QuantizeLinear, what dequantizes its integers, and the nodes around them."""
    reason = _objection(node)
    around = [
        *node.inputs[0].inputs,
        *(n for each in readers for n in each.outputs[0].outputs),
    ]
    for each in (node, *readers):
        context.record.declined[each.name] = reason
    for each in around:
        if each.op not in (QUANTIZE, DEQUANTIZE, STORE):
            context.selection.excluded.setdefault(each.name, f"beside {reason}")
            context.record.declined.setdefault(each.name, f"beside {reason}")


def _read_store(graph: Graph, reader: Node, made: Node, context: Context) -> None:
    """Let those that read what ``reader`` dequantizes read what is stored, one output once."""
    result, real = reader.outputs[0], made.outputs[0]
    reader.inputs.clear()
    reader.outputs.clear()
    if is_graph_output(graph, result) and is_graph_output(graph, real):
        _put_store(graph, reader.name, real, context.given.scales[made.name], context, result)
    else:
        if is_graph_output(graph, result):  # free sizes have one name
            made.inputs[0].shape = result.shape
        redirect(graph, result, real)


def _read_otherwise(
    graph: Graph, reader: Node, made: Node, other: Quantization, context: Context
) -> None:
    """Integers that are read with another scale or zero point than they were stored with.

    (q - z') * s' is (q - z) * s times s' / s, and (z - z') * s' more.
    """
    result, real, meaning = reader.outputs[0], made.outputs[0], context.given.scales[made.name]
    reader.inputs.clear()
    reader.outputs.clear()
    factor = np.array(other.scale / meaning.scale, np.float32)
    offset = np.array((meaning.zero_point - other.zero_point) * other.scale, np.float32)
    ends = [new_tensor(context.fresh(f"{result.name}_{k}"), real) for k in ("scaled", "moved")]
    for op, value, source, end in (
        ("Mul", factor, real, ends[0]),
        ("Add", offset, ends[0], ends[1]),
    ):
        number = context.constant(f"{reader.name}.{op.lower()}", value)
        add_node(graph, op, context.fresh(f"{reader.name}_{op}"), [source, number], [end])
    _put_store(graph, reader.name, ends[1], other, context, result)


def _put_store(
    graph: Graph,
    name: str,
    source: Tensor,
    meaning: Quantization,
    context: Context,
    result: Tensor | None = None,
) -> Node:
    """Store ``source``; ``result``, or a new tensor, is what is read of it."""
    made = result or new_tensor(context.fresh(f"{source.name}_given"), source)
    context.given.scales[name] = meaning
    for reasons in (context.selection.excluded, context.selection.unlisted):
        reasons.pop(name, None)  # nodes are left in float, not how tensors are stored
    return add_node(graph, STORE, name, [source], [made], domain=STORING)


def _take_edge(graph: Graph, readers: Sequence[Node], context: Context) -> None:
    """A STORE behind a DequantizeLinear of integers that a user gives, or a node computes.

    All that dequantize the same integers read what the first one does.
    """
    ways = [(each, _meaning(each, context)) for each in readers]
    declined = context.record.declined
    for each in [each for each, way in ways if way is None and each.name not in declined]:
        _leave(each, [each], context)
    known = [(each, way) for each, way in ways if way and each.name not in declined]
    if not known:
        return
    (node, meaning), *others = known
    result = node.outputs[0]
    inner = new_tensor(context.fresh(f"{result.name}_dequantized"), result)
    node.outputs = [inner]
    name = context.fresh(f"{node.name}_given")
    made = _put_store(graph, name, inner, meaning, context, result)
    for reader, way in others:
        if way == meaning:
            _read_store(graph, reader, made, context)
        else:
            _read_otherwise(graph, reader, made, way, context)
    if writers := node.inputs[0].inputs:
        context.record.declined[node.name] = f"its integers are written by {writers[0].op}"
    else:
        _note_edge(node.inputs[0], node, context)


def _note_edge(tensor: Tensor, node: Node, context: Context) -> None:
    """An input or output of the graph is stored integers, and stays so."""
    scale, zero = parameters(node)
    if zero.dtype.name not in SIGNALS:
        context.record.declined[node.name] = f"{zero.dtype.name} at an edge of the graph"
        return
    meaning = Quantization(float(scale.reshape(())), int(zero.reshape(())), zero.dtype.name)
    context.given.edges[tensor.name] = context.record.tensors[tensor.name] = meaning


def _meaning(node: Node, context: Context) -> Quantization | None:
    """The one scale and zero point of a whole tensor, as this graph stores it.

    Of 8 bits in the type of the settings, of 16 in int16, the same integers.
    """
    scale, zero = parameters(node)
    if scale.size != 1 or zero.size != 1 or zero.dtype.name not in _MIDDLES:
        return None
    wide = zero.dtype.itemsize == 2
    wanted = "int16" if wide else context.settings.activation_type
    level = int(zero.reshape(())) - _MIDDLES[zero.dtype.name] + _MIDDLES[wanted]
    if wide and level:
        return None
    return Quantization(float(scale.reshape(())), level, wanted)


_MIDDLES = {"int8": 0, "uint8": 128, "int16": 0, "uint16": 32768}


def _objection(node: Node) -> str:
    scale, zero = parameters(node)
    if scale.size != 1:
        return f"{node.op} with {scale.size} scales: an activation has one for all of it"
    if zero.dtype.name in _MIDDLES:
        return f"{node.op} to {zero.dtype.name} with a zero point beside the middle"
    return f"{node.op} of {zero.dtype.name}: no integer node computes with that"
