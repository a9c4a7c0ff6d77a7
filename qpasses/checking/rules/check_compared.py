"""Comparisons of stored integers: as those of the numbers they stand for, code by code."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.checking.meaning import DifferenceError, Site
from qpasses.ir.graph import constant, varies
from qpasses.ir.record import Quantization

_ASKED: Mapping[str, Callable[..., NDArray[np.bool_]]] = {
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
}

COMPARED = frozenset(_ASKED)


def is_of_codes(site: Site) -> bool:
    """Whether ``site`` is a comparison, and reads stored integers."""
    known = site.pair.meanings
    found = [known.get(each.name) for each in site.node.inputs if varies(each)]
    return site.node.op in COMPARED and any(each and each.stored for each in found)


def compared(site: Site) -> Iterator[str]:
    """Each code, and each constant, give what their numbers give."""
    site.is_op(site.node.op)
    ours, theirs = site.node.inputs, site.first.inputs
    numbers = [constant(each) for each in theirs]
    pairs = zip(ours, theirs, numbers, strict=True)
    ways = [site.operand(a, b) for a, b, value in pairs if value is None]
    if len(ways) > 1:
        if ways[0] != ways[1]:
            yield "compares codes of two scales"
        return
    place = 1 if numbers[0] is None else 0
    codes, values = constant(ours[place]), numbers[place]
    if codes is None or values is None or codes.shape != values.shape:
        raise DifferenceError("compares with something that is not constant")
    if codes.dtype != np.dtype(ways[0].dtype):
        raise DifferenceError(f"compares codes with {codes.dtype}")
    for code, value in {*zip(codes.ravel().tolist(), values.ravel().tolist(), strict=True)}:
        if not _alike(site.node.op, place, ways[0], code, value):
            yield f"code {code} is not in the place of {value:g}"


def _alike(op: str, place: int, way: Quantization, code: int, value: Any) -> bool:
    """Whether every code asks ``code`` as its number asks ``value``."""
    all_codes = np.arange(way.type_limits[0], way.type_limits[1] + 1)
    levels = (all_codes - way.zero_point).astype(np.float32)
    reals = levels * np.float32(way.scale)
    sides = [(all_codes, code), (reals, np.float32(value))]
    first, second = (_ASKED[op](*(each if place else each[::-1])) for each in sides)
    return bool((first == second).all())
