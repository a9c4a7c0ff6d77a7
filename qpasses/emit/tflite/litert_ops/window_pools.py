"""Windows: MAX_POOL_2D, AVERAGE_POOL_2D."""

from collections.abc import Sequence

from qpasses.emit.layouts import channels_last
from qpasses.emit.operations import RefusedError, Value
from qpasses.emit.tflite.litert_ops.weighted_sums import padded
from qpasses.emit.tflite.tflite_lowering import TfliteLowering
from qpasses.emit.tosa.lowering import offset
from qpasses.emit.tosa.lowerings.products import geometry_of
from qpasses.ir.graph import Node
from qpasses.ir.windows import all_pads

Ends = list[tuple[int, int]]

_LOWEST = {"i8": -(1 << 7), "i16": -(1 << 15)}


def max_pool(to: TfliteLowering, node: Node) -> None:
    """MAX_POOL_2D: padding is never the largest."""
    attributes = node.attrs
    if len(node.outputs) > 1 or any(each != 1 for each in attributes.get("dilations") or []):
        raise RefusedError("MAX_POOL_2D gives no positions, and its windows have no gaps")
    kernel = list(attributes["kernel_shape"])
    value = to.read(node.inputs[0], channels_last(len(kernel) + 2))
    pads, strides, _gaps = geometry_of(node, value.shape[1:-1], kernel)
    if attributes.get("ceil_mode", 0):
        flat = all_pads(node)
        pads = list(zip(flat[: len(kernel)], flat[len(kernel) :], strict=True))
    if value.element not in _LOWEST:
        raise RefusedError(f"the largest of {node.inputs[0].dtype}")
    windows = (value, kernel, pads, list(strides))
    found = pooled(to, "MAX_POOL_2D", windows, filling=_LOWEST[value.element])
    to.write(node.outputs[0], found, channels_last(len(kernel) + 2))


def average_pool(to: TfliteLowering, node: Node) -> None:
    """AVERAGE_POOL_2D: the sum of codes over the cells of the window, ties away from zero."""
    given, attributes = to.constants(node), node.attrs
    check_divides(to, node)
    kernel = list(attributes["kernel_shape"])
    value = to.read(node.inputs[0], channels_last(len(kernel) + 2))
    check_one_scale(to, value)
    pads, strides, gaps = geometry_of(node, value.shape[1:-1], kernel)
    flat = list(attributes["uncounted_pads"])
    uncounted = list(zip(flat[: len(kernel)], flat[len(kernel) :], strict=True))
    counts = any(map(any, pads)) and uncounted != pads
    if counts or any(each != 1 for each in gaps):
        raise RefusedError("AVERAGE_POOL_2D counts no padding, and its windows have no gaps")
    if any(map(any, pads)) and not _is_same(to, value, kernel, pads, strides):
        raise RefusedError("AVERAGE_POOL_2D has no padding like that, SAME alone")
    found = pooled(to, "AVERAGE_POOL_2D", (value, kernel, pads, list(strides)))
    to.write(node.outputs[0], to.bounded(found, None, given), channels_last(len(kernel) + 2))


def check_divides(to: TfliteLowering, node: Node) -> None:
    """Raise RefusedError unless a node divides sums of codes as AVERAGE_POOL_2D does."""
    given = to.constants(node)
    ratio = int(given["multiplier"]) / 2.0 ** int(given["shift"])
    zeros = {int(given[name]) - offset(given[name].dtype) for name in ("x_zero", "y_zero")}
    if ratio != 1 or zeros != {0} or node.attrs["rounding"] != "half_away":
        raise RefusedError(
            "AVERAGE_POOL_2D divides the sum of codes of one scale, zero points left in: "
            "quantize with --target litert or tflm"
        )


def check_one_scale(to: TfliteLowering, x: Value) -> None:
    """Raise RefusedError unless what is written means what ``x`` does."""
    if to.program.scales(x) != to.program.meaning:
        raise RefusedError("AVERAGE_POOL_2D has one scale")


def _is_same(
    to: TfliteLowering, x: Value, kernel: Sequence[int], pads: Ends, strides: Sequence[int]
) -> bool:
    return padded(to, x, kernel, pads, strides, [1] * len(kernel))[0] == "SAME"


def pooled(
    to: TfliteLowering,
    op: str,
    windows: tuple[Value, Sequence[int], Ends, Sequence[int]],
    filling: int | None = None,
) -> Value:
    """Over pictures, or rows as pictures of one line."""
    value, kernel, pads, strides = windows
    rank = len(kernel) + 2
    if rank not in (3, 4):
        raise RefusedError(f"windows over {len(kernel)} axes")
    if rank == 3:
        value = to.program.reshape(value, (value.shape[0], 1, *value.shape[1:]))
        kernel, pads, strides = [1, *kernel], [(0, 0), *pads], [1, *strides]
    padding, value, sizes = padded(to, value, kernel, pads, strides, [1, 1], filling)
    found = to.program.operator(
        *(
            op,
            2 if value.element == "i8" else 3,
            [value],
            (value.shape[0], *sizes, value.shape[-1]),
            value.element,
        ),
        "Pool2DOptions",
        padding=f"Padding.{padding}",
        strideH=strides[0],
        strideW=strides[1],
        filterHeight=kernel[0],
        filterWidth=kernel[1],
    )
    if rank == 3:
        found = to.program.reshape(found, (found.shape[0], *found.shape[2:]))
    return found


LOWERINGS = {
    "IntMaxPool": max_pool,
    "MaxPool": max_pool,
    "IntCountedAveragePool": average_pool,
}
