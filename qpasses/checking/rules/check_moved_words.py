"""Ops that move codes of 16 bits where ONNX's own have no kernel: one scale for both ends."""

from collections.abc import Generator, Iterator, Mapping
from typing import Any

import numpy as np

from qpasses.checking.arithmetic import store
from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    float_constant,
    unlike,
    unlike_attributes,
)
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
