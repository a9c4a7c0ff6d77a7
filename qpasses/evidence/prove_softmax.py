"""Softmax by tables: how far from real arithmetic, and onnxruntime on the worst rows."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64
from opsets.op import Body, Constants
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.table_softmax import LARGEST_NUMERATORS
from opsets.qpasses_v1.table_softmax16 import FRACTION_BITS, terms_of
from qpasses.ir.runtime import run_op

_BITS = 200
"""Of the fractions in which exponentials are computed here."""

_CODES = 1 << 22
"""So many codes are run at most."""


def exponentials(scale: float) -> list[Fraction]:
    """exp(-scale * d) for d from 0 to 255; the error stays below 2**-180."""
    return [Fraction(each, 1 << _BITS) for each in _exponentials(scale)]


@lru_cache(maxsize=64)  # proof and check of a node, and of nodes like it, ask for the same
def _exponentials(scale: float) -> tuple[int, ...]:
    """By Taylor's series in integers of 200 bits.

    The exponent is halved until it is small, the result squared as often.
    """
    exponent, halvings, unit = Fraction(scale), 0, 1 << _BITS
    while exponent > Fraction(1, 2):
        exponent, halvings = exponent / 2, halvings + 1
    root, term, n = 0, unit, 0
    while term:
        root, n = root + term, n + 1
        term = floor(abs(term) * exponent / n) * (-1) ** n
    for _ in range(halvings):
        root = root * root >> _BITS
    found = [unit]
    for _ in range(255):
        found.append(found[-1] * root >> _BITS)
    return tuple(found)


def table_errors(
    given: Constants, x_scale: float, y_scale: float
) -> tuple[list[Fraction], list[Fraction]]:
    """By how much each denominator and each numerator differs from the real one.

    Numerators that saturate count as right.
    """
    terms, parts = (given[name].tolist() for name in ("denominators", "numerators"))
    most = LARGEST_NUMERATORS[given["y_zero"].dtype.itemsize]
    real = [terms[0] * each for each in _exponentials(x_scale)]
    step, unit = Fraction(y_scale), 1 << _BITS  # all that follows has one denominator
    whole, shares = step.numerator * unit, [step.denominator * each for each in real]
    return (
        [Fraction(abs(n * unit - each), unit) for n, each in zip(terms, real, strict=True)],
        [
            Fraction(0)
            if n == most and each > n * whole
            else Fraction(abs(n * whole - each), whole)
            for n, each in zip(parts, shares, strict=True)
        ],
    )


def worst_sum(errors: Iterable[Fraction], terms: Iterable[int], length: int) -> Fraction:
    """max over d of k * |r_d| / (A + k * T_d), k = length - 1, for the errors r of terms T.

    It is how far the sum of a row is off at most, relatively: where all other codes are alike.
    """
    others, terms = length - 1, [max(term, 0) for term in terms]
    above, below = 0, 1
    for error, term in zip(errors, terms, strict=True):
        over, under = others * error.numerator, error.denominator
        under *= terms[0] + others * term
        if over * below > above * under:
            above, below = over, under
    return Fraction(above, below)


def softmax_bound(given: Constants, x_scale: float, y_scale: float, length: int) -> float:
    """How far the quotient is from the exact one at most, in steps of y, before it is rounded.

    For every row of up to ``length`` codes. Let A be the largest denominator, e and E the
    real exponential of a code and their sum, S = A * E + r the sum of the denominators, and
    N = A * e / y_scale + p the numerator. The result is off by ``N / S - q = (p - q * r) / S``
    with ``q = e / (E * y_scale)``, where

    - S >= A, since a row holds its largest code, so ``|p| / S <= max |p| / A``;
    - |r| / S is a quotient of two sums over the other codes of the row, the largest when they
      are all alike: ``max over d of k * |r_d| / (A + k * T_d)``, k = length - 1;
    - q <= 1 / y_scale, and where q is beyond the last code only the last code counts.

    It is never more than all codes from the zero point on.
    """
    terms, parts = table_errors(given, x_scale, y_scale)
    largest = int(given["denominators"][0])
    span = max(int(given["y_max"]) - int(given["y_zero"]), 0)
    if largest < 1:
        return float(span)
    relative = worst_sum(terms, given["denominators"].tolist(), length)
    q = min(1 / Fraction(y_scale), Fraction(span))
    return min(float(q * relative + max(parts) / largest), float(span))


def table_errors16(given: Constants, x_scale: float) -> tuple[list[Fraction], list[Fraction]]:
    """By how much each entry of ``high`` and of ``low`` differs from the real one."""
    unit, largest = 1 << _BITS, int(given["high"][0])
    steps = (256 * x_scale, largest), (x_scale, 1 << FRACTION_BITS)
    high, low = (
        [
            Fraction(abs(entry * unit - one * each), unit)
            for entry, each in zip(given[name].tolist(), _exponentials(scale), strict=True)
        ]
        for name, (scale, one) in zip(("high", "low"), steps, strict=True)
    )
    return high, low


def softmax_bound16(given: Constants, x_scale: float, y_scale: float, length: int) -> float:
    """How far the quotient of TableSoftmax16 is from the exact one, like ``softmax_bound``.

    A term of high byte h differs from A * e by at most R_h = H_h + A * E_h * L + 1 / 2, where
    H_h is the error of its entry, E_h the real exponential of the high byte alone, L the
    largest error of ``low`` in units of 1, and a half is what rounding the product adds. It is
    T_h at least, with the last entry of ``low``. With the multiplier's relative error m, a
    level is off by ``(t * (1 + m) + A * e * m - q * r) / (S * y_scale)``, where t is the error
    of its term, r that of the sum S, and q = e / E, 1 at most.
    """
    high, low = table_errors16(given, x_scale)
    largest, one = int(given["high"][0]), 1 << FRACTION_BITS
    span = max(int(given["y_max"]) - int(given["y_zero"]), 0)
    if largest < 1 or int(given["low"][0]) != one:
        return float(span)
    of_low, unit = max(low) / one, 1 << _BITS
    errors = [
        error + Fraction(largest * each, unit) * of_low + Fraction(1, 2)
        for error, each in zip(high, _exponentials(256 * x_scale), strict=True)
    ]
    least = terms_of(np.arange(256) * 256 + 255, given["high"], given["low"])
    terms = [largest, *least.tolist()]  # the largest code itself, and others
    relative = worst_sum([Fraction(0), *errors], terms, length)
    steps = 1 / Fraction(y_scale)
    scale = Fraction(int(given["multiplier"]), 1 << int(given["shift"]))
    off = abs(scale / steps - 1)
    of_sum = min(steps, Fraction(span)) * (off * (1 + relative) + relative)
    return min(float(steps * (1 + off) * max(errors) / largest + of_sum), float(span))


def differing_rows(
    body: Body, given: Constants, length: int, attributes: Mapping[str, Any]
) -> int:
    """How many results of onnxruntime differ from the meaning, on rows that were made worst.

    Optimized and not, along the node's own axis, which is negative.
    """
    dtype = given["y_zero"].dtype
    dtype = np.dtype(np.uint8) if dtype.itemsize > 1 else dtype  # of x, whose type is not told
    rows = (np.iinfo(dtype).max - worst_rows(given, length)).astype(dtype)
    return _differing("TableSoftmax", body, rows, given, attributes)


def differing_rows16(
    body: Body, given: Constants, length: int, attributes: Mapping[str, Any]
) -> int:
    """The same of TableSoftmax16."""
    rows = (np.iinfo(np.int16).max - worst_rows16(given, length)).astype(np.int16)
    return _differing("TableSoftmax16", body, rows, given, attributes)


def _differing(
    op: str,
    body: Body,
    rows: NDArray[Any],
    given: Constants,
    attributes: Mapping[str, Any],
) -> int:
    x = rows.reshape(*rows.shape, *[1] * (-attributes["axis"] - 1))
    inputs = [x, *(given[name] for name in list(OPS[op].inputs)[1:])]
    expected = OPS[op].reference(*inputs, **attributes)
    runs = (run_op(op, body, inputs, attributes, optimize=each) for each in (False, True))
    return sum(int((found != expected).sum()) for found in runs)


def worst_rows(given: Constants, length: int) -> Int64:
    """[R, length]: distances from the largest code, of rows in which much can go wrong.

    One largest code among equal others, at each distance; two codes among the smallest; and
    the sums, as near as the table allows, at which the quotient of the largest code, and of
    another one, passes from one step of y to the next. Every n-th of them where they are long.
    """
    parts = {code: float(given["numerators"][code]) for code in (0, 20)}
    return _worst(given["denominators"], parts, np.arange(256), given, length)


def worst_rows16(given: Constants, length: int) -> Int64:
    """Likewise of 65,536 distances, of which some are taken that end at all bytes."""
    terms = terms_of(np.arange(1 << 16), given["high"], given["low"])
    scale = int(given["multiplier"]) / 2 ** int(given["shift"])
    third = int(np.searchsorted(-terms, -(terms[0] // 3)).clip(max=len(terms) - 1))
    parts = {code: float(terms[code]) * scale for code in (0, third)}
    last = np.flatnonzero(terms)[-1:]  # beyond it all terms are nothing
    steady = np.arange(0, 1 << 16, 257)  # every low byte, every high one
    near = np.linspace(0, last.max(initial=0), 256).astype(np.int64)
    distances = np.unique(np.concatenate([steady, near, last, last + 1]).clip(max=0xFFFF))
    return _worst(terms, parts, distances, given, length)


def _worst(
    terms: NDArray[Any],
    parts: Mapping[int, float],
    distances: Int64,
    given: Constants,
    length: int,
) -> Int64:
    """``parts``: by code, its numerator in steps of y, for sums near a tie."""
    every, last = -(-4 * len(distances) * length // _CODES), len(terms) - 1
    distance = distances[::every]
    alike = np.repeat(distance[:, None], length, axis=1)
    pair = np.full_like(alike, last)
    alike[:, 0] = pair[:, 0] = 0
    pair[:, 1:2] = distance[:, None]
    steps = max(1, int(given["y_max"]) - int(given["y_zero"]))
    ties = np.arange(0, steps, every * -(-steps // 256)) + 0.5
    near = [
        _summing_to(np.float64(part) / ties, code, terms, length)
        for code, part in parts.items()
    ]
    return np.concatenate([alike, pair, *near])


def _summing_to(
    totals: NDArray[np.float64], code: int, terms: NDArray[Any], length: int
) -> Int64:
    """[R, length]: a largest code, ``code``, and others, greedily, that sum to ``totals``."""
    last = len(terms) - 1
    rows = np.full((len(totals), length), last)
    rows[:, 0] = 0
    rows[:, 1:2] = code
    falling = -terms.astype(np.float64)
    left = totals + falling[0] + (falling[code] if length > 1 else 0)
    for place in range(2, min(length, 1000)):
        chosen = np.searchsorted(falling, -left).clip(max=last)
        rows[:, place] = chosen
        left = left + falling[chosen]
    return rows
