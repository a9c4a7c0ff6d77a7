"""Softmax in gemmlowp's fixed point: SOFTMAX, which derives the exponentials once more."""

import numpy as np

from opsets.gemmlowp import LONGEST_ROW, softmax_exponentials
from qpasses.emit.layouts import in_order
from qpasses.emit.operations import RefusedError
from qpasses.emit.tflite.flatbuffer import Scales
from qpasses.emit.tflite.tflite_lowering import TfliteLowering, UnlikeRuntimeError
from qpasses.ir.graph import Node

_SHARES = Scales((1 / 256,), (-128,))
"""What the operator writes, whatever a file says."""


def gemmlowp_softmax(to: TfliteLowering, node: Node) -> None:
    """Rows along the last axis, which the operator has alone."""
    given, x, program = to.constants(node), node.inputs[0], to.program
    rank = len(to.shape(x))
    axis = int(node.attrs["axis"]) % rank
    order = (*(each for each in in_order(rank) if each != axis), axis)
    if to.shape(x)[axis] > LONGEST_ROW:
        raise RefusedError(f"rows of more than {LONGEST_ROW} codes end LiteRT's process")
    value, y = to.read(x, order), to.written(node)
    if y != _SHARES:
        raise RefusedError("its results are no steps of 1 / 256 from the lowest code on")
    theirs = softmax_exponentials(program.scales(value).scale)
    ours = given["exponentials"].tolist()
    unlike = np.flatnonzero(np.not_equal(ours, theirs))
    if unlike.size:
        place = int(unlike[0])
        raise UnlikeRuntimeError(
            f"{ours[place]} / 2**31, {place} codes below", theirs[place], to.runtime
        )
    codes = program.operator(
        *("SOFTMAX", 2, [value], value.shape, "i8", "SoftmaxOptions", y), beta=1.0
    )
    to.write(node.outputs[0], program.limited(codes, *to.ends_of(given)), order)


LOWERINGS = {"GemmlowpSoftmax": gemmlowp_softmax}
