"""TableSoftmax: how far from real arithmetic, and onnxruntime itself on the worst rows."""

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


def differing_rows(
    body: Body, given: Constants, length: int, attributes: Mapping[str, Any]
) -> int:
    """How many results of onnxruntime differ from the meaning, on rows that were made worst.

    Optimized and not, along the node's own axis, which is negative.
    """
    dtype = given["y_zero"].dtype
    dtype = np.dtype(np.uint8) if dtype.itemsize > 1 else dtype  # of x, whose type is not told
    rows = (np.iinfo(dtype).max - worst_rows(given, length)).astype(dtype)
    x = rows.reshape(*rows.shape, *[1] * (-attributes["axis"] - 1))
    inputs = [x, *(given[name] for name in list(OPS["TableSoftmax"].inputs)[1:])]
    expected = OPS["TableSoftmax"].reference(*inputs, **attributes)
    runs = (
        run_op("TableSoftmax", body, inputs, attributes, optimize=each)
        for each in (False, True)
    )
    return sum(int((found != expected).sum()) for found in runs)


def worst_rows(given: Constants, length: int) -> Int64:
    """[R, length]: distances from the largest code, of rows in which much can go wrong.

    One largest code among equal others, at each distance; two codes among the smallest; and
    the sums, as near as the table allows, at which the quotient of the largest code, and of
    another one, passes from one step of y to the next. Every n-th of them where they are long.
    """
    every = -(-4 * 256 * length // _CODES)
    distance = np.arange(0, 256, every)
    alike = np.repeat(distance[:, None], length, axis=1)
    pair = np.full_like(alike, 255)
    alike[:, 0] = pair[:, 0] = 0
    pair[:, 1:2] = distance[:, None]
    steps = max(1, int(given["y_max"]) - int(given["y_zero"]))
    ties = np.arange(0, steps, every * -(-steps // 256)) + 0.5
    near = [
        _summing_to(given["numerators"][code] / ties, code, given["denominators"], length)
        for code in (0, 20)
    ]
    return np.concatenate([alike, pair, *near])


def _summing_to(
    totals: NDArray[np.float64], code: int, denominators: NDArray[Any], length: int
) -> Int64:
    """[R, length]: a largest code, ``code``, and others, greedily, that sum to ``totals``."""
    rows = np.full((len(totals), length), 255)
    rows[:, 0] = 0
    rows[:, 1:2] = code
    falling = -denominators.astype(np.float64)
    left = totals + falling[0] + (falling[code] if length > 1 else 0)
    for place in range(2, min(length, 1000)):
        chosen = np.searchsorted(falling, -left).clip(max=255)
        rows[:, place] = chosen
        left = left + falling[chosen]
    return rows
