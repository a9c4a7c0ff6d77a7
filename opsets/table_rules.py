"""Table rules: by which of a target's rules numbers become the entries of a table."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from opsets.fixed_point import Rounding

TableRounding = Literal[Rounding, "toward_zero"]
TABLE_ROUNDINGS: tuple[TableRounding, ...] = get_args(TableRounding)
"""How levels in tables are rounded: as nodes round, or truncated."""


@dataclass(frozen=True)
class TableRules:
    """The rules of a target that tables follow.

    ``floats`` are numpy's, of what codes mean and of quotients. ``functions``: ``runtime``,
    what onnxruntime or onnx's evaluator makes of them in these floats; ``legalized``, in
    double and rounded to them once; or ``tflite``, the same, but that Sigmoid is 1 / (1 +
    exp(-x)) with each step rounded. ``quotient``: by the scale they are ``divided``, or
    multiplied by its ``inverse``, which is rounded itself; ``rounding`` is that of the level.
    ``hard_swish``: a ``table`` like any other, or TFLite's arithmetic of ``int16``.

    ``legalized``, ``inverse``, ``half_away`` and ``int16``, in float32, are MLIR's
    legalization of TFLite to TOSA: getTosaConst8bitTable of TensorFlow's
    compiler/mlir/tosa/transforms/legalize_utils.cc as it is since pull request 61989
    (approved in April 2025). Before, it divided, all in double.
    """

    floats: type[np.floating[Any]] = np.float32
    functions: str = "runtime"
    quotient: str = "divided"
    rounding: TableRounding = "half_to_even"
    hard_swish: str = "table"


USUAL = TableRules()
"""Of a target that names none."""

NEAR = {"int16": 4, "int8": 0, "uint8": 0}
"""By the type of y: a table of 16 bits is 513 knots with lines between them where these are
so many steps of it, at most, from all 65,536 entries."""

SEEN = 21_845
"""Two thirds of the codes of 16 bits, on either side of zero: what samples reach, of ranges
that are half as wide again. Where tables of channels are judged, others do not count."""

NEAR_OF_CHANNELS = {"int16": 4, "int8": 1, "uint8": 1}
"""``NEAR`` of tables of channels, which have no other form."""

FAR = {"int16": 1, "int8": 1 / 12, "uint8": 1 / 12}
"""Lines of channels that are further off are taken up to so many steps of y, squared, on the
mean: of bytes what rounding makes, of 16 bits less than 2 bits more."""
