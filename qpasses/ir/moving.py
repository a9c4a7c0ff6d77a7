"""Moving ops: standard ops that run unchanged on stored integers, one row each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opsets.qpasses_v1.int_pad import MODES
from qpasses.ir.flow import CARRIED, CARRIED_OUT, COLLECTED, ELEMENT, JOINED
from qpasses.ir.graph import STORE, Graph, Node, Tensor, constant, input_at, is_used, rank

Span = tuple[int, int | None] | tuple[int, int, int]
"""The first place, the first place behind, and the step from one to the next."""

_FIRST, _ALL, _AND_UPDATES = (0, 1), (0, None), (0, 3, 2)
_BRANCHES, _STATES = (1, 3), (0, 2)


def _always(_node: Node) -> bool:
    return True


def _only_picks(node: Node) -> bool:
    """A Resize with mode nearest; one that crops fills what lies outside with a value."""
    mode = node.attrs.get("mode", "nearest")
    coordinates = node.attrs.get("coordinate_transformation_mode")
    return bool(mode == "nearest" and coordinates != "tf_crop_and_resize")


def _holds_tensors(node: Node) -> bool:
    """A value of a body that is a tensor, not a sequence of some."""
    ends = [*node.inputs, *node.outputs]
    return all(getattr(each, "type", "tensor_type") == "tensor_type" for each in ends)


def _never(_node: Node) -> bool:
    return False


def _gives_codes_alone(node: Node) -> bool:
    """A MaxPool whose padding is written out, and that gives no positions."""
    is_stated = node.attrs.get("auto_pad", "NOTSET") in ("NOTSET", "")
    return is_stated and not node.attrs.get("ceil_mode", 0) and len(node.outputs) == 1


def _adds_known_codes(node: Node) -> bool:
    """A Pad that adds a constant number of codes, and takes none away."""
    pads, axes = constant(input_at(node, 1)), input_at(node, 3)
    is_known = pads is not None and (axes is None or constant(axes) is not None)
    if pads is None or not is_known or not rank(node.inputs[0]):
        return False
    return bool((pads >= 0).all()) and node.attrs.get("mode", "constant") in MODES


def _is_along_known_axes(node: Node) -> bool:
    """ReduceMax and ReduceMin of a known rank along constant axes, one at least."""
    axes = input_at(node, 1)
    found = constant(axes)
    if not rank(node.inputs[0]) or (axes is not None and found is None):
        return False
    is_listed = bool(node.attrs.get("axes")) or (found is not None and found.size > 0)
    return is_listed or not node.attrs.get("noop_with_empty_axes", 0)


def _has_known_blocks(node: Node) -> bool:
    """DepthToSpace and SpaceToDepth of four axes, all but the first of known size."""
    sizes, block = node.inputs[0].shape, node.attrs["blocksize"]
    if sizes is None or len(sizes) != 4 or not all(isinstance(n, int) for n in sizes[1:]):
        return False
    divided = sizes[1:2] if node.op == "DepthToSpace" else sizes[2:]
    by = block * block if node.op == "DepthToSpace" else block
    return all(n > 0 for n in sizes[1:]) and all(n % by == 0 for n in divided)


_ON_A_GRID = ("asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")


def _repeats(node: Node) -> bool:
    """A Resize by whole factors along the last axes, of known sizes, three at most.

    Then the nearest place is what its formula says in fractions and in float32 alike.
    """
    before, after = node.inputs[0].shape, node.outputs[0].shape
    factors, sizes = (constant(input_at(node, place)) for place in (2, 3))
    by_factor = factors is not None and factors.size > 0
    given = factors if by_factor else sizes
    if given is None or before is None or after is None or not _is_on_a_grid(node):
        return False
    listed = node.attrs.get("axes") or range(len(before))
    pairs = zip(listed, given.tolist(), strict=True)
    resized = [axis for axis, size in pairs if size != (1 if by_factor else before[axis])]
    first = min((axis % len(before) for axis in resized), default=len(before) - 1)
    ends = [*zip(before[first:], after[first:], strict=True)]
    known = all(isinstance(size, int) for pair in ends for size in pair)
    is_whole = not by_factor or bool((given == np.rint(given)).all())
    fits = first >= max(2, len(before) - 3)
    return fits and known and is_whole and all(n and m % n == 0 for n, m in ends)


def _is_on_a_grid(node: Node) -> bool:
    coordinates = node.attrs.get("coordinate_transformation_mode", "half_pixel")
    policy = node.attrs.get("keep_aspect_ratio_policy", "stretch")
    return coordinates in _ON_A_GRID and policy == "stretch"


def _overwrites_or_selects(node: Node) -> bool:
    """A scattering node that adds or multiplies nothing."""
    return node.attrs.get("reduction", "none") in ("none", "max", "min")


@dataclass(frozen=True)
class Movement:
    """``data``: the inputs that are moved; ``results``: the outputs that hold them.

    ``condition`` tells which nodes of the op move only, where others compute something. The
    other outputs are positions, which stored integers give as real numbers do, since
    DequantizeLinear is monotone and one to one. ``words``: whether onnxruntime has a kernel
    for int16; ``own``: where it has none, the nodes that an op of ours is for.
    """

    data: Span = _FIRST
    results: Span = _FIRST
    condition: Callable[[Node], bool] = _always
    words: bool = True
    own: Callable[[Node], bool] = _never


MOVING: Mapping[str, Movement] = {
    CARRIED: Movement(condition=_holds_tensors),
    CARRIED_OUT: Movement(data=_STATES, condition=_holds_tensors),
    COLLECTED: Movement(condition=_holds_tensors),
    "Compress": Movement(),
    "Concat": Movement(data=_ALL),
    "DepthToSpace": Movement(words=False, own=_has_known_blocks),
    ELEMENT: Movement(condition=_holds_tensors),
    "Expand": Movement(),
    "Flatten": Movement(),
    "Gather": Movement(),
    "GatherElements": Movement(),
    "GatherND": Movement(),
    JOINED: Movement(data=_BRANCHES, condition=_holds_tensors),
    "MaxPool": Movement(words=False, own=_gives_codes_alone),
    "Pad": Movement(words=False, own=_adds_known_codes),
    "ReduceMax": Movement(words=False, own=_is_along_known_axes),
    "ReduceMin": Movement(words=False, own=_is_along_known_axes),
    "Reshape": Movement(),
    "Resize": Movement(condition=_only_picks, words=False, own=_repeats),
    "ReverseSequence": Movement(),
    "ScatterElements": Movement(data=_AND_UPDATES, condition=_overwrites_or_selects),
    "ScatterND": Movement(data=_AND_UPDATES, condition=_overwrites_or_selects),
    "Slice": Movement(),
    "SpaceToDepth": Movement(words=False, own=_has_known_blocks),
    "Split": Movement(results=_ALL),
    "Squeeze": Movement(),
    STORE: Movement(),
    "TensorScatter": Movement(data=(0, 2)),
    "Tile": Movement(),
    "TopK": Movement(),
    "Transpose": Movement(),
    "Unsqueeze": Movement(),
    "Where": Movement(data=(1, 3), words=False, own=_always),
}
"""By op type, of domain ai.onnx, but for STORE and what stands for control flow (flow.py)."""


def moves(node: Node) -> bool:
    """Whether a node only moves values."""
    return node.op in MOVING and MOVING[node.op].condition(node)


def moves_words(node: Node) -> bool:
    """Whether a node only moves values, and there is an op for it on codes of 16 bits."""
    row = MOVING.get(node.op)
    return row is not None and moves(node) and (row.words or row.own(node))


def moved(node: Node) -> Sequence[Tensor]:
    """All values that a moving node moves, constants included."""
    return list(node.inputs[slice(*MOVING[node.op].data)])


def count_moved(node: Node) -> int:
    """How many ``moved`` gives: of a join of thousands without a list of them."""
    return len(range(len(node.inputs))[slice(*MOVING[node.op].data)])


def results(graph: Graph, node: Node) -> Sequence[Tensor]:
    """The tensors that a moving node moves them to, those that nothing reads apart."""
    ends = node.outputs[slice(*MOVING[node.op].results)]
    return [tensor for tensor in ends if is_used(graph, tensor)]


def tells_places(graph: Graph, node: Node) -> bool:
    """Whether the positions are read that a moving node gives beside what it moves."""
    used = [tensor for tensor in node.outputs if is_used(graph, tensor)]
    return len(used) > len(results(graph, node))
