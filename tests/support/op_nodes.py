"""Parts of random nodes: what is drawn of types, codes, zero points and ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from opsets.fixed_point import ROUNDINGS
from opsets.rounding import NODE_ROUNDINGS
from qpasses.ir.runtime import run_op


@dataclass(frozen=True)
class Case:
    """One node: the inputs in the order of the op's signature, and the attributes."""

    inputs: Sequence[np.ndarray]
    attributes: dict[str, Any]


def _byte_products_are_exact() -> bool:
    """False on x86 without VNNI, where pairs of products saturate at int16."""
    x, w = np.full((4, 8), 255, np.uint8), np.full((8, 8), 127, np.int8)
    zero, top, w_zero = np.array(0, np.uint8), np.array(255, np.uint8), np.array(0, np.int8)
    scale = np.array([1 << 23], np.int32), np.array([33], np.int32)
    inputs = [x, zero, w, w_zero, np.zeros(8, np.int32), *scale, zero, zero, top]
    y = run_op("IntGemm", "portable", inputs, {"rounding": "half_to_even"})
    return bool((y == round(255 * 127 * 8 / 1024)).all())


SIGNED_WEIGHT_END = 128 if _byte_products_are_exact() else 64

# Hypothesis draws what has a shape or a name; numbers come from a generator it seeds.
generator = st.integers(0, 2**32 - 1).map(np.random.default_rng)
stored_type = st.sampled_from([np.dtype(np.uint8), np.dtype(np.int8)])
rounding = st.sampled_from(ROUNDINGS)
node_rounding = st.sampled_from(NODE_ROUNDINGS)
window = st.lists(st.integers(1, 3), min_size=1, max_size=3)


def zero_point(rng, dtype):
    limits = np.iinfo(dtype)
    ends_and_middle = [limits.min, limits.max, (limits.min + limits.max + 1) // 2]
    anywhere = rng.integers(limits.min, limits.max, endpoint=True)
    return np.array(rng.choice([anywhere, *ends_and_middle]), dtype)


def middle_of_words(rng, dtype):
    """A zero point, of 16 bits 0."""
    return np.array(0, dtype) if dtype == np.int16 else zero_point(rng, dtype)


def codes(rng, shape, zero, end=1 << 16):
    """Stored integers in [-end, end): anywhere, only the ends, or next to ``zero``."""
    limits = np.iinfo(zero.dtype)
    low, high = max(limits.min, -end), min(limits.max, end - 1)
    kind = rng.choice(["anywhere", "ends", "next to zero"])
    if kind == "ends":
        return rng.choice(np.array([low, high], zero.dtype), shape)
    near = int(np.clip(zero, low, high))
    if kind == "next to zero":
        low, high = max(low, near - 1), min(high, near + 1)
    return rng.integers(low, high, shape, zero.dtype, endpoint=True)


def weight_codes(rng, shape, zero):
    return codes(rng, shape, zero, SIGNED_WEIGHT_END if zero.dtype == np.int8 else 1 << 16)


def output_ends(rng, dtype):
    """y_zero, y_min, y_max: the clamp at the ends of the type or inside."""
    limits = np.iinfo(dtype)
    ends = [limits.min, limits.max]
    if rng.random() < 0.3:
        ends = sorted(rng.integers(*ends, 2, endpoint=True))
    return zero_point(rng, dtype), *(np.array(end, dtype) for end in ends)
