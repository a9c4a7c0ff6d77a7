"""Upgrade: a model at an opset the bodies can be written in, with its results."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnx.version_converter
from onnx import ModelProto, NodeProto, TensorProto, helper

from calibration import Session
from calibration.held_weights import weight_bytes
from calibration.memory import give_back
from opsets.errors import ModelError
from qpasses.ir.model_nodes import nested_graphs
from qpasses.ir.runtime import IR_VERSION, OPSET, Arrays
from qpasses.load.conversion import SOFTMAX, Conversion, Known, described
from qpasses.load.old_scan import scan_of_rows
from qpasses.load.time_first import time_first
from qpasses.load.unrounded import unrounded

OLDEST_USABLE = 18
"""The oldest opset the bodies can be written in (BitwiseAnd)."""

OLDEST_WANTED = 20
"""The oldest with all ops that are recognized (Gelu): older ones are raised if they can be."""

NEWEST_USABLE = 27
"""The newest with QuantizeLinear and DequantizeLinear in onnxruntime."""

_TOLERANCE = 1e-3  # of the largest output: folding reorders float32 arithmetic
_SMALL = 64  # elements: shape inference reads shapes and axes, never weights


OLDEST_RUNNABLE = 7
"""The oldest opset that onnxruntime runs."""


def runnable(model: ModelProto, path: Path) -> ModelProto:
    """``model``, raised to opset 7 if it is older, recurrent nets with time first.

    Nothing here can run it as it was, so the results are those that ONNX's converter says.
    Raises ModelError naming the node that has no counterpart.
    """
    return time_first(_raised_for(model, OLDEST_RUNNABLE, path, "onnxruntime runs"))


def raised_to(model: ModelProto, opset: int, path: Path) -> ModelProto:
    """``model``, raised to ``opset`` if it is older: what is quantized is said from there on.

    Raises ModelError naming the node that has no counterpart.
    """
    return _raised_for(model, opset, path, "its scales are those of")


def _raised_for(model: ModelProto, opset: int, path: Path, why: str) -> ModelProto:
    model = _standard_domain(model)
    version = _opset(model)
    if version >= opset:
        return model
    try:
        return _raised(model, _known(model, None), version, opset)
    except ModelError as error:
        raise ModelError(
            f"{path}: {why} opset {opset} and later, and opset {version} "
            f"cannot be raised: {error}"
        ) from error


def opset_of(model: ModelProto) -> int:
    """The version of the standard operators that it imports."""
    return _opset(_standard_domain(model))


def upgrade(
    model: ModelProto,
    sample: Arrays | None,
    newest: int = OPSET,
    oldest: int = OLDEST_WANTED,
    expected: Sequence[Any] | None = None,
) -> ModelProto:
    """``model`` at opset ``newest``, or the next lower one down to 18 that keeps its results.

    From ``oldest`` on a model stays as it is, below it does where nothing higher keeps its
    results; above 21 with a lower ``newest``, and above 27, it is lowered if it can be. The
    nodes that change go through ONNX's converter unconnected and without weights: names,
    metadata and other domains stay, and the 2 GB that onnxruntime takes are the only limit.
    ``expected``: the results on ``sample``, if they are known. Raises ModelError naming the
    node in the way.
    """
    model = _usable(_standard_domain(model), sample)
    version = _opset(model)
    if version >= oldest:
        return model if newest == OPSET else _lowered(model, sample, newest)
    known = _known(model, sample)
    if sample is not None and expected is None:
        expected = results(model, sample)
    problems: dict[str, list[str]] = {}
    for wanted in range(newest, OLDEST_USABLE - 1, -1):
        if wanted == version:
            return model
        try:
            raised = _raised(model, known, version, wanted)
            runner = Session(unrounded(raised), optimize=False)
            if sample is None or _all_close(expected, runner.run(None, sample)):
                return raised
            problem = _first_difference(model, raised, sample)
        except ModelError as error:
            problem = str(error)
        problems.setdefault(problem, []).append(str(wanted))
    raise ModelError(
        f"the model's opset {version} cannot be raised to {OLDEST_USABLE} or above: "
        + "; ".join(f"{what} (at {', '.join(at)})" for what, at in problems.items())
    )


def _usable(model: ModelProto, sample: Arrays | None) -> ModelProto:
    """``model`` at most at opset 27; as it is where it has other results there, or none."""
    version = _opset(model)
    if version <= NEWEST_USABLE:
        return model
    try:
        lowered = _raised(model, _known(model, sample), version, NEWEST_USABLE)
        return lowered if sample is None or agree(model, lowered, sample) else model
    except ModelError:
        return model


def check_usable(model: ModelProto) -> None:
    """Raise ModelError, naming the node that forbids it, if bodies cannot be written in it."""
    plain = onnx.inliner.inline_local_functions(_standard_domain(model))
    version, reason = _opset(plain), "it has other results there"
    if version <= NEWEST_USABLE:
        return
    try:
        _raised(plain, _known(plain, None), version, NEWEST_USABLE)
    except ModelError as error:
        reason = str(error)
    raise ModelError(
        f"onnxruntime has no QuantizeLinear of the model's opset {version}, and it cannot be "
        f"lowered to {NEWEST_USABLE}: {reason}"
    )


def _lowered(model: ModelProto, sample: Arrays | None, newest: int) -> ModelProto:
    """``model`` at most at ``newest``; as it is if ONNX's converter finds no way down."""
    if _opset(model) <= newest:
        return model
    try:
        lowered = onnx.version_converter.convert_version(model, newest)
        lowered.ir_version = IR_VERSION
        if sample is None or agree(model, lowered, sample):
            return lowered
    except (RuntimeError, ModelError):  # the converter's and onnxruntime's refusals
        return model
    return model


def agree(model: ModelProto, other: ModelProto, sample: Arrays) -> bool:
    """Whether both models give the same outputs on ``sample``, up to rounding."""
    return gives(other, sample, results(model, sample))


def gives(model: ModelProto, sample: Arrays, expected: Sequence[Any]) -> bool:
    """Whether the outputs of ``model`` on ``sample`` are those, up to rounding."""
    return _all_close(expected, results(model, sample))


def results(model: ModelProto, sample: Arrays) -> list[Any]:
    """The outputs of ``model`` on ``sample``, the first one, without optimizations.

    Those of a quantized model are not rounded.
    """
    found = Session(unrounded(model), optimize=False).run(None, sample, "the first sample")
    give_back(weight_bytes(model))
    return found


def _all_close(expected: Any, found: Any) -> bool:
    return all(_close(*pair) for pair in zip(expected, found, strict=True))


def _close(expected: Any, found: Any) -> bool:
    if not isinstance(expected, np.ndarray):
        return True  # a sequence
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return False
    if expected.dtype.kind not in "fiub":
        return np.array_equal(expected, found)
    finite = np.isfinite(expected)
    if not np.array_equal(expected[~finite], found[~finite], equal_nan=True):
        return False
    span = np.abs(expected[finite], dtype=np.float64).max(initial=0.0)
    gap = np.abs(expected[finite].astype(np.float64) - found[finite]).max(initial=0.0)
    return bool(gap <= _TOLERANCE * span + 1e-6)


def _first_difference(model: ModelProto, raised: ModelProto, sample: Arrays) -> str:
    """The first node whose results changed, by the tensors that both models have."""
    kept = {name for node in raised.graph.node for name in node.output if name}
    nodes = {node.output[0]: node for node in model.graph.node if node.output[0] in kept}
    results = (_values(each, list(nodes), sample) for each in (model, raised))
    found = zip(nodes.values(), *results, strict=True)
    where = next((described(node) for node, *pair in found if not _close(*pair)), "the model")
    return f"{where} has other results"


def _values(model: ModelProto, names: Sequence[str], sample: Arrays) -> list[Any]:
    """What the tensors ``names`` hold on ``sample``."""
    watched = ModelProto()
    watched.CopyFrom(model)
    del watched.graph.output[:]
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return Session(watched, optimize=False).run(names, sample)


def _opset(model: ModelProto) -> int:
    return int(next(o.version for o in model.opset_import if o.domain == ""))


def _standard_domain(model: ModelProto) -> ModelProto:
    """``model`` with the domain of the standard operators imported, and spelled ""."""
    versions = {o.domain: o.version for o in model.opset_import}
    if "" in versions:
        return model
    versions = {"": versions.pop("ai.onnx", OPSET)} | versions
    spelled = ModelProto()
    spelled.CopyFrom(model)
    del spelled.opset_import[:]
    spelled.opset_import.extend(helper.make_opsetid(*item) for item in versions.items())
    return spelled


def _raised(model: ModelProto, known: Known, version: int, wanted: int) -> ModelProto:
    raised = ModelProto()
    raised.CopyFrom(model)
    raised.ir_version = max(model.ir_version, IR_VERSION)
    next(o for o in raised.opset_import if o.domain == "").version = wanted
    graphs = list(nested_graphs(raised.graph))
    nodes = [node for graph in graphs for node in graph.node]
    taken = {name for node in nodes for name in (node.name, *node.input, *node.output)}
    taken |= {value.name for graph in graphs for value in (*graph.input, *graph.initializer)}
    conversion = Conversion(version, wanted, known, taken)
    changing = [node for node in nodes if conversion.changes(node)]
    groups = iter(conversion.convert(changing))
    for graph in graphs:
        found: list[NodeProto] = []
        for node in graph.node:
            if node.op_type == "Scan" and not node.domain and version < 9 <= wanted:
                found.append(scan_of_rows(node, taken))
            else:
                found += next(groups) if conversion.changes(node) else [node]
        del graph.node[:]
        graph.node.extend(found)
    return raised


def _known(model: ModelProto, sample: Arrays | None) -> Known:
    light = onnx.shape_inference.infer_shapes(without_weights(model), data_prop=True)
    graphs = list(nested_graphs(light.graph))
    values = {tensor.name: tensor for graph in graphs for tensor in graph.initializer}
    for node in (node for graph in graphs for node in graph.node):
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            values[node.output[0]] = node.attribute[0].t
    types = {
        name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        for name, tensor in values.items()
    }
    for graph in graphs:
        for value in (*graph.input, *graph.value_info, *graph.output):
            types[value.name] = value.type
    known = Known(types, values)
    softmax = [node.input[0] for node in model.graph.node if node.op_type in SOFTMAX]
    unknown = [name for name in softmax if not known.sizes(name)]
    if unknown and sample is not None and _opset(model) < 13:  # it flattened before
        for name, value in zip(unknown, _values(model, unknown, sample), strict=True):
            elem_type = helper.np_dtype_to_tensor_dtype(value.dtype)
            types[name] = helper.make_tensor_type_proto(elem_type, [None] * value.ndim)
    return known


def without_weights(model: ModelProto) -> ModelProto:
    """``model`` with all but its small constants turned into inputs."""
    light = ModelProto(ir_version=IR_VERSION, opset_import=model.opset_import)
    graph = light.graph
    for part in ("input", "output", "value_info"):
        getattr(graph, part).extend(getattr(model.graph, part))
    given = {value.name for value in graph.input}

    def stays(tensor: TensorProto, name: str) -> bool:
        if np.prod(tensor.dims) <= _SMALL:
            return True
        if name not in given:
            graph.input.append(
                helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
            )
        return False

    graph.initializer.extend(t for t in model.graph.initializer if stays(t, t.name))
    graph.node.extend(
        node
        for node in model.graph.node
        if node.op_type != "Constant" or stays(node.attribute[0].t, node.output[0])
    )
    return light
