"""Cells as they are written: what new state follows an old one as in an LSTM, GRU or RNN."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import numpy as np

from qpasses.ir.graph import Tensor, producer
from qpasses.prepare.recognition.affine import (
    Affine,
    Reading,
    Term,
)
from qpasses.prepare.recognition.cell import Cell, assembled
from qpasses.prepare.recognition.gates import (
    Function,
    Gate,
    complement,
    function_of,
    gate_of,
    plain,
)
from qpasses.prepare.recognition.monomials import monomials


class CellReading:
    """Reads the cell that computes a new state from an old one."""

    def __init__(self, reading: Reading) -> None:
        """By what ``reading`` finds constant."""
        self._reading = reading

    def rnn(self, h_new: Tensor, h: Tensor) -> Cell | None:
        """The RNN whose state follows ``h``."""
        gate = self._gate(h_new)
        return (
            None
            if gate is None
            else assembled("RNN", h, self._reading, [gate.rows], [gate.function])
        )

    def lstm(
        self, h_new: Tensor, h: Tensor, c: Tensor | None = None, c_new: Tensor | None = None
    ) -> Cell | None:
        """The LSTM whose states follow ``h`` and ``c``.

        Where ``c`` or ``c_new`` is not given it is what stands in its place.
        """
        for o_tensor, state, last in self._shown(h_new):
            if c_new is not None and state is not plain(c_new):
                continue
            self._reading.keep_whole(state)
            o = self._gate(o_tensor)
            if o is None:
                continue
            for i, f, g, old in self._kept_and_new(state):
                is_old = c is None or old is plain(c)
                if not is_old or not i.function == f.function == o.function:
                    continue
                rows = [each.rows for each in (i, o, f, g)]
                peepholes = old, state, old, None
                functions = i.function, g.function, last
                found = assembled("LSTM", h, self._reading, rows, functions, peepholes)
                if found is not None:
                    return replace(found, c=old, c_new=state)
        return None

    def _shown(self, h_new: Tensor) -> Iterator[tuple[Tensor, Tensor, Function]]:
        """o, c and the function of ``h_new = o * function (c)``."""
        for first, second in self._factors(h_new):
            node = producer(plain(second))
            function = function_of(node, self._reading)
            if node is not None and function is not None:
                yield first, plain(node.inputs[0]), function

    def _kept_and_new(self, state: Tensor) -> Iterator[tuple[Gate, Gate, Gate, Tensor]]:
        """i, f, g and c of ``state = f * c + i * g``."""
        node = producer(state)
        if node is None or node.op != "Add":
            return
        for kept, new in permutations(node.inputs):
            for f_tensor, c in self._factors(kept):
                for i_tensor, g_tensor in self._factors(new):
                    f, i, g = (self._gate(each) for each in (f_tensor, i_tensor, g_tensor))
                    if f is not None and i is not None and g is not None:
                        yield i, f, g, plain(c)

    def gru(self, h_new: Tensor, h: Tensor) -> Cell | None:
        """The GRU whose state follows ``h``."""
        for z, n in self._blended(h_new, h):
            for found in self._with_reset(z, n, plain(h)):
                return found
        return None

    def _blended(self, h_new: Tensor, h: Tensor) -> Iterator[tuple[Gate, Gate]]:
        """z and n of ``h_new = (1 - z) * n + z * h``, in whatever way that is written."""
        sums, tensors = monomials(h_new, plain(h), self._reading)
        old = id(plain(h))
        for z, n in permutations([key for key in tensors if key != old], 2):
            for is_kept in (True, False):
                kept = {_key(z, old): 1.0, _key(n): 1.0, _key(z, n): -1.0}
                new = {_key(old): 1.0, _key(z, old): -1.0, _key(z, n): 1.0}
                if sums != (kept if is_kept else new):
                    continue
                gate, state = self._gate(tensors[z]), self._gate(tensors[n])
                gate = gate if gate is None or is_kept else complement(gate)
                if gate is not None and state is not None:
                    yield gate, state

    def _with_reset(self, z: Gate, n: Gate, h: Tensor) -> Iterator[Cell]:
        """The GRU of update gate ``z`` and new state ``n``, whose reset gate stands in n."""
        for term in n.rows.terms:
            for r_tensor, reset in self._factors(term.source):
                r = self._gate(r_tensor)
                if r is None or r.function != z.function:
                    continue
                others = [each for each in n.rows.terms if each is not term]
                inside = self._inside(term, plain(reset), h)
                if inside is None or any(plain(each.source) is h for each in others):
                    continue
                candidate = replace(n.rows, terms=[*others, *inside.terms])
                found = assembled(
                    "GRU",
                    h,
                    self._reading,
                    [z.rows, r.rows, candidate],
                    [z.function, n.function],
                    inner=inside.bias,
                )
                if found is not None:
                    yield replace(found, linear_before_reset=term.matrix is None)

    def _inside(self, term: Term, reset: Tensor, h: Tensor) -> Affine | None:
        """What the reset gate multiplies, as rows: ``h`` itself, or a product of it."""
        if term.matrix is not None:
            is_state = reset is h
            return Affine([Term(h, term.matrix)], np.zeros(()), ()) if is_state else None
        inside = self._reading.summed(reset)
        is_whole = term.factor is not None and bool(np.all(term.factor == 1))
        only = all(
            plain(each.source) is h and each.matrix is not None for each in inside.terms
        )
        return inside if is_whole and inside.terms and only else None

    def _gate(self, tensor: Tensor) -> Gate | None:
        return gate_of(tensor, self._reading)

    def _factors(self, tensor: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The factors of a product, in both orders."""
        node = producer(plain(tensor))
        if node is not None and node.op == "Mul" and not node.domain:
            yield from permutations(node.inputs)


def _key(*factors: int) -> tuple[int, ...]:
    return tuple(sorted(factors))
