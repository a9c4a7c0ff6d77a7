"""A model before it is quantized: what it holds, and what would become integer of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from opsets.errors import DataError, ModelError
from qpasses.evidence.summary import float_nodes
from qpasses.ir.commands import QuantizeOptions
from qpasses.ir.input_shape import as_texts
from qpasses.ir.macs import MULTIPLYING
from qpasses.ir.model_nodes import nested_graphs, nodes_of
from qpasses.ir.stages import Kind, kind
from qpasses.jobs.resolving import resolved
from qpasses.load.arguments import Shapes, Source, source_of
from qpasses.load.external_data import file_bytes
from qpasses.load.input_sizes import with_input_shapes
from qpasses.pipeline import State, calibrated, integerized, placed, prepared, recovered
from qpasses.place.cautions import translation_warnings
from qpasses.place.joined_outputs import leave_joined


@dataclass(frozen=True)
class Foreseen:
    """What ``quantize`` would make of a model, as far as made-up numbers tell.

    ``sizes``: those of the inputs for which multiply-accumulates are counted. ``macs`` and
    ``integer_macs``, those of integer nodes; ``macs_not_counted`` as in the summary of a
    report. ``integer_nodes``: name, op type and the float nodes that each stands for;
    ``float_nodes``: name, op type and reason, and so ``by_ranges``, of nodes of which the
    ranges of real samples decide. ``scales_from_samples``: tensors of a quantized model that
    it does not say how to store.
    """

    sizes: Mapping[str, Sequence[int]]
    macs: int
    integer_macs: int
    macs_not_counted: Sequence[str]
    integer_nodes: Sequence[Mapping[str, Any]]
    float_nodes: Sequence[Mapping[str, str]]
    by_ranges: Sequence[Mapping[str, str]]
    scales_from_samples: Sequence[str]


@dataclass(frozen=True)
class Preview:
    """A model that is not integer yet.

    ``size`` in bytes, weights beside the file included. ``inputs`` and ``outputs``: name, type
    and shape, None where it has no rank, names for free sizes. ``parameters``: numbers in
    constants that are no int64 and no truths, as sizes and places are. ``ops``: how often each
    occurs, bodies included. ``foreseen`` is None where nothing can be told: ``unknown`` says
    why, and what to do.
    """

    model: onnx.ModelProto
    path: str
    size: int
    quantized_before: bool
    opsets: Mapping[str, int]
    inputs: Sequence[Mapping[str, Any]]
    outputs: Sequence[Mapping[str, Any]]
    parameters: int
    ops: Mapping[str, int]
    foreseen: Foreseen | None = None
    unknown: str = ""
    warnings: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"Preview({self.path!r}, {sum(self.ops.values())} nodes)"

    def as_json(self) -> dict[str, Any]:
        """All but the model itself, ready for JSON."""
        shown = asdict(replace(self, model=onnx.ModelProto()))
        del shown["model"]
        return shown


def previewed(model: onnx.ModelProto, path: Path, shapes: Shapes) -> Preview:
    """Look at ``model``, read leniently from ``path``, with free sizes fixed by ``shapes``.

    Raises UsageError for sizes that do not fit.
    """
    sized = with_input_shapes(model, as_texts(shapes), path)
    found = _facts(model, sized, path)
    try:
        source = source_of(model, path).sized(shapes)
        notes = [*source.remarks, *translation_warnings(source.notes)]
        found = replace(found, quantized_before=source.is_quantized, warnings=notes)
        return replace(found, foreseen=_foreseen(source))
    except (DataError, ModelError) as error:
        return replace(found, unknown=str(error))


def _facts(model: onnx.ModelProto, sized: onnx.ModelProto, path: Path) -> Preview:
    graphs = list(nested_graphs(model.graph))
    tensors = [tensor for graph in graphs for tensor in graph.initializer]
    tensors += [
        each.t
        for node in nodes_of(model)
        for each in node.attribute
        if node.op_type == "Constant" and each.name == "value"
    ]
    constants = {tensor.name for tensor in model.graph.initializer}
    return Preview(
        model=sized,
        path=str(path),
        size=file_bytes(model, path),
        quantized_before=False,
        opsets={each.domain or "ai.onnx": each.version for each in model.opset_import},
        inputs=[_end(each) for each in sized.graph.input if each.name not in constants],
        outputs=[_end(each) for each in sized.graph.output],
        parameters=sum(
            prod(each.dims) for each in tensors if each.data_type not in _NO_WEIGHTS
        ),
        ops=dict(sorted(Counter(node.op_type for node in nodes_of(model)).items())),
    )


_NO_WEIGHTS = (TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING)


def _end(value: onnx.ValueInfoProto) -> dict[str, Any]:
    tensor = value.type.tensor_type
    if not tensor.elem_type:
        what = (value.type.WhichOneof("value") or "unknown").removesuffix("_type")
        return {"name": value.name, "type": what, "shape": None}
    dims = [each.dim_value or each.dim_param or "?" for each in tensor.shape.dim]
    return {
        "name": value.name,
        "type": helper.tensor_dtype_to_np_dtype(tensor.elem_type).name,
        "shape": dims if tensor.HasField("shape") else None,
    }


def _foreseen(source: Source) -> Foreseen:
    """Run the stages up to the integer graph on made-up numbers.

    Where ranges decide, which are made up too, each node that they could leave in float is
    left there. Raises DataError or ModelError.
    """
    for spec in source.specs:
        if None in spec.shape[1:]:
            raise DataError(f"sizes of input {spec} are free: give {spec.advice}")
    asked = QuantizeOptions(source.model, "random:1", accuracy="fast")
    state = prepared(resolved("quantize", asked, lambda _: source).start)
    record, excluded = state.record, state.context.selection.excluded
    uncounted = {
        node.op
        for node in state.graph.nodes
        if node.op in MULTIPLYING and node.name not in record.macs
    }
    known = {*excluded}
    state = calibrated(state)
    open_ = state.plan.tensors.keys() - state.kept.keys()
    if leave_joined(state.graph, state.plan, open_, state.context):
        joined = excluded.keys() - known
        excluded.update(dict.fromkeys(joined, _JOINED))
        state = calibrated(state)
    for stage in (placed, recovered, integerized):
        state = stage(state)
    left = float_nodes(state.graph, record)
    decided = excluded.keys() - known
    return Foreseen(
        sizes=record.sizes,
        macs=sum(record.macs.values()),
        integer_macs=sum(each.macs for each in record.nodes.values()),
        macs_not_counted=sorted(uncounted),
        integer_nodes=_integer_nodes(state),
        float_nodes=[each for each in left if each["name"] not in decided],
        by_ranges=[each for each in left if each["name"] in decided],
        scales_from_samples=[each for each in state.plan.tensors if each not in state.kept],
    )


_JOINED = "joins tensors to an output: stays in float if one is much wider than another"


def _integer_nodes(state: State) -> list[dict[str, Any]]:
    known = state.record.nodes
    return [
        {
            "name": node.name,
            "op_type": node.op,
            "source": list(known[node.name].source) if node.name in known else [node.name],
        }
        for node in state.graph.nodes
        if kind(node) is Kind.INTEGER
    ]
