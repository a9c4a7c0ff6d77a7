"""Attention in standard ops: products, a Softmax, masks, and the moves that split heads."""

from collections.abc import Callable, Mapping, Sequence
from math import sqrt

import numpy as np

from qpasses.ir.graph import Node, Tensor, input_at, new_constant, rank
from qpasses.prepare.recognition.expansion import Expansion

TO_HEADS, TO_KEYS = [0, 2, 1, 3], [0, 2, 3, 1]
"""From [N, L, heads, size]: to one matrix for each head, and to its transpose."""

LOWEST = float(np.finfo(np.float32).min)
"""What is added to the scores of keys behind their query."""

Mask = Callable[[Expansion, Tensor], Tensor]
"""Makes what is added to scores, which it is given to ask for their shape."""


def size_of(tensor: Tensor | None) -> int | None:
    """The size of the last axis, where it is known."""
    if tensor is None or not rank(tensor):
        return None
    size = tensor.shape[-1]
    return size if isinstance(size, int) else None


def scale_of(node: Node, size: int) -> float:
    """What multiplies scores: as the node says, or 1 / sqrt of the ``size`` of a head."""
    return float(node.attrs.get("scale", 0)) or 1 / sqrt(size)


def split_heads(
    made: Expansion, what: str, tensor: Tensor, heads: int, order: Sequence[int]
) -> Tensor:
    """[N, L, heads * size] as [N, heads, L, size], or in another ``order``."""
    sizes = made.constant(f"{what}_sizes", np.array([0, 0, heads, -1]))
    split = made.add("Reshape", f"{what}_split", [tensor, sizes])
    return made.add("Transpose", f"{what}_heads", [split], perm=list(order))


def attend(
    made: Expansion,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    masks: Sequence[Mask],
    y: Tensor | None = None,
    *,
    has_nothing: bool = False,
) -> Tensor:
    """Of each head [N, heads, L, size]: softmax(query keys * scale + masks) values.

    ``keys`` are transposed already. ``has_nothing``: rows of which minus infinity drops all
    are zero.
    """
    scores = made.add("MatMul", "scores", [query, keys])
    masked = made.add("Mul", "scaled", [scores, made.number("scale", scale)])
    for mask in masks:
        masked = made.add("Add", "masked", [masked, mask(made, scores)])
    shares = made.add("Softmax", "shares", [masked], axis=-1)
    if has_nothing:
        is_nothing = made.add("IsNaN", "nothing", [shares], dtype=np.bool_)
        shares = made.add("Where", "some", [is_nothing, made.number("none", 0), shares])
    return made.add("MatMul", "attended", [shares, values], y)


def added(tensor: Tensor | None) -> list[Mask]:
    """Adds ``tensor`` as it is, if there is one."""
    return [] if tensor is None else [lambda _made, _scores: tensor]


def kept(keep: Mask, low: float) -> Mask:
    """Adds ``low`` where the booleans that ``keep`` makes are false."""
    return lambda made, scores: _chosen(made, "kept", keep(made, scores), low)


def before(made: Expansion, scores: Tensor) -> Tensor:
    """Booleans [queries, keys]: whether a key does not stand behind its query."""
    sizes = made.add("Shape", "causal_sizes", [scores], dtype=np.int64, start=-2)
    ones = new_constant("ones", np.ones(1, np.float32))
    every = made.add("ConstantOfShape", "causal_all", [sizes], value=ones)
    triangle = made.add("Trilu", "causal_before", [every], upper=0)
    return made.add("Cast", "causal_keep", [triangle], dtype=np.bool_, to=9)


def padding(mask: Tensor, low: float) -> Mask:
    """Adds ``low`` to the scores of keys that are padding, as onnxruntime's ops say it.

    Of integers ``mask`` [N, keys] or [N, queries, keys] those above 0 are kept; [N] says how
    many are.
    """

    def added_to(made: Expansion, scores: Tensor) -> Tensor:
        dims = rank(mask) or 0
        leading = [1, 2, 3] if dims == 1 else list(range(1, 5 - dims))
        axes = made.constant("padding_axes", np.array(leading))
        numbers = made.add("Unsqueeze", "padding_rows", [mask, axes], dtype=np.int32)
        if dims == 1:
            numbers = _behind(made, numbers, scores)
        none = made.constant("padding_none", np.array(0, mask.dtype))
        keep = made.add("Greater", "padding_keep", [numbers, none], dtype=np.bool_)
        return _chosen(made, "padding", keep, low)

    return added_to


def _behind(made: Expansion, counts: Tensor, scores: Tensor) -> Tensor:
    """By how much ``counts`` [N, 1, 1, 1] exceed the place of each key."""
    size = made.add("Shape", "padding_sizes", [scores], dtype=np.int64, start=-1)
    many = made.add("Squeeze", "padding_many", [size], dtype=np.int64)
    ends = [made.constant(f"padding_{n}", np.array(n)) for n in (0, 1)]
    places = made.add("Range", "padding_range", [ends[0], many, ends[1]], dtype=np.int64)
    places = made.add("Cast", "padding_places", [places], dtype=np.int32, to=6)
    return made.add("Sub", "padding_left", [counts, places], dtype=np.int32)


def _chosen(made: Expansion, what: str, keep: Tensor, low: float) -> Tensor:
    numbers = [made.number(f"{what}_{name}", n) for name, n in (("zero", 0), ("low", low))]
    return made.add("Where", f"{what}_mask", [keep, *numbers])


def padding_objection(mask: Tensor | None, rows: Tensor) -> str:
    """Why ``padding`` cannot read a mask beside ``rows`` [N, ...], or ""."""
    dims = None if mask is None else rank(mask)
    if mask is None or dims in (2, 3):
        return ""
    if dims == 1 and rows.shape and mask.shape[0] == rows.shape[0] is not None:
        return ""
    return "a mask that is not of keys or their number"


def fused_masks(
    node: Node, made: Expansion, bias: Tensor | None, keys: Tensor | None
) -> list[Mask]:
    """What an attention of onnxruntime adds to scores: ``bias``, and what shuts keys out."""
    low = float(node.attrs.get("mask_filter_value", -10000.0))
    masks = added(bias) + ([] if keys is None else [padding(keys, low)])
    return masks + ([kept(before, LOWEST)] if node.attrs.get("unidirectional", 0) else [])


def repeated(made: Expansion, what: str, tensor: Tensor, heads: int, times: int) -> Tensor:
    """Each of the ``heads`` of [N, heads, L, size] so many ``times``."""
    if times == 1:
        return tensor
    places = made.constant(f"{what}_places", np.repeat(np.arange(heads), times))
    return made.add("Gather", f"{what}_repeated", [tensor, places], axis=1)


def join_heads(made: Expansion, tensor: Tensor) -> None:
    """[N, heads, L, size] as [N, L, heads * size], which is the result."""
    joined = made.add("Transpose", "joined", [tensor], perm=TO_HEADS)
    sizes = made.constant("sizes", np.array([0, 0, -1]))
    made.add("Reshape", "merged", [joined, sizes], made.y)


def unhandled(node: Node, inputs: Mapping[int, str], flags: Sequence[str]) -> str:
    """What makes ``node`` more than attention with masks: an input or a flag."""
    found = [name for index, name in inputs.items() if input_at(node, index) is not None]
    found += [flag for flag in flags if node.attrs.get(flag, 0)]
    return next(iter(found), "")
