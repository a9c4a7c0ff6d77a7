"""Sums of products of a tensor and its moments: what a normalization is written with."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Powers: TypeAlias = tuple[int, int, int, int]
"""Of x, its mean, the mean of its squares, and the deviation: sqrt(variance + epsilon), or
the root of the mean of squares and epsilon."""

_ONE: Powers = (0, 0, 0, 0)
_X: Powers = (1, 0, 0, 0)
_SQUARES: Powers = (0, 0, 1, 0)
_SQUARED_MEAN: Powers = (0, 2, 0, 0)
_DEVIATION: Powers = (0, 0, 0, 1)
_NORMAL: Powers = (1, 0, 0, -1)
_OFFSET: Powers = (0, 1, 0, -1)

NEAR = 1e-5
"""Relative: so far constants such as 1 / n may be rounded."""

_NONE = np.zeros(1)


@dataclass(frozen=True)
class Expression:
    """A sum of products of x and its moments, each with a constant factor.

    ``kept``: whether it has all axes of x, those of size 1 included, or none of the reduced
    ones; None for a number.
    """

    terms: Mapping[Powers, NDArray[np.float64]]
    kept: bool | None = None

    @staticmethod
    def of(values: NDArray[np.floating]) -> "Expression":
        """A constant."""
        return Expression(
            {_ONE: values.astype(np.float64)}, None if values.size == 1 else True
        )

    def plus(self, other: "Expression") -> "Expression | None":
        """Their sum, unless they have different axes."""
        if not self._fits(other):
            return None
        terms = dict(self.terms)
        for powers, factor in other.terms.items():
            terms[powers] = terms.get(powers, _NONE) + factor
        terms = {powers: factor for powers, factor in terms.items() if factor.any()}
        return Expression(terms, self.kept if other.kept is None else other.kept)

    def times(self, other: "Expression") -> "Expression | None":
        """Their product, unless they have different axes."""
        if not self._fits(other):
            return None
        terms: dict[Powers, NDArray[np.float64]] = {}
        for (a, b, c, d), factor in self.terms.items():
            for (e, f, g, h), by in other.terms.items():
                powers = (a + e, b + f, c + g, d + h)
                terms[powers] = terms.get(powers, _NONE) + factor * by
        return Expression(terms, self.kept if other.kept is None else other.kept)

    def scaled(self, factor: float) -> "Expression":
        """``factor`` times as much."""
        return Expression({key: each * factor for key, each in self.terms.items()}, self.kept)

    def inverse(self) -> "Expression | None":
        """1 / it, where it is a multiple of a power of the deviation."""
        if len(self.terms) != 1:
            return None
        (((x, mean, squares, deviation), factor),) = self.terms.items()
        if x or mean or squares or not factor.all():
            return None
        return Expression({(0, 0, 0, -deviation): 1 / factor}, self.kept)

    def variance(self, centered: bool) -> tuple[float, float] | None:
        """``(k, c)`` where it is k * variance + c, k above 0 and c not below.

        Not ``centered``: the mean of squares in place of the variance.
        """
        wanted = {_SQUARES, _SQUARED_MEAN} if centered else {_SQUARES}
        if self.terms.keys() - {_ONE} != wanted:
            return None
        keys = (_SQUARES, _SQUARED_MEAN, _ONE)
        if any(key in self.terms and self.terms[key].size > 1 for key in keys):
            return None
        k, mean, c = (float(self.terms.get(key, _NONE).reshape(())) for key in keys)
        is_variance = not centered or np.isclose(k, -mean, NEAR, 0)
        return (k, c) if is_variance and k > 0 and c >= 0 else None

    def affine(self, centered: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Gamma and beta where it is (x - mean) / deviation * gamma + beta.

        Not ``centered``: x / deviation * gamma + beta.
        """
        wanted = {_NORMAL, _OFFSET} if centered else {_NORMAL}
        if self.terms.keys() - {_ONE} != wanted:
            return None
        gamma = self.terms[_NORMAL]
        if centered and not np.allclose(gamma, -self.terms[_OFFSET], NEAR, 0):
            return None
        return gamma, self.terms.get(_ONE, _NONE)

    def root(self, k: float) -> "Expression":
        """The deviation where it is k times what that is the root of."""
        return Expression({_DEVIATION: np.full(1, sqrt(k))}, self.kept)

    def mean(self, kept: bool) -> "Expression | None":
        """Its mean over the axes of the moments, which it still has."""
        result = Expression({}, kept)
        for (x, mean, squares, deviation), factor in self.terms.items():
            if x > 2 or factor.size > 1 or self.kept is False:
                return None
            powers = (0, mean + (x == 1), squares + (x == 2), deviation)
            result = result.plus(Expression({powers: factor.reshape(1)})) or result
        return result

    @property
    def is_moment(self) -> bool:
        """Whether it is one number a row."""
        return all(not key[0] and each.size == 1 for key, each in self.terms.items())

    def _fits(self, other: "Expression") -> bool:
        return self.kept is None or other.kept in (None, self.kept)


def itself() -> Expression:
    """x."""
    return Expression({_X: np.ones(1)}, True)
