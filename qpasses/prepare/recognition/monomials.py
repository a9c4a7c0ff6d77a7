"""Sums of products: a tensor as a polynomial of the gates and states it is made of."""

from collections.abc import Mapping
from typing import TypeAlias

from qpasses.ir.graph import Tensor, producer
from qpasses.prepare.recognition.affine import Reading
from qpasses.prepare.recognition.gates import function_of, number_of, plain

Products: TypeAlias = Mapping[tuple[int, ...], float]
"""By the ids of the factors, in order: with which number their product is in the sum."""

_DEEPEST = 6
"""So many nodes lie between a new state and its gates, at most."""


def monomials(
    tensor: Tensor, old: Tensor | None, reading: Reading
) -> tuple[Products, Mapping[int, Tensor]]:
    """The products that ``tensor`` is the sum of, and their factors.

    ``old``: the state before, where it is known: a factor, whatever it is made of.
    """
    factors: dict[int, Tensor] = {}
    return _expanded(tensor, old, reading, factors, _DEEPEST), factors


def _expanded(
    tensor: Tensor,
    old: Tensor | None,
    reading: Reading,
    factors: dict[int, Tensor],
    depth: int,
) -> Products:
    number, tensor = number_of(tensor, reading), plain(tensor)
    if number is not None:
        return {(): number}
    node = producer(tensor)
    is_sum = node is not None and node.op in ("Add", "Mul", "Neg", "Sub") and not node.domain
    is_leaf = tensor is old or function_of(node, reading) is not None or not depth
    if node is None or not is_sum or is_leaf:
        factors[id(tensor)] = tensor
        return {(id(tensor),): 1.0}
    first, *rest = (_expanded(each, old, reading, factors, depth - 1) for each in node.inputs)
    if node.op == "Neg":
        return {key: -value for key, value in first.items()}
    (second,) = rest
    found: dict[tuple[int, ...], float] = {}
    if node.op == "Mul":
        for a, left in first.items():
            for b, right in second.items():
                _add(found, tuple(sorted(a + b)), left * right)
    else:
        for key, value in first.items():
            _add(found, key, value)
        for key, value in second.items():
            _add(found, key, -value if node.op == "Sub" else value)
    return {key: value for key, value in found.items() if value}


def _add(found: dict[tuple[int, ...], float], key: tuple[int, ...], value: float) -> None:
    found[key] = found.get(key, 0.0) + value
