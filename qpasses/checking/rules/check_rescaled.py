"""IntRescale, IntRescaledAdd and IntRescaledSub: the numbers of operands and of the sum."""

from collections.abc import Iterator

import numpy as np

from opsets.realised import node_pair
from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    unlike,
    unlike_attributes,
)
from qpasses.checking.rules.check_clamps import check_end, clamps_behind, stored_bounds
from qpasses.checking.rules.check_multipliers import (
    expected_pair,
    expected_rounding,
    real_scale,
)
from qpasses.checking.rules.check_pairs import operands


def int_rescaled_add(site: Site) -> Iterator[str]:
    """Add or Sub of two tensors, or of a tensor and a constant, each rounded on its own."""
    site.is_op(site.node.op.removeprefix("IntRescaled"))
    yield from check_end(site, clamps_behind(site))
    a, b, y = yield from operands(site)
    has_words = "int16" in (a.dtype, b.dtype, y.dtype)
    target = site.settings.target
    form = (has_words and target.word_add) or target.add
    left, scales = _scales(a.scale, b.scale, y.scale, form)
    yield from unlike("left_shift", site.given["left_shift"], np.array(left, np.int32))
    rounding = site.settings.target.rounding
    for name, scale in zip("aby", scales, strict=True):
        pair = 1 << 30, 30
        if scale is not None:
            rule = site.settings.target.elementwise_multiplier(scale)
            pair = node_pair(rule, rounding)
        for part, value in zip(("multiplier", "shift"), pair, strict=True):
            formal = f"{name}_{part}"
            yield from unlike(formal, site.given[formal], np.array(value, np.int32))


def int_rescale(site: Site) -> Iterator[str]:
    """A tensor of 16 bits, at one end at least, at another scale; clamps may lie between."""
    source, y, chain = site.inputs["x"], site.y, site.chain
    clamps_behind(site)
    x = site.operand(source, chain[0].inputs[0]) if chain else site.stored(source)
    target = site.settings.target
    if "int16" not in (x.dtype, y.dtype):
        yield "neither end has 16 bits: it would be a table"
    yield from check_record(site, {"x": [x.scale], "y": [y.scale]})
    yield from unlike_attributes(site.node.attrs, {"rounding": expected_rounding(target)})
    yield from unlike("x_zero", site.given["x_zero"], x.zero)
    yield from check_end(site, chain)
    is_relu = bool(chain) and stored_bounds(y, chain)[0] >= y.zero_point
    scale = real_scale("Relu" if is_relu else "Quantize", [x.scale], y.scale, target)
    pair = expected_pair(scale, target, elementwise=True)
    for name, value in zip(("multiplier", "shift"), pair, strict=True):
        yield from unlike(name, site.given[name], np.array(value, np.int32))


def _scales(
    a: float, b: float, y: float, form: str
) -> tuple[int, tuple[float, float, float | None]]:
    """The left shift, and by what a, b and their sum are multiplied; None: by nothing."""
    if form == "operands_rounded":
        return 0, (a / y, b / y, None)
    if form in ("shift_20", "shift_15"):
        twice, left = 2 * max(a, b), int(form.removeprefix("shift_"))
        return left, (a / twice, b / twice, twice / (2**left * y))
    raise DifferenceError("its target rounds a sum once")
