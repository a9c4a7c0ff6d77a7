"""LSTM, GRU and RNN nodes that take one step: what a Loop repeats of them is one node."""

from collections.abc import Callable

import numpy as np

from qpasses.ir.graph import Node, Tensor, input_at, producer
from qpasses.ir.recurrent_nodes import (
    ALPHAS,
    BETAS,
    GATES,
    INITIAL_C,
    INITIAL_H,
    LENS,
    Y_C,
    Y_H,
    B,
    P,
    R,
    W,
    X,
    activations_of,
)
from qpasses.prepare.recognition.affine import Numbers
from qpasses.prepare.recognition.cell import Cell
from qpasses.prepare.recognition.gates import Function, plain
from qpasses.prepare.recognition.resized import is_resized, resized, takes_one_step

Value = Callable[[Tensor], Numbers | None]


def stepped_cell(
    h_new: Tensor, h: Tensor, is_state: Callable[[Tensor], bool], value: Value
) -> Cell | None:
    """The cell of the node of one step that makes ``h_new`` of ``h``; None if none does.

    ``is_state``: what another cell leaves behind, which may be the x of this one.
    """
    for tensor in resized(h_new):
        node = producer(tensor)
        if node is not None and node.op in GATES and not node.domain:
            is_new = any(tensor is each for each in node.outputs[: Y_H + 1])
            return _cell(node, h, is_state, value) if is_new else None
    return None


def _cell(
    node: Node, h: Tensor, is_state: Callable[[Tensor], bool], value: Value
) -> Cell | None:
    x, first = node.inputs[X], input_at(node, INITIAL_H)
    if not (takes_one_step(node) and is_resized(first, h) and _is_plain(node)):
        return None
    given = [input_at(node, place) for place in (W, R, B, P)]
    w, r, b, p = (None if each is None else value(each) for each in given)
    is_known = [each is None for each in given[2:]] == [b is None, p is None]
    if w is None or r is None or not is_known:
        return None
    if b is None:
        b = np.zeros((1, 2 * w.shape[1]), w.dtype)
    if p is None:
        p = np.zeros((1, 3 * r.shape[2]), w.dtype)
    below = next((each for each in resized(x) if is_state(each)), None)
    *_, last = resized(x)
    return Cell(
        node.op,
        last if below is None else below,
        plain(h),
        w,
        r,
        b,
        p,
        _functions(node),
        *_cell_states(node),
        linear_before_reset=bool(node.attrs.get("linear_before_reset", 0)),
    )


def _is_plain(node: Node) -> bool:
    """Whether nothing is said of it but what a cell has."""
    others = {"clip", "input_forget", "layout"} & {k for k, v in node.attrs.items() if v}
    return not others and input_at(node, LENS) is None


def _functions(node: Node) -> list[Function]:
    (found,) = activations_of(node)
    alphas, betas = iter(found.alphas), iter(found.betas)
    return [
        Function(
            name,
            next(alphas) if name in ALPHAS else None,
            next(betas) if name in BETAS else None,
        )
        for name in found.names
    ]


def _cell_states(node: Node) -> tuple[Tensor | None, Tensor | None]:
    """The cell states of an LSTM, before and after the step."""
    if node.op != "LSTM":
        return None, None
    before = input_at(node, INITIAL_C)
    after = node.outputs[Y_C] if len(node.outputs) > Y_C else None
    return before, after
