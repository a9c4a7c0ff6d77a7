"""What takes elements from places: by slices, gather and argmax, and sorting for TopK.

Where places are known, onnxruntime says which: it runs the node on the numbers of the places.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from calibration import Session
from qpasses.emit.layouts import Order, without
from qpasses.emit.operations import RefusedError, Value
from qpasses.emit.tosa.lowering import Lowering
from qpasses.ir.graph import Node, Tensor, input_at
from qpasses.ir.moving import MOVING
from qpasses.ir.runtime import IR_VERSION, OPSET


def by_places(to: Lowering, node: Node) -> None:
    """Elements of known places: axis by axis if they can be, else ``gather`` of them all."""
    if node.attrs.get("reduction", "none") != "none":
        raise RefusedError("it takes the largest or the smallest of two")
    span = slice(*MOVING[_standard(node)].data)
    data, places = node.inputs[span], _places(to, node, span)
    if places.size == 0:
        raise RefusedError("it gives no element")
    axes = _by_axes(to.shape(data[0]), places) if len(data) == 1 else None
    if axes is not None:
        laid = to.laid(data[0])
        value = laid.value
        for axis, taken_places in enumerate(axes):
            value = taken(to, value, laid.order.index(axis), taken_places)
        to.write(node.outputs[0], value, laid.order)
        return
    flat = [to.program.reshape(to.read(each), (1, prod(to.shape(each)), 1)) for each in data]
    index = to.program.constant(places.reshape(1, -1), "int32")
    whole = to.program.concat(flat, 1)
    found = to.program.add("gather", [whole, index], (1, places.size, 1), whole.element)
    to.write(node.outputs[0], to.program.reshape(found, places.shape))


def _standard(node: Node) -> str:
    """The op that moves alike, of which onnxruntime has a kernel."""
    return "Where" if node.op == "IntWhere" else node.op


def _places(to: Lowering, node: Node, span: slice) -> NDArray[np.int32]:
    """Where in its flat ``span`` of inputs, one behind the other, each element comes from."""
    moved, feed, begin = range(len(node.inputs))[span], dict[str, NDArray[Any]](), 0
    for place, tensor in enumerate(node.inputs):
        if place in moved:
            shape = to.shape(tensor)
            feed[f"x{place}"] = np.arange(begin, begin + prod(shape), dtype=np.int32)
            feed[f"x{place}"] = feed[f"x{place}"].reshape(shape)
            begin += prod(shape)
        elif not tensor.is_empty() and (node.op, place) != ("Pad", 2):  # fills nothing
            feed[f"x{place}"] = known_input(to, node, place)
    names = [f"x{k}" if f"x{k}" in feed else "" for k in range(len(node.inputs))]
    made = helper.make_node(_standard(node), names, ["y"], **dict(node.attrs))
    ends = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in feed.items()
    ]
    graph = helper.make_graph([made], "places", ends, [onnx.ValueInfoProto(name="y")])
    opset = [helper.make_opsetid("", 24 if node.op == "TensorScatter" else OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
    (found,) = Session(model).run(["y"], feed)
    return np.asarray(found)


def places_by_axes(to: Lowering, node: Node) -> list[NDArray[np.int32]] | None:
    """Of a node of one tensor the places along each axis, if its elements are made of such."""
    return _by_axes(to.shape(node.inputs[0]), _places(to, node, slice(*MOVING[node.op].data)))


def _by_axes(
    shape: Sequence[int], places: NDArray[np.int32]
) -> list[NDArray[np.int32]] | None:
    """The places along each axis, if those of the elements are made of such."""
    if places.ndim != len(shape):
        return None
    found, whole = list[NDArray[np.int32]](), np.zeros([1] * len(shape), np.int64)
    for axis, size in enumerate(shape):
        line = places[tuple(slice(None) if k == axis else 0 for k in range(len(shape)))]
        step = prod(shape[axis + 1 :])
        found.append(line // step % size)
        whole = whole * size + np.expand_dims(
            found[-1].astype(np.int64), [k for k in range(len(shape)) if k != axis]
        )
    return found if np.array_equal(whole, places) else None


def taken(to: Lowering, x: Value, place: int, places: NDArray[np.int32]) -> Value:
    """Elements of ``x`` at these places along an axis: slices, repeats, or ``gather``."""
    size, count = x.shape[place], len(places)
    if np.array_equal(places, np.arange(size)):
        return x
    runs = _runs(places.tolist())
    if len(runs) <= _FEW:
        parts = []
        for run in runs:
            start, sizes = [0] * len(x.shape), list(x.shape)
            start[place], sizes[place] = run.start, len(run)
            parts.append(to.program.slice(x, start, sizes))
        return to.program.concat(parts, place)
    if count % size == 0 and np.array_equal(places, np.arange(count) // (count // size)):
        return _repeated(to, x, place, count // size)
    outer, inner = prod(x.shape[:place]), prod(x.shape[place + 1 :])
    flat = to.program.reshape(x, (outer, size, inner))
    where = to.program.constant(places.reshape(1, count), "int32")
    where = to.program.tile(where, (outer, 1))
    found = to.program.add("gather", [flat, where], (outer, count, inner), x.element)
    return to.program.reshape(found, (*x.shape[:place], count, *x.shape[place + 1 :]))


_FEW = 4
"""So many slices are as good as one ``gather``."""


def _runs(places: Sequence[int]) -> list[range]:
    """Places that follow one another, together."""
    found: list[range] = []
    for place in places:
        if found and found[-1].stop == place:
            found[-1] = range(found[-1].start, place + 1)
        else:
            found.append(range(place, place + 1))
    return found


def _repeated(to: Lowering, x: Value, place: int, times: int) -> Value:
    """Each element along an axis so many times."""
    shape = x.shape
    x = to.program.reshape(x, (*shape[: place + 1], 1, *shape[place + 1 :]))
    counts = [times if k == place + 1 else 1 for k in range(len(x.shape))]
    x = to.program.tile(x, counts)
    wanted = (*shape[:place], shape[place] * times, *shape[place + 1 :])
    return to.program.reshape(x, wanted)


def gather(to: Lowering, node: Node) -> None:
    """One axis goes for those of the places, which may vary, negative ones from behind."""
    shape, laid = to.shape(node.inputs[0]), to.laid(node.inputs[0])
    axis = int(node.attrs.get("axis", 0)) % len(shape)
    known, place = to.known(node.inputs[1]), laid.order.index(axis)
    if known is not None:
        places = (known.reshape(-1).astype(np.int64) % shape[axis]).astype(np.int32)
        found, rank = taken(to, laid.value, place, places), known.ndim
        wanted = [*found.shape[:place], *known.shape, *found.shape[place + 1 :]]
        order = _replaced(laid.order, axis, rank)
        to.write(node.outputs[0], to.program.reshape(found, wanted), order)
        return
    first = (axis, *(k for k in range(len(shape)) if k != axis))
    rest = [shape[k] for k in first[1:]]
    values = to.program.reshape(to.read(node.inputs[0], first), (1, shape[axis], prod(rest)))
    index, sizes = _counted(to, node.inputs[1], shape[axis]), to.shape(node.inputs[1])
    flat = to.program.reshape(index, (1, prod(sizes)))
    found = to.program.add(
        "gather", [values, flat], (1, prod(sizes), prod(rest)), values.element
    )
    order = _replaced(first, axis, len(sizes))
    to.write(node.outputs[0], to.program.reshape(found, (*sizes, *rest)), order)


def _replaced(order: Order, axis: int, rank: int) -> Order:
    """With so many axes in place of one."""
    place, moved = order.index(axis), [k + rank - 1 if k > axis else k for k in order]
    return (*moved[:place], *range(axis, axis + rank), *moved[place + 1 :])


def _counted(to: Lowering, tensor: Tensor, size: int) -> Value:
    """Places as int32 from the first on."""
    index = codes_as_int32(to, tensor)
    if np.dtype(tensor.dtype).kind == "u":
        return index
    number = to.program.same_rank
    is_negative = to.program.elementwise("greater", number(0, index), index)
    behind = to.program.elementwise("add", index, number(size, index))
    return to.program.select(is_negative, behind, index)


def codes_as_int32(to: Lowering, tensor: Tensor) -> Value:
    """The numbers of a tensor of integers, axes in ONNX's order."""
    value = to.program.cast(to.read(tensor), "i32")
    if np.dtype(tensor.dtype) != np.uint8:
        return value
    return to.program.elementwise("add", value, to.program.same_rank(128, value))


def arg_extreme(to: Lowering, node: Node) -> None:
    """``argmax``, the first of equal ones; of flipped bits, or reversed for the last."""
    program, laid = to.program, to.laid(node.inputs[0])
    axis = int(node.attrs.get("axis", 0)) % len(laid.order)
    value, place = laid.value, laid.order.index(axis)
    if value.element != "i8":
        raise RefusedError(f"the largest of {node.inputs[0].dtype}")
    size, last = value.shape[place], bool(node.attrs.get("select_last_index", 0))
    if node.op == "ArgMin":
        value = program.add("bitwise_not", [value], value.shape, value.element)
    if last:
        value = program.reverse(value, place)
    rest = [size for k, size in enumerate(value.shape) if k != place]
    found = program.argmax(value, place)
    if last:
        found = program.elementwise("sub", program.same_rank(size - 1, found), found)
    if node.attrs.get("keepdims", 1):
        found = program.reshape(found, [*rest[:place], 1, *rest[place:]])
        to.write(node.outputs[0], found, laid.order)
    else:
        to.write(node.outputs[0], found, without(laid.order, [axis]))


_MOST = 256
"""So many largest ones are looked for, one after the other."""


def top_k(to: Lowering, node: Node) -> None:
    """The largest of codes with their places behind them, again and again."""
    program, number, laid = to.program, to.program.same_rank, to.laid(node.inputs[0])
    axis = int(node.attrs.get("axis", -1)) % len(laid.order)
    place, count = laid.order.index(axis), int(np.reshape(known_input(to, node, 1), ()))
    size, bits = laid.value.shape[place], laid.value.shape[place].bit_length()
    if not node.attrs.get("sorted", 1):
        raise RefusedError("the order of what is not sorted is onnxruntime's own")
    if not 0 < count <= _MOST or laid.value.element != "i8" or bits > 22:
        raise RefusedError(f"the {count} largest of {size} {node.inputs[0].dtype}")
    code, is_least = program.cast(laid.value, "i32"), not node.attrs.get("largest", 1)
    if is_least:
        code = program.add("bitwise_not", [code], code.shape, "i32")
    shape = [size if k == place else 1 for k in range(len(laid.order))]
    behind = program.constant(np.arange(size)[::-1].reshape(shape), "int32")
    key = program.elementwise("add", program.left_shift(code, bits), behind)
    parts = list[Value]()
    for _ in range(count):
        parts.append(program.reduce("reduce_max", key, place))
        is_less = program.elementwise("greater", parts[-1], key)
        key = program.select(is_less, key, number(-(1 << 31), key))
    keys = program.concat(parts, place)
    found = program.right_shift(keys, bits)
    if is_least:
        found = program.add("bitwise_not", [found], found.shape, "i32")
    to.write(node.outputs[0], program.cast(found, "i8"), laid.order)
    index = program.masked(keys, (1 << bits) - 1)
    to.write(
        node.outputs[1],
        program.elementwise("sub", number(size - 1, index), index),
        laid.order,
    )


def where(to: Lowering, node: Node) -> None:
    """``select``; where the condition is known, places."""
    condition, a, b = node.inputs
    if to.known(condition) is not None:
        by_places(to, node)
        return
    order = to.common_order([condition, a, b])
    values = [to.broadcast(each, order) for each in (condition, a, b)]
    to.write(node.outputs[0], to.program.select(values[0], values[1], values[2]), order)


def known_input(to: Lowering, node: Node, place: int) -> Any:
    """The numbers of an input that has to be known; None where there is none."""
    tensor = input_at(node, place)
    if tensor is None:
        return None
    values = to.known(tensor)
    if values is None:
        raise RefusedError(f"its input {place} varies")
    return values


LOWERINGS = {
    "ArgMax": arg_extreme,
    "ArgMin": arg_extreme,
    "Gather": gather,
    "IntWhere": where,
    "TopK": top_k,
    "Where": where,
    **dict.fromkeys(
        (
            "Compress",
            "GatherElements",
            "GatherND",
            "Resize",
            "ReverseSequence",
            "ScatterElements",
            "ScatterND",
            "TensorScatter",
        ),
        by_places,
    ),
}
