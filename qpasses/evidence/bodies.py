"""Bodies made for one table: faster ways in which onnxruntime computes its function.

An op declares the bodies that compute every node of it. For a table there may be others: the
function that was tabulated, run in float between DequantizeLinear and QuantizeLinear, the one
float kernel that is the whole chain, or a quantized kernel of onnxruntime that holds a table
of its own. They are right where they give the same 256 codes, which is asked of onnxruntime
(qpasses.evidence.prove_tables), never assumed.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, FunctionProto, NodeProto, helper, numpy_helper

from opsets.op import DOMAIN, Body
from opsets.qpasses_v1 import OPS
from qpasses.ir.edges import dequantize, in_rows, quantize, rows_of
from qpasses.ir.function import Function
from qpasses.ir.graph import Node, constant
from qpasses.ir.record import AnyQuantization, ChannelQuantization, Quantization, Record

MADE = (
    "onnxruntime_float",
    "onnxruntime_fused",
    "onnxruntime_leaky_relu",
    "onnxruntime_sigmoid",
)
"""What the overloads of made bodies begin with: a digest of the function follows."""


def body_of(node: Node, record: Record) -> Body:
    """The body that the record of a qpasses node names, declared by its op or made for it.

    A made one has another digest in its overload if the record was changed since. Raises
    LookupError if there is none of this name.
    """
    overload = record.nodes[node.name].overload
    if overload.startswith(MADE):
        for body in made_bodies(node, record):
            if form(body.overload) == form(overload):
                return body
    return OPS[node.op].overload(overload)


def laid_body(node: Node, record: Record) -> Body:
    """The body that a file has for ``node``: that of its record, in the layout of it."""
    return OPS[node.op].laid(body_of(node, record), record.nodes[node.name].layout)


def constants_of(node: Node) -> dict[str, NDArray[Any]]:
    """The constant inputs of a qpasses node, by the names of its signature."""
    pairs = zip(OPS[node.op].inputs, node.inputs, strict=True)
    return {name: value for name, t in pairs if (value := constant(t)) is not None}


def form(overload: str) -> str:
    """The overload of a body, without the digest if it is a made one."""
    return next((each for each in MADE if overload.startswith(each)), overload)


def made_bodies(node: Node, record: Record) -> Sequence[Body]:
    """What might compute the table of ``node`` besides the bodies that its op declares."""
    table = constant(node.inputs[-1])
    assert table is not None, node.name
    stored = node.inputs[: len(OPS[node.op].inputs) - 1]
    return _of_table(
        _Table(node.op, table.tobytes(), _axis_of(node, record), rank_of(node)),
        record.nodes[node.name].function,
        tuple(record.tensors[tensor.name] for tensor in stored),
        record.tensors[node.outputs[0].name],
    )


def _axis_of(node: Node, record: Record) -> int:
    """The axis of channels as ONNX has it, which is laid out last."""
    return 1 if record.nodes[node.name].layout else node.attrs.get("axis", 0)


@dataclass(frozen=True)
class _Table:
    """The op that looks up, its entries byte by byte, along which axis of how many."""

    op: str
    entries: bytes
    axis: int
    rank: int | None


@lru_cache(maxsize=4096)
def _of_table(
    table: _Table, text: str, x: Sequence[AnyQuantization], y: AnyQuantization
) -> Sequence[Body]:
    """The bodies for the function ``text``, asked again and again."""
    function = Function.from_text(text) if text else None
    found, (first, *_) = [], x
    unsigned = all(each.dtype == "uint8" for each in (*x, y))  # int8: no fast float edges
    in_float = function if unsigned and table.rank is not None else None
    if isinstance(first, Quantization) and isinstance(y, Quantization):
        single = table.op == "Lut" and first.dtype == y.dtype
        if single and (slopes := _slopes(function)):
            found.append(_leaky_relu(first, y, *slopes))
        if single and function and function.ops == ["Sigmoid"]:
            found.append(_one_kernel("onnxruntime_sigmoid", "QLinearSigmoid", first, y))
        if single and in_float and (fused := _fused(table, in_float, first, y)):
            found.append(_in_float(table, fused, x, y, "onnxruntime_fused"))
    elif in_float and (fused := _fused(table, in_float, first, y)):
        found.append(_in_float(table, fused, x, y, "onnxruntime_fused"))
    if in_float:
        found.append(_in_float(table, in_float, x, y, "onnxruntime_float"))
    return found


BY_CHANNEL = ("LutPerChannel", "LutInterpolatedPerChannel")
"""Tables for each channel, along an axis."""


def rank_of(node: Node) -> int | None:
    """The rank of what ``node`` reads, if known; 0 where its constants need none."""
    if node.op not in BY_CHANNEL:
        return 0
    shape = node.inputs[0].shape
    return None if shape is None or len(shape) < 2 else len(shape)


FUSED: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    ("HardSwish", "", 14, {}),
    ("Gelu", "", 20, {}),
    ("Gelu", "", 20, {"approximate": "tanh"}),
    ("QuickGelu", "com.microsoft", 1, {"alpha": 1.0}),  # SiLU
    ("QuickGelu", "com.microsoft", 1, {"alpha": 1.702}),
)
"""Kernels that chains are written out for: op, domain, since when, attributes."""


def _fused(
    table: _Table, function: Function, x: AnyQuantization, y: AnyQuantization
) -> Function | None:
    """The one kernel that gives the entries of the table of a chain, if there is one."""
    opset = function.model.opset_import[0].version
    codes = np.arange(256, dtype=np.uint8)
    for op, domain, since, attributes in FUSED if len(function.ops) > 1 else ():
        if domain == "" and opset < since:
            continue
        single = Function.single(op, domain, opset, attributes)
        real = single.run(dequantize(single.inputs(codes, rows_of(x, y)), in_rows(x)))
        if quantize(real, in_rows(y)).tobytes() == table.entries:
            return single
    return None


def _slopes(function: Function | None) -> tuple[float, float] | None:
    """What a function that bends at zero alone, if it is one, makes of 1 and, negated, of -1.

    Without a function, a table rescales: 1 and 1.
    """
    if function is None:
        return 1.0, 1.0
    y = function.run(np.array([-1, 1, -2, 2], np.float32))
    if y.shape != (4,) or not np.isfinite(y).all() or not np.allclose(2 * y[:2], y[2:]):
        return None
    below, above = y[:2].tolist()
    return (above, -below) if above > 0 else None


def _leaky_relu(x: Quantization, y: Quantization, above: float, below: float) -> Body:
    steeper = np.float32(x.scale) * np.float32(above)
    alpha = float(np.float32(below) / np.float32(above))
    return _one_kernel(
        "onnxruntime_leaky_relu",
        "QLinearLeakyRelu",
        Quantization(float(steeper), x.zero_point, x.dtype) if 0 < steeper < np.inf else x,
        y,
        alpha=alpha,
    )


def _one_kernel(
    name: str, kernel: str, x: Quantization, y: Quantization, **attributes: Any
) -> Body:
    inputs = ["x", "x_scale", "x_zero", "y_scale", "y_zero"]
    call = helper.make_node(kernel, inputs, ["y"], domain="com.microsoft", **attributes)
    return _made("Lut", name, [*_meaning("x", x), *_meaning("y", y), call], opset=None)


def _in_float(
    table: _Table,
    function: Function,
    x: Sequence[AnyQuantization],
    y: AnyQuantization,
    name: str,
) -> Body:
    """DequantizeLinear, the function's own nodes, QuantizeLinear, Clip to fewer codes."""
    rank = table.rank or 0
    if rows_of(*x, y) and table.axis == 1 and rank > 2:
        return _in_rows(table, function, x[0], y, name)
    names = [value.name for value in function.model.graph.input]
    nodes = list[NodeProto]()
    for each, meaning in zip(names, x, strict=True):
        nodes += _meaning(each, meaning)
        ends = [each, f"{each}_scale", f"{each}_zero"]
        nodes.append(
            helper.make_node("DequantizeLinear", ends, [f"real_{each}"], **_axis(meaning))
        )
    nodes += _written_out(function, rank - 1 - table.axis)
    nodes += _meaning("y", y)
    ends = ["real_y", "y_scale", "y_zero"]
    nodes.append(helper.make_node("QuantizeLinear", ends, ["y"], **_axis(y)))
    if y.limits != y.type_limits:
        nodes[-1].output[:] = ["unclipped"]
        ends = ["y_min", "y_max"]
        for end_name, end in zip(ends, y.limits, strict=True):
            nodes.append(_constant(end_name, np.array(end, y.dtype)))
        nodes.append(helper.make_node("Clip", ["unclipped", *ends], ["y"]))
    return _made(table.op, name, nodes, function.model.opset_import[0].version)


def _in_rows(
    table: _Table, function: Function, x: AnyQuantization, y: AnyQuantization, name: str
) -> Body:
    """The same for pictures whose channels have scales of their own, as rows.

    In onnxruntime's convolutions channels come last, where Q and DQ of channels are ten times
    as slow. Of a LeakyRelu or Sigmoid right between Q and DQ it makes a kernel that refuses
    several scales: there another Reshape stands.
    """
    by_x = rows_of(x) > 0
    apart = ["x_apart", "real_x"] if by_x else ["real_y", "y_apart"]
    between = helper.make_node("Reshape", [apart[0], "cell_sizes"], apart[1:], allowzero=1)
    sizes = helper.make_node("Concat", ["row_sizes", "one"], ["cell_sizes"], axis=0)
    refused = function.ops in _REFUSING
    nodes = [
        _constant("one", np.array([1])),
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Shape", ["x"], ["channels"], start=0, end=2),
        helper.make_node("Shape", ["x"], ["picture"], start=2),
        helper.make_node("ReduceProd", ["picture"], ["numbers"], keepdims=1),
        helper.make_node("Concat", ["channels", "numbers"], ["row_sizes"], axis=0),
        helper.make_node("Reshape", ["x", "row_sizes"], ["x_rows"], allowzero=1),
        *_meaning("x", x),
        *_meaning("y", y),
    ]
    dequantized = "x_apart" if refused and by_x else "real_x"
    to_store = "y_apart" if refused and not by_x else "real_y"
    ends = ["x_rows", "x_scale", "x_zero"]
    nodes.append(helper.make_node("DequantizeLinear", ends, [dequantized], **_axis(x)))
    written = _written_out(function, 2 if refused and by_x else 1)
    if refused:
        nodes += [sizes, between, *written] if by_x else [*written, sizes, between]
    else:
        nodes += written
    ends = [to_store, "y_scale", "y_zero"]
    nodes += [
        helper.make_node("QuantizeLinear", ends, ["y_rows"], **_axis(y)),
        helper.make_node("Reshape", ["y_rows", "sizes"], ["y"], allowzero=1),
    ]
    return _made(table.op, name, nodes, function.model.opset_import[0].version)


_REFUSING = (["LeakyRelu"], ["Sigmoid"])


def _written_out(function: Function, behind: int) -> list[NodeProto]:
    """The function's own nodes, from real_x (or real_a and real_b) to real_y.

    ``behind``: so many axes there are behind that along which its constants differ.
    """
    ends = [*(value.name for value in function.model.graph.input), "y"]
    real, nodes = {name: f"real_{name}" for name in ends}, []
    for tensor in function.model.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.ndim:  # one number for each channel, along the axis
            value = value.reshape(-1, *[1] * behind)
        nodes.append(_constant(tensor.name, value))
    for original in function.model.graph.node:
        copy = NodeProto()
        copy.CopyFrom(original)
        for tensors in (copy.input, copy.output):
            tensors[:] = [real.get(tensor, tensor) for tensor in tensors]
        nodes.append(copy)
    return nodes


def _made(op: str, name: str, nodes: Sequence[NodeProto], opset: int | None) -> Body:
    proto = FunctionProto(domain=DOMAIN, name=op, node=nodes)
    proto.input.extend(OPS[op].inputs)
    proto.output.extend(OPS[op].outputs)
    proto.attribute.extend(OPS[op].attributes)
    if opset:
        proto.opset_import.append(helper.make_opsetid("", opset))
    content = proto.SerializeToString(deterministic=True)
    digest = hashlib.sha256(content).hexdigest()[:12]
    return Body(f"{name}_{digest}", "onnxruntime", proto=content)


def _axis(of: AnyQuantization) -> dict[str, Any]:
    return {"axis": of.axis} if isinstance(of, ChannelQuantization) else {}


def _meaning(name: str, of: AnyQuantization) -> list[NodeProto]:
    scale = np.array(of.factors(of.zero.ndim), np.float32)
    return [_constant(f"{name}_scale", scale), _constant(f"{name}_zero", of.zero)]


def _constant(name: str, value: NDArray[Any]) -> NodeProto:
    attribute = AttributeProto(
        name="value", type=AttributeProto.TENSOR, t=numpy_helper.from_array(value)
    )
    return NodeProto(op_type="Constant", output=[name], attribute=[attribute])
