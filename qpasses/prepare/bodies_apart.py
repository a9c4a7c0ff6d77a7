"""Bodies apart: the passes that see a Loop or Scan as a whole, before bodies are spliced."""

import onnx

from qpasses.ir.folding import fold_constants
from qpasses.ir.graph import Graph
from qpasses.ir.inner_shapes import forget_inner_sizes
from qpasses.ir.interchange import import_graph, prepared_model
from qpasses.ir.model_nodes import nodes_of
from qpasses.ir.recurrent_nodes import GATES
from qpasses.ir.rewriting import UNWATCHED, Context, Watch, run_passes
from qpasses.ir.runtime import OPSET, OPSET_INT16, Arrays
from qpasses.ir.shapes import infer_shapes, infer_states
from qpasses.load.upgrade import upgrade
from qpasses.prepare import CELLS, SEQUENCES


def with_cells(
    model: onnx.ModelProto, sample: Arrays | None, context: Context, watch: Watch = UNWATCHED
) -> onnx.ModelProto:
    """``model`` with LSTM, GRU and RNN for Loops and Scans that write these out.

    And without the sequences that can be tensors. ``sample``: feeds by input name.
    """
    made = model
    for _ in range(_ROUNDS):
        for each in SEQUENCES:
            graph = _apart(made)  # with sizes that follow from what was folded and rewritten
            run_passes([each], graph, context, watch)
            made = _without_sizes(graph)
            if watch.stops_in([each]):
                return made
        if not _count_sequences(made):
            break
    graph = _apart(made)
    run_passes(CELLS, graph, context, watch)
    if not has_nets(graph):
        return made if _count_sequences(made) < _count_sequences(model) else model
    return upgrade(_without_sizes(graph), sample, OPSET, OPSET_INT16)


def has_bodies_or_sequences(model: onnx.ModelProto) -> bool:
    """Whether ``with_cells`` may change ``model``."""
    return any(node.op_type in _SEEN for node in nodes_of(model))


def has_nets(graph: Graph) -> bool:
    """Whether there is a recurrent node in ``graph``, outside of bodies."""
    return any(node.op in GATES for node in graph.nodes)


def _apart(model: onnx.ModelProto) -> Graph:
    """The graph of ``model`` with its bodies, folded."""
    graph = import_graph(infer_shapes(infer_states(model), inside=False), are_apart=True)
    fold_constants(graph)
    return graph


def _without_sizes(graph: Graph) -> onnx.ModelProto:
    """``graph`` without what is known of its sizes, which is to be inferred anew."""
    made = prepared_model(graph)
    forget_inner_sizes(made)
    return made


def _count_sequences(model: onnx.ModelProto) -> int:
    return sum(each.op_type in _SEQUENCES for each in nodes_of(model))


_ROUNDS = 4
"""So often at most sequences are looked at: layers read those of layers below."""

_SEQUENCES = frozenset({"SequenceEmpty", "SplitToSequence"})
_SEEN = _SEQUENCES | {"Loop", "Scan"}
