"""TableSoftmax: its bound by row length and accumulator, and what an element costs.

``python -m tests.bench.softmax`` prints the tables of docs/decisions/0022.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, get_args

import numpy as np
from onnx import helper

from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.evidence.prove_softmax import softmax_bound
from qpasses.ir.choices import SoftmaxBits
from qpasses.ir.runtime import OPSET
from qpasses.lowering.numbers.softmax_tables import largest_entry, softmax_tables
from tests.bench.costs import run_time

LENGTHS = (10, 64, 197, 1000, 4096)
SHAPES = ((1, 1000), (1, 12, 197, 197), (1, 2, 6, 8, 8), (1, 4, 98, 98))
X_SCALE, Y_SCALE = 1 / 16, float(np.float32(1 / 255))


def constants(length: int, bits: int) -> dict[str, Any]:
    """The inputs of a node behind x."""
    tables = softmax_tables(X_SCALE, Y_SCALE, largest_entry(length, bits))
    ends = (np.array(value, np.uint8) for value in (0, 0, 255))
    return dict(zip(list(OPS["TableSoftmax"].inputs)[1:], [*tables, *ends], strict=True))


def nanoseconds(overload: str, shape: Sequence[int]) -> float:
    """An element of a node, or with ``overload`` "sandwich" of the float op between Q/DQ."""
    x = {"x": np.random.default_rng(0).integers(0, 256, shape, np.uint8)}
    if overload == "sandwich":
        scales = {"s": np.float32(X_SCALE), "t": np.float32(Y_SCALE), "z": np.uint8(0)}
        nodes = [
            helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]),
            helper.make_node("Softmax", ["a"], ["b"], axis=-1),
            helper.make_node("QuantizeLinear", ["b", "t", "z"], ["y"]),
        ]
        given = {name: np.asarray(value) for name, value in scales.items()}
        return run_time(nodes, x, given) / prod(shape) * 1e9
    op = OPS["TableSoftmax"]
    rounding = "half_up" if overload == "onnxruntime_floor" else "half_to_even"
    attributes: dict[str, Any] = {"axis": -1, "published": 0, "rounding": rounding}
    node = helper.make_node(
        op.name, list(op.inputs), ["y"], domain=DOMAIN, overload=overload, **attributes
    )
    functions = [op.function(op.overload(overload), OPSET)]
    return run_time([node], x, constants(shape[-1], 32), functions) / prod(shape) * 1e9


def main() -> None:
    """Print both tables."""
    print(f"| codes | {' | '.join(f'{bits} bits' for bits in get_args(SoftmaxBits))} |")
    for length in LENGTHS:
        given = [constants(length, bits) for bits in get_args(SoftmaxBits)]
        bounds = [softmax_bound(each, X_SCALE, Y_SCALE, length) for each in given]
        print(f"| {length} | {' | '.join(f'{bound:.3g}' for bound in bounds)} |")
    overloads = ("sandwich", "onnxruntime", "onnxruntime_floor", "portable")
    print(f"| shape, ns an element | {' | '.join(overloads)} |")
    for shape in SHAPES:
        found = [nanoseconds(overload, shape) for overload in overloads]
        print(f"| {list(shape)} | {' | '.join(f'{each:.2f}' for each in found)} |")


if __name__ == "__main__":
    main()
