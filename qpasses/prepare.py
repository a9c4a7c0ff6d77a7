"""Prepare: any float model to one canonical float graph with the same results."""

import numpy as np
import onnx
import onnx.inliner
import onnx.version_converter
from onnx_graphsurgeon.logger import G_LOGGER

from calibration import Session
from opsets.errors import ModelError
from qpasses.graph import Graph, export_graph, import_graph
from qpasses.passes import PREPARE
from qpasses.passes.base import AfterPass, Context, run_passes
from qpasses.runtime import IR_VERSION, OPSET, Arrays

OLDEST_USABLE = 18
"""The oldest opset the bodies can be written in (BitwiseAnd)."""

_TOLERANCE = 1e-3  # of the largest output: folding reorders float32 arithmetic


def prepare(
    model: onnx.ModelProto,
    sample: Arrays | None,
    context: Context,
    after: AfterPass | None = None,
) -> Graph:
    """The canonical float graph of ``model``: upgraded, folded, checked on ``sample``.

    Raises ModelError if no opset that the bodies need can be reached, or if the result of a
    step differs from the original on ``sample`` (feeds by input name).
    """
    plain = onnx.inliner.inline_local_functions(_inputs_hidden(model))
    graph = import_graph(infer_types(upgrade(plain, sample), sample))
    G_LOGGER.severity = G_LOGGER.ERROR
    graph.fold_constants().cleanup(remove_unused_graph_inputs=False)
    run_passes(PREPARE, graph, context, after)
    if sample is not None and not _agree(model, prepared_model(graph), sample):
        raise ModelError(
            "folding changed the model's outputs beyond rounding on the first "
            "sample: please report this model"
        )
    return graph


def prepared_model(graph: Graph) -> onnx.ModelProto:
    """The float graph as a model that onnxruntime loads."""
    model = export_graph(graph)
    model.ir_version = IR_VERSION
    return model


def upgrade(model: onnx.ModelProto, sample: Arrays | None) -> onnx.ModelProto:
    """``model`` at opset 21, or the next lower one down to 18 that keeps its results.

    A model that is newer stays as it is.
    """
    version = next(
        (o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), None
    )
    if version is None:
        raise ModelError("the model imports no version of the standard ONNX operators")
    if version >= OPSET:
        return model
    problems = []
    for wanted in range(OPSET, max(version, OLDEST_USABLE) - 1, -1):
        try:
            converted = onnx.version_converter.convert_version(model, wanted)
            converted.ir_version = max(model.ir_version, IR_VERSION)
            if sample is None or _agree(model, converted, sample):
                return converted
            problems.append(f"opset {wanted}: other results")
        except RuntimeError as error:  # the converter's and onnxruntime's own exceptions
            problems.append(f"opset {wanted}: {str(error).splitlines()[0]}")
    raise ModelError(
        f"the model's opset {version} could not be raised to {OLDEST_USABLE} or "
        f"above: {'; '.join(problems)}"
    )


def infer_types(model: onnx.ModelProto, sample: Arrays | None) -> onnx.ModelProto:
    """``infer_shapes``; what ONNX cannot infer takes the type and rank it has on ``sample``.

    Operators of other domains hide the types of everything behind them.
    """
    inferred = infer_shapes(model)
    graph = inferred.graph
    known = {value.name for value in [*graph.value_info, *graph.output]}
    unknown = [
        name for node in graph.node for name in node.output if name and name not in known
    ]
    if not unknown or sample is None:
        return inferred
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in unknown)
    found = Session(watched, optimize=False).run(unknown, sample)
    for name, value in zip(unknown, found, strict=True):
        if isinstance(value, np.ndarray):
            elem_type = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            info = onnx.helper.make_tensor_value_info(name, elem_type, [None] * value.ndim)
            graph.value_info.append(info)
    return infer_shapes(inferred)


def infer_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with value_info for every tensor whose type can be inferred."""
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def _inputs_hidden(model: onnx.ModelProto) -> onnx.ModelProto:
    """Initializers that are listed as inputs too (IR 3) are taken from the inputs."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    kept = [value for value in model.graph.input if value.name not in initializers]
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    copy.ir_version = max(copy.ir_version, 4)
    return copy


def _agree(model: onnx.ModelProto, other: onnx.ModelProto, sample: Arrays) -> bool:
    results = (Session(each, optimize=False).run(None, sample) for each in (model, other))
    for expected, found in zip(*results, strict=True):
        if not isinstance(expected, np.ndarray):
            continue  # a sequence
        if expected.shape != found.shape or expected.dtype != found.dtype:
            return False
        if expected.dtype.kind not in "fiub":
            if not np.array_equal(expected, found):
                return False
            continue
        finite = np.isfinite(expected)
        if not np.array_equal(expected[~finite], found[~finite], equal_nan=True):
            return False
        span = np.abs(expected[finite], dtype=np.float64).max(initial=0.0)
        gap = np.abs(expected[finite].astype(np.float64) - found[finite]).max(initial=0.0)
        if not gap <= _TOLERANCE * span + 1e-6:
            return False
    return True
