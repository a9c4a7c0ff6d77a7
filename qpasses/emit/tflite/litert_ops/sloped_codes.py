"""LeakyRelu and PRelu: LEAKY_RELU, PRELU, or a table."""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from opsets.fixed_point import Int64
from qpasses.emit.operations import RefusedError, Value
from qpasses.emit.tflite import litert_arithmetic as runtime
from qpasses.emit.tflite.flatbuffer import Scales
from qpasses.emit.tflite.litert_ops.table_lookups import by_table
from qpasses.emit.tflite.tflite_lowering import TfliteLowering
from qpasses.emit.tosa.lowerings.slopes import by_tables
from qpasses.evidence.prove_pairs import all_pairs
from qpasses.ir.graph import Node

_END = np.float32(1e38)

_TRIED = 8
"""So many float32 numbers on either side of the nearest slope."""


def coded_slopes(to: TfliteLowering, node: Node) -> None:
    """By slopes whose float32 scale gives the node's results for all codes."""
    given = to.constants(node)
    codes = given["slope_codes"]
    if given["slope_multiplier"].size == 1 and given["x_zero"].dtype.itemsize == 1:
        laid = to.laid(node.inputs[0])
        (value, x), y = to.codes_of(node, "x", laid.order), to.written(node)
        slope = _equal_slope(node, to, x, y)
        if slope is not None:
            found = _operator(to, node, value, slope, y)
            to.write(node.outputs[0], to.bounded(found, None, given), laid.order)
            return
    if codes.size > 1 or not by_table(to, node):
        by_tables(to, node)


def _equal_slope(node: Node, to: TfliteLowering, x: Scales, y: Scales) -> float | None:
    """The scale of the slopes, if one gives what the node does."""
    given = to.constants(node)
    codes = given["slope_codes"].astype(np.int64)
    level = all_pairs(given["x_zero"].dtype.name)[1].astype(np.int64) - int(given["x_zero"])
    real = float(given["slope_multiplier"].reshape(-1)[0]) * 2.0 ** -float(
        given["slope_shift"].reshape(-1)[0]
    )
    column = codes.reshape(-1, 1)
    row = {**given, "slope_codes": column.astype(np.int32)}
    op = "LeakyRelu" if _is_leaky(codes) else "PRelu"
    for slope in _near(real * y.scale / x.scale):
        with suppress(RefusedError):
            numbers = to.runtime.of_slopes(op, x.scale, y.scale, column[:, 0].tolist(), slope)
            found = runtime.slope_levels(level.reshape(-1, 1), numbers).T
            to.check_codes(node, row, found, (numbers.above, *numbers.below))
            return slope
    return None


def _is_leaky(codes: Int64) -> bool:
    """Whether LEAKY_RELU has the slope: alpha, or less than zero its opposite."""
    return codes.size == 1 and abs(int(codes.reshape(-1)[0])) == 1


def _near(slope: float) -> Iterator[float]:
    """float32 numbers from the nearest on."""
    above = below = np.float32(slope)
    yield float(above)
    for _ in range(_TRIED):
        above, below = np.nextafter(above, _END), np.nextafter(below, -_END)
        yield from (float(above), float(below))


def _operator(to: TfliteLowering, node: Node, x: Value, slope: float, y: Scales) -> Value:
    """LEAKY_RELU, or PRELU with a constant that lies as the tensor does."""
    given, program = to.constants(node), to.program
    codes = given["slope_codes"].astype(np.int64)
    if _is_leaky(codes):
        return program.operator(
            *("LEAKY_RELU", 2, [x], x.shape, "i8", "LeakyReluOptions"),
            meaning=y,
            alpha=slope * int(codes.reshape(-1)[0]),
        )
    order = to.laid(node.inputs[0]).order
    whole = codes.reshape((1,) * (len(order) - codes.ndim) + codes.shape).transpose(order)
    low, high = int(min(codes.min(), 0)), int(max(codes.max(), 0))
    if high - low > 255:
        raise RefusedError("its slopes have more than 8 bits")
    zero = min(127 - high, max(-128 - low, 0))
    alphas = Scales((abs(slope),), (zero,))
    stored = (whole * (1 if slope > 0 else -1) + zero).astype(np.int8)
    is_for_all = len(order) > 1 and len(stored) == 1  # compilers want no axis of samples
    held = program.stored(stored[0] if is_for_all else stored, alphas)
    program.call_constant(held, f"{node.name}/slopes")
    return program.operator("PRELU", 1, [x, held], x.shape, "i8", meaning=y)


LOWERINGS = {"IntCodedPRelu": coded_slopes}
