"""ExpandEinsum: a sum of products over indices is Transpose, Reshape, MatMul and the like."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from string import ascii_letters
from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, Tensor, rank
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.ir.unknown_sizes import FREE
from qpasses.prepare.recognition.expansion import Expansion


class ExpandEinsum(Pass):
    """Replace Einsum of one tensor or two by the ops that do it.

    before: ``y = Einsum <equation = "bqhd,bkhd->bhqk"> (a, b)``
    after:  ``s = Transpose (a); t = Transpose (b); y = MatMul (s, t)``, with Reshapes where
            several indices are summed over or stand side by side; of one tensor ReduceSum and
            Transpose; without a sum Mul
    **Exact** in real arithmetic: the same products are summed.
    """

    op_types: ClassVar = frozenset({"Einsum"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where ranks are known, and the sizes of what is put side by side."""
        if node.domain or node.name in context.selection.excluded:
            return NOT_MINE
        ranks = [rank(each) for each in node.inputs]
        if len(ranks) > 2 or any(each.dtype != np.float32 for each in node.inputs):
            return Declined("Einsum of more than two tensors, or of other types than float32")
        read = _read(node.attrs["equation"], ranks)
        if read is None:
            return Declined("Einsum with a diagonal, or of tensors of unknown rank")
        if len(ranks) == 2:
            sizes = _sizes(node.inputs, read.operands)
            groups = _Groups.of(read)
            if sizes is None or not groups.are_known(sizes):
                return Declined(
                    f"Einsum over indices of sizes that differ, or are not known: {FREE}"
                )
            _put_product(Expansion(graph, node, context), read, groups, sizes)
        else:
            _put_sum(Expansion(graph, node, context), read)
        return REWRITTEN


@dataclass(frozen=True)
class _Equation:
    """The indices of each operand and of the result, those of an ellipsis among them."""

    operands: Sequence[str]
    result: str


def _read(text: str, ranks: Sequence[int | None]) -> _Equation | None:
    """None where a rank is not known, or an index stands twice in one operand."""
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = left.split(",")
    free = [each for each in ascii_letters if each not in text]
    hidden = max(
        (
            (dims or 0) - len(t.replace("...", ""))
            for t, dims in zip(terms, ranks, strict=False)
        ),
        default=0,
    )
    if len(terms) != len(ranks) or None in ranks or hidden > len(free):
        return None
    if not arrow:  # indices that stand once, in order
        letters = left.replace(",", "").replace(".", "")
        once = "".join(sorted(each for each in set(letters) if letters.count(each) == 1))
        right = ("..." if "..." in left else "") + once
    operands = []
    for term, dims in zip(terms, ranks, strict=True):
        count = (dims or 0) - len(term.replace("...", "")) if "..." in term else 0
        operands.append(term.replace("...", "".join(free[hidden - count : hidden])))
    result = right.replace("...", "".join(free[:hidden]) if "..." in left else "")
    fits = all(len(t) == dims for t, dims in zip(operands, ranks, strict=True))
    once_each = all(len(set(each)) == len(each) for each in (*operands, result))
    return _Equation(operands, result) if fits and once_each else None


def _sizes(inputs: Sequence[Tensor], operands: Sequence[str]) -> dict[str, int] | None:
    """Those of indices that are known; None where one is broadcast from a size of 1."""
    found: dict[str, int] = {}
    for tensor, operand in zip(inputs, operands, strict=True):
        for index, size in zip(operand, tensor.shape, strict=True):
            if isinstance(size, int) and found.setdefault(index, size) != size:
                return None
    return found


@dataclass(frozen=True)
class _Groups:
    """Indices by where they stand: in all three; in a and b; in a and y; in b and y; once."""

    batch: str
    summed: str
    left: str
    right: str
    lone: tuple[str, str]

    @classmethod
    def of(cls, read: _Equation) -> "_Groups":
        (a, b), y = read.operands, read.result
        return cls(
            "".join(each for each in y if each in a and each in b),
            "".join(each for each in a if each in b and each not in y),
            "".join(each for each in y if each in a and each not in b),
            "".join(each for each in y if each in b and each not in a),
            (
                "".join(each for each in a if each not in b and each not in y),
                "".join(each for each in b if each not in a and each not in y),
            ),
        )

    def are_known(self, sizes: dict[str, int]) -> bool:
        """Whether the sizes are of indices that are joined; one alone may be free."""
        joined = [each for each in (self.summed, self.left, self.right) if len(each) > 1]
        return all(index in sizes for index in "".join(joined))


def _put_product(
    made: Expansion, read: _Equation, groups: _Groups, sizes: dict[str, int]
) -> None:
    a, b = (
        _without(made, made.needed(at), read.operands[at], groups.lone[at], "ab"[at])
        for at in (0, 1)
    )
    if not groups.summed:
        _put_mul(made, read, groups, (a, b))
        return
    rows = _ordered(made, "a_rows", a, groups.batch + groups.left + groups.summed)
    columns = _ordered(made, "b_columns", b, groups.batch + groups.summed + groups.right)
    widths = [prod(sizes[i] for i in g) if len(g) != 1 else sizes.get(g, -1)
              for g in (groups.left, groups.summed, groups.right)]  # fmt: skip
    kept = [0] * len(groups.batch)
    if len(groups.left) != 1 or len(groups.summed) != 1:
        rows = _reshaped(made, "a_matrix", rows, [*kept, widths[0], widths[1]])
    if len(groups.right) != 1 or len(groups.summed) != 1:
        columns = _reshaped(made, "b_matrix", columns, [*kept, widths[1], widths[2]])
    order = groups.batch + groups.left + groups.right
    is_split = len(groups.left) != 1 or len(groups.right) != 1
    is_turned = order != read.result
    product = made.add(
        "MatMul", "product", [rows, columns], None if is_split or is_turned else made.y
    )
    if is_split:
        ends = [sizes.get(each, -1) for each in groups.left + groups.right]
        shape = made.constant("split_sizes", np.array([*kept, *ends], np.int64))
        product = made.add("Reshape", "split", [product, shape], None if is_turned else made.y)
    if is_turned:
        perm = [order.index(each) for each in read.result]
        made.add("Transpose", "result", [product], made.y, perm=perm)


def _put_mul(
    made: Expansion, read: _Equation, groups: _Groups, pair: Sequence[tuple[Tensor, str]]
) -> None:
    """Every index in its place of the result, 1 in the operand that lacks it."""
    ends = []
    for name, (tensor, indices) in zip("ab", pair, strict=True):
        wanted = "".join(each for each in read.result if each in indices)
        turned = _ordered(made, f"{name}_turned", (tensor, indices), wanted)
        missing = [at for at, each in enumerate(read.result) if each not in indices]
        if missing:
            axes = made.constant(f"{name}_axes", np.array(missing))
            turned = made.add("Unsqueeze", f"{name}_spread", [turned, axes])
        ends.append(turned)
    made.add("Mul", "product", ends, made.y)


def _put_sum(made: Expansion, read: _Equation) -> None:
    (indices,), y = read.operands, read.result
    lone = "".join(each for each in indices if each not in y)
    order = "".join(each for each in indices if each in y)
    if lone:
        axes = made.constant("axes", np.array([indices.index(each) for each in lone]))
        end = made.y if order == y else None
        total = made.add("ReduceSum", "sum", [made.needed(0), axes], end, keepdims=0)
    else:
        total = made.needed(0)
    if order != y or not lone:
        perm = [order.index(each) for each in y]
        made.add("Transpose", "result", [total], made.y, perm=perm)


def _without(
    made: Expansion, tensor: Tensor, indices: str, lone: str, name: str
) -> tuple[Tensor, str]:
    """Summed over the indices that nothing else has."""
    if not lone:
        return tensor, indices
    axes = made.constant(f"{name}_axes", np.array([indices.index(each) for each in lone]))
    total = made.add("ReduceSum", f"{name}_sum", [tensor, axes], keepdims=0)
    return total, "".join(each for each in indices if each not in lone)


def _ordered(made: Expansion, what: str, pair: tuple[Tensor, str], wanted: str) -> Tensor:
    tensor, indices = pair
    if indices == wanted:
        return tensor
    return made.add("Transpose", what, [tensor], perm=[indices.index(e) for e in wanted])


def _reshaped(made: Expansion, what: str, tensor: Tensor, sizes: Sequence[int]) -> Tensor:
    shape = made.constant(f"{what}_sizes", np.array(sizes, np.int64))
    return made.add("Reshape", what, [tensor, shape])
