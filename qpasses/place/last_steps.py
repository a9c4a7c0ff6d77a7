"""Last steps: where what a recurrent node writes of all steps is cut down to the last one."""

from collections.abc import Iterator, Sequence
from typing import Any

from qpasses.ir.graph import Node, Tensor, constant, input_at
from qpasses.ir.recurrent_nodes import GATES, LENS, Y, direction_of

_ENDLESS = 2**31 - 1
"""Where a Slice ends that goes on to the last place, however many there are."""


def last_steps(node: Node) -> Iterator[Tensor]:
    """Tensors that hold what the last step of ``node`` writes, the next value of its state.

    Of a forward node of ONNX's layout, without lengths of rows: what a Gather or a Slice takes
    at the last place, moved before, or all of it if there is one step.
    """
    if node.op not in GATES or direction_of(node) != "forward" or node.attrs.get("layout", 0):
        return
    if input_at(node, LENS) is not None:
        return
    waiting = [(node.outputs[Y], 0)]
    while waiting:
        tensor, axis = waiting.pop()
        if tensor.shape is None:
            continue
        if tensor.shape[axis] == 1:
            yield tensor
            continue
        readers = {id(each): each for each in tensor.outputs if each.inputs[0] is tensor}
        for reader in readers.values():
            if _takes_last(reader, tensor.shape, axis):
                yield reader.outputs[0]
            elif (place := _moved_to(reader, len(tensor.shape), axis)) is not None:
                waiting.append((reader.outputs[0], place))


def _moved_to(node: Node, rank: int, axis: int) -> int | None:
    """Where a Squeeze or Transpose puts an axis; None for other nodes."""
    if node.op == "Transpose":
        return [*node.attrs.get("perm", range(rank)[::-1])].index(axis)
    axes = constant(input_at(node, 1)) if node.op == "Squeeze" else None
    return None if axes is None else axis - sum(each % rank < axis for each in axes.tolist())


def _takes_last(node: Node, shape: Sequence[Any], axis: int) -> bool:
    """Whether ``node`` takes the last place along an axis, and nothing else."""
    count = shape[axis] if isinstance(shape[axis], int) else None
    if node.op == "Gather":
        place = constant(node.inputs[1])
        if place is None or place.size != 1 or node.attrs.get("axis", 0) % len(shape) != axis:
            return False
        return int(place.item()) in (-1, (count or 0) - 1)
    if node.op != "Slice":
        return False
    given = [constant(input_at(node, place)) for place in (1, 2, 3)]
    start, end, along = (
        int(v.item()) if v is not None and v.size == 1 else None for v in given
    )
    steps, value = input_at(node, 4), constant(input_at(node, 4))
    is_whole = steps is None or (value is not None and value.tolist() == [1])
    if start is None or end is None or along is None or not is_whole:
        return False
    if along % len(shape) != axis:
        return False
    size = _ENDLESS if count is None else count
    return start in (-1, size - 1) and end >= size
