"""Foreign: quantized models of other tools, as float ops between QuantizeLinear and
DequantizeLinear."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx.inliner
from onnx import GraphProto, ModelProto, NodeProto, helper

from opsets.op import DOMAIN
from qpasses.ir.model_nodes import nested_graphs
from qpasses.load.foreign.blocked_weights import BLOCKED_WEIGHTS
from qpasses.load.foreign.draft import Draft
from qpasses.load.foreign.few_bits import unpack
from qpasses.load.foreign.found_graph import Ledger
from qpasses.load.foreign.integer_products import INTEGER_PRODUCTS
from qpasses.load.foreign.linear_nodes import LINEAR_NODES
from qpasses.load.foreign.moved_integers import move_real_numbers
from qpasses.load.foreign.node_parts import DQ, DYNAMIC, Q, bodies
from qpasses.load.foreign.q_operators import Q_OPERATORS
from qpasses.load.foreign.qonnx_nodes import QONNX_NODES
from qpasses.load.upgrade import opset_of, raised_to

IR_VERSION_OF_CONSTANTS = 4
"""From here on initializers need not be inputs."""


@dataclass(frozen=True)
class Translated:
    """``model``: the same object if nothing in it was foreign.

    ``dynamic``: the nodes whose activations were quantized at run time; ``notes``: by node,
    what could not be said exactly, or was left as it is, and why.
    """

    model: ModelProto
    dynamic: Sequence[str]
    notes: Mapping[str, str]


def standard_qdq(model: ModelProto, path: Path) -> Translated:
    """``model``, called ``path`` in messages, with standard float ops and ONNX's Q/DQ alone.

    At the opset it has, or the oldest one that can say what is quantized. Raises ModelError
    for scales and zero points that are not constant or none, and for an opset that is in the
    way.
    """
    if not is_quantized(model):
        return Translated(model, (), {})
    copy = _inlined(model)
    version = opset_of(copy)
    ledger = Ledger(path, version, version, _names(copy))
    if not _translated(copy.graph, ledger):
        return Translated(model, tuple(ledger.dynamic), ledger.notes)
    copy.ir_version = max(copy.ir_version, IR_VERSION_OF_CONSTANTS)
    _import_domains(copy)
    return Translated(raised_to(copy, ledger.opset, path), tuple(ledger.dynamic), ledger.notes)


def is_quantized(model: ModelProto) -> bool:
    """Whether any node, in bodies and functions too, says how numbers are quantized."""
    return any((node.domain, node.op_type) in _QUANTIZED for node in _all_nodes(model))


_TABLES = (QONNX_NODES, LINEAR_NODES, BLOCKED_WEIGHTS, Q_OPERATORS, INTEGER_PRODUCTS)

_QUANTIZED = {key for table in _TABLES for key in table} | {("", DYNAMIC), ("", Q), ("", DQ)}
_QUANTIZED -= {("", "Clip")}
_QUANTIZED |= {("com.microsoft", "NhwcMaxPool")}


def _translated(graph: GraphProto, ledger: Ledger, outer: Draft | None = None) -> bool:
    """Translate a graph in place, and those in its nodes; whether anything changed."""
    draft = Draft(graph, ledger, outer)
    inner = [body for node in graph.node for body in bodies(node)]
    changed = [_translated(body, ledger, draft) for body in inner]
    draft.apply(QONNX_NODES)
    unpack(draft)
    draft.apply(LINEAR_NODES)
    draft.apply(BLOCKED_WEIGHTS)
    draft.apply(Q_OPERATORS)
    move_real_numbers(draft)
    draft.apply(INTEGER_PRODUCTS)
    if draft.changed:
        draft.finish()
    return draft.changed or any(changed)


def _all_nodes(model: ModelProto) -> Iterator[NodeProto]:
    for graph in nested_graphs(model.graph):
        yield from graph.node
    for function in model.functions:
        if function.domain != DOMAIN:
            yield from function.node


def _inlined(model: ModelProto) -> ModelProto:
    """A copy with the functions of the model inlined, those of integer nodes apart."""
    others = [(each.domain, each.name) for each in model.functions if each.domain != DOMAIN]
    if others:
        return onnx.inliner.inline_selected_functions(model, others)
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def _names(model: ModelProto) -> set[str]:
    graphs = list(nested_graphs(model.graph))
    taken = {value.name for g in graphs for value in (*g.input, *g.output, *g.initializer)}
    for node in (node for graph in graphs for node in graph.node):
        taken |= {node.name, *node.input, *node.output}
    return taken


def _import_domains(model: ModelProto) -> None:
    """Import what the nodes use, and no domain that only vanished ones used."""
    used = {node.domain for graph in nested_graphs(model.graph) for node in graph.node}
    foreign = {domain for table in _TABLES for domain, _ in table} - {"", "com.microsoft"}
    kept = [each for each in model.opset_import if each.domain not in foreign - used]
    missing = used - {each.domain for each in kept} - {""}
    del model.opset_import[:]
    model.opset_import.extend(kept)
    model.opset_import.extend(helper.make_opsetid(name, 1) for name in sorted(missing))
