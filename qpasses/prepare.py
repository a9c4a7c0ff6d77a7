"""Prepare: any float model to one canonical float graph with the same results."""

import onnx
import onnx.inliner
from onnx_graphsurgeon.logger import G_LOGGER

from calibration.memory import give_back
from calibration.weights import weight_bytes
from opsets.errors import ModelError
from qpasses.graph import (
    Graph,
    constant_bytes,
    export_graph,
    import_graph,
    numbers_as_tensors,
)
from qpasses.passes import EXPAND, QUANTIZABLE, SIMPLIFY
from qpasses.passes.base import UNWATCHED, Context, Watch, run_passes
from qpasses.runtime import IR_VERSION, OPSET, OPSET_INT8, Arrays
from qpasses.selection import select
from qpasses.shapes import true_shapes
from qpasses.upgrade import agree, upgrade


def prepare(
    model: onnx.ModelProto,
    sample: Arrays | None,
    context: Context,
    watch: Watch = UNWATCHED,
) -> Graph:
    """The canonical float graph of ``model``: upgraded, folded, checked on ``sample``.

    ``context`` learns which nodes the user wants left alone. Raises ModelError if no opset
    that the bodies need can be reached, or if the result of a step differs from the original
    on ``sample`` (feeds by input name), UsageError for a name that matches nothing.
    """
    plain = onnx.inliner.inline_local_functions(_inputs_hidden(model))
    numbers_as_tensors(plain)
    wanted = context.settings
    newest = OPSET_INT8 if wanted.activation_type == "int8" else OPSET
    graph = import_graph(true_shapes(upgrade(plain, sample, newest), sample))
    context.selection = select(
        graph, wanted.nodes_to_exclude, wanted.op_types_to_quantize, QUANTIZABLE
    )
    G_LOGGER.severity = G_LOGGER.ERROR
    graph.fold_constants().cleanup(remove_unused_graph_inputs=False)
    graph = _expanded(graph, sample, context, watch)
    if not watch.stops_in(EXPAND):
        run_passes(SIMPLIFY, graph, context, watch)
    give_back(constant_bytes(graph))
    if sample is not None and not agree(model, prepared_model(graph), sample):
        raise ModelError(
            "folding changed the model's outputs beyond rounding on the first "
            "sample: please report this model"
        )
    give_back(constant_bytes(graph))
    return graph


def _expanded(graph: Graph, sample: Arrays | None, context: Context, watch: Watch) -> Graph:
    """``graph`` without fused ops; the shapes of what they hid are inferred."""
    is_fused = any(each.takes(node) for each in EXPAND for node in graph.nodes)
    run_passes(EXPAND, graph, context, watch)
    if not is_fused:
        return graph
    model = prepared_model(graph)
    del model.graph.value_info[:]
    return import_graph(true_shapes(model, sample))


def prepared_model(graph: Graph) -> onnx.ModelProto:
    """The float graph as a model that onnxruntime loads."""
    model = export_graph(graph)
    model.ir_version = IR_VERSION
    give_back(weight_bytes(model))
    return model


def _inputs_hidden(model: onnx.ModelProto) -> onnx.ModelProto:
    """Initializers that are listed as inputs too (IR 3) are taken from the inputs.

    The shapes that the file gives of inner tensors go too: they are inferred anew.
    """
    initializers = {tensor.name for tensor in model.graph.initializer}
    kept = [value for value in model.graph.input if value.name not in initializers]
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    del copy.graph.value_info[:]  # may be stale
    copy.ir_version = max(copy.ir_version, 4)
    return copy
