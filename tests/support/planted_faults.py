"""Faults that a device may have in a tensor: each turns right codes into wrong ones."""

import numpy as np


def _turned_bit(codes, rng):
    place, bit = rng.integers(codes.size), rng.integers(8 * codes.itemsize)
    found = codes.copy()
    bits = found.view(f"uint{8 * codes.itemsize}")
    bits.reshape(-1)[place] ^= np.array(1 << int(bit), bits.dtype)
    return found


def _other_zero_point(codes, rng):
    return _saturated(codes.astype(np.int64) + int(rng.choice([-2, -1, 1, 2])), codes.dtype)


def _swapped_channels(codes, rng):
    axis = _channels(codes)
    one, other = rng.choice(codes.shape[axis], 2, replace=False)
    order = np.arange(codes.shape[axis])
    order[[one, other]] = order[[other, one]]
    return np.take(codes, order, axis)


def _other_multiplier(codes, rng):
    """Of one channel, by a tenth."""
    found = codes.astype(np.int64)
    row = np.moveaxis(found, _channels(codes), 0)[rng.integers(codes.shape[_channels(codes)])]
    row[...] = np.rint(row * 1.1 + rng.integers(2))
    return _saturated(found, codes.dtype)


def _narrower_clamp(codes, rng):
    low, high = int(codes.min()), int(codes.max())
    return np.clip(codes, low, low + (high - low) * int(rng.integers(1, 4)) // 4)


def _silent_channel(codes, rng):
    found = codes.copy()
    np.moveaxis(found, _channels(codes), 0)[rng.integers(codes.shape[_channels(codes)])] = 0
    return found


def _moved_by_one(codes, rng):
    return np.roll(codes, int(rng.choice([-1, 1])), _channels(codes))


def _other_sign(codes, _rng):
    return codes ^ np.array(-128, np.int8).view(codes.dtype)


def _repeated_end(codes, rng):
    """The last codes are those of a buffer that was written before."""
    found = codes.copy().reshape(-1)
    count = int(rng.integers(1, max(2, codes.size // 4)))
    found[-count:] = found[0]
    return found.reshape(codes.shape)


def _seldom_one_more(codes, rng):
    more = rng.random(codes.shape) < 0.1
    return _saturated(codes.astype(np.int64) + more, codes.dtype)


FAULTS = {
    "a turned bit": _turned_bit,
    "another zero point": _other_zero_point,
    "two channels swapped": _swapped_channels,
    "another multiplier of a channel": _other_multiplier,
    "a clamp that is too narrow": _narrower_clamp,
    "a channel that is not computed": _silent_channel,
    "channels moved by one": _moved_by_one,
    "the sign turned": _other_sign,
    "the end of a buffer not written": _repeated_end,
    "one more in a tenth of the codes": _seldom_one_more,
}


def planted(kind, seed):
    """The fault of this kind that a number draws, the same in every sample."""
    return lambda codes: FAULTS[kind](codes, np.random.default_rng(seed))


def _channels(codes):
    return 1 if codes.ndim > 2 else codes.ndim - 1


def _saturated(codes, dtype):
    limits = np.iinfo(dtype)
    return np.clip(codes, limits.min, limits.max).astype(dtype)
