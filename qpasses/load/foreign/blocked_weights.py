"""Weights of a few bits, packed in bytes: the integers of onnxruntime's MatMulNBits.

before:  MatMulNBits (x, packed, scales, zero_points)
after:   MatMul (x, DequantizeLinear (stored))
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from qpasses.load.foreign.draft import Draft, Left, Table
from qpasses.load.foreign.node_parts import attribute, input_at
from qpasses.load.foreign.quantization import Quantization

CONTRIB = "com.microsoft"


def _mat_mul(draft: Draft, node: NodeProto) -> Left | None:
    names = [*node.input[1:3], *filter(None, [input_at(node, 3)])]
    values = [draft.value(name) for name in names]
    if reason := _strange(node, values):
        return Left(reason)
    packed, scales, *zeros = [value for value in values if value is not None]
    bits, block = (int(attribute(node, name)) for name in ("bits", "block_size"))
    rows, width = (int(attribute(node, name)) for name in ("N", "K"))
    blocks = -(-width // block)
    stored = unpacked(packed.reshape(rows, -1), bits)[:, :width]
    zero = np.full((rows, blocks), 1 << (bits - 1), np.uint8)
    if zeros:
        zero = unpacked(zeros[0].reshape(rows, -1), bits)[:, :blocks]
    codes = draft.constant(f"{node.input[1]}_stored", turned(stored))
    scale = scales.reshape(rows, blocks)
    if blocks == 1:
        real = draft.real(codes, Quantization(scale[:, 0].copy(), zero[:, 0].copy(), axis=1))
    else:
        real = _in_blocks(draft, node, codes, turned(scale), turned(zero))
    _write(draft, node, real)
    return None


def turned(matrix: NDArray[Any]) -> NDArray[Any]:
    """Transposed, for rows that are channels to become columns."""
    return np.ascontiguousarray(matrix.T)


def _strange(node: NodeProto, values: list[NDArray[Any] | None]) -> str:
    """Why it stays; "" where it need not."""
    if any(value is None for value in values):
        return "its weights are no constants"
    if attribute(node, "bits") not in (2, 4, 8):
        return f"its weights have {attribute(node, 'bits')} bits"
    if input_at(node, 4):
        return "its groups are permuted (g_idx)"
    if attribute(node, "weight_prepacked", 0):
        return "its weights are packed for one machine"
    if len(values) > 2 and values[2] is not None and values[2].dtype != np.uint8:
        return "its zero points are no integers"
    return ""


def unpacked(packed: NDArray[Any], bits: int) -> NDArray[np.uint8]:
    """The integers of rows of bytes, the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = packed[..., None] >> shifts & ((1 << bits) - 1)
    return parts.astype(np.uint8).reshape(len(packed), -1)


def _in_blocks(
    draft: Draft, node: NodeProto, stored: str, scale: NDArray[Any], zero: NDArray[Any]
) -> str:
    names = [
        draft.constant(f"{stored}_scale", scale),
        draft.constant(f"{stored}_zero_point", zero),
    ]
    draft.need(21)
    draft.note(node, "every block of its weights has a scale of its own")
    size = int(attribute(node, "block_size"))
    return draft.compute("DequantizeLinear", [stored, *names], node, axis=0, block_size=size)


def _write(draft: Draft, node: NodeProto, weight: str) -> None:
    inputs = [node.input[0], weight]
    if not (bias := input_at(node, 5)):
        draft.add("MatMul", inputs, node.output[0], node.name)
        return
    product = draft.fresh(f"{node.output[0]}/MatMul")
    draft.add("MatMul", inputs, product, node.name)
    name = draft.fresh(f"{node.name or product}/Add")
    draft.add("Add", [product, bias], node.output[0], name)


BLOCKED_WEIGHTS: Table = {(CONTRIB, "MatMulNBits"): _mat_mul}
"""What they become: by domain and op."""
