"""Bodies apart: the passes that see a Loop or Scan as a whole, before bodies are spliced."""

import onnx

from qpasses.ir.folding import fold_constants
from qpasses.ir.graph import Graph
from qpasses.ir.interchange import import_graph, prepared_model
from qpasses.ir.model_nodes import nested_graphs, nodes_of
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
    graph = _apart(model)
    run_passes(SEQUENCES, graph, context, watch)
    made = _without_sizes(graph)
    if not watch.stops_in(SEQUENCES):
        graph = _apart(made)  # with the sizes that follow from what has been folded
        run_passes(CELLS, graph, context, watch)
    if not has_nets(graph):
        return made if _count_sequences(made) < _count_sequences(model) else model
    return upgrade(_without_sizes(graph), sample, OPSET, OPSET_INT16)


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
    for each in nested_graphs(made.graph):
        del each.value_info[:]
    return made


def _count_sequences(model: onnx.ModelProto) -> int:
    return sum(
        each.op_type in ("SequenceEmpty", "SplitToSequence") for each in nodes_of(model)
    )
