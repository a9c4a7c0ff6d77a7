"""Prepare: any float model to one canonical float graph with the same results."""

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from onnx_graphsurgeon.logger import G_LOGGER

from calibration.inputs import tensors
from calibration.memory import give_back
from opsets.errors import DataError, ModelError
from qpasses.ir.folding import fold_constants
from qpasses.ir.graph import STORE, STORING, Graph, constant_bytes
from qpasses.ir.inner_shapes import forget_inner_sizes
from qpasses.ir.interchange import import_graph, numbers_as_tensors, prepared_model
from qpasses.ir.model_nodes import nodes_of
from qpasses.ir.recurrent_nodes import GATES
from qpasses.ir.rewriting import UNWATCHED, Context, Pass, Watch, run_passes
from qpasses.ir.runtime import OPSET, OPSET_INT8, OPSET_INT16, Arrays
from qpasses.ir.selection import excluded_early, select
from qpasses.ir.settings import Settings
from qpasses.ir.shapes import infer_shapes, true_shapes
from qpasses.ir.unknown_sizes import is_unknown
from qpasses.load.memory_check import check_memory
from qpasses.load.upgrade import OLDEST_WANTED, gives, results, upgrade
from qpasses.prepare import APART, CASTS, EXPAND, NETS, SIMPLIFY
from qpasses.prepare.bodies_apart import has_bodies_or_sequences, has_nets, with_cells
from qpasses.prepare.recognize_mask import RecognizeMask
from qpasses.prepare.settle_resizes import settle_resizes
from qpasses.prepare.size_advice import advised
from qpasses.prepare.store_apart import store_apart
from qpasses.prepare.take_apart import take_apart

G_LOGGER.severity = G_LOGGER.ERROR  # its warnings are not the user's


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
    expected = None if sample is None else _first_results(model, sample)
    graph, whole = _through(SIMPLIFY, model, sample, context, watch, expected)
    if sample is not None and whole is not None:
        expected = results(whole, sample)
    if sample is not None and expected is not None:
        if context.masks:
            sample = _as_masks(sample, context.masks)
            expected = results(model if whole is None else whole, sample)
        made = _runnable(graph, context)
        if not (
            _is_the_same(made, model)
            or gives(made, sample, expected)
            or _agrees_unmasked(model, sample, context, expected)
        ):
            raise ModelError(
                "folding changed the model's outputs beyond rounding on the first "
                "sample: please report this model"
            )
    give_back(constant_bytes(graph))
    return graph


def _first_results(model: onnx.ModelProto, sample: Arrays) -> Sequence[Any]:
    """What ``model`` gives on ``sample``. Raises ModelError, with advice if there is any."""
    check_memory(model, sample)
    try:
        return results(model, sample)
    except ModelError as error:
        raise advised(error, model, sample) from error


def _through(
    passes: Sequence[Pass],
    model: onnx.ModelProto,
    sample: Arrays | None,
    context: Context,
    watch: Watch,
    expected: Sequence[Any] | None,
) -> tuple[Graph, onnx.ModelProto | None]:
    """The graph, and what it was before it was simplified, if it was quantized already."""
    plain = _inputs_hidden(model)
    if plain.functions:  # the inliner reads all weights anew
        plain = onnx.inliner.inline_local_functions(plain)
    numbers_as_tensors(plain)
    wanted = context.settings
    newest, oldest = OPSET, OLDEST_WANTED
    has_words = wanted.has_words or any(node.op_type in GATES for node in nodes_of(plain))
    if has_words:
        oldest = OPSET_INT16
    elif wanted.activation_type == "int8":
        newest = OPSET_INT8
    elif any(node.op_type in _CLOSE for node in nodes_of(plain)):
        oldest = newest
    upgraded = upgrade(plain, sample, newest, oldest, expected)
    is_plain = not has_bodies_or_sequences(upgraded)
    if not is_plain:
        context.selection.excluded = _excluded_early(upgraded, wanted)
        upgraded = with_cells(upgraded, sample, context, watch)
    graph = import_graph(true_shapes(upgraded, sample))
    if is_plain:
        run_passes(APART, graph, context, watch)  # no node is theirs, but they are seen
    for name in context.record.declined.keys() - {node.name for node in graph.nodes}:
        del context.record.declined[name]  # a Loop or Scan that was taken apart
    if has_words or has_nets(graph):
        _check_opset(graph)
    context.selection = select(
        graph, wanted.nodes_to_exclude, wanted.op_types_to_quantize, context.quantizable
    )
    if not watch.stops_in(APART):
        run_passes(CASTS, graph, context, watch)
    take_apart(graph, context)
    is_new = _folded(graph) and _lacks_sizes(graph)
    is_new |= settle_resizes(graph, sample)
    whole = _runnable(graph, context) if context.given else None
    if not watch.stops_in(APART + CASTS):
        graph = _expanded(graph, sample, context, watch, is_new)
    if not watch.stops_in(APART + CASTS + NETS + EXPAND):
        run_passes(passes, graph, context, watch)
    store_apart(graph, context)
    _name_sizes(graph, model)
    give_back(constant_bytes(graph))
    return graph, whole


def _excluded_early(model: onnx.ModelProto, wanted: Settings) -> dict[str, str]:
    """Why nodes of ``model`` are excluded; nothing is looked at where none are."""
    if not wanted.nodes_to_exclude:
        return {}
    return excluded_early(import_graph(infer_shapes(model)), wanted.nodes_to_exclude)


def _name_sizes(graph: Graph, model: onnx.ModelProto) -> None:
    """Call sizes of outputs as ``model`` does, where nothing else is known of them."""
    declared = {value.name: value.type.tensor_type.shape.dim for value in model.graph.output}
    for tensor in graph.outputs:
        dims = declared.get(tensor.name, ())
        if not any(map(is_unknown, tensor.shape or ())):
            continue
        if len(dims) == len(tensor.shape):
            pairs = zip(tensor.shape, dims, strict=True)
            tensor.shape = [
                (dim.dim_param or size) if is_unknown(size) else size for size, dim in pairs
            ]


_CLOSE = frozenset({"Cast", "Cos", "Sin"})
"""Ops whose numbers 8 bits may not tell apart: then they have 16 where the opset has these."""


def _check_opset(graph: Graph) -> None:
    """Raise ModelError where nothing may have 16 bits."""
    if graph.opset < OPSET_INT16:
        raise ModelError(
            f"tensors in int16 need opset {OPSET_INT16}, to which this model cannot be "
            "raised: leave --residual-type and --tensor-types away; states of LSTM and GRU "
            "have 16 bits"
        )


def _with_words(graph: Graph, sample: Arrays | None, context: Context) -> Graph:
    """``graph`` at an opset of states in 16 bits, where passes have found nets in it.

    Raises ModelError if it cannot be raised; nor can what a quantized model stores be.
    """
    if graph.opset >= OPSET_INT16 or not has_nets(graph):
        return graph
    if not context.given:
        made = upgrade(prepared_model(graph), sample, OPSET, OPSET_INT16)
        graph = import_graph(true_shapes(made, sample))
    _check_opset(graph)
    return graph


def _runnable(graph: Graph, context: Context) -> onnx.ModelProto:
    """``graph`` to be run on a sample: the ranges of a quantized model keep numbers finite."""
    model = prepared_model(graph)
    return context.given.clipped(model) if context.given else model


def _is_the_same(made: onnx.ModelProto, model: onnx.ModelProto) -> bool:
    """Whether ``made`` computes nothing else than ``model``: nothing had to be changed."""
    ours, theirs = made.graph, model.graph
    return (
        not model.functions
        and list(ours.node) == list(theirs.node)
        and _imported(made) == _imported(model)
        and [*map(_name, ours.input)] == [*map(_name, theirs.input)]
        and [*map(_name, ours.output)] == [*map(_name, theirs.output)]
        and sorted(ours.initializer, key=_name) == sorted(theirs.initializer, key=_name)
        and list(ours.sparse_initializer) == list(theirs.sparse_initializer)
    )


def _imported(model: onnx.ModelProto) -> set[tuple[str, int]]:
    return {(each.domain, each.version) for each in model.opset_import}


_name = attrgetter("name")


def _expanded(
    graph: Graph, sample: Arrays | None, context: Context, watch: Watch, is_new: bool
) -> Graph:
    """``graph`` without fused ops and cells; the shapes of what they hid are inferred.

    ``is_new``: so are those that wait for what has been folded.
    """
    if is_new:
        graph = _sized(graph, sample, context)
    run_passes(NETS, graph, context, watch)
    if watch.stops_in(NETS):
        return graph
    graph = _with_words(graph, sample, context)
    is_fused = any(each.takes(node) for each in EXPAND for node in graph.nodes)
    run_passes(EXPAND, graph, context, watch)
    return _sized(graph, sample, context) if is_fused else graph


def _sized(graph: Graph, sample: Arrays | None, context: Context) -> Graph:
    """``graph`` with shapes that are inferred anew, and what follows from them folded.

    Of sizes that are computed from sizes, as exporters write them for a free batch, those of
    one Reshape are what inference has to know for the next: a round for each, while they are
    not too many.
    """
    is_new, seen = True, 0
    while is_new and seen < _MOST_NODES:
        seen += len(graph.nodes)
        model = prepared_model(graph)
        del model.graph.value_info[:]
        graph = import_graph(true_shapes(model, sample))
        for node in graph.nodes:
            if node.name in context.given.scales:
                node.op, node.domain = STORE, STORING
        is_new = _folded(graph) and _lacks_sizes(graph)
    return graph


_MOST_NODES = 20_000
"""So many nodes, over all rounds, get their shapes anew: it takes two seconds."""


def _folded(graph: Graph) -> bool:
    """Fold; whether that took a node away that computes, or an If."""
    before = _count_computing(graph)
    has_taken = fold_constants(graph)
    return has_taken or _count_computing(graph) < before


def _count_computing(graph: Graph) -> int:
    return sum(node.op != "Constant" for node in graph.nodes)


def _lacks_sizes(graph: Graph) -> bool:
    """Whether a size has not even a name."""
    shapes = [tensor.shape for node in graph.nodes for tensor in node.outputs]
    return any(shape is None or any(map(is_unknown, shape)) for shape in shapes)


def _agrees_unmasked(
    model: onnx.ModelProto, sample: Arrays, context: Context, expected: Sequence[Any]
) -> bool:
    """Whether all but the masks of ``model`` stays as it is.

    In a row that two masks drop as a whole, float32 tells what both drop from the rest.
    """
    if not context.has_masks:
        return False
    passes = [each for each in SIMPLIFY if not isinstance(each, RecognizeMask)]
    alone = Context(context.settings)
    unmasked, _ = _through(passes, model, sample, alone, UNWATCHED, expected)
    return gives(prepared_model(unmasked), sample, expected)


def check_masks(context: Context, sample: Arrays) -> None:
    """Raise DataError if an input that is taken for a mask holds more than 0 and 1."""
    given = tensors(sample)
    for name in sorted(context.masks & given.keys()):
        if not np.isin(given[name], (0, 1)).all():
            raise DataError(
                f"input {name!r} of the first sample holds other numbers than 0 and 1, but "
                "what is made of it drops scores before a Softmax: give a mask of 0 and 1, or "
                "exclude the node that adds it (--nodes-to-exclude)"
            )


def _as_masks(sample: Arrays, masks: Collection[str]) -> Arrays:
    """``sample`` with 0 and 1 in the inputs ``masks``, which may be made up."""
    given = tensors(sample)
    ones = {n: (given[n] != 0).astype(given[n].dtype) for n in given.keys() & {*masks}}
    return {**sample, **ones}


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
    forget_inner_sizes(copy)  # they may be stale
    copy.ir_version = max(copy.ir_version, 4)
    return copy
