"""IntegerizeRecurrent: LSTM, GRU and RNN become an integer node each, over all their steps."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from opsets.activations import Activation, said
from opsets.multipliers import ScaleError
from opsets.realised import node_rounding
from opsets.recurrence import WHOLE
from opsets.target import Target
from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    constant,
    dequantized,
    is_used,
    new_tensor,
    sole_consumer,
)
from qpasses.ir.patterns import quantized_by, real_value_of, stored_input, value_of
from qpasses.ir.record import SIGNALS, WORDS, NodeRecord, Quantization
from qpasses.ir.recurrent_nodes import (
    ALPHAS,
    BETAS,
    GATES,
    INITIAL_C,
    INITIAL_H,
    LENS,
    B,
    P,
    R,
    W,
    X,
    activations_of,
    biases_of,
    direction_of,
    given_inputs,
    given_outputs,
)
from qpasses.ir.rewriting import Context, Declined, Outcome, Pass, States
from qpasses.lowering.lstm_kernels import has_kernel, recurrent_objection
from qpasses.lowering.numbers.lstm_kernel_numbers import lstm_kernel_numbers
from qpasses.lowering.numbers.recurrent_numbers import (
    Numbers,
    Weights,
    gru_numbers,
    lstm_numbers,
    rnn_numbers,
)
from qpasses.lowering.put_integer_node import (
    output_codes,
    put_integer_node,
    sources,
)

OPS_OF = {"LSTM": "IntLstm", "GRU": "IntGru", "RNN": "IntRnn"}


_CONSTANT = {W: "weights", R: "recurrent weights", B: "biases", P: "peepholes"}


class IntegerizeRecurrent(Pass):
    """Replace a quantized LSTM, GRU or RNN by one integer node for all its steps.

    before: ``y, h, c = LSTM(DQ(x), DQ(w), DQ(r), b, lengths, DQ(h0), DQ(c0))``, stored behind
    after:  ``y, h, c = qpasses.IntLstm(x, h0, c0, lengths, x_zero, w, r, bias, ...)``
    **Approximate:** one step within the bound that its evidence states; over many steps what
    states lose is not bounded.
    """

    op_types: ClassVar = frozenset(GATES)

    def guard(self, _graph: Graph, node: Node) -> Declined | None:
        """One direction, constant weights, activations that have a table."""
        if direction_of(node) != "forward" or node.attrs.get("layout"):
            return Declined(f"{node.op} in a form that preparation could not split")
        for place, each in enumerate(given_inputs(node)):
            if place in _CONSTANT and not each.is_empty() and value_of(each) is None:
                return Declined(f"{node.op} with {_CONSTANT[place]} that are computed")
        if node.attrs.get("input_forget"):
            return Declined(f"{node.op} with coupled gates (input_forget)")
        return None

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Choose multipliers and tables for the scales of its states, put it in place."""
        target = context.target
        if objection := recurrent_objection(node, target):
            return Declined(objection)
        states = context.states.get(node.name) or _told(graph, node, context)
        x = stored_input(node.inputs[X], context.settings, SIGNALS)
        if states is None or x is None:
            return Declined(f"{node.op}: what it reads is not quantized per tensor")
        hidden, meanings = states.hidden, states.of_outputs(node.op)
        if node.op != "RNN" and states.cell.dtype not in WORDS:
            return Declined(f"{node.op}: what its state of 16 bits is made of has 8")
        outputs = [
            _stored_result(graph, tensor, meaning, sizes, context)
            for tensor, meaning, sizes in zip(
                given_outputs(node), meanings, _sizes(node), strict=True
            )
        ]
        given = given_inputs(node)
        places = (INITIAL_H, INITIAL_C)[: len(meanings) - 1]
        firsts = [
            _first(node, given[place], meaning, context)
            for place, meaning in zip(places, meanings[1:], strict=True)
        ]
        if declined := [each for each in (*outputs, *firsts) if isinstance(each, Declined)]:
            return declined[0]
        weights = _weights(node)
        if isinstance(weights, Declined):
            return weights
        lengths = given[LENS]
        if lengths.is_empty():
            lengths = context.table("all_steps", np.array([WHOLE], np.int32))
        try:
            made = _numbers(node, weights, x.quantization, states, target)
        except ScaleError as error:
            return Declined(f"{node.op}: {error}")
        inputs = [
            *(x.tensor, *firsts, lengths),
            context.scalar(x.quantization.dtype, x.quantization.zero_point),
            *_constants(node, made, context),
        ]
        ends = output_codes(hidden, hidden.limits, context)
        inputs += ends[:1] if node.op == "RNN" else ends
        scales = {"x": [x.quantization.scale], "w": weights.w_scales, "r": weights.r_scales}
        record = NodeRecord(
            source=sources(node),
            scales={**scales, "y": [hidden.scale], "gates": [*map(float, made.steps)]},
            macs=context.record.macs.get(node.name, 0),
            function=said(functions_of(node)),
        )
        for tensor, meaning in zip(outputs, meanings, strict=True):
            assert not isinstance(tensor, Declined)
            context.record.tensors[tensor.name] = meaning
        attributes: dict[str, Any] = {"rounding": node_rounding(target), **made.attributes}
        if node.op == "GRU":
            attributes["linear_before_reset"] = int(node.attrs.get("linear_before_reset", 0))
        op = OPS_OF[node.op]
        return put_integer_node(
            graph, op, node.name, inputs, outputs, attributes, record, context
        )


def _told(graph: Graph, node: Node, context: Context) -> States | None:
    """How its states are stored where its outputs say it, each of which is read."""
    found = list[Quantization | None]()
    for tensor in node.outputs:
        view = None if tensor.is_empty() else sole_consumer(graph, tensor)
        stored = quantized_by(view, context.settings, SIGNALS)
        found.append(None if stored is None else stored.quantization)
    hidden, cell = found[0], found[-1]
    if hidden is None or cell is None or (node.op == "LSTM" and len(found) < len(_STATES)):
        return None
    return States(hidden, hidden if node.op == "RNN" else cell)


_STATES = ("of all steps", "hidden", "cell")


def _numbers(
    node: Node, weights: Weights, x: Quantization, states: States, target: Target
) -> Numbers:
    given = weights, functions_of(node), x, states, target
    if has_kernel(node, target):
        return lstm_kernel_numbers(weights, x, states, target)
    if node.op == "GRU":
        return gru_numbers(*given, last=bool(node.attrs.get("linear_before_reset")))
    return lstm_numbers(*given) if node.op == "LSTM" else rnn_numbers(*given)


def _weights(node: Node) -> Weights | Declined:
    """Stored weights and real biases; the scales of rows are those of their Q/DQ nodes."""
    inputs, rows = given_inputs(node), 0
    matrices: list[Any] = []
    for place in (W, R):
        view = dequantized(inputs[place])
        codes = None if view is None else constant(view.stored)
        if view is None or codes is None or codes.dtype != np.int8 or view.zero_point.any():
            return Declined(f"{node.op} with weights that are no signed integers of 8 bits")
        rows = codes.shape[1]
        scales = np.broadcast_to(view.scale, (rows,)).astype(np.float64).tolist()
        matrices += [np.ascontiguousarray(codes[0].T), scales]
    last = bool(node.attrs.get("linear_before_reset"))
    bias = None if inputs[B].is_empty() else real_value_of(inputs[B])
    biases = biases_of(node.op, bias, rows, last)
    holes = real_value_of(inputs[P]) if len(inputs) > P and not inputs[P].is_empty() else None
    hidden = rows // GATES[node.op]
    w, w_scales, r, r_scales = matrices
    holes = np.zeros(3 * hidden) if holes is None else holes.reshape(-1).astype(np.float64)
    return Weights(w, w_scales, r, r_scales, biases[0], biases[1], holes)


def _constants(node: Node, made: Numbers, context: Context) -> list[Tensor]:
    """Its numbers as tensors: tables are shared."""
    return [
        (context.table if name in made.shared else context.constant)(
            f"{node.name}.{name}", each
        )
        for name, each in made.own.items()
    ]


def functions_of(node: Node) -> list[Activation]:
    """The activations of its gates, and of the cell of an LSTM, which no clip concerns."""
    (given,) = activations_of(node)
    alphas, betas = iter(given.alphas), iter(given.betas)
    clip = float(node.attrs.get("clip", np.inf))
    return [
        Activation(
            name,
            next(alphas) if name in ALPHAS else 0.0,
            next(betas) if name in BETAS else 0.0,
            np.inf if place == 2 else clip,
        )
        for place, name in enumerate(given.names)
    ]


def _sizes(node: Node) -> list[list[Any]]:
    """What sizes its outputs have: those of all steps, and states, as far as x says them."""
    steps, rows = (node.inputs[X].shape or [None, None])[:2]
    size = int(node.attrs["hidden_size"])
    state = [1, rows, size]
    return [[steps, 1, rows, size], state, state][: len(given_outputs(node))]


def _stored_result(
    graph: Graph,
    tensor: Tensor,
    meaning: Quantization,
    sizes: Sequence[Any],
    context: Context,
) -> Tensor | Declined:
    """What a node writes in place of a float output; a new tensor where nobody reads it."""
    if tensor.is_empty() or not is_used(graph, tensor):
        made = new_tensor(
            context.fresh(tensor.name or "state"), tensor, np.dtype(meaning.dtype)
        )
        made.shape = made.shape or list(sizes)
        return made
    found = quantized_by(sole_consumer(graph, tensor), context.settings, SIGNALS)
    if found is None or found.quantization != meaning:
        return Declined(f"its output {tensor.name!r} is not stored as its state")
    return found.tensor


def _first(
    node: Node, tensor: Tensor, meaning: Quantization, context: Context
) -> Tensor | Declined:
    """An initial state in codes."""
    if tensor.is_empty():
        return context.table(
            f"no_state_{meaning.dtype}_{meaning.zero_point}",
            np.full((1, 1, 1), meaning.zero_point, meaning.dtype),
        )
    values = constant(tensor)
    if values is not None:
        return context.constant(f"{node.name}.{tensor.name}", meaning.store_all(values))
    found = stored_input(tensor, context.settings, SIGNALS)
    if found is None or found.quantization != meaning:
        return Declined(
            f"{node.op}: its initial state {tensor.name!r} is not stored as its states are"
        )
    return found.tensor
