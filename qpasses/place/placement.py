"""Place: the Q/DQ nodes that say which tensors are stored, and at which scale."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibration import Range
from qpasses.ir.elementwise import PAIRING
from qpasses.ir.given import Codes
from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    constant,
    dequantized,
    is_graph_output,
    new_tensor,
    producer,
)
from qpasses.ir.order import tidy
from qpasses.ir.patterns import multiplies_stacks
from qpasses.ir.record import Quantization
from qpasses.ir.recurrent_nodes import GATES
from qpasses.ir.rewriting import Context
from qpasses.place.close_codes import close_codes
from qpasses.place.far_tables import near_words
from qpasses.place.fusing import keep_apart
from qpasses.place.placed_states import place_states
from qpasses.place.planning import Plan
from qpasses.place.rescaling import quantize_and_back, store_anew, unlike_edges
from qpasses.place.residuals import empty_operands
from qpasses.place.states import tied_states
from qpasses.place.stored_weights import (
    MATRIX_OPS,
    dequantized_constant,
    producer_of,
    quantize_gates,
    quantize_weights,
    stored_in_bytes,
)
from qpasses.place.tensor_parameters import (
    activation_parameters,
    constant_words,
    word_parameters,
)
from qpasses.place.words import NO_WORDS, PAIRS, Words, narrowed_edges, widened_edges


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
        close_codes(graph, chosen, ranges, given, settings),
    )
    narrow = {name: meaning for name, meaning in parameters.items() if name in words}
    parameters |= {name: word_parameters(ranges[name], settings) for name in narrow}
    parameters |= empty_operands(chosen, narrow, ranges)
    context.record.states = tied_states(graph, chosen.states, parameters)
    stored = [chosen.stored[name] for name in chosen.tensors if name in given]
    context.record.kept = [*stored, *context.given.edges]
    place_states(chosen, ranges, parameters, context)
    place_parameters(graph, chosen, parameters, narrow, context, words)
    return words


def real_weights(chosen: Plan, context: Context) -> dict[str, NDArray[Any]]:
    """By node, the weights that ``place`` will round: not those of a quantized model."""
    return {
        node.name: np.asarray(constant(node.inputs[1]))
        for node in chosen.computing
        if node.op in MATRIX_OPS
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
        if node.op in GATES:
            quantize_gates(graph, node, context)
        elif node.op in MATRIX_OPS and not multiplies_stacks(node):
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
    return dequantized_constant(context, graph, tensor.name, stored, narrow, axis, zeros)


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


def _quantize_constants(graph: Graph, node: Node, context: Context) -> None:
    """Constant operands are stored like activations, each at its own scale.

    Beside words they have 16 bits too, where a node of two tensors takes these.
    """
    beside_words = node.op in PAIRS and any(map(_is_word, node.inputs))
    for index, tensor in enumerate(node.inputs):
        values = constant(tensor)
        if node.op not in (*PAIRING, "MatMul") or values is None:
            continue
        parameters, stored = _operand(tensor, values, context, beside_words)
        name = f"{node.name}.operand_{index}"
        node.inputs[index] = dequantized_constant(
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


def _is_word(tensor: Tensor) -> bool:
    """Whether what is read is stored in 16 bits."""
    view = dequantized(tensor)
    return view is not None and view.zero_point.dtype == np.int16


def _operand(
    tensor: Tensor, values: NDArray[Any], context: Context, beside_words: bool
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
    if beside_words and codes is None:
        parameters = constant_words(extremes, context.settings)
    return parameters, parameters.store_all(values)
