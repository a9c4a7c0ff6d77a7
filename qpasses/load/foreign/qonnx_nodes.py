"""QONNX: quantizers of Brevitas, QKeras and FINN, as Q/DQ; what Q/DQ cannot say, as float ops.

before:  Quant (weight, scale, zero_point, bits)
after:   DequantizeLinear (stored)

before:  Quant (x, scale, zero_point, bits)
after:   Clip (x) -> QuantizeLinear -> DequantizeLinear
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from qpasses.load.foreign.draft import Draft, Left, Rewrite, Table
from qpasses.load.foreign.qonnx_quantizer import Quantizer, quantizer_of
from qpasses.load.foreign.qonnx_real_ops import signs, truncate, write_real_ops
from qpasses.load.foreign.qonnx_rounding import Floats
from qpasses.load.foreign.quantization import Quantization, per_tensor
from qpasses.load.foreign.real_bounds import write_clip

DOMAINS = ("qonnx.custom_op.general", "finn.custom_op.general", "onnx.brevitas")

CHANNELS_LAST = "qonnx.custom_op.channels_last"

_NO_INTEGERS = "it has no form with Q/DQ"


def _quant(draft: Draft, node: NodeProto) -> Left | None:
    quantizer = quantizer_of(draft, node)
    scale, zero = quantizer.scale, quantizer.zero
    real = draft.value(node.input[0])
    if real is not None and scale is not None and zero is not None:
        _of_constants(draft, node, real.astype(np.float32), quantizer, scale, zero)
        return None
    problem = _not_linear(quantizer)
    if problem or scale is None or zero is None:
        draft.note(node, f"{problem}: written as float ops")
        write_real_ops(draft, node, quantizer)
        return None
    kind = quantizer.stored_type() or np.int32
    meaning = _single(scale, zero, kind)
    draft.use_name(node.input[1], meaning.scale)
    if meaning.zero_point % 2:
        draft.note(node, "ties round to even before the odd zero point is added, not behind")
    _write_qdq(draft, node, quantizer, meaning)
    return None


def _not_linear(quantizer: Quantizer) -> str:
    """Why QuantizeLinear cannot say it; "" where it can."""
    scale, zero = quantizer.scale, quantizer.zero
    if scale is None or zero is None:
        return "its scale or zero point is computed"
    if np.unique(scale).size > 1 or np.unique(zero).size > 1:
        return "activations with more than one scale"
    if quantizer.rounding not in ("ROUND", "HALF_EVEN") or quantizer.is_bipolar:
        return f"it rounds otherwise ({quantizer.rounding}, {quantizer.bits} bits)"
    if quantizer.bits > 16:
        return f"activations of {quantizer.bits} bits"
    kind = quantizer.stored_type()
    if kind is None or not _holds(kind, zero):
        return "its zero point is none of its integers"
    return ""


def _holds(kind: type, zero: Floats) -> bool:
    limits = np.iinfo(kind)
    return bool(np.all((zero % 1 == 0) & (zero >= limits.min) & (zero <= limits.max)))


def _single(scale: Floats, zero: Floats, kind: type) -> Quantization:
    return per_tensor(scale.ravel()[0], zero.ravel()[0].astype(kind))


def _write_qdq(
    draft: Draft, node: NodeProto, quantizer: Quantizer, meaning: Quantization
) -> None:
    """A Clip where the type holds more integers, QuantizeLinear and DequantizeLinear."""
    stored = draft.fresh(f"{node.output[0]}_stored")
    part = NodeProto(name=draft.fresh(f"{node.name or stored}/Clip"), output=[stored])
    real = write_clip(draft, node.input[0], quantizer.bounds, meaning, part)
    draft.store(real, stored, meaning, node.name)
    draft.dequantize(stored, node.output[0], meaning)


def _of_constants(
    draft: Draft,
    node: NodeProto,
    real: Floats,
    quantizer: Quantizer,
    scale: Floats,
    zero: Floats,
) -> None:
    """The integers, and their DequantizeLinear; real numbers where that cannot say them."""
    scale, zero = (_fitting(draft, node, part, real) for part in (scale, zero))
    codes = quantizer.rounded(real, scale, zero)
    if not np.isfinite(codes).all():
        raise draft.error(node, f"weights {node.input[0]!r} hold what is no number")
    kind = quantizer.stored_type()
    along = _axis(real, scale, zero)
    problem = ""
    if along is None:
        problem = "its scales vary along several axes"
    elif kind is None or not _holds(kind, zero) or (kind is np.int32 and zero.any()):
        problem = "its integers or its zero point fit no type"
    if problem or kind is None or along is None:
        draft.note(node, f"{problem}: its weights are real numbers")
        draft.replace(node.output[0], ((codes - zero) * scale).astype(np.float32))
        return
    meaning = _along(real, scale, zero, along, kind)
    draft.use_name(node.input[1], meaning.scale)
    stored = draft.constant(f"{node.input[0]}_stored", codes.astype(kind))
    draft.dequantize(stored, node.output[0], meaning, node.name)


def _fitting(draft: Draft, node: NodeProto, part: Floats, real: Floats) -> Floats:
    """A scale or zero point with as many dimensions as the weights. Raises ModelError."""
    sizes = [1] * (real.ndim - part.ndim) + list(part.shape)
    wide = [size for size in sizes[: len(sizes) - real.ndim] if size != 1]
    sizes = sizes[len(sizes) - real.ndim :]
    if wide or any(size not in (1, own) for size, own in zip(sizes, real.shape, strict=True)):
        raise draft.error(
            node,
            f"a scale or zero point of shape {list(part.shape)} does not fit weights "
            f"{node.input[0]!r} of shape {list(real.shape)}",
        )
    return part.reshape(sizes)


def _axis(real: Floats, *parts: Floats) -> int | None:
    """The one axis along which the numbers of ``parts`` vary; 0 for none, None for several."""
    found: set[int] = set()
    for part in parts:
        wide = (axis for axis in range(real.ndim) if part.shape[axis] > 1)
        found |= {axis for axis in wide if np.ptp(part, axis=axis).any()}
    if len(found) > 1:
        return None
    return next(iter(found), 0)


def _along(real: Floats, scale: Floats, zero: Floats, axis: int, kind: type) -> Quantization:
    """The parameters of the slices along ``axis``; one for all where they are equal."""
    parts: list[NDArray[Any]] = []
    for part in (scale, zero.astype(kind)):
        whole = np.broadcast_to(part, real.shape) if real.ndim else part
        rows = np.moveaxis(whole, axis, 0) if real.ndim else whole.reshape(1)
        parts.append(rows.reshape(len(rows), -1)[:, 0])
    scales, zeros = parts
    if np.all(scales == scales[0]) and np.all(zeros == zeros[0]):
        return per_tensor(scales[0], zeros[0])
    return Quantization(scales.copy(), zeros.copy(), axis)


def _bipolar(draft: Draft, node: NodeProto) -> Left | None:
    """-scale below zero, else scale."""
    scale, real = draft.value(node.input[1]), draft.value(node.input[0])
    if scale is None:
        return Left("its scale is computed")
    draft.check_scale(node, node.input[1], scale)
    size, zero = scale.astype(np.float32), np.zeros((), np.float32)
    quantizer = Quantizer(size, zero, 1, signed=True, narrow=False, rounding="ROUND")
    if real is not None:
        _of_constants(draft, node, real.astype(np.float32), quantizer, size, zero)
        return None
    if np.unique(size).size > 1:
        draft.note(node, "activations with more than one scale: written as float ops")
        steps = signs(draft, node, node.input[0], size)
        draft.add("Identity", [steps], node.output[0], node.name)
        return None
    meaning = _single(size, zero, np.int8)
    draft.use_name(node.input[1], meaning.scale)
    stored = draft.fresh(f"{node.output[0]}_stored")
    steps = signs(draft, node, node.input[0], meaning.scale)
    draft.store(steps, stored, meaning, node.name)
    draft.dequantize(stored, node.output[0], meaning)
    return None


def _left(_draft: Draft, node: NodeProto) -> Left:
    return Left(f"{node.domain}'s {node.op_type}: {_NO_INTEGERS}")


_OPS: dict[str, Rewrite] = {
    "Quant": _quant,
    "IntQuant": _quant,
    "BipolarQuant": _bipolar,
    "Trunc": truncate,
    "FloatQuant": _left,
    "MultiThreshold": _left,
    "QuantAvgPool2d": _left,
}

_CHANNELS_LAST_OPS = (
    *("AveragePool", "BatchNormalization", "Concat", "Conv", "MaxPool", "Resize"),
)

QONNX_NODES: Table = {
    **{(domain, op): rewrite for domain in DOMAINS for op, rewrite in _OPS.items()},
    **{(CHANNELS_LAST, op): _left for op in _CHANNELS_LAST_OPS},
}
"""What they become: by domain and op."""
