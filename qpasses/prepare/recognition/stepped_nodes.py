"""LSTM, GRU and RNN nodes that take one step: what a Loop repeats of them is one node."""

from collections.abc import Callable, Iterator

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
    direction_of,
)
from qpasses.prepare.recognition.affine import Numbers, width
from qpasses.prepare.recognition.cell import Cell
from qpasses.prepare.recognition.gates import Function, plain

Value = Callable[[Tensor], Numbers | None]


def stepped_cell(
    h_new: Tensor, h: Tensor, is_state: Callable[[Tensor], bool], value: Value
) -> Cell | None:
    """The cell of the node of one step that makes ``h_new`` of ``h``; None if none does.

    ``is_state``: what another cell leaves behind, which may be the x of this one.
    """
    for tensor in _resized(h_new):
        node = producer(tensor)
        if node is not None and node.op in GATES and not node.domain:
            is_new = any(tensor is each for each in node.outputs[: Y_H + 1])
            return _cell(node, h, is_state, value) if is_new else None
    return None


def _cell(
    node: Node, h: Tensor, is_state: Callable[[Tensor], bool], value: Value
) -> Cell | None:
    x = node.inputs[X]
    is_one_step = bool(x.shape) and x.shape[0] == 1
    if not (is_one_step and is_resized(input_at(node, INITIAL_H), h) and _is_plain(node)):
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
    below = next((each for each in _resized(x) if is_state(each)), None)
    *_, last = _resized(x)
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
    is_one_way = direction_of(node) != "bidirectional"
    return is_one_way and not others and input_at(node, LENS) is None


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


def is_resized(tensor: Tensor | None, other: Tensor | None) -> bool:
    """Whether ``tensor`` is ``other`` but for sizes of 1."""
    if tensor is None or other is None:
        return False
    return any(each is plain(other) for each in _resized(tensor))


def _resized(tensor: Tensor) -> Iterator[Tensor]:
    """``tensor``, and what it is but for sizes of 1 before the last, back to the first."""
    while True:
        tensor = plain(tensor)
        yield tensor
        node = producer(tensor)
        if node is None or node.domain or node.op not in ("Reshape", "Squeeze", "Unsqueeze"):
            return
        x = node.inputs[0]
        if width(x) is None or width(x) != width(tensor):
            return
        if node.op == "Reshape" and _sizes(x) != _sizes(tensor):
            return
        tensor = x


def _sizes(tensor: Tensor) -> list[object] | None:
    return None if tensor.shape is None else [size for size in tensor.shape if size != 1]
