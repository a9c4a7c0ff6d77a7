"""Cells as they are written: what new state follows an old one as in an LSTM, GRU or RNN."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from qpasses.ir.graph import Tensor, producer
from qpasses.prepare.recognition.affine import (
    Affine,
    Reading,
    Term,
    width,
)
from qpasses.prepare.recognition.cell import Cell, assembled
from qpasses.prepare.recognition.gates import (
    Function,
    Gate,
    complement,
    function_of,
    gate_of,
    number_of,
    plain,
)
from qpasses.prepare.recognition.monomials import monomials


class CellReading:
    """Reads the cell that computes a new state from an old one."""

    def __init__(self, reading: Reading) -> None:
        """By what ``reading`` finds constant."""
        self._reading = reading

    def of(self, h_new: Tensor, h: Tensor) -> list[Cell]:
        """The cells whose state ``h_new`` follows ``h``.

        Several where functions are alike: of an LSTM i and the new values may change places.
        """
        with self._reading.whole(plain(h)):
            others = self.gru(h_new, h), self.rnn(h_new, h)
            return [*self._lstms(h_new, h), *(each for each in others if each is not None)]

    def old_states(self, h_new: Tensor) -> list[Tensor]:
        """The tensors that may be the state before, since gates of ``h_new`` read them."""
        gates = [self._gate(each) for each in self._near(h_new)]
        terms = [term for gate in gates if gate is not None for term in gate.rows.terms]
        found = {id(each.source): each.source for each in terms if each.matrix is not None}
        return [each for each in found.values() if width(each) == width(h_new)]

    def _near(self, h_new: Tensor) -> list[Tensor]:
        """What is a gate where ``h_new`` is the state of a cell: of an LSTM it is o alone."""
        node = producer(h_new)
        if node is None or node.domain or width(h_new) is None:
            return []
        if node.op == "Mul":
            return [o for o, _, _ in self._shown(h_new)]
        if node.op not in ("Add", "Sub"):
            return [h_new]
        return [*monomials(h_new, None, self._reading)[1].values()]

    def rnn(self, h_new: Tensor, h: Tensor) -> Cell | None:
        """The RNN whose state follows ``h``."""
        gate = self._gate(h_new)
        if gate is None:
            return None
        return assembled("RNN", h, self._reading, [gate.rows], [gate.function])

    def lstm(self, h_new: Tensor, h: Tensor, c: Tensor, c_new: Tensor) -> Cell | None:
        """The LSTM whose states follow ``h`` and ``c``."""
        for found in self._lstms(h_new, h):
            if found.c is plain(c) and found.c_new is plain(c_new):
                return found
        return None

    def _lstms(self, h_new: Tensor, h: Tensor) -> Iterator[Cell]:
        """The same, with whatever stands in the places of the cell states."""
        for o, state, last in self._shown(h_new):
            for f, old, i, g in self._kept_and_new(state):
                with self._reading.whole(state, old):
                    found = self._lstm(h, [i, o, f, g], old, state, last)
                if found is not None:
                    yield replace(found, c=old, c_new=state)

    def _lstm(
        self, h: Tensor, tensors: Sequence[Tensor], c: Tensor, c_new: Tensor, last: Function
    ) -> Cell | None:
        """The LSTM of the gates i, o, f and g."""
        gates = [gate for each in tensors if (gate := self._gate(each)) is not None]
        if len(gates) < len(tensors) or len({each.function for each in gates[:3]}) > 1:
            return None
        rows = [each.rows for each in gates]
        functions = gates[0].function, gates[3].function, last
        return assembled("LSTM", h, self._reading, rows, functions, (c, c_new, c, None))

    def _shown(self, h_new: Tensor) -> Iterator[tuple[Tensor, Tensor, Function]]:
        """o, c and the function of ``h_new = o * function (c)``."""
        for first, second in self._factors(h_new):
            node = producer(plain(second))
            function = function_of(node, self._reading)
            if node is not None and function is not None:
                yield first, plain(node.inputs[0]), function

    def _kept_and_new(self, state: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """f, c, i and g of ``state = f * c + i * g``."""
        node = producer(state)
        if node is None or node.op != "Add":
            return
        for kept, new in permutations(node.inputs):
            for f, c in self._factors(kept):
                for i, g in self._factors(new):
                    if all(self._gate(each) is not None for each in (f, i, g)):
                        yield f, plain(c), i, g

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

    def gru_from_zero(self, h_new: Tensor, h: Tensor) -> Iterator[Cell]:
        """The GRUs whose state follows ``h`` of zeros, of which no product is left."""
        sums, tensors = monomials(h_new, None, self._reading)
        for z, n in permutations(tensors, 2):
            is_kept = sums == {_key(n): 1.0, _key(z, n): -1.0}
            gate, state = self._gate(tensors[z]), self._gate(tensors[n])
            if gate is not None and not is_kept:
                gate = complement(gate) if sums == {_key(z, n): 1.0} else None
            if gate is None or state is None:
                continue
            for term in state.rows.terms:
                reset = self._reset_of_zero(term)
                if reset is None or reset.function != gate.function:
                    continue
                others = [each for each in state.rows.terms if each is not term]
                rows = [gate.rows, reset.rows, replace(state.rows, terms=others)]
                functions = [gate.function, state.function]
                found = assembled("GRU", h, self._reading, rows, functions, inner=term.factor)
                if found is not None:
                    yield replace(found, linear_before_reset=term.matrix is None)

    def _reset_of_zero(self, term: Term) -> Gate | None:
        """The reset gate of ``term``, times zeros, or the bias that was added to them."""
        if term.matrix is None:
            return self._gate(term.source)
        for r, zero in self._factors(term.source):
            if number_of(zero, self._reading) == 0:
                return self._gate(r)
        return None

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
