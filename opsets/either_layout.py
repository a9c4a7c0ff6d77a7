"""Channels last: bodies and references for tensors whose channels are their last axis."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import FunctionProto, NodeProto, helper

from opsets.attribute_kinds import Integer

LAYOUTS: Mapping[str, int] = {"nwc": 3, "nhwc": 4, "ndhwc": 5}
"""The rank of tensors by the letters of their axes."""

ATTRIBUTE = "channels_last"
"""Of ops that take either layout: 1 for [N, spatial..., C] in place of [N, C, spatial...]."""

CHANNELS_LAST = Integer(0, 1, required=False)
"""What is declared of it."""

Reference = Callable[..., NDArray[Any]]


def layout_of(rank: int) -> str:
    """The layout of tensors of ``rank`` with their channels last, or nothing."""
    return next((name for name, each in LAYOUTS.items() if each == rank), "")


def split(overload: str) -> tuple[str, str]:
    """The overload of a body without its layout, and this: nothing of channels first."""
    for layout in LAYOUTS:
        if overload.endswith(f"_{layout}"):
            return overload.removesuffix(f"_{layout}"), layout
    return overload, ""


def joined(overload: str, layout: str) -> str:
    """The overload of a body in ``layout``."""
    return f"{overload}_{layout}" if layout else overload


def in_either_layout(reference: Reference) -> Reference:
    """``reference``, of [N, C, spatial...], for nodes that say ``channels_last`` too."""

    @wraps(reference)
    def laid(
        x: NDArray[Any], *constants: Any, channels_last: int = 0, **attributes: Any
    ) -> NDArray[Any]:
        if not channels_last:
            return reference(x, *constants, **attributes)
        y = reference(np.moveaxis(x, -1, 1), *constants, **attributes)
        return np.ascontiguousarray(np.moveaxis(y, 1, -1))

    return laid


def with_channels_last(function: FunctionProto, layout: str) -> FunctionProto:
    """A copy of a body that reads and writes its tensors in ``layout``.

    Where only onnxruntime's kernels of either layout stand between steps that look at one
    number at a time, these are told; others have a Transpose on either side.
    """
    copy = FunctionProto()
    copy.CopyFrom(function)
    copy.overload = joined(function.overload, layout)
    x, y = copy.input[0], copy.output[0]
    if _takes_either(copy.node, x):
        for node in copy.node:
            if node.op_type in _OF_EITHER:
                _tell(node)
        return copy
    inside = {x: f"{x}_channels_first", y: f"{y}_channels_first"}
    for node in copy.node:
        for ends in (node.input, node.output):
            ends[:] = [inside.get(name, name) for name in ends]
    rank = LAYOUTS[layout]
    first, last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    nodes = [
        helper.make_node("Transpose", [x], [inside[x]], perm=first),
        *copy.node,
        helper.make_node("Transpose", [inside[y]], [y], perm=last),
    ]
    del copy.node[:]
    copy.node.extend(nodes)
    return copy


_OF_EITHER = frozenset({"QLinearConv", "QLinearGlobalAveragePool"})
"""Kernels of onnxruntime, of domain com.microsoft, with an attribute for it."""

_BY_NUMBER = frozenset({"BitwiseXor", "Cast", "Clip"})
"""What bodies do to each number of a tensor around these, with constants that are one."""


def _takes_either(nodes: Sequence[NodeProto], x: str) -> bool:
    """Whether a kernel of either layout is all on the way of ``x`` that looks at places."""
    on_the_way, found = {x}, False
    for node in nodes:
        if on_the_way.isdisjoint(node.input):
            continue
        is_kernel = node.op_type in _OF_EITHER and node.input[0] in on_the_way
        if not is_kernel and node.op_type not in _BY_NUMBER:
            return False
        found |= is_kernel
        on_the_way.update(node.output)
    return found


def _tell(node: NodeProto) -> None:
    node.domain = "com.microsoft"
    for place, each in enumerate(node.attribute):
        if each.name == ATTRIBUTE:
            del node.attribute[place]
            break
    node.attribute.append(helper.make_attribute(ATTRIBUTE, 1))
