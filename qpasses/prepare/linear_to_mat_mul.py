"""LinearToMatMul: running sums and Fourier transforms are products with a constant matrix."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import Graph, Node, Tensor, constant, input_at, rank
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.ir.unknown_sizes import FREE
from qpasses.prepare.recognition.expansion import Expansion
from qpasses.prepare.recognition.waves import fourier

MOST_WEIGHTS = 1 << 20
"""Of the matrix: of longer rows other algorithms are faster by far."""

_AXIS_GIVEN = 20
"""From this opset on the axis of a DFT is an input, the last but one where it is absent."""


class LinearToMatMul(Pass):
    """Replace CumSum and DFT along one axis of known size.

    before: ``y = CumSum (x, axis)``
    after:  ``t = Transpose (x); p = MatMul (t, triangle); y = Transpose (p)``, without the
            Transposes where the axis is the last one; around a DFT Reshapes put the real and
            imaginary parts of a row into one
    **Exact** in real arithmetic: it is their definition.
    """

    op_types: ClassVar = frozenset({"CumSum", "DFT"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where axis, length and size are known."""
        if node.domain or node.name in context.selection.excluded:
            return NOT_MINE
        x, dims = node.inputs[0], rank(node.inputs[0])
        if x.dtype != np.float32 or dims is None or dims < 1:
            return Declined(f"{node.op} of other types than float32, or of an unknown rank")
        if node.op == "CumSum":
            return _put_cum_sum(graph, node, context)
        return _put_dft(graph, node, context)


def _put_cum_sum(graph: Graph, node: Node, context: Context) -> Outcome:
    x, axis = node.inputs[0], constant(node.inputs[1])
    if axis is None:
        return Declined("CumSum along an axis that is not constant")
    along = int(axis.reshape(())) % len(x.shape)
    size = x.shape[along]
    if not isinstance(size, int) or not 0 < size * size <= MOST_WEIGHTS:
        return Declined(f"CumSum along an axis of a size too large, or not known: {FREE}")
    before = np.tri(size, k=-1 if node.attrs.get("exclusive", 0) else 0, dtype=np.float32).T
    matrix = before[::-1, ::-1] if node.attrs.get("reverse", 0) else before
    perm = [k for k in range(len(x.shape)) if k != along] + [along]
    made = Expansion(graph, node, context)
    weights = made.constant("triangle", np.ascontiguousarray(matrix))
    is_last = along == len(perm) - 1
    row = x if is_last else made.add("Transpose", "turned", [x], perm=perm)
    if is_last:
        made.add("MatMul", "sums", [row, weights], made.y)
    else:
        sums = made.add("MatMul", "sums", [row, weights])
        made.add("Transpose", "back", [sums], made.y, perm=np.argsort(perm).tolist())
    return REWRITTEN


def _put_dft(graph: Graph, node: Node, context: Context) -> Outcome:
    x, dims = node.inputs[0], len(node.inputs[0].shape)
    axis, length = _dft_numbers(node, graph.opset)
    if axis is None or not isinstance(parts := x.shape[-1], int):
        return Declined("DFT along an axis, or of a length, that is not constant")
    along = axis % dims
    size = x.shape[along]
    if not isinstance(size, int) or dims < 2 or along == dims - 1:
        return Declined("DFT along an axis of a size that is not known")
    matrix = _waves(size, parts, length or size, node)
    if matrix is None or matrix.size > MOST_WEIGHTS:
        return Declined("DFT of a spectrum alone, or of too many numbers")
    perm = [k for k in range(dims - 1) if k != along] + [along, dims - 1]
    made = Expansion(graph, node, context)
    turned = x if along == dims - 2 else made.add("Transpose", "turned", [x], perm=perm)
    rows = _reshaped(made, "rows", turned, [*[0] * (dims - 2), size * parts])
    product = made.add("MatMul", "product", [rows, made.constant("waves", matrix)])
    sizes = made.constant("sizes", np.array([*[0] * (dims - 2), -1, 2]))
    if along == dims - 2:
        made.add("Reshape", "parts", [product, sizes], made.y)
    else:
        found = made.add("Reshape", "parts", [product, sizes])
        made.add("Transpose", "back", [found], made.y, perm=np.argsort(perm).tolist())
    return REWRITTEN


def _dft_numbers(node: Node, opset: int) -> tuple[int | None, int | None]:
    """The axis and the length; no axis where one of them is not constant.

    From opset 20 on the axis is an input; before it is an attribute.
    """
    given = [input_at(node, at) for at in (1, 2)]
    length, axis = (constant(each) for each in given)
    is_known = all(
        each is None or value is not None
        for each, value in zip(given, (length, axis), strict=True)
    )
    if not is_known:
        return None, None
    usual = int(node.attrs.get("axis", 1 if opset < _AXIS_GIVEN else -2))
    return (
        usual if axis is None else int(axis.reshape(())),
        None if length is None else int(length.reshape(())),
    )


def _waves(size: int, parts: int, length: int, node: Node) -> NDArray[np.float32] | None:
    inverse, onesided = (bool(node.attrs.get(each, 0)) for each in ("inverse", "onesided"))
    if inverse and onesided:
        return None
    found = fourier(size, parts, length, inverse=inverse, onesided=onesided)
    return found.astype(np.float32)


def _reshaped(made: Expansion, what: str, tensor: Tensor, sizes: list[Any]) -> Tensor:
    shape = made.constant(f"{what}_sizes", np.array(sizes))
    return made.add("Reshape", what, [tensor, shape])
