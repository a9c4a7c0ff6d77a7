"""ExpandDefinition: an op of ONNX that has no form here is what the standard says it is."""

from collections.abc import Sequence
from typing import Any, ClassVar

import onnx
import onnx.defs
import onnx.inliner
import onnx.shape_inference

from qpasses.ir.graph import Graph, Node, add_node, input_at, is_float, single_node
from qpasses.ir.interchange import export_graph, import_graph, numbers_as_tensors
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.expansion import are_read
from qpasses.prepare.resolve_cast import ResolveCast

_DOMAIN = "qpasses.definition"
"""Of the function, while it is inlined: in its own, ONNX would not look for one."""


class ExpandDefinition(Pass):
    """Replace an op by the nodes of the function by which the standard defines it.

    before: ``y = ReduceL2 (x, axes)``
    after:  ``s = Mul (x, x); t = ReduceSum (s, axes); y = Sqrt (t)``
    **Exact:** it is its definition. Of Attention what ExpandAttention declines, of
    LayerNormalization those whose mean or deviation is read. Functions that hold loops or
    random numbers would still be float, and are no list of ops that anybody could read.
    """

    op_types: ClassVar = frozenset(
        {
            "Attention",
            "CausalConvWithState",
            "CenterCropPad",
            "LayerNormalization",
            "MeanVarianceNormalization",
            "NegativeLogLikelihoodLoss",
            "ReduceL1",
            "ReduceL2",
            "ReduceLogSum",
            "ReduceSumSquare",
            "RotaryEmbedding",
            "SoftmaxCrossEntropyLoss",
            "Swish",
        }
    )

    def takes(self, node: Node) -> bool:
        """Whether it is one of ONNX, and of LayerNormalization whose moments it gives."""
        if node.op == "LayerNormalization" and not any(each.name for each in node.outputs[1:]):
            return False
        return not node.domain and super().takes(node)

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite, with what the definition itself is defined by."""
        if node.op == "LayerNormalization" and not are_read(graph, node.outputs[1:]):
            return NOT_MINE
        if any(not tensor.is_empty() and tensor.dtype is None for tensor in node.inputs):
            return Declined(f"{node.op} of inputs whose types are not known")
        if node.op == "Attention" and _reads_masked_scores(graph, node):
            return Declined("Attention whose dropped scores are read: runtimes differ there")
        body = _body(graph, node, context)
        if body is None:
            return Declined(f"{node.op} of opset {graph.opset} is not defined by other ops")
        for each in _splice(graph, node, body, context):
            if self.takes(each):
                self.rewrite(graph, each, context)
        return REWRITTEN


def _reads_masked_scores(graph: Graph, node: Node) -> bool:
    """They are -infinity to the standard, and the lowest float32 to onnxruntime."""
    mask = input_at(node, 3)
    is_masked = node.attrs.get("is_causal", 0) or (mask is not None and not is_float(mask))
    return bool(is_masked and are_read(graph, node.outputs[3:]))


def _body(graph: Graph, node: Node, context: Context) -> Graph | None:
    """What ``node`` is defined by, without casts that change nothing; None if by nothing."""
    model = export_graph(single_node(graph, node))
    (call,) = model.graph.node
    function = _function(call, graph.opset, [each.type for each in model.graph.input])
    if function is None:
        return None
    call.domain = function.domain = _DOMAIN
    model.opset_import.append(onnx.helper.make_opsetid(_DOMAIN, 1))
    model.functions.append(function)
    inlined = onnx.inliner.inline_local_functions(model)
    numbers_as_tensors(inlined)
    body = import_graph(onnx.shape_inference.infer_shapes(inlined))
    resolve = ResolveCast()
    for each in filter(resolve.takes, body.nodes):
        resolve.rewrite(body, each, context)
    return body


def _function(
    call: onnx.NodeProto, opset: int, types: Sequence[onnx.TypeProto]
) -> onnx.FunctionProto | None:
    """The function that defines ``call``, which gets all attributes that it may ask for."""
    schema: Any = onnx.defs.get_schema(call.op_type, opset, "")  # its stubs are not complete
    given = {attribute.name for attribute in call.attribute}
    defaults = [each.default_value for each in schema.attributes.values()]
    call.attribute.extend(each for each in defaults if each.name and each.name not in given)
    of_types = schema.has_context_dependent_function
    versions = (
        schema.context_dependent_function_opset_versions
        if of_types
        else schema.function_opset_versions
    )
    version = max((each for each in versions if each <= opset), default=None)
    if version is None:
        return None
    if not of_types:
        found = schema.get_function_with_opset_version(version)
    else:
        known = iter(types)
        inputs = [next(known) if name else onnx.TypeProto() for name in call.input]
        found = schema.get_context_dependent_function_with_opset_version(
            version, call.SerializeToString(), [each.SerializeToString() for each in inputs]
        )
    function = onnx.FunctionProto()
    function.ParseFromString(found)
    for imported in function.opset_import:
        imported.version = opset  # its definition until another version replaces it
    return function


def _splice(graph: Graph, node: Node, body: Graph, context: Context) -> list[Node]:
    """Put ``body``, which reads and writes what ``node`` did in this order, in its place."""
    given = [tensor for tensor in node.inputs if not tensor.is_empty()]
    written = [tensor for tensor in node.outputs if not tensor.is_empty()]
    ends = [*zip(body.inputs, given, strict=True), *zip(body.outputs, written, strict=True)]
    outer = {id(inner): tensor for inner, tensor in ends}
    name, first, made = node.name, written[0].name, []
    node.inputs.clear()
    node.outputs.clear()
    for tensor in body.tensors().values():
        tensor.name = context.fresh(f"{first}_{tensor.name}")
    for each in body.nodes:
        inputs = [outer.get(id(tensor), tensor) for tensor in each.inputs]
        outputs = [outer.get(id(tensor), tensor) for tensor in each.outputs]
        is_last = any(tensor is written[0] for tensor in outputs)
        wanted = name if is_last else context.fresh(f"{name}_{each.op}")
        each.inputs.clear()
        each.outputs.clear()
        made.append(add_node(graph, each.op, wanted, inputs, outputs, attributes=each.attrs))
    return made
