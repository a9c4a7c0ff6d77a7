"""Affine rows: what a tensor is of others, through constant matrices, factors and summands."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import Node, Tensor, constant, input_at, producer

Numbers: TypeAlias = NDArray[Any]
Lead: TypeAlias = tuple[Any, ...]
"""The sizes of a tensor but for the last: numbers, or names of free ones."""


@dataclass(frozen=True)
class Term:
    """A source, by ``matrix`` or, number by number, by ``factor``: one of them is given."""

    source: Tensor
    matrix: Numbers | None = None
    factor: Numbers | None = None

    def scaled(self, by: Numbers) -> "Term":
        """It times one number for each column."""
        if self.matrix is not None:
            return replace(self, matrix=self.matrix * by)
        assert self.factor is not None
        return replace(self, factor=self.factor * by)

    def columns(self, part: slice) -> "Term | None":
        """A part of it; None where that of the source would have to be taken."""
        if self.matrix is not None:
            return replace(self, matrix=self.matrix[:, part])
        return None


@dataclass(frozen=True)
class Affine:
    """Rows that are the sum of ``terms`` and ``bias``, of one number or one for each column.

    ``joined``: the sources, where the rows are these, one beside the other, and nothing else.
    """

    terms: Sequence[Term]
    bias: Numbers
    lead: Lead
    joined: Sequence[Tensor] = ()

    @property
    def is_constant(self) -> bool:
        """Whether no source is in it."""
        return not self.terms and not self.joined

    def by(self, factors: Numbers) -> "Affine":
        """It times one number, or one for each column."""
        terms = [each.scaled(factors) for each in self.terms]
        return Affine(terms, self.bias * factors, self.lead)


def width(tensor: Tensor) -> int | None:
    """Its last size, where that is a number."""
    last = tensor.shape[-1] if tensor.shape else None
    return last if isinstance(last, int) else None


def without_ones(lead: Lead) -> Lead:
    """``lead`` from the first size on that is not 1: what broadcasting does not see."""
    first = next((k for k, size in enumerate(lead) if size != 1), len(lead))
    return lead[first:]


def fit(first: Lead, second: Lead) -> bool:
    """Whether rows of these sizes stand beside each other, for all that is known of them."""
    ours, theirs = without_ones(first), without_ones(second)
    return len(ours) == len(theirs) and all(
        a == b or not (isinstance(a, int) and isinstance(b, int))
        for a, b in zip(ours, theirs, strict=True)
    )


class Reading:
    """Reads tensors as affine rows, as far back as they are that: what is not is a source.

    ``value`` says what is constant, in a body also what it gets from outside; ``lead`` what
    sizes a source has but for its last.
    """

    def __init__(
        self,
        value: Callable[[Tensor], Numbers | None] = constant,
        lead: "Callable[[Tensor], Lead] | None" = None,
    ) -> None:
        """Know of nothing yet."""
        self.value, self.lead = value, lead or lead_of
        self._known: dict[int, tuple[Tensor, Affine]] = {}
        self._whole: dict[int, Tensor] = {}

    def keep_whole(self, tensor: Tensor) -> None:
        """Take ``tensor`` for a source from now on, whatever it is made of."""
        if id(tensor) not in self._whole:
            self._whole[id(tensor)] = tensor
            self._known.clear()

    @contextmanager
    def whole(self, *tensors: Tensor) -> Iterator[None]:
        """Take ``tensors`` for sources as long as this lasts."""
        before = self._whole
        self._whole = {**before, **{id(each): each for each in tensors}}
        is_new = len(self._whole) > len(before)
        if is_new:
            self._known.clear()
        yield
        self._whole = before
        if is_new:
            self._known.clear()

    def of(self, tensor: Tensor) -> Affine:
        """``tensor`` as an affine row, of itself if need be."""
        if id(tensor) not in self._known:
            self._known[id(tensor)] = tensor, self._read(tensor) or self._itself(tensor)
        return self._known[id(tensor)][1]

    def _itself(self, tensor: Tensor) -> Affine:
        return Affine([], np.zeros((), np.float32), self.lead(tensor), [tensor])

    def summed(self, tensor: Tensor) -> Affine:
        """The same, as a sum."""
        return _as_sum(self.of(tensor))

    def _read(self, tensor: Tensor) -> Affine | None:
        values = self.value(tensor)
        if values is not None:
            return _of_constant(values)
        node = producer(tensor)
        if node is None or node.domain or id(tensor) in self._whole:
            return None
        if node.op not in _READERS or not tensor.shape:
            return None
        return _READERS[node.op](self, node, tensor)

    def product(self, node: Node, _tensor: Tensor) -> Affine | None:
        """MatMul with a constant matrix."""
        return self._by_matrix(node.inputs[0], self.value(node.inputs[1]))

    def gemm(self, node: Node, _tensor: Tensor) -> Affine | None:
        """Gemm with a constant matrix."""
        matrix, c = self.value(node.inputs[1]), input_at(node, 2)
        if matrix is None or node.attrs.get("transA", 0):
            return None
        matrix = matrix.T if node.attrs.get("transB", 0) else matrix
        found = self._by_matrix(node.inputs[0], matrix)
        if found is None:
            return None
        found = _scaled(found, float(node.attrs.get("alpha", 1)))
        if c is None:
            return found
        if self.value(c) is None and width(c) != matrix.shape[1]:
            return None
        return added(found, _scaled(self.summed(c), float(node.attrs.get("beta", 1))))

    def _by_matrix(self, x: Tensor, matrix: Numbers | None) -> Affine | None:
        """``x`` by a matrix: a source where it is a sum, since matrices stay as they are."""
        rows = self.of(x)
        sources = rows.joined or [x]
        if matrix is None or matrix.ndim != 2:
            return None
        sizes = [width(each) or 0 for each in sources]
        if 0 in sizes or sum(sizes) != matrix.shape[0]:
            return None
        parts = np.split(matrix, np.cumsum(sizes)[:-1])
        found = zip(sources, parts, strict=True)
        terms = [Term(x, part) for x, part in found if not self._is_zero(x)]
        return Affine(merged(terms), np.zeros((), matrix.dtype), rows.lead)

    def _is_zero(self, tensor: Tensor) -> bool:
        values = self.value(tensor)
        return values is not None and not values.any()

    def add(self, node: Node, _tensor: Tensor) -> Affine | None:
        """Add, and Sub."""
        if not self._keep_width(node):
            return None
        first, second = (self.summed(each) for each in node.inputs)
        return added(first, _scaled(second, -1) if node.op == "Sub" else second)

    def _keep_width(self, node: Node) -> bool:
        """Whether no column but of constants is repeated."""
        varying = [each for each in node.inputs if self.value(each) is None]
        size = width(node.outputs[0])
        return size is not None and all(width(each) == size for each in varying)

    def scale(self, node: Node, _tensor: Tensor) -> Affine | None:
        """Mul, and Div by a constant, with one number or one for each column."""
        if not self._keep_width(node):
            return None
        first, second = (self.summed(each) for each in node.inputs)
        if node.op == "Mul" and first.is_constant:
            first, second = second, first
        is_repeated = without_ones(second.lead) and not fit(first.lead, second.lead)
        if not second.is_constant or is_repeated:
            return None
        return first.by(1 / second.bias if node.op == "Div" else second.bias)

    def negate(self, node: Node, _tensor: Tensor) -> Affine | None:
        """Neg."""
        return _scaled(self.summed(node.inputs[0]), -1)

    def same(self, node: Node, _tensor: Tensor) -> Affine:
        """Identity."""
        return self.of(node.inputs[0])

    def shaped(self, node: Node, tensor: Tensor) -> Affine | None:
        """Reshape and its like, where sizes of 1 come and go before the last size."""
        x = node.inputs[0]
        if not x.shape or not tensor.shape or width(x) is None or width(x) != width(tensor):
            return None
        old, new = (tuple(each.shape[:-1]) for each in (x, tensor))
        if [n for n in old if n != 1] != [n for n in new if n != 1]:
            return None
        return replace(self.of(x), lead=new)

    def join(self, node: Node, tensor: Tensor) -> Affine | None:
        """Concat of sources along the last axis, of constants too."""
        axis, dims = int(node.attrs["axis"]), len(tensor.shape or ())
        sources, leads = list[Tensor](), list[Lead]()
        for each in node.inputs:
            rows = self.of(each)
            if not rows.joined and not rows.is_constant:
                return None
            sources += rows.joined or [each]
            leads.append(rows.lead)
        is_by_row = all(fit(leads[0], each) for each in leads)
        if axis % dims != dims - 1 or not is_by_row:
            return None
        return Affine([], np.zeros((), np.float32), leads[0], sources)

    def part(self, node: Node, tensor: Tensor) -> Affine | None:
        """Split and Slice along the last axis."""
        columns = columns_of(node, tensor, self.value)
        return None if columns is None else cut(self.summed(node.inputs[0]), columns)


def lead_of(tensor: Tensor) -> Lead:
    """Its sizes but for the last; what is not known is like nothing else."""
    if tensor.shape is None:
        return (f"sizes of {tensor.name}",)
    sizes = enumerate(tensor.shape[:-1])
    return tuple(f"{k} of {tensor.name}" if n is None else n for k, n in sizes)


def _of_constant(values: Numbers) -> Affine | None:
    """A number, or a row of them, perhaps the same one for each row of others."""
    rows = values.reshape(-1, *values.shape[-1:])
    if values.dtype.kind != "f" or not len(rows) or not (rows == rows[0]).all():
        return None
    return Affine([], rows[0], values.shape[:-1])


def _as_sum(rows: Affine) -> Affine:
    """A source alone as a term; of several beside each other each has its columns."""
    if not rows.joined:
        return rows
    if len(rows.joined) == 1:
        alone = Term(rows.joined[0], factor=np.ones((), np.float32))
        return Affine([alone], rows.bias, rows.lead)
    sizes = [width(each) or 0 for each in rows.joined]
    eye = np.eye(sum(sizes), dtype=np.float32)
    parts = np.split(eye, np.cumsum(sizes)[:-1])
    terms = [Term(*each) for each in zip(rows.joined, parts, strict=True)]
    return Affine(merged(terms), rows.bias, rows.lead)


def _scaled(rows: Affine, factor: float) -> Affine:
    return rows if factor == 1 else rows.by(np.array(factor, np.float32))


def added(first: Affine, second: Affine) -> Affine | None:
    """Their sum; None where rows of one would be repeated for all of the other."""
    ones = [each.is_constant and not without_ones(each.lead) for each in (first, second)]
    if not fit(first.lead, second.lead) and not any(ones):
        return None
    lead = max(first.lead, second.lead, key=len)
    return Affine(merged([*first.terms, *second.terms]), _sum(first.bias, second.bias), lead)


def merged(terms: Sequence[Term]) -> list[Term]:
    """Those of one source and kind as one."""
    found: dict[tuple[int, bool], Term] = {}
    for each in terms:
        key = id(each.source), each.matrix is None
        old = found.get(key)
        if old is None:
            found[key] = each
        elif old.matrix is not None and each.matrix is not None:
            found[key] = replace(old, matrix=_sum(old.matrix, each.matrix))
        elif old.factor is not None and each.factor is not None:
            found[key] = replace(old, factor=_sum(old.factor, each.factor))
    return [*found.values()]


def _sum(first: Numbers, second: Numbers) -> Numbers:
    """Rounded once."""
    if not np.any(first) and np.ndim(first) <= np.ndim(second):
        return np.asarray(second)
    if not np.any(second) and np.ndim(second) <= np.ndim(first):
        return np.asarray(first)
    total = np.add(first, second, dtype=np.float64)
    return np.asarray(total, np.result_type(first, second))


def cut(rows: Affine, columns: slice) -> Affine | None:
    """Some columns of ``rows``; of a source itself they are a product with a part of 1."""
    terms: list[Term] = []
    for each in rows.terms:
        size = width(each.source)
        if each.matrix is None and size is not None and each.factor is not None:
            chosen = np.diag(np.broadcast_to(each.factor, (size,)))
            each = Term(each.source, np.asarray(chosen, np.float32))
        part = each.columns(columns)
        if part is None:
            return None
        terms.append(part)
    bias = rows.bias if rows.bias.size == 1 else rows.bias[columns]
    return Affine(terms, bias, rows.lead)


def columns_of(
    node: Node, tensor: Tensor, value: Callable[[Tensor], Numbers | None]
) -> slice | None:
    """The columns that Split or Slice puts into ``tensor``; None for any other part."""
    x = node.inputs[0]
    size, dims = width(x), len(x.shape or ())
    if size is None:
        return None
    if node.op == "Split":
        if int(node.attrs.get("axis", 0)) % dims != dims - 1:
            return None
        sizes = [width(each) for each in node.outputs]
        place = next(k for k, each in enumerate(node.outputs) if each is tensor)
        known = [each for each in sizes[: place + 1] if each is not None]
        if len(known) <= place:
            return None
        return slice(sum(known[:-1]), sum(known))
    given = [value(each) for each in node.inputs[1:]]
    if any(each is None or each.size != 1 for each in given) or len(given) < 3:
        return None
    start, end, axis, *step = (int(np.ravel(each)[0]) for each in given if each is not None)
    if axis % dims != dims - 1 or step not in ([], [1]):
        return None
    return slice(*slice(start, end).indices(size))


_READERS: Mapping[str, Callable[[Reading, Node, Tensor], Affine | None]] = {
    "Add": Reading.add,
    "Concat": Reading.join,
    "Div": Reading.scale,
    "Flatten": Reading.shaped,
    "Gemm": Reading.gemm,
    "Identity": Reading.same,
    "MatMul": Reading.product,
    "Mul": Reading.scale,
    "Neg": Reading.negate,
    "Reshape": Reading.shaped,
    "Slice": Reading.part,
    "Split": Reading.part,
    "Squeeze": Reading.shaped,
    "Sub": Reading.add,
    "Unsqueeze": Reading.shaped,
}
