"""Operators on integers that carry their scales: the float ones between Q/DQ, a row each.

before:  QLinearAdd (a, a_scale, a_zero_point, b, ..., c_scale, c_zero_point) -> c
after:   DequantizeLinear (a), DequantizeLinear (b) -> Add -> QuantizeLinear -> c
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import AttributeProto, NodeProto

from qpasses.load.foreign.channels_last import to_channels_first, to_channels_last
from qpasses.load.foreign.draft import Draft, Left, Table, named
from qpasses.load.foreign.node_parts import attribute, attributes_but, input_at
from qpasses.load.foreign.quantization import Quantization

CONTRIB = "com.microsoft"


def operand(draft: Draft, node: NodeProto, start: int, axis: int = 0) -> str:
    """The real numbers of input ``start``, whose scale and zero point follow it."""
    meaning = draft.quantization(node, start, (start + 1, start + 2), axis)
    return draft.real(node.input[start], meaning)


def result(draft: Draft, node: NodeProto, start: int) -> tuple[str, Quantization]:
    """A new name for the real result, and the quantization that input ``start`` says."""
    given = input_at(node, start + 1)
    meaning = draft.quantization(node, None, (start, start + 1))
    if not given:  # the type of what comes in
        meaning = meaning.of_type(draft.integers(node.input[0]))
    return draft.fresh(f"{node.output[0]}_real"), meaning


def write_result(
    draft: Draft,
    node: NodeProto,
    op: str,
    inputs: Sequence[str],
    start: int,
    given: Sequence[AttributeProto] = (),
) -> None:
    """The float op, and the QuantizeLinear of its result."""
    real, meaning = result(draft, node, start)
    draft.add(op, inputs, real, node.name, given)
    draft.store(real, node.output[0], meaning)


@dataclass(frozen=True)
class Plain:
    """An op that becomes ``op`` of the ``operands``; ``scale`` is where its result's stands.

    ``plain`` inputs are real or logical ones; these come first.
    """

    op: str
    operands: Sequence[int]
    scale: int
    plain: Sequence[int] = ()

    def __call__(self, draft: Draft, node: NodeProto) -> None:
        """Rewrite."""
        inputs = [node.input[index] for index in self.plain]
        inputs += [operand(draft, node, start) for start in self.operands]
        write_result(draft, node, self.op, inputs, self.scale, list(node.attribute))


def _conv(draft: Draft, node: NodeProto) -> Left | None:
    last = bool(attribute(node, "channels_last", 0))
    rank = draft.rank(node.input[3])
    if last and rank is None:
        return Left("its channels come last, and the rank of its weights is not known")
    data, weight = (
        draft.quantization(node, start, (start + 1, start + 2)) for start in (0, 3)
    )
    if data.per_axis:
        return Left("its data has more than one scale")
    x = draft.real(node.input[0], data)
    inputs = [to_channels_first(draft, x, rank or 0, node) if last else x]
    inputs.append(draft.real(node.input[3], weight))
    if bias := input_at(node, 8):
        inputs.append(draft.real(bias, bias_meaning(data, weight)))
    real, meaning = result(draft, node, 6)
    given = attributes_but(node, "channels_last")
    if last:
        inner = draft.fresh(f"{node.output[0]}/Conv")
        draft.add("Conv", inputs, inner, node.name, given)
        real = to_channels_last(draft, inner, rank or 0, node)
    else:
        draft.add("Conv", inputs, real, node.name, given)
    draft.store(real, node.output[0], meaning)
    return None


def bias_meaning(
    data: Quantization, weight: Quantization, factor: float = 1.0
) -> Quantization:
    """That of int32 sums of products, of which a bias is one."""
    scale = np.float32(factor) * (data.scale * weight.scale)
    return Quantization(np.asarray(scale), np.zeros(weight.scale.shape, np.int32))


def _mat_mul(draft: Draft, node: NodeProto) -> Left | None:
    scales = [draft.value(node.input[index]) for index in (1, 4, 6)]
    sizes = [1 if scale is None else scale.size for scale in scales]
    if any(scale is not None and scale.ndim > 1 and scale.size > 1 for scale in scales):
        return Left("scales that vary along several axes")
    if sizes[2] > 1:
        return Left("its result has more than one scale")
    inputs = [operand(draft, node, 0, axis=-2), operand(draft, node, 3, axis=-1)]
    write_result(draft, node, "MatMul", inputs, 6)
    return None


def _gemm(draft: Draft, node: NodeProto) -> None:
    axis = 0 if attribute(node, "transB", 0) else 1
    data = draft.quantization(node, 0, (1, 2))
    weight = draft.quantization(node, 3, (4, 5), axis)
    inputs = [draft.real(node.input[0], data), draft.real(node.input[3], weight)]
    if bias := input_at(node, 6):
        sums = bias_meaning(data, weight, float(attribute(node, "alpha", 1.0)))
        rank = draft.rank(bias)
        along = Quantization(sums.scale, sums.zero_point, (rank or 1) - 1)
        inputs.append(draft.real(bias, along))
    elif draft.ledger.version < 11:  # Gemm has three inputs
        inputs.append(draft.constant(f"{node.output[0]}_bias", np.zeros(1, np.float32)))
    if input_at(node, 7):
        write_result(draft, node, "Gemm", inputs, 7, list(node.attribute))
    else:
        draft.add("Gemm", inputs, node.output[0], node.name, list(node.attribute))


def _concat(draft: Draft, node: NodeProto) -> None:
    starts = range(2, len(node.input), 3)
    inputs = [operand(draft, node, start) for start in starts]
    write_result(draft, node, "Concat", inputs, 0, list(node.attribute))


def _pool(draft: Draft, node: NodeProto) -> Left | None:
    """An average over windows, or over all."""
    op = node.op_type.removeprefix("QLinear")
    given = attributes_but(node, "channels_last")
    x = operand(draft, node, 0)
    if not attribute(node, "channels_last", 0):
        write_result(draft, node, op, [x], 3, given)
        return None
    rank = draft.rank(node.input[0]) or _rank_of_window(node)
    if rank is None:
        return Left("its channels come last, and its rank is not known")
    first = to_channels_first(draft, x, rank, node)
    inner = draft.fresh(f"{node.output[0]}/{op}")
    draft.add(op, [first], inner, node.name, given)
    _, meaning = result(draft, node, 3)
    draft.store(to_channels_last(draft, inner, rank, node), node.output[0], meaning)
    return None


def _rank_of_window(node: NodeProto) -> int | None:
    window = attribute(node, "kernel_shape")
    return None if window is None else len(window) + 2


def _reduce_mean(draft: Draft, node: NodeProto) -> None:
    """Its axes are an input from opset 18 on."""
    inputs, given = [operand(draft, node, 0)], list(node.attribute)
    axes = attribute(node, "axes")
    if draft.ledger.version >= 18:
        given = attributes_but(node, "axes")
        if axes:
            inputs.append(draft.constant(f"{node.output[0]}_axes", np.array(axes, np.int64)))
    write_result(draft, node, "ReduceMean", inputs, 3, given)


def _softmax(draft: Draft, node: NodeProto) -> Left | None:
    """Before opset 13 a Softmax is over all dimensions from ``axis`` on, then over one."""
    axis, flattens = int(attribute(node, "axis", -1)), attribute(node, "opset", 13) < 13
    rank = draft.rank(node.input[0])
    is_last = axis == -1 or (rank is not None and axis == rank - 1)
    is_said = is_last or flattens == (draft.ledger.version < 13)
    if rank is None and not flattens and not is_said:
        return Left("it is over one dimension, which needs a known rank before opset 13")
    real, meaning = result(draft, node, 3)
    x = operand(draft, node, 0)
    if is_said:
        draft.add("Softmax", [x], real, node.name, named(axis=axis))
    elif flattens:
        inner = draft.fresh(f"{node.output[0]}/Softmax")
        flat = draft.compute("Flatten", [x], node, axis=axis)
        draft.add("Softmax", [flat], inner, node.name, named(axis=-1))
        real = draft.compute("Reshape", [inner, draft.compute("Shape", [x], node)], node)
    else:
        order = [*range(rank or 0)]
        order[axis], order[-1] = order[-1], order[axis]
        inner = draft.fresh(f"{node.output[0]}/Softmax")
        turned = draft.compute("Transpose", [x], node, perm=order)
        draft.add("Softmax", [turned], inner, node.name, named(axis=len(order) - 1))
        real = draft.compute("Transpose", [inner], node, perm=order)
    draft.store(real, node.output[0], meaning)
    return None


def _attention(draft: Draft, node: NodeProto) -> None:
    """QAttention: Attention of com.microsoft, which reads and writes real numbers anyway."""
    x = draft.real(node.input[0], draft.quantization(node, 0, (3, 6)))
    weight = draft.real(node.input[1], draft.quantization(node, 1, (4, 7), axis=1))
    rest = [node.input[2], input_at(node, 5), input_at(node, 8)]
    draft.add(
        "Attention",
        [x, weight, *rest],
        list(node.output),
        node.name,
        list(node.attribute),
        domain=CONTRIB,
    )


def _embed_layer_norm(draft: Draft, node: NodeProto) -> None:
    """QEmbedLayerNormalization: that of com.microsoft without Q, of dequantized weights."""
    parts = [2, 3, 4, 5, 6]  # word, position, segment, gamma, beta
    reals = [
        draft.real(node.input[at], draft.quantization(node, at, (at + 6, at + 11)))
        if input_at(node, at)
        else ""
        for at in parts
    ]
    draft.add(
        "EmbedLayerNormalization",
        [*node.input[:2], *reals, input_at(node, 7)],
        list(node.output),
        node.name,
        list(node.attribute),
        domain=CONTRIB,
    )


def _left(_draft: Draft, node: NodeProto) -> Left:
    return Left(f"{node.op_type} of {node.domain} has no form with Q/DQ here")


_LEFT = {
    CONTRIB: (
        *("DequantizeBFP", "QuantizeBFP", "DequantizeWithOrder", "QuantizeWithOrder"),
        *("GatherBlockQuantized", "MatMulInteger16", "MulInteger", "ReduceSumInteger"),
        *("MatMulNBitsMlp", "MatMulNBitsQLoRA", "MatMulNBitsQkv", "QMoE", "QOrderedGelu"),
        *("QOrderedAttention", "QOrderedLayerNormalization", "QOrderedMatMul"),
        "QOrderedLongformerAttention",
    ),
    "com.ms.internal.nhwc": ("QLinearAveragePool", "QLinearConv", "QLinearConvTranspose"),
}
"""By domain: what stays."""

Q_OPERATORS: Table = {
    **{(domain, op): _left for domain, ops in _LEFT.items() for op in ops},
    ("", "QLinearConv"): _conv,
    ("", "QLinearMatMul"): _mat_mul,
    (CONTRIB, "QLinearConv"): _conv,
    (CONTRIB, "QGemm"): _gemm,
    (CONTRIB, "QLinearAdd"): Plain("Add", (0, 3), 6),
    (CONTRIB, "QLinearMul"): Plain("Mul", (0, 3), 6),
    (CONTRIB, "QLinearWhere"): Plain("Where", (1, 4), 7, plain=(0,)),
    (CONTRIB, "QLinearSigmoid"): Plain("Sigmoid", (0,), 3),
    (CONTRIB, "QLinearLeakyRelu"): Plain("LeakyRelu", (0,), 3),
    (CONTRIB, "QLinearConcat"): _concat,
    (CONTRIB, "QLinearAveragePool"): _pool,
    (CONTRIB, "QLinearGlobalAveragePool"): _pool,
    (CONTRIB, "QLinearReduceMean"): _reduce_mean,
    (CONTRIB, "QLinearSoftmax"): _softmax,
    (CONTRIB, "QAttention"): _attention,
    (CONTRIB, "QEmbedLayerNormalization"): _embed_layer_norm,
}
"""What they become: by domain and op."""
