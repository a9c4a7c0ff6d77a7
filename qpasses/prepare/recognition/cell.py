"""A cell: one step of an LSTM, GRU or RNN, with its weights as a node of ONNX has them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qpasses.ir.graph import Tensor
from qpasses.ir.recurrent_nodes import Activations
from qpasses.prepare.recognition.affine import (
    Affine,
    Lead,
    Numbers,
    Reading,
    Term,
    fit,
    merged,
    width,
)
from qpasses.prepare.recognition.gates import Function, plain


@dataclass(frozen=True)
class Cell:
    """A step: what it reads, and its weights as W, R, B and P of the node have them.

    ``x``: what comes in; ``h`` and ``c``: the states before; ``c_new``: that of an LSTM after.
    """

    op: str
    x: Tensor
    h: Tensor
    w: Numbers
    r: Numbers
    b: Numbers
    p: Numbers
    functions: Sequence[Function]
    c: Tensor | None = None
    c_new: Tensor | None = None
    linear_before_reset: bool = False

    @property
    def hidden(self) -> int:
        """How many numbers the state has."""
        return int(self.r.shape[2])

    @property
    def activations(self) -> Activations:
        """The functions as attributes have them."""
        return Activations(
            [each.name for each in self.functions],
            [each.alpha for each in self.functions if each.alpha is not None],
            [each.beta for each in self.functions if each.beta is not None],
        )

    def weighs_as(self, other: "Cell") -> bool:
        """Whether it is the same step with other inputs."""
        return (
            self.op == other.op
            and self.functions == other.functions
            and self.linear_before_reset == other.linear_before_reset
            and all(
                np.array_equal(ours, theirs)
                for ours, theirs in (
                    (self.w, other.w),
                    (self.r, other.r),
                    (self.b, other.b),
                    (self.p, other.p),
                )
            )
        )


def assembled(
    op: str,
    h: Tensor,
    reading: Reading,
    gates: Sequence[Affine],
    functions: Sequence[Function],
    peepholes: Sequence[Tensor | None] = (),
    inner: Numbers | None = None,
) -> Cell | None:
    """The cell whose gates are functions of these sums, in ONNX's order.

    ``peepholes``: the cell state that each gate may see, number by number; ``inner``: the bias
    that the last one has within the reset. None where the gates read anything beside ``h``
    and one more tensor, or not row by row.
    """
    h, size = plain(h), width(h)
    if size is None:
        return None
    seen = [*peepholes, *[None] * (len(gates) - len(peepholes))]
    split = [_split(each, h, state, size) for each, state in zip(gates, seen, strict=True)]
    found = [each for each in split if each is not None]
    sources = {id(t.source): t.source for each in found for t in each.terms}
    x = [each for each in sources.values() if each is not h]
    rows = _sizes(reading.lead(h))
    leads = [*(each.lead for each in gates), *(_sizes(reading.lead(each)) for each in x)]
    if len(found) < len(gates) or len(x) != 1 or not all(fit(each, rows) for each in leads):
        return None
    inputs = width(x[0])
    if inputs is None:
        return None
    bias = np.concatenate([each.bias for each in found])
    second = np.zeros_like(bias)
    if inner is not None:
        second[-size:] = inner
    return Cell(
        op,
        x[0],
        h,
        np.concatenate([each.matrix(x[0], inputs) for each in found])[None],
        np.concatenate([each.matrix(h, size) for each in found])[None],
        np.concatenate([bias, second])[None],
        np.concatenate([found[k].peephole for k in _PEEPHOLES if k < len(found)])[None],
        functions,
    )


def _sizes(lead: Lead) -> Lead:
    """Those of rows, wherever a size of 1 stands among them."""
    return tuple(size for size in lead if size != 1)


_PEEPHOLES = 0, 1, 2
"""The gates i, o and f, in this order."""


@dataclass(frozen=True)
class _Gate:
    """What goes into a gate: products with sources, bias and peephole."""

    terms: Sequence[Term]
    bias: Numbers
    peephole: Numbers

    def matrix(self, source: Tensor, size: int) -> Numbers:
        """The rows of W or R: by which numbers it takes those of ``source``."""
        for each in self.terms:
            if each.source is source and each.matrix is not None:
                return np.asarray(each.matrix.T, np.float32)
        return np.zeros((len(self.bias), size), np.float32)


def _split(rows: Affine, h: Tensor, state: Tensor | None, size: int) -> _Gate | None:
    """``rows`` by source; None where they have another width, or are cut otherwise."""
    terms, peephole = list[Term](), np.zeros(size, np.float32)
    for each in rows.terms:
        source = plain(each.source)
        if each.matrix is not None:
            terms.append(Term(source, each.matrix))
        elif each.factor is not None and source is state:
            peephole = np.broadcast_to(each.factor, (size,))
        elif each.factor is not None and width(source) == size:
            diagonal = np.diag(np.broadcast_to(each.factor, (size,)))
            terms.append(Term(source, np.asarray(diagonal)))
        else:
            return None
    terms = merged(terms)
    is_whole = all(each.matrix is not None and each.matrix.shape[1] == size for each in terms)
    if not is_whole or rows.bias.size not in (1, size):
        return None
    bias = np.broadcast_to(np.asarray(rows.bias, np.float32), (size,))
    return _Gate(terms, bias, np.asarray(peephole, np.float32))
