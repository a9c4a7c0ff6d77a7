"""Ops that only move values: on stored integers they are what they are in float."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from qpasses.checking.arithmetic import store, store_all
from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    float_constant,
    is_standard,
    same,
    unlike,
    unlike_attributes,
)
from qpasses.ir.graph import constant, is_used
from qpasses.ir.record import Quantization

_ONE, _ALL, _AND_UPDATES = slice(0, 1), slice(0, None), slice(0, 3, 2)

MOVED: Mapping[str, tuple[slice, slice]] = {
    "Carried": (_ONE, _ONE),
    "CarriedOut": (slice(0, 2), _ONE),
    "Collected": (_ONE, _ONE),
    "Compress": (_ONE, _ONE),
    "Concat": (_ALL, _ONE),
    "DepthToSpace": (_ONE, _ONE),
    "Element": (_ONE, _ONE),
    "Expand": (_ONE, _ONE),
    "Flatten": (_ONE, _ONE),
    "Gather": (_ONE, _ONE),
    "GatherElements": (_ONE, _ONE),
    "GatherND": (_ONE, _ONE),
    "Joined": (slice(1, 3), _ONE),
    "MaxPool": (_ONE, _ONE),
    "Pad": (_ONE, _ONE),
    "ReduceMax": (_ONE, _ONE),
    "ReduceMin": (_ONE, _ONE),
    "Reshape": (_ONE, _ONE),
    "Resize": (_ONE, _ONE),
    "ReverseSequence": (_ONE, _ONE),
    "ScatterElements": (_AND_UPDATES, _ONE),
    "ScatterND": (_AND_UPDATES, _ONE),
    "Slice": (_ONE, _ONE),
    "SpaceToDepth": (_ONE, _ONE),
    "Split": (_ONE, _ALL),
    "Squeeze": (_ONE, _ONE),
    "TensorScatter": (slice(0, 2), _ONE),
    "Tile": (_ONE, _ONE),
    "TopK": (_ONE, _ONE),
    "Transpose": (_ONE, _ONE),
    "Unsqueeze": (_ONE, _ONE),
    "Where": (slice(1, 3), _ONE),
}
"""By op: the inputs that are moved, and the outputs that hold them."""


def moving(site: Site) -> Iterator[str]:
    """One scale for all that is moved; Pad fills with a code, constants are stored alike."""
    ours, theirs = site.node, site.first
    if ours.op not in MOVED or not is_standard(ours):
        raise DifferenceError("it does not only move values")
    site.is_op(ours.op)
    is_scattered = ours.op in ("ScatterElements", "ScatterND")
    if (ours.op == "Resize" and not _only_picks(theirs.attrs)) or (
        is_scattered and theirs.attrs.get("reduction") in ("add", "mul")
    ):
        raise DifferenceError("it does not only move values")
    yield from unlike_attributes(ours.attrs, theirs.attrs)
    read, written = MOVED[ours.op]
    if len(ours.outputs) != len(theirs.outputs) or len(site.chain) != 1:
        raise DifferenceError(f"has {len(ours.outputs)} outputs")
    meaning = what_is_moved(site)
    record = site.pair.record.tensors
    ends = [t for t in ours.outputs[written] if is_used(site.pair.integer, t)]
    if any(record.get(tensor.name) != meaning for tensor in ends):
        yield "its outputs are not stored as its inputs are"
    yield from check_record(site, {"y": [meaning.scale]})
    yield from moved_inputs(site, read, meaning)


def what_is_moved(site: Site) -> Quantization:
    """How the first of the inputs that are moved, but for constants, is stored."""
    place = MOVED[site.node.op][0] if site.node.op in MOVED else _ONE
    pairs = zip(site.node.inputs[place], site.first.inputs[place], strict=False)
    for ours, theirs in pairs:
        if constant(theirs) is None:
            return site.operand(ours, theirs)
    return site.y


def moved_inputs(site: Site, read: slice, meaning: Quantization) -> Iterator[str]:
    """What is read: the same tensors, those among ``read`` stored so, constants too."""
    ours, theirs = list(site.node.inputs), list(site.first.inputs)
    moved = range(len(theirs))[read]
    if site.node.op == "Pad":
        fill = float_constant(site.first, 2)
        code = store(meaning, 0.0 if fill is None else float(fill.reshape(())))
        found = constant(ours.pop(2)) if len(ours) > 2 else None
        if found is None:
            raise DifferenceError("it fills with something that is not constant")
        yield from unlike("what it fills with", found, np.array(code, meaning.dtype))
        theirs = [*theirs[:2], *theirs[3:]]
    if len(ours) != len(theirs):
        raise DifferenceError(f"has {len(ours)} inputs")
    for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        value = constant(other)
        if value is not None:
            if index in moved:
                value = store_all(meaning, value)
            found = constant(mine)
            if found is None or not same(found, value):
                yield f"input {index} is not the constant {other.name!r}"
            if index in moved and site.pair.record.tensors.get(mine.name) == meaning:
                site.pair.operands.add(mine.name)
        elif index in moved:
            if site.operand(mine, other) != meaning:
                yield f"{mine.name!r} is not stored as its outputs are"
        elif not (mine.is_empty() and other.is_empty()):
            known = site.pair.meaning(mine)
            if known.real != other.name or known.stored is not None:
                yield f"input {index} is {mine.name!r}, not {other.name!r}"


def _only_picks(attributes: Mapping[str, Any]) -> bool:
    mode = attributes.get("mode", "nearest")
    coordinates = attributes.get("coordinate_transformation_mode")
    return bool(mode == "nearest" and coordinates != "tf_crop_and_resize")
