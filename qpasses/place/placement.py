"""Place: the Q/DQ nodes that say which tensors are stored, and at which scale."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibration import Range
from opsets.row_blocks import blocks
from opsets.weights import WEIGHTS
from qpasses.ir.edges import Floats, rounded
from qpasses.ir.elementwise import PAIRING
from qpasses.ir.given import Codes
from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    add_node,
    constant,
    input_at,
    is_graph_output,
    new_tensor,
    producer,
)
from qpasses.ir.order import tidy
from qpasses.ir.patterns import absorbed, bias_row, multiplies_stacks
from qpasses.ir.record import Quantization
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.place.far_tables import near_words
from qpasses.place.fusing import keep_apart
from qpasses.place.planning import Plan
from qpasses.place.rescaling import quantize_and_back, store_anew, unlike_edges
from qpasses.place.residuals import empty_operands
from qpasses.place.states import tied_states
from qpasses.place.words import NO_WORDS, Words, narrowed_edges, widened_edges

BIAS_LIMIT = 1 << 30
"""Stored biases leave half of int32 to the products."""

_MATRIX_OPS = {"Conv": 0, "Gemm": 1, "MatMul": 1}
"""Ops with constant weights, and the axis of the output channels in them."""


def place(
    graph: Graph,
    chosen: Plan,
    ranges: Mapping[str, Range],
    context: Context,
    kept: Mapping[str, Quantization] | None = None,
) -> Words:
    """Insert QuantizeLinear and DequantizeLinear: standard Q/DQ that other tools can read.

    ``kept``: by tensor, the parameters that the model has for it; others follow from ranges.
    The tensors that have 16 bits.
    """
    settings, given = context.settings, kept or {}
    parameters = {
        name: given.get(name) or activation_parameters(ranges[name], settings)
        for name in chosen.tensors
    }
    words = near_words(
        graph,
        chosen,
        settings,
        given.keys(),
        parameters,
        lambda name: word_parameters(ranges[name], settings),
    )
    narrow = {name: meaning for name, meaning in parameters.items() if name in words}
    parameters |= {name: word_parameters(ranges[name], settings) for name in narrow}
    parameters |= empty_operands(chosen, narrow, ranges)
    context.record.states = tied_states(graph, chosen.states, parameters)
    stored = [chosen.stored[name] for name in chosen.tensors if name in given]
    context.record.kept = [*stored, *context.given.edges]
    place_parameters(graph, chosen, parameters, narrow, context, words)
    return words


def real_weights(chosen: Plan, context: Context) -> dict[str, NDArray[Any]]:
    """By node, the weights that ``place`` will round: not those of a quantized model."""
    return {
        node.name: np.asarray(constant(node.inputs[1]))
        for node in chosen.computing
        if node.op in _MATRIX_OPS
        and not multiplies_stacks(node)
        and context.given.codes_of(node.inputs[1]) is None
    }


def place_parameters(
    graph: Graph,
    chosen: Plan,
    parameters: Mapping[str, Quantization],
    narrow: Mapping[str, Quantization],
    context: Context,
    words: Words = NO_WORDS,
) -> None:
    """``place`` with the parameters of each activation already decided.

    A moving node whose tensors differ in them moves tensors that are stored anew; so are those
    of 16 bits for nodes that read 8, as ``narrow`` says, and of 8 for nodes that read 16.
    """
    unlike = unlike_edges(graph, chosen, parameters, narrow, words.wanted)
    unlike += narrowed_edges(graph, chosen, words, narrow, parameters, context.settings)
    unlike += widened_edges(graph, chosen, words, parameters, context.settings)
    places: Places = {}
    for name, tensor in chosen.tensors.items():
        _quantize_activation(graph, tensor, chosen, parameters[name], places, context)
        context.record.tensors[chosen.stored[name]] = parameters[name]
        if name in context.sizes:
            context.sizes[chosen.stored[name]] = context.sizes[name]
    store_anew(graph, unlike, context, chosen.integer)
    for node in chosen.computing:
        if node.op in _MATRIX_OPS and not multiplies_stacks(node):
            quantize_weights(graph, node, context)
        else:
            _quantize_constants(graph, node, context)
    _give_codes_back(graph, chosen, context)
    keep_apart(graph, chosen.integer, context)
    tidy(graph)


def _give_codes_back(graph: Graph, chosen: Plan, context: Context) -> None:
    """Let nodes that stay float read the integers of a quantized model, as they did.

    onnxruntime quantizes float weights between DequantizeLinear and QuantizeLinear by itself,
    to other integers.
    """
    known: dict[str, Tensor] = {}
    for node in [each for each in graph.nodes if id(each) not in chosen.integer]:
        for index, tensor in enumerate(node.inputs):
            codes = context.given.codes_of(tensor)
            if codes is None or constant(tensor) is None:
                continue
            if tensor.name not in known:
                known[tensor.name] = _as_stored(graph, tensor, codes, context)
            node.inputs[index] = known[tensor.name]


def _as_stored(graph: Graph, tensor: Tensor, codes: Codes, context: Context) -> Tensor:
    """A DequantizeLinear of 8 or 32 bits, with one scale or one along an axis; or as is."""
    axes = range(codes.levels.ndim)
    ways = [(axis, found) for axis in axes if (found := codes.scales_along(axis)) is not None]
    if not ways:
        return tensor
    axis, scale = ways[0]
    in_bytes = stored_in_bytes(codes.stored)
    if in_bytes is None and codes.levels.ndim > 1:
        return tensor  # no bias, and kernels take weights of 8 bits
    stored, zero = (codes.stored, 0) if in_bytes is None else in_bytes
    zeros = np.full(scale.shape, zero, stored.dtype)
    narrow = scale.astype(np.float32)
    return _dequantized_constant(context, graph, tensor.name, stored, narrow, axis, zeros)


def activation_parameters(real: Range, settings: Settings) -> Quantization:
    """Per-tensor parameters for ``real``, widened to hold zero.

    Asymmetric: scale = (high - low) / 255 in the target's floats, zero_point = round(-low /
    scale) from the smallest code on. Symmetric: scale = max(-low, high) / 127, zero_point 128
    (uint8) or 0 (int8). Of fewer codes than 256: the steps between them, and half of these.
    Targets with unsigned tensors store so what is never negative, from the smallest code on.
    """
    real, dtype, scale = real.with_zero(), settings.activation_type, step_of(real, settings)
    low, high = settings.limits
    if settings.is_symmetric(real.low):
        return settings.quantization(scale, settings.middle, dtype)
    zero_point = low + _whole(-real.low, scale)
    return settings.quantization(scale, min(max(zero_point, low), high), dtype)


def _whole(number: float, step: float) -> int:
    """``number`` in steps, rounded half to even: exact, though float64 divides.

    Quotients of scales that are not normal may be of any size.
    """
    quotient = number / step
    if abs(quotient) < _SURE and abs(quotient % 1 - 0.5) > 1 / _SURE:
        return round(quotient)
    return round(Fraction(number) / Fraction(step))


_SURE = 1 << 20
"""Quotients below are off by less than 1 / _SURE."""


def step_of(real: Range, settings: Settings) -> float:
    """The scale alone of ``activation_parameters``: between two codes."""
    real = real.with_zero()
    low, high = settings.limits
    if settings.is_symmetric(real.low):
        return _normal(
            max(-real.low, real.high) / (high - settings.middle), settings.target.float_type
        )
    return _normal(real.width / (high - low), settings.target.float_type)


def word_parameters(real: Range, settings: Settings) -> Quantization:
    """Those of 16 bits: symmetric, scale = HEADROOM * max(-low, high) / 32767."""
    real = real.with_zero()
    largest = HEADROOM * max(-real.low, real.high)
    return Quantization(_normal(largest / 32767, settings.target.float_type), 0, "int16")


HEADROOM = 1.5
"""Samples that were not seen reach farther, which 16 bits show and 8 do not."""


_LEAST_NORMAL = float(np.finfo(np.float32).tiny)


def _normal(scale: float, floats: Floats) -> float:
    """``scale`` in ``floats``, a normal float32; 1 for a tensor that is zero throughout."""
    found = float(floats(scale))
    return found if found >= _LEAST_NORMAL else 1.0


Scales: TypeAlias = NDArray[np.floating[Any]]


def weight_scales(
    wanted: Scales, bias: NDArray[Any], x_scale: NDArray[np.float64]
) -> tuple[Scales, NDArray[np.bool_]]:
    """The scale of each channel of weights, and where it was raised for the bias.

    That which is ``wanted``, more where the bias would not fit: bias / (x_scale * scale) <=
    2**30. A channel without weights takes the scale that stores its bias in 24 bits. x_scale *
    scale, the step of the bias, stays a normal float32.
    """
    size = np.abs(bias.astype(np.float64))
    least = size / (x_scale * BIAS_LIMIT) * (1 + 2.0**-20)
    raised = (wanted < least) & (wanted > 0)
    scale = np.where(wanted > 0, np.maximum(wanted, least), size / (x_scale * 2.0**24))
    scale = np.where(scale > 0, np.maximum(scale, 2.0**-120 / x_scale), 1.0)
    with np.errstate(over="ignore"):  # whoever stores weights with it asks
        return scale.astype(wanted.dtype), raised


Places: TypeAlias = dict[int, dict[int, list[int]]]
"""By the ids of a node and of a tensor that it reads: which of its inputs that tensor is."""


def _places_read(reader: Node, tensor: Tensor, known: Places) -> list[int]:
    """Each node is looked through once: for each input of a wide join would be quadratic.

    Who reads a tensor twice stands twice among its readers: asked again, there is no place.
    """
    if id(reader) not in known:
        found = known.setdefault(id(reader), {})
        for index, each in enumerate(reader.inputs):
            found.setdefault(id(each), []).append(index)
    return known[id(reader)].pop(id(tensor), [])


def _quantize_activation(
    graph: Graph,
    tensor: Tensor,
    chosen: Plan,
    parameters: Quantization,
    places: Places,
    context: Context,
) -> None:
    """Put Q and DQ behind ``tensor``.

    Everything reads the dequantized value of what an integer node writes, but for the nodes
    of the chain that it is an end of. What a float node or the user gives stays as it is for
    float readers.
    """
    name, writer = tensor.name, producer(tensor)
    rounded = writer is not None and id(writer) in chosen.integer
    readers = [each for each in tensor.outputs if rounded or id(each) in chosen.integer]
    stored = new_tensor(chosen.stored[name], tensor, np.dtype(parameters.dtype))
    source, real = tensor, new_tensor(context.fresh(f"{name}_dequantized"), tensor)
    if rounded and is_graph_output(graph, tensor):
        source, real = new_tensor(context.fresh(f"{name}_float"), tensor), tensor
        outputs = producer_of(tensor).outputs
        outputs[next(i for i, t in enumerate(outputs) if t is tensor)] = source
    for reader in readers:
        inside = (id(tensor), id(reader)) in chosen.inner
        for index in _places_read(reader, tensor, places):
            reader.inputs[index] = source if inside else real
    quantize_and_back(graph, (source, stored, real), parameters, name, context)


def quantize_weights(graph: Graph, node: Node, context: Context) -> None:
    """Put weights and bias behind DequantizeLinear: as the model has them, or by a rule.

    They stay as they are where float32 does not hold their scales: no integer node does. Of
    what the node reads each output channel has one scale: that of the tensor or its channel.
    """
    axis = _MATRIX_OPS[node.op]
    weights = np.asarray(constant(node.inputs[1]))
    holder, place_of_bias = _bias_home(graph, node)
    bias_tensor = input_at(holder, place_of_bias) if place_of_bias else None
    bias = None if bias_tensor is None else np.asarray(constant(bias_tensor))
    x_scale = np.asarray(constant(producer_of(node.inputs[0]).inputs[1]), np.float64)
    if x_scale.ndim:
        x_scale = np.repeat(x_scale, weights.shape[axis] // x_scale.size)
    kept = _kept_matrix(node, axis, bias_tensor, x_scale, context)
    matrix = kept or _stored_matrix(node, axis, weights, bias, x_scale, context)
    with np.errstate(over="ignore", under="ignore"):  # it is asked next
        bias_scale = matrix.scale.dtype.type(x_scale) * matrix.scale
    if not _holds(matrix.scale) or (matrix.bias is not None and not _holds(bias_scale)):
        context.record.declined[node.name] = f"{node.op} with a scale that is beyond float32"
        return
    if kept:
        context.given.kept.append(node.name)
    if matrix.raised:
        context.record.raised_weight_scales[node.name] = matrix.raised
    scale, zero = matrix.scale, np.full(matrix.scale.shape, matrix.zero, matrix.weights.dtype)
    node.inputs[1] = _dequantized_constant(
        context, graph, f"{node.name}.weight", matrix.weights, scale, axis, zero
    )
    if matrix.bias is not None:
        holder.inputs[place_of_bias] = _dequantized_constant(
            context, graph, f"{node.name}.bias", matrix.bias, bias_scale, 0
        )


@dataclass(frozen=True)
class _Matrix:
    """Stored weights with one scale or one for each channel, one zero point, stored bias.

    ``raised``: the channels whose scale was raised for the bias.
    """

    weights: NDArray[Any]
    scale: Scales
    bias: NDArray[np.int32] | None
    zero: int = 0
    raised: list[int] = field(default_factory=list)


def _stored_matrix(
    node: Node,
    axis: int,
    weights: NDArray[Any],
    bias: NDArray[Any] | None,
    x_scale: NDArray[np.float64],
    context: Context,
) -> _Matrix:
    """By the rule of the target, with scales raised where a bias would not fit."""
    values = np.zeros(weights.shape[axis], np.float32) if bias is None else bias
    rows = np.moveaxis(weights, axis, 0) if axis else weights
    rows = rows.reshape(weights.shape[axis], -1)
    rule, size = WEIGHTS[context.target.weights], np.abs(values)
    dtype = rule.dtype(node.op, rows, bias is not None)
    if not context.settings.has_channels(node.op):
        rows, values = rows.reshape(1, -1), size.max(initial=0.0, keepdims=True)
    wanted = rule.scales(node.op, rows, dtype == np.uint8)
    scale, raised = weight_scales(wanted, values, x_scale)
    raised = raised & (size == np.abs(values))
    column = [1] * weights.ndim
    column[axis] = -1
    divisors = np.broadcast_to(scale.reshape(column).astype(np.float64), weights.shape)
    ends, stored = np.iinfo(dtype), np.empty(weights.shape, dtype)
    for part in blocks(weights):
        levels = rounded(weights[part].astype(np.float64) / divisors[part], rule.rounding)
        stored[part] = np.clip(levels, ends.min, ends.max).astype(dtype)
    if bias is None:
        return _Matrix(stored, scale, None)
    steps = np.float64(x_scale) * scale.astype(np.float64)
    levels = rounded(bias.astype(np.float64) / steps, rule.rounding).astype(np.int32)
    return _Matrix(stored, scale, levels, raised=np.flatnonzero(raised).tolist())


def _kept_matrix(
    node: Node, axis: int, bias: Tensor | None, x_scale: NDArray[np.float64], context: Context
) -> _Matrix | None:
    """As the model has them, bit for bit; None where it says nothing, or it cannot be kept."""
    codes = context.given.codes_of(node.inputs[1])
    if codes is None:
        return None
    scale, found = codes.scales_along(axis), stored_in_bytes(codes.stored)
    reason = ""
    if scale is None:
        reason = "they have a scale for each of what is summed, not for each output channel"
    elif not _holds(scale):
        reason = "their scale is beyond float32"
    elif found is None:
        reason = "they take more than 8 bits without their zero point"
    elif scale.size > 1 and not context.settings.has_channels(node.op):
        reason = "they have a scale for each channel, target and options want one for all"
    if reason or scale is None or found is None:
        context.given.lost[node.name] = f"{reason}: quantized anew"
        return None
    stored, zero = found
    narrow = scale.astype(np.float32)
    if bias is None:
        return _Matrix(stored, narrow, None, zero)
    levels = _whole_bias(bias, x_scale, narrow, context)
    if levels is None and stored.dtype == np.int8:
        finer = room(stored, axis, narrow.size)
        stored = stored << _along(finer, stored.ndim, axis).astype(np.int8)
        narrow = np.ldexp(narrow, -finer)
    if levels is None:
        levels = _nearest_bias(node, bias, x_scale, narrow, context)
    if levels is None:
        context.given.lost[node.name] = (
            "their scale is too small for int32 to hold the bias: quantized anew"
        )
        return None
    return _Matrix(stored, narrow, levels, zero)


def _holds(scale: Scales) -> bool:
    """Whether float32 holds each scale, as a number other than zero."""
    with np.errstate(over="ignore"):
        narrow = scale.astype(np.float32)
    return bool(np.isfinite(narrow).all() and narrow.all())


def room(stored: NDArray[Any], axis: int, count: int) -> NDArray[np.int64]:
    """By how many bits weights of six bits or less can be shifted to the left within int8.

    One number, or as ``count`` says one for each channel. So a bias that is no whole number of
    steps is stored that much finer; weights of more bits stay as they are.
    """
    rows = np.moveaxis(stored, axis, 0).reshape(stored.shape[axis] if count > 1 else 1, -1)
    largest = np.abs(rows.astype(np.int64)).max(axis=1, initial=1)
    if largest.max(initial=0) > LARGEST_OF_FEW_BITS:
        return np.zeros(largest.shape, np.int64)
    return np.asarray(np.floor(np.log2(127 / largest)), np.int64)


LARGEST_OF_FEW_BITS = 32
"""Of signed integers of six bits."""


def _along(values: NDArray[Any], dims: int, axis: int) -> NDArray[Any]:
    return values.reshape([-1 if k == axis else 1 for k in range(dims)])


def stored_in_bytes(levels: NDArray[np.int32]) -> tuple[NDArray[Any], int] | None:
    """Integers as int8, or as uint8 with the zero point nearest to 128; None if none holds."""
    low, high = int(levels.min(initial=0)), int(levels.max(initial=0))
    if low >= -128 and high <= 127:
        return levels.astype(np.int8), 0
    if high - low > 255:
        return None
    zero = min(max(128, -low), 255 - high)
    return (levels + zero).astype(np.uint8), zero


def _whole_bias(
    bias: Tensor, x_scale: NDArray[np.float64], scale: Scales, context: Context
) -> NDArray[np.int32] | None:
    """The integers of the model, where they are in steps of the products."""
    steps, codes = np.float64(x_scale) * scale.astype(np.float64), context.given.codes_of(bias)
    if codes is None or not np.allclose(codes.scale, steps, rtol=1e-6, atol=0):
        return None
    return codes.stored


def _nearest_bias(
    node: Node, bias: Tensor, x_scale: NDArray[np.float64], scale: Scales, context: Context
) -> NDArray[np.int32] | None:
    """The nearest whole numbers of steps, if int32 has room; the rest is noted."""
    codes, values = context.given.codes_of(bias), np.asarray(constant(bias), np.float64)
    real = values if codes is None else codes.stored * codes.scale
    quotients = real / (np.float64(x_scale) * scale.astype(np.float64))
    if np.abs(quotients).max(initial=0) > BIAS_LIMIT:
        return None
    context.given.biases[node.name] = real.tolist()
    return np.rint(quotients).astype(np.int32)


def producer_of(tensor: Tensor) -> Node:
    """The node that writes ``tensor``, which is known to have one."""
    node = producer(tensor)
    assert node is not None, tensor.name
    return node


def _bias_home(graph: Graph, node: Node) -> tuple[Node, int]:
    """The node that reads the bias and at which input; input 0 stands for no bias."""
    if node.op != "MatMul":
        return node, 2 if input_at(node, 2) is not None else 0
    chain = absorbed(graph, node)
    row = bias_row(node, chain[0]) if chain else None
    if row is None:
        return node, 0
    add = chain[0]
    if add.inputs[0] is row:  # the constant second, so that a bias is always at 1
        add.inputs = [add.inputs[1], row]
    return add, 1


def _quantize_constants(graph: Graph, node: Node, context: Context) -> None:
    """Constant operands are stored like activations, each at its own scale."""
    for index, tensor in enumerate(node.inputs):
        values = constant(tensor)
        if node.op not in (*PAIRING, "MatMul") or values is None:
            continue
        parameters, stored = _operand(tensor, values, context)
        name = f"{node.name}.operand_{index}"
        node.inputs[index] = _dequantized_constant(
            context,
            graph,
            name,
            stored,
            np.array(parameters.scale),
            None,
            parameters.zero,
        )
        stored_tensor = producer_of(node.inputs[index]).inputs[0]
        context.record.tensors[stored_tensor.name] = parameters
        codes = context.given.codes_of(tensor)
        if codes is not None and (codes.scale == parameters.scale).all():
            context.record.kept.append(stored_tensor.name)
        elif codes is not None:
            context.given.lost[node.name] = (
                "a constant operand has one scale here, not one per channel: quantized anew"
            )


def _operand(
    tensor: Tensor, values: NDArray[Any], context: Context
) -> tuple[Quantization, NDArray[Any]]:
    """How a constant is stored, and its integers: as the model has it, or by its extremes."""
    codes, dtype = context.given.codes_of(tensor), context.settings.activation_type
    if codes is not None and codes.levels.size and (codes.scale == codes.scale.flat[0]).all():
        ends = np.iinfo(dtype)
        low, high = int(codes.levels.min(initial=0)), int(codes.levels.max(initial=0))
        zero = min(max(0 if dtype == "int8" else 128, ends.min - low), ends.max - high)
        if high - low <= 255:
            meaning = Quantization(float(codes.scale.flat[0]), zero, dtype)
            return meaning, (codes.stored + zero).astype(dtype)
    extremes = Range(float(values.min(initial=0)), float(values.max(initial=0)))
    parameters = activation_parameters(extremes, context.settings)
    return parameters, parameters.store_all(values)


def _dequantized_constant(
    context: Context,
    graph: Graph,
    name: str,
    stored: NDArray[Any],
    scale: Scales,
    axis: int | None,
    zero: NDArray[Any] | None = None,
) -> Tensor:
    """A constant of stored integers behind a DequantizeLinear; one scale means no axis."""
    if scale.size == 1:
        scale, axis = scale.reshape(()), None
    if zero is None:
        zero = np.zeros(scale.shape, stored.dtype)
    inputs = [
        context.constant(f"{name}_quantized", stored),
        context.constant(f"{name}_scale", scale),
        context.constant(f"{name}_zero_point", zero),
    ]
    real = new_tensor(context.fresh(name), inputs[0], np.dtype(np.float32))
    attributes = {} if axis is None else {"axis": axis}
    add_node(
        graph,
        "DequantizeLinear",
        context.fresh(f"{name}_dequantize"),
        inputs,
        [real],
        attributes=attributes,
    )
    return real
