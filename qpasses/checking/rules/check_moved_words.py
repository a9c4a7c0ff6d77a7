"""Ops that move codes of 16 bits where ONNX's own have no kernel: one scale for both ends."""

from collections.abc import Generator, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.checking.arithmetic import store
from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    float_constant,
    unlike,
    unlike_attributes,
)
from qpasses.checking.rules.check_averages import axes_of
from qpasses.checking.rules.check_moving import moved_inputs
from qpasses.ir.graph import Node
from qpasses.ir.record import Quantization


def int_max_pool(site: Site) -> Iterator[str]:
    """MaxPool whose padding is written out: its windows lie as those of the float node."""
    site.is_op("MaxPool")
    node = site.first
    if node.attrs.get("ceil_mode", 0) or node.attrs.get("auto_pad", "NOTSET") != "NOTSET":
        raise DifferenceError(f"the padding of {node.name!r} is not written out")
    yield from _moved(site)
    kernel = list(node.attrs["kernel_shape"])
    usual = {
        "dilations": [1] * len(kernel),
        "pads": [0] * (2 * len(kernel)),
        "strides": [1] * len(kernel),
    }
    stated = {name: list(node.attrs.get(name) or usual[name]) for name in usual}
    yield from unlike_attributes(site.node.attrs, {"kernel_shape": kernel, **stated})


def int_pad(site: Site) -> Iterator[str]:
    """Pad by constant numbers of codes; the fill value is stored as what it is put beside."""
    site.is_op("Pad")
    meaning = yield from _moved(site)
    fill = float_constant(site.first, 2)
    code = store(meaning, 0.0 if fill is None else float(fill.reshape(())))
    yield from unlike("what it fills with", site.given["fill"], np.array(code, "int16"))
    yield from unlike_attributes(site.node.attrs, _padding(site.first))


def int_extreme(site: Site) -> Iterator[str]:
    """ReduceMax and ReduceMin along the same axes."""
    site.is_op("ReduceMax", "ReduceMin")
    yield from _moved(site)
    node = site.first
    expected = {
        "axes": axes_of(node),
        "keepdims": int(node.attrs.get("keepdims", 1)),
        "which": {"ReduceMax": "largest", "ReduceMin": "smallest"}[node.op],
    }
    yield from unlike_attributes(site.node.attrs, expected)


def int_shuffle(site: Site) -> Iterator[str]:
    """DepthToSpace and SpaceToDepth: where each code comes from, asked of numbered ones."""
    site.is_op("DepthToSpace", "SpaceToDepth")
    yield from _moved(site)
    node, attributes = site.first, site.node.attrs
    sizes = node.inputs[0].shape
    if sizes is None or len(sizes) != 4 or not all(isinstance(n, int) for n in sizes[1:]):
        raise DifferenceError(f"the sizes of {node.name!r} are not known")
    if prod(sizes[1:]) != prod(attributes["split"][1:]):
        raise DifferenceError(f"the parts of {node.name!r} are not those of what it reads")
    made = [0, *_shuffled_sizes(node)]
    numbered = np.arange(prod(sizes[1:])).reshape(sizes[1:])
    if attributes["joined"] != made:
        raise DifferenceError(f"attribute joined is {attributes['joined']}, expected {made}")
    apart = numbered.reshape(attributes["split"][1:])
    order = [axis - 1 for axis in attributes["perm"][1:]]
    ours = apart.transpose(order).reshape(made[1:])
    yield from unlike("the order of codes", ours, _shuffled(node, numbered))


def _shuffled_sizes(node: Node) -> list[int]:
    """Channels, rows and columns behind a node."""
    _, channels, rows, columns = node.inputs[0].shape
    block = node.attrs["blocksize"]
    if node.op == "DepthToSpace":
        return [channels // block**2, rows * block, columns * block]
    return [channels * block**2, rows // block, columns // block]


def _shuffled(node: Node, x: NDArray[Any]) -> NDArray[Any]:
    """What a node makes of x [C, H, W], block by block."""
    block, y = node.attrs["blocksize"], np.empty(_shuffled_sizes(node), x.dtype)
    is_deep = node.attrs.get("mode", "DCR") == "DCR"
    for row, column in product(range(block), repeat=2):
        number = row * block + column
        if node.op == "SpaceToDepth":
            y[number * len(x) : (number + 1) * len(x)] = x[:, row::block, column::block]
        elif is_deep:
            y[:, row::block, column::block] = x[number * len(y) : (number + 1) * len(y)]
        else:
            y[:, row::block, column::block] = x[number :: block**2]
    return y


def int_where(site: Site) -> Iterator[str]:
    """Where, of one condition; constant operands are stored as what is chosen."""
    site.is_op("Where")
    meaning = site.y
    if len(site.chain) != 1 or meaning.dtype != "int16":
        raise DifferenceError("it moves values of 16 bits, and computes nothing else")
    yield from check_record(site, {name: [meaning.scale] for name in "aby"})
    yield from unlike_attributes(site.node.attrs, {})
    yield from moved_inputs(site, slice(1, 3), meaning)


def _moved(site: Site) -> Generator[str, None, Quantization]:
    """What is read and written, of which there is one meaning."""
    meaning = site.operand(site.inputs["x"], site.first.inputs[0])
    if len(site.chain) != 1:
        raise DifferenceError("it moves values, and computes nothing else")
    if meaning.dtype != "int16":
        raise DifferenceError(f"codes of {meaning.dtype} are moved by ONNX's own op")
    if site.y != meaning:
        yield "its input and output are stored in different ways"
    yield from check_record(site, {"x": [meaning.scale], "y": [meaning.scale]})
    return meaning


def _padding(node: Node) -> Mapping[str, Any]:
    """How much is added before each axis, then behind; axes may be listed."""
    pads, axes = float_constant(node, 1), float_constant(node, 3)
    if pads is None:
        raise DifferenceError(f"{node.name!r} does not say its padding")
    dims = len(node.inputs[0].shape)
    sides = np.reshape(pads, (2, -1)).tolist()
    places = range(dims) if axes is None else [int(axis) % dims for axis in axes.reshape(-1)]
    found = [0] * (2 * dims)
    for side, numbers in enumerate(sides):
        for place, number in zip(places, numbers, strict=True):
            found[side * dims + place] = number
    return {"pads": found, "mode": node.attrs.get("mode", "constant")}
