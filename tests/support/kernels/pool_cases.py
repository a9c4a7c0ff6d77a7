"""What kernels of windows are given beside references, and those of whole axes."""

import itertools

import numpy as np

from opsets.fixed_point import ROUNDINGS
from opsets.qpasses_v1.int_pad import MODES
from opsets.rounding import NODE_ROUNDINGS
from tests.support.kernels.draws import ENDS_OF_WORDS, array, bytes_of, ends, words
from tests.support.op_cases import Case


def windows(rng):
    """Every width and number of channels to 70, strides, dilations and pads, 1 to 3 axes."""
    geometries = [(1, c, [w], [min(w, 3)]) for w in range(1, 71) for c in (1, 3)]
    geometries += [(2, c, [5, 4], [3, 2]) for c in range(1, 71)]
    geometries += [
        (2, 5, [7, 6, 9], [2, 3, 1]),
        (1, 70, [33, 31], [3, 3]),
        (1, 2, [3, 3], [1, 1]),
    ]
    geometries += [(1, 1, [1, 1], [1, 1]), (1, 3, [40, 40], [19, 17]), (1, 16, [4, 4], [4, 4])]
    for (pictures, channels, sizes, kernel), dtype in itertools.product(
        geometries, (np.uint8, np.int8)
    ):
        dims = len(kernel)
        strides, dilations = rng.integers(1, 4, dims), rng.integers(1, 3, dims)
        pads = rng.integers(0, 4, 2 * dims)
        reach = np.add((np.array(kernel) - 1) * dilations, 1)
        lack = np.maximum(reach - np.add(sizes, pads.reshape(2, -1).sum(axis=0)), 0)
        pads[dims:] += lack
        attributes = {"channels": channels, "kernel_shape": kernel}
        attributes |= {"strides": strides.tolist(), "dilations": dilations.tolist()}
        yield pictures, channels, sizes, attributes | {"pads": pads.tolist()}, dtype


def laid(rng, pictures, channels, sizes, dtype):
    """A picture in either layout, and the attribute that says which."""
    if rng.random() < 0.6:
        return bytes_of(rng, pictures, *sizes, channels, dtype=dtype), {"channels_last": 1}
    return bytes_of(rng, pictures, channels, *sizes, dtype=dtype), {}


def pools(rng):
    for pictures, channels, sizes, attributes, dtype in windows(rng):
        cells = int(np.prod(attributes["kernel_shape"]))
        x, layout = laid(rng, pictures, channels, sizes, dtype)
        rounding = {"rounding": str(rng.choice(NODE_ROUNDINGS))}
        numbers = sum_numbers(rng, cells, dtype)
        yield f"{x.shape} {attributes}", Case([x, *numbers], attributes | layout | rounding)


def sum_numbers(rng, cells, dtype):
    """Of sums of so many codes: zero point, multiplier and shift, the ends of results."""
    bits = int(rng.choice([2, 24, 31]))
    m = np.array([rng.integers(1, 1 << bits - 1, endpoint=True)], np.int32)
    wanted = int(np.log2(float(m[0]) * cells * rng.choice([0.3, 1, 4])))
    zero = array(bytes_of(rng, dtype=dtype), dtype)
    shift = np.array([np.clip(wanted, 1, 61)], np.int32)
    return [zero, m, shift, *ends(dtype, int(zero), *rng.integers(0, 9, 2))]


def counted_pools(rng):
    for pictures, channels, sizes, attributes, dtype in windows(rng):
        x, layout = laid(rng, pictures, channels, sizes, dtype)
        zero, m, shift, *last = sum_numbers(rng, 1, dtype)
        uncounted = [int(rng.integers(0, each, endpoint=True)) for each in attributes["pads"]]
        rounding = {"uncounted_pads": uncounted, "rounding": str(rng.choice(ROUNDINGS))}
        inputs = [x, zero, m.reshape(()), np.minimum(shift, 40).reshape(()), *last]
        yield f"{x.shape} {attributes}", Case(inputs, attributes | layout | rounding)
        for read, written in ENDS_OF_WORDS:
            wide, zero = words(rng, *x.shape, dtype=read), array(0, read)
            inputs = [wide, zero, *inputs[2:4], *ends(written, 0)]
            case = Case(inputs, attributes | layout | rounding)
            yield f"{x.shape} {attributes} {read} {written}", case


def largest_pools(rng):
    for pictures, channels, sizes, attributes, _dtype in windows(rng):
        drawn_words = words(rng, pictures, channels, *sizes)
        is_last = rng.random() < 0.6
        x = np.moveaxis(drawn_words, 1, -1) if is_last else drawn_words
        numbers = {name: each for name, each in attributes.items() if name != "channels"}
        layout = {"channels_last": 1} if is_last else {}
        case = Case([np.ascontiguousarray(x)], numbers | layout)
        yield f"{x.shape} {numbers} {layout}", case


def paddings(rng):
    """Every width to 70, each mode, up to five axes."""
    shapes = [(2, n) for n in range(1, 71)] + [(2, 3, 4, 5, 6), (1, 1, 1), (40, 3, 41)]
    for shape, mode in itertools.product(shapes, MODES):
        most = [n - 1 if mode == "reflect" else 4 for n in shape * 2]
        pads = [int(rng.integers(0, min(each, 40), endpoint=True)) for each in most]
        fill = array(int(rng.integers(-32768, 32768)), np.int16)
        case = Case([words(rng, *shape), fill], {"pads": pads, "mode": mode})
        yield f"{shape} {mode} {pads}", case


def global_pools(rng):
    sizes = [(2, 3, [n]) for n in range(1, 71)] + [(1, n, [3, 2]) for n in range(1, 71)]
    sizes += [(2, 300, [5, 7]), (1, 9, [70, 71]), (2, 5, [3, 4, 5]), (1, 1, [1, 1])]
    sizes += [(1, channels, [20, 20]) for channels in (31, 32, 33, 64, 70)]
    for (pictures, channels, window), dtype in itertools.product(sizes, (np.uint8, np.int8)):
        x, layout = laid(rng, pictures, channels, window, dtype)
        if window == [20, 20]:  # the largest sums
            x = np.full_like(x, 255 if dtype == np.uint8 else -128)
        attributes = {"channels": channels, "spatial_shape": window, **layout}
        attributes["rounding"] = str(rng.choice(NODE_ROUNDINGS))
        inputs = [x, *sum_numbers(rng, int(np.prod(window)), dtype)]
        yield f"{x.shape} {dtype}", Case(inputs, attributes)


def resizes(rng):
    """Every width and number of channels to 70, 1 to 3 axes, coefficients of either size."""
    sizes = [(1, [n], [71 - n], [2, 3]) for n in range(1, 71)]
    sizes += [(2, [3, n], [5, 2 * n], [1, 2]) for n in range(1, 71)]
    sizes += [(2, [4, 3], [7, 6], [1, n]) for n in range(1, 71)]
    sizes += [
        (3, [3, 4, 5], [4, 3, 9], [2, 3]),
        (3, [2, 2, 2], [1, 1, 1], []),
        (1, [3], [4], [0]),
    ]
    for (dims, x_sizes, y_sizes, leading), dtype in itertools.product(
        sizes, (np.uint8, np.int8)
    ):
        is_last = len(leading) > 1 and rng.random() < 0.6
        places = leading[:-1] if is_last else leading
        x = bytes_of(rng, *places, *x_sizes, *leading[-1:] * is_last, dtype=dtype)
        ones = [1] * (3 - dims)
        x_sizes, y_sizes = ones + x_sizes, ones + y_sizes
        low, high = (0, 90) if rng.random() < 0.7 else (-40, 40)
        tables = [
            [
                rng.integers(0, n, (2, m)),
                rng.integers(low, high, (2, m)) if n * m > 1 else np.array([[1], [0]]),
            ]
            for n, m in zip(x_sizes, y_sizes, strict=True)
        ]
        joined = [
            np.concatenate(t, axis=1).astype(np.int32) for t in zip(*tables, strict=True)
        ]
        zero, m, shift, *last = sum_numbers(rng, 100**dims, dtype)
        attributes = {"dims": dims, "x_sizes": x_sizes, "y_sizes": y_sizes}
        attributes |= {"channels_last": 1} if is_last else {}
        attributes["rounding"] = str(rng.choice(NODE_ROUNDINGS))
        yield (
            f"{x.shape} {y_sizes} {dtype}",
            Case([x, zero, *joined, m, shift, *last], attributes),
        )
        if attributes["rounding"] in ROUNDINGS and dims < 3:
            read, written = ENDS_OF_WORDS[int(rng.integers(0, 3))]
            narrow = np.where(joined[1] > 1, joined[1] % 20, joined[1]).astype(np.int32)
            given = [words(rng, *x.shape, dtype=read), array(0, read), joined[0], narrow]
            numbers = [m >> 9, np.maximum(shift - 9, 1), *ends(written, 0)]
            label = f"{x.shape} {y_sizes} {read} {written}"
            yield label, Case([*given, *numbers], attributes)


def reductions(rng):
    for count in range(71):
        for axes in ([-1], [-2], [-3, -1], [-3, -2]):
            x = bytes_of(rng, 2, 3, count)
            numbers = [array(9, np.uint8), array(1 << 20, np.int32), array(22, np.int32)]
            attributes = {"axes": axes, "keepdims": count % 2, "mean": 1}
            inputs = [x, *numbers, *ends(np.uint8, 5)]
            yield f"{count} {axes}", Case(inputs, {**attributes, "rounding": "half_to_even"})
            for read, written in ENDS_OF_WORDS:
                numbers = [array(0, read), array(1 << 20, np.int32), array(22, np.int32)]
                inputs = [words(rng, 2, 3, count, dtype=read), *numbers, *ends(written, 0)]
                case = Case(inputs, {**attributes, "rounding": "half_to_even"})
                yield f"{count} {axes} {read} {written}", case
