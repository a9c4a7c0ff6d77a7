"""Pools: max_pool2d."""

from collections.abc import Mapping
from math import prod
from typing import Any

from numpy.typing import NDArray

from qpasses.emit import mlir
from qpasses.emit.layouts import channels_last
from qpasses.emit.operations import RefusedError, Value
from qpasses.emit.tosa.lowering import Lowering
from qpasses.emit.tosa.lowerings.products import exact, geometry_of
from qpasses.ir.graph import Node
from qpasses.ir.windows import all_pads

_Given = Mapping[str, NDArray[Any]]
_Ends = list[tuple[int, int]]


def max_pool(to: Lowering, node: Node) -> None:
    """max_pool2d; what is padded is never the largest. Of three axes one after two."""
    x, attributes = node.inputs[0], node.attrs
    rank, kernel = len(to.shape(x)), list(attributes["kernel_shape"])
    value, order = to.read(x, channels_last(rank)), channels_last(rank)
    if len(node.outputs) > 1 or any(each != 1 for each in attributes.get("dilations") or []):
        raise RefusedError("max_pool2d gives no positions, and its windows have no gaps")
    if rank not in (3, 4, 5) or value.element not in ("i8", "i16"):
        raise RefusedError(f"the largest of {node.inputs[0].dtype} over {rank - 2} axes")
    pads, strides, _gaps = geometry_of(node, value.shape[1:-1], kernel)
    if attributes.get("ceil_mode", 0):
        flat = all_pads(node)
        pads = list(zip(flat[: len(kernel)], flat[len(kernel) :], strict=True))
    if rank == 5:
        batch, depth, *picture, channels = value.shape
        value = to.program.reshape(value, (batch * depth, *picture, channels))
        value = _largest(to, value, kernel[1:], pads[1:], strides[1:])
        sizes = value.shape[1:-1]
        value = to.program.reshape(value, (batch, depth, prod(sizes), channels))
        ends = ([kernel[0], 1], [pads[0], (0, 0)], [strides[0], 1])
        value = _largest(to, value, *ends)
        value = to.program.reshape(value, (batch, value.shape[1], *sizes, channels))
    elif rank == 3:
        value = to.program.reshape(value, (value.shape[0], 1, *value.shape[1:]))
        value = _largest(to, value, [1, *kernel], [(0, 0), *pads], [1, *strides])
        value = to.program.reshape(value, (value.shape[0], *value.shape[2:]))
    else:
        value = _largest(to, value, kernel, pads, strides)
    to.write(node.outputs[0], value, order)


def _largest(
    to: Lowering, value: Value, kernel: list[int], pads: _Ends, strides: list[int]
) -> Value:
    """Of windows over two axes of a picture, channels last."""
    value, pads = exact(to, value, kernel, pads, strides, [1, 1])
    around = zip(value.shape[1:-1], pads, kernel, strides, strict=True)
    sizes = [(size + sum(ends) - k) // stride + 1 for size, ends, k, stride in around]
    return to.program.add(
        *("max_pool2d", [value], (value.shape[0], *sizes, value.shape[-1]), value.element),
        kernel=mlir.integers(kernel),
        stride=mlir.integers(strides),
        pad=mlir.integers([end for ends in pads for end in ends]),
    )


LOWERINGS = {"IntMaxPool": max_pool, "MaxPool": max_pool}
