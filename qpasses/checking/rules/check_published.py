"""I-ViT's and I-BERT's ops: every integer from the scales, gamma and beta again."""

from collections.abc import Generator, Iterator, Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from math import ceil, frexp
from typing import Any

import numpy as np

from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    float_constant,
    unlike,
    unlike_attributes,
)
from qpasses.checking.rules.check_clamps import check_end, clamps_behind
from qpasses.checking.rules.check_multipliers import expected_pair, expected_rounding
from qpasses.checking.rules.check_softmax import row_length
from qpasses.ir.graph import rank

_SHIFTMAX = {"fraction_bits": 15}
_SHIFT_GELU = {"axis": -1, "fraction_bits": 23, "output_bits": 8}
_I_BERT_SOFTMAX = {"fraction_bits": 30, "output_bits": 8}


def _floor(value: Fraction) -> int:
    return -ceil(-value)


def shiftmax(site: Site) -> Iterator[str]:
    """Softmax along one axis by I-ViT."""
    form = site.settings.softmax
    bits = 8 if form == "shiftmax8" else 16
    x, axis = yield from _softmax(site, "shiftmax8" if bits == 8 else "shiftmax")
    expected = {"axis": axis, "x0": _floor(-1 / x), **_SHIFTMAX, "output_bits": bits}
    yield from _numbers(site, expected, Fraction(1, 2 ** (bits - 1)), {})


def gemmlowp_softmax(site: Site) -> Iterator[str]:
    """Softmax along one axis by TFLite, whose result has steps of 1 / 256 from 0 on."""
    _, axis = yield from _softmax(site, "gemmlowp")
    x, y = site.operand(site.inputs["x"], site.first.inputs[0]), site.y
    if y.scale != 1 / 256 or y.zero_point != y.type_limits[0]:
        raise DifferenceError("its result has other steps than 1 / 256 from its least code on")
    if row_length(site) > 511:
        raise DifferenceError("its rows have more than 511 codes")
    yield from unlike_attributes(site.node.attrs, {"axis": axis})
    terms = np.array(_gemmlowp_terms(x.scale), np.int32)
    yield from unlike("exponentials", site.given["exponentials"], terms)


def _gemmlowp_terms(scale: float) -> list[int]:
    """exp(-scale * d) for d from 0 to 255 with 31 bits, number by number."""
    fraction, left = frexp(min(scale * 2.0**26, 2.0**31 - 1))
    multiplier = int(Fraction(fraction) * 2**31 + Fraction(1, 2))
    if multiplier == 1 << 31:
        multiplier, left = 1 << 30, left + 1
    most = (31 << 26) / Fraction(2) ** left
    return [
        _gemmlowp_term(-_high(-d * 2**left, multiplier)) if d <= most else 0
        for d in range(256)
    ]


def _gemmlowp_term(size: int) -> int:
    """exp(-size), which has 26 bits behind the point: of the rest below a quarter by Taylor's
    series about -1 / 8, times a power for each bit of the quarters.
    """
    if size == 0:
        return (1 << 31) - 1
    quarters = -(-size // (1 << 24)) - 1
    x = (((quarters << 24) - size) << 5) + (1 << 28)
    square = _high(x, x)
    fourth = (_high(square, square) + 2) >> 2
    rest = _high(fourth + _high(square, x), 715827883) + square
    term = 1895147668 + _high(x + ((rest + 1) >> 1), 1895147668)
    for place, power in enumerate(_POWERS):
        if quarters >> place & 1:
            term = _high(term, power)
    return term


def _high(a: int, b: int) -> int:
    return (a * b + (1 << 30)) >> 31


_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp(-1 / 4), exp(-1 / 2) and so on, squared each time."""


def i_bert_softmax(site: Site) -> Iterator[str]:
    """Softmax along one axis by I-BERT."""
    x, axis = yield from _softmax(site, "ibert")
    a, b = Fraction("0.35815147"), Fraction("0.96963238")
    ln_2 = Fraction("0.6931471805599453")
    c = _floor(1 / (a * x * x))
    expected = {
        "axis": axis,
        **{"x0": _floor(-ln_2 / x), "b": _floor(b / (a * x)), "c": c},
        **_I_BERT_SOFTMAX,
    }
    if c < 1:
        raise DifferenceError("its polynomial has no constant")
    width = min(31, 31 - c.bit_length())
    multiplier, shift = _nearest(Fraction(32767, c * 2**30), width)
    pairs = {"exp_multiplier": multiplier, "exp_shift": shift}
    yield from _numbers(site, expected, Fraction(1, 256), pairs)


def _softmax(site: Site, form: str) -> Generator[str, None, tuple[Fraction, int]]:
    """The scale of x and the axis, when op, ends and record were compared."""
    site.is_op("Softmax")
    node, clamps = site.first, clamps_behind(site)
    if site.settings.softmax != form or site.settings.softmax_nodes == "float":
        yield "is unlike what the recorded settings say of Softmax"
    dims = rank(node.inputs[0])
    if not dims:
        raise DifferenceError(f"the rank of what {node.name!r} reads is not known")
    axis = int(node.attrs.get("axis", -1)) % dims - dims
    x = site.operand(site.inputs["x"], node.inputs[0])
    yield from check_end(site, clamps)
    length = row_length(site)
    yield from check_record(site, {"x": [x.scale], "y": [site.y.scale]}, length)
    return Fraction(x.scale), axis


def shift_gelu(site: Site) -> Iterator[str]:
    """GELU by I-ViT, over rows along the last axis."""
    x = yield from _gelu(site, "shift")
    expected = {"x0": _floor(-1 / (x * Fraction(1702, 1000))), **_SHIFT_GELU}
    yield from _numbers(site, expected, x / 128, {})


def i_bert_gelu(site: Site) -> Iterator[str]:
    """GELU by I-BERT."""
    x = yield from _gelu(site, "ibert")
    s = x / Fraction(14142, 10000)
    a, b = Fraction(-2888, 10000), Fraction(-1769, 1000)
    of_erf = a * s * s * 2**14
    expected = {"b": _floor(b / s), "c": _floor(1 / (a * s * s)), "one": _floor(1 / of_erf)}
    yield from _numbers(site, {**expected, "fraction_bits": 14}, -x * of_erf / 2, {})


def _gelu(site: Site, form: str) -> Generator[str, None, Fraction]:
    site.is_op("Gelu")
    if site.settings.gelu != form:
        yield "is unlike what the recorded settings say of GELU"
    if len(site.chain) != 1:
        raise DifferenceError("its record names other nodes than a Gelu")
    x = site.operand(site.inputs["x"], site.first.inputs[0])
    yield from unlike("x_zero", site.given["x_zero"], x.zero)
    yield from check_end(site, ())
    yield from check_record(site, {"x": [x.scale], "y": [site.y.scale]})
    return Fraction(x.scale)


def _numbers(
    site: Site, attributes: Mapping[str, Any], scale: Fraction, others: Mapping[str, int]
) -> Iterator[str]:
    """Attributes, and the multiplier of results of ``scale``."""
    target = site.settings.target
    expected = {**attributes, "rounding": expected_rounding(target)}
    yield from unlike_attributes(site.node.attrs, expected)
    multiplier, shift = expected_pair(scale / Fraction(site.y.scale), target, True)
    for name, value in {**others, "multiplier": multiplier, "shift": shift}.items():
        yield from unlike(name, site.given[name], np.array(value, np.int32))


def i_layer_norm(site: Site) -> Iterator[str]:
    """LayerNormalization over the last axis by I-ViT."""
    site.is_op("LayerNormalization")
    node, clamps = site.first, clamps_behind(site)
    is_short = site.settings.layernorm == "ivit_short"
    if not is_short and site.settings.layernorm != "ivit":
        yield "is unlike what the recorded settings say of LayerNormalization"
    dims, shape = rank(node.inputs[0]), node.inputs[0].shape
    if not dims or shape is None or int(node.attrs.get("axis", -1)) % dims != dims - 1:
        raise DifferenceError(f"the rows of {node.name!r} are not along the last axis")
    cells = shape[-1]
    if not isinstance(cells, int):
        raise DifferenceError(f"how long the rows of {node.name!r} are is not known")
    x, y = site.operand(site.inputs["x"], node.inputs[0]), site.y
    yield from check_end(site, clamps)
    yield from unlike("x_zero", site.given["x_zero"], x.zero)
    yield from check_record(site, {"x": [x.scale], "y": [y.scale]}, cells)
    rounding = site.node.attrs.get("rounding")
    yield from unlike_attributes(site.node.attrs, {"cells": cells, "rounding": rounding})
    gamma, beta = (float_constant(node, index) for index in (1, 2))
    if gamma is None or not gamma.all():
        raise DifferenceError(f"gamma of {node.name!r} is not constant, or 0 somewhere")
    gammas, betas = (
        np.broadcast_to(np.zeros(1) if each is None else each, [cells]).tolist()
        for each in (gamma, beta)
    )
    with localcontext() as context:
        context.prec = 80
        root = Fraction(Decimal(cells).sqrt())
    biases = [
        _floor(Fraction(b) / Fraction(g) * 2**30 / root)
        for g, b in zip(gammas, betas, strict=True)
    ]
    low, high = x.type_limits
    normal = (high - low + 1) * 2**25 if is_short else 2**30
    largest = normal + max(map(abs, biases))
    width = 52 - largest.bit_length()
    if width < 16 or not is_short:
        width = min(31, 62 - largest.bit_length())
    if width < 8:
        raise DifferenceError("its biases are too large")
    unit = root / 2**30 / Fraction(y.scale)
    pairs = [_nearest(abs(Fraction(g)) * unit, width) for g in gammas]
    signed = [m if g > 0 else -m for g, (m, _) in zip(gammas, pairs, strict=True)]
    for name, value, dtype in (
        ("bias", biases, np.int64),
        ("multiplier", signed, np.int32),
        ("shift", [shift for _, shift in pairs], np.int32),
    ):
        yield from unlike(name, site.given[name], np.array(value, dtype))


def _nearest(scale: Fraction, width: int) -> tuple[int, int]:
    """The multiplier of so many bits, and its shift of 61 at most, half to even."""
    shift = 61
    while shift and round(scale * 2**shift) >= 2**width:
        shift -= 1
    return round(scale * 2**shift), shift
