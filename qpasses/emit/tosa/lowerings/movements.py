"""What moves values: reshapes, transposes, slices, pads, joins, clips, positions."""

from collections.abc import Sequence

import numpy as np

from qpasses.emit.layouts import in_order, regrouped, without
from qpasses.emit.operations import RefusedError, Value
from qpasses.emit.tosa.lowering import Lowering, offset
from qpasses.emit.tosa.lowerings.places import by_places, known_input, taken
from qpasses.ir.graph import Node


def _axes(to: Lowering, node: Node, place: int = 1) -> list[int] | None:
    given = known_input(to, node, place)
    found = node.attrs.get("axes") if given is None else given.reshape(-1).tolist()
    return None if found is None else [int(axis) for axis in found]


def identity(to: Lowering, node: Node) -> None:
    """Nothing."""
    x = to.laid(node.inputs[0])
    to.write(node.outputs[0], x.value, x.order)


def _reshaped(to: Lowering, node: Node, wanted: Sequence[int]) -> None:
    x = node.inputs[0]
    given, order = regrouped(to.shape(x), wanted, to.laid(x).order)
    found = to.program.reshape(to.read(x, given), [wanted[axis] for axis in order])
    to.write(node.outputs[0], found, order)


def reshape(to: Lowering, node: Node) -> None:
    """``reshape``; 0 keeps a size, -1 takes what is left."""
    shape = to.shape(node.inputs[0])
    wanted = [int(size) for size in known_input(to, node, 1).reshape(-1)]
    if not node.attrs.get("allowzero", 0):
        wanted = [shape[k] if size == 0 else size for k, size in enumerate(wanted)]
    rest = int(np.prod([size for size in wanted if size >= 0]))
    count = int(np.prod(shape))
    _reshaped(to, node, [count // max(rest, 1) if size < 0 else size for size in wanted])


def flatten(to: Lowering, node: Node) -> None:
    """``reshape`` to two axes."""
    shape = to.shape(node.inputs[0])
    axis = int(node.attrs.get("axis", 1))
    _reshaped(to, node, (int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))))


def squeeze(to: Lowering, node: Node) -> None:
    """``reshape`` without axes of one."""
    shape, axes = to.shape(node.inputs[0]), _axes(to, node)
    gone = (
        [k for k, size in enumerate(shape) if size == 1]
        if axes is None
        else [axis % len(shape) for axis in axes]
    )
    _reshaped(to, node, [size for k, size in enumerate(shape) if k not in gone])


def unsqueeze(to: Lowering, node: Node) -> None:
    """``reshape`` with axes of one more."""
    shape, axes = list(to.shape(node.inputs[0])), _axes(to, node) or []
    rank = len(shape) + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        shape.insert(axis, 1)
    _reshaped(to, node, shape)


def transpose(to: Lowering, node: Node) -> None:
    """Nothing moves: the order of the axes is another."""
    x = to.laid(node.inputs[0])
    perm = node.attrs.get("perm") or [*reversed(in_order(len(x.order)))]
    to.write(node.outputs[0], x.value, tuple([*perm].index(axis) for axis in x.order))


def concat(to: Lowering, node: Node) -> None:
    """``concat``, in the order that most of the parts have."""
    order = to.common_order(node.inputs)
    axis = order.index(int(node.attrs["axis"]) % len(order))
    parts = [to.read(each, order) for each in node.inputs if 0 not in to.shape(each)]
    to.write(node.outputs[0], to.program.concat(parts, axis), order)


def slice_(to: Lowering, node: Node) -> None:
    """``slice``; every other element by way of reshapes, backwards by ``reverse``."""
    shape, x = to.shape(node.inputs[0]), to.laid(node.inputs[0])
    starts, ends = (known_input(to, node, k).reshape(-1).tolist() for k in (1, 2))
    axes = _axes(to, node, 3) or list(range(len(starts)))
    steps = known_input(to, node, 4)
    steps = [1] * len(starts) if steps is None else steps.reshape(-1).tolist()
    value = x.value
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = x.order.index(axis % len(shape))
        value = _strided(to, value, place, slice(start, end, step))
    to.write(node.outputs[0], value, x.order)


def _strided(to: Lowering, x: Value, place: int, part: slice) -> Value:
    size = x.shape[place]
    taken = range(size)[_bounded(part, size)]
    if len(taken) == 0:
        raise RefusedError("it takes nothing of an axis")
    step = abs(taken.step)
    low, high = min(taken), max(taken)
    start, sizes = [0] * len(x.shape), list(x.shape)
    if len(taken) == 1:
        step = 1
    span = (len(taken) - 1) * step + 1
    start[place], sizes[place] = low, span
    x = to.program.slice(x, start, sizes)
    assert high - low + 1 == span
    if taken.step < 0 and len(taken) > 1:
        x = to.program.reverse(x, place)
    return _every(to, x, place, step, len(taken)) if step > 1 else x


def _bounded(part: slice, size: int) -> slice:
    """ONNX's ends beyond int32 as Python's; backwards to the end as None."""
    if part.step > 0:
        return part
    start = part.start + size if part.start < 0 else part.start
    end = None if part.stop < -size else part.stop
    return slice(min(max(start, 0), size - 1), end, part.step)


def _every(to: Lowering, x: Value, place: int, step: int, count: int) -> Value:
    """One of ``step`` elements along an axis: the first of each row of as many."""
    most = to.program.most_axes
    if most is not None and len(x.shape) >= most:
        return taken(to, x, place, np.arange(count, dtype=np.int32) * step)
    behind = count * step - x.shape[place]
    pads = [(0, behind if k == place else 0) for k in range(len(x.shape))]
    x = to.program.pad(x, pads, 0)
    shape = x.shape
    rows = (*shape[:place], count, step, *shape[place + 1 :])
    x = to.program.reshape(x, rows)
    first = (*shape[:place], count, 1, *shape[place + 1 :])
    x = to.program.slice(x, [0] * len(rows), first)
    return to.program.reshape(x, (*shape[:place], count, *shape[place + 1 :]))


def split(to: Lowering, node: Node) -> None:
    """A ``slice`` for each part."""
    x, shape = to.laid(node.inputs[0]), to.shape(node.inputs[0])
    axis = int(node.attrs.get("axis", 0)) % len(shape)
    place, given = x.order.index(axis), known_input(to, node, 1)
    sizes = node.attrs.get("split") if given is None else given.reshape(-1).tolist()
    if sizes is None:
        each = -(-shape[axis] // len(node.outputs))
        sizes = [min(each, shape[axis] - k * each) for k in range(len(node.outputs))]
    begin = 0
    for size, output in zip(sizes, node.outputs, strict=True):
        start, part = [0] * len(shape), list(x.value.shape)
        start[place], part[place] = begin, int(size)
        to.write(output, to.program.slice(x.value, start, part), x.order)
        begin += int(size)


def pad(to: Lowering, node: Node) -> None:
    """``pad`` with the number that is stored."""
    if node.attrs.get("mode", "constant") not in ("constant", b"constant"):
        by_places(to, node)
        return
    x, shape = to.laid(node.inputs[0]), to.shape(node.inputs[0])
    given = known_input(to, node, 1)
    pads = (node.attrs.get("pads") if given is None else given.reshape(-1).tolist()) or []
    axes = _axes(to, node, 3) or list(range(len(shape)))
    ends = {axis % len(shape): (0, 0) for axis in range(len(shape))}
    for k, axis in enumerate(axes):
        ends[axis % len(shape)] = int(pads[k]), int(pads[k + len(axes)])
    filling = known_input(to, node, 2)
    number = 0 if filling is None else int(np.reshape(filling, ()))
    dtype = np.dtype(node.inputs[0].dtype)
    value, order = x.value, x.order
    lost = [(min(a, 0), min(b, 0)) for a, b in (ends[axis] for axis in order)]
    if any(map(any, lost)):
        start = [-a for a, _ in lost]
        sizes = [s + a + b for s, (a, b) in zip(value.shape, lost, strict=True)]
        value = to.program.slice(value, start, sizes)
    more = [(max(a, 0), max(b, 0)) for a, b in (ends[axis] for axis in order)]
    to.write(node.outputs[0], to.program.pad(value, more, number - offset(dtype)), order)


def int_pad(to: Lowering, node: Node) -> None:
    """``pad`` with the fill code; what repeats codes takes them from their places."""
    laid, fill = to.laid(node.inputs[0]), int(to.constants(node)["fill"])
    before, behind = np.reshape(node.attrs["pads"], (2, -1)).tolist()
    ends = [(before[axis], behind[axis]) for axis in laid.order]
    mode, value = node.attrs["mode"], laid.value
    if mode == "constant":
        to.write(node.outputs[0], to.program.pad(value, ends, fill), laid.order)
        return
    for place, each in enumerate(ends):
        places = np.pad(np.arange(value.shape[place], dtype=np.int32), each, mode)
        value = taken(to, value, place, places)
    to.write(node.outputs[0], value, laid.order)


def clip(to: Lowering, node: Node) -> None:
    """``clamp`` of codes."""
    x, dtype = to.laid(node.inputs[0]), np.dtype(node.inputs[0].dtype)
    if dtype.kind not in "iu":
        raise RefusedError("it clips floats")
    limits, words = np.iinfo(np.int8 if dtype == np.uint8 else dtype), np.iinfo(np.int32)
    ends = [known_input(to, node, k) for k in (1, 2)]
    given = (
        limit if end is None else int(np.reshape(end, ())) - offset(dtype)
        for end, limit in zip(ends, (limits.min, limits.max), strict=True)
    )
    low, high = (min(max(end, words.min), words.max) for end in given)
    to.write(node.outputs[0], to.program.clamp(x.value, low, high), x.order)


def expand(to: Lowering, node: Node) -> None:
    """``tile`` along axes of one."""
    shape = to.shape(node.inputs[0])
    wanted = np.broadcast_shapes(shape, tuple(known_input(to, node, 1).tolist()))
    _tiled(to, node, (1,) * (len(wanted) - len(shape)) + shape, wanted)


def tile(to: Lowering, node: Node) -> None:
    """``tile``."""
    shape, times = to.shape(node.inputs[0]), known_input(to, node, 1).tolist()
    _tiled(to, node, shape, [a * b for a, b in zip(shape, times, strict=True)])


def _tiled(to: Lowering, node: Node, shape: Sequence[int], wanted: Sequence[int]) -> None:
    x = to.program.reshape(to.read(node.inputs[0]), shape)
    times = [b // a for a, b in zip(shape, wanted, strict=True)]
    to.write(node.outputs[0], to.program.tile(x, times))


def int_shuffle(to: Lowering, node: Node) -> None:
    """A transpose between reshapes; sizes 0 are those of the input."""
    shape = to.shape(node.inputs[0])
    split, perm, joined = (list(node.attrs[name]) for name in ("split", "perm", "joined"))
    parts = [shape[k] if size == 0 else size for k, size in enumerate(split)]
    value = to.program.reshape(to.read(node.inputs[0]), parts)
    value = to.program.transpose(value, perm)
    wanted = [shape[k] if size == 0 else size for k, size in enumerate(joined)]
    to.write(node.outputs[0], to.program.reshape(value, wanted))


def depth_to_space(to: Lowering, node: Node) -> None:
    """Reshapes around a transpose."""
    batch, channels, height, width = to.shape(node.inputs[0])
    block = int(node.attrs["blocksize"])
    mode = node.attrs.get("mode", "DCR")
    deep = channels // block**2
    value = to.read(node.inputs[0], (0, 2, 3, 1))
    inner = (block, block, deep) if mode in ("DCR", b"DCR") else (deep, block, block)
    value = to.program.reshape(value, (batch * height, width, *inner))
    axes = (0, 2, 1, 3, 4) if mode in ("DCR", b"DCR") else (0, 3, 1, 4, 2)
    value = to.program.transpose(value, axes)
    value = to.program.reshape(value, (batch, height * block, width * block, deep))
    to.write(node.outputs[0], value, (0, 2, 3, 1))


def space_to_depth(to: Lowering, node: Node) -> None:
    """The same the other way round."""
    batch, channels, height, width = to.shape(node.inputs[0])
    block = int(node.attrs["blocksize"])
    high, wide = height // block, width // block
    value = to.read(node.inputs[0], (0, 2, 3, 1))
    value = to.program.reshape(value, (batch * high, block, wide, block, channels))
    value = to.program.transpose(value, (0, 2, 1, 3, 4))
    value = to.program.reshape(value, (batch, high, wide, channels * block**2))
    to.write(node.outputs[0], value, (0, 2, 3, 1))


def reduce_extreme(to: Lowering, node: Node) -> None:
    """``reduce_max`` or ``reduce_min`` along each axis."""
    shape, axes = to.shape(node.inputs[0]), _axes(to, node)
    if not axes:
        is_nothing = axes is not None and node.attrs.get("noop_with_empty_axes", 0)
        axes = [] if is_nothing else list(range(len(shape)))
    _reduce(to, node, "reduce_max" if node.op == "ReduceMax" else "reduce_min", axes)


def int_extreme(to: Lowering, node: Node) -> None:
    """The same of words."""
    op = "reduce_max" if node.attrs["which"] in ("largest", b"largest") else "reduce_min"
    _reduce(to, node, op, node.attrs["axes"])


def _reduce(to: Lowering, node: Node, op: str, axes: Sequence[int]) -> None:
    x, shape = to.laid(node.inputs[0]), to.shape(node.inputs[0])
    value, reduced = x.value, {axis % len(shape) for axis in axes}
    for axis in sorted(reduced):
        value = to.program.reduce(op, value, x.order.index(axis))
    if node.attrs.get("keepdims", 1):
        to.write(node.outputs[0], value, x.order)
        return
    kept = [
        size for size, axis in zip(value.shape, x.order, strict=True) if axis not in reduced
    ]
    found = to.program.reshape(value, kept)
    to.write(node.outputs[0], found, without(x.order, reduced))


LOWERINGS = {
    "Clip": clip,
    "Concat": concat,
    "DepthToSpace": depth_to_space,
    "Expand": expand,
    "Flatten": flatten,
    "Identity": identity,
    "IntExtreme": int_extreme,
    "IntPad": int_pad,
    "IntShuffle": int_shuffle,
    "Pad": pad,
    "ReduceMax": reduce_extreme,
    "ReduceMin": reduce_extreme,
    "Reshape": reshape,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
