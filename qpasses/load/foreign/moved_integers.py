"""Standard ops on stored integers: on the real numbers between Q/DQ, with the same scale.

before:  QuantizeLinear -> MaxPool (stored) -> Transpose (stored) -> DequantizeLinear
after:   QuantizeLinear -> DequantizeLinear -> MaxPool -> QuantizeLinear -> ...

What an integer stands for is told by the QuantizeLinear that writes it, or else by the
DequantizeLinear that reads it, and goes along with what these ops move.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from onnx import NodeProto, TensorProto

from qpasses.ir.moving import MOVING
from qpasses.load.foreign.channels_last import to_channels_first, to_channels_last
from qpasses.load.foreign.draft import Draft, Left
from qpasses.load.foreign.linear_nodes import clip_bounds
from qpasses.load.foreign.node_parts import (
    DQ,
    DYNAMIC,
    Q,
    attribute,
    attributes_but,
    input_at,
    is_standard,
)
from qpasses.load.foreign.quantization import INTEGERS, Quantization
from qpasses.load.foreign.real_bounds import write_clip

Meanings: TypeAlias = dict[str, Quantization]
"""What the integers of a tensor stand for, by its name."""

_FIRST, _ALL = slice(0, 1), slice(None)

_MOVED: Mapping[str, tuple[slice, slice]] = {
    **{op: (slice(*each.data), slice(*each.results)) for op, each in MOVING.items()},
    "Clip": (_FIRST, _FIRST),
    "Identity": (_FIRST, _FIRST),
    "Max": (_ALL, _FIRST),
    "Min": (_ALL, _FIRST),
    "Relu": (_FIRST, _FIRST),
    "NhwcMaxPool": (_FIRST, _FIRST),
    "ArgMax": (_FIRST, slice(0)),
    "ArgMin": (_FIRST, slice(0)),
}
"""By op: the inputs that hold integers, and the outputs that do."""

_UNMOVED = {Q, DQ, DYNAMIC, "Shape", "Size", "MatMulInteger", "ConvInteger", "Constant"}
"""Ops that may read integers: those of other passes, and such as read no values."""


def move_real_numbers(draft: Draft) -> None:
    """One pass: ops that move integers whose scale is known move real numbers."""
    carried = _told_by_readers(draft)
    told: Meanings = {}

    def rewrite(draft: Draft, node: NodeProto) -> Left | None:
        return _rewritten(draft, node, told, carried)

    def quantize(draft: Draft, node: NodeProto) -> Left | None:
        if meaning := _linear_meaning(draft, node):
            told[node.output[0]] = meaning
        return Left()

    table = {(node.domain, node.op_type): rewrite for node in draft.before}
    draft.apply({**table, ("", Q): quantize})


def _linear_meaning(draft: Draft, node: NodeProto) -> Quantization | None:
    """That of a QuantizeLinear or DequantizeLinear with one constant scale."""
    kind = INTEGERS.get(
        draft.elem_type(node.output[0] if node.op_type == Q else node.input[0])
    )
    scale = draft.value(node.input[1])
    if kind in (None, np.int32) or scale is None or scale.size > 1:
        return None
    return draft.quantization(node, None).of_type(kind or np.uint8)


def _told_by_readers(draft: Draft) -> Meanings:
    """What integers stand for, as far as those tell that read them, or what is moved."""
    told: Meanings = {}
    for node in reversed(draft.before):
        if is_standard(node, DQ):
            meaning = _linear_meaning(draft, node)
            if meaning is not None:
                told.setdefault(node.input[0], meaning)
            continue
        if _moves(node):
            found = [told[name] for name in _results(node) if name in told]
            for name in _data(node):
                if found and draft.elem_type(name) in (0, *INTEGERS):
                    told.setdefault(name, found[0])
    return told


def _moves(node: NodeProto) -> bool:
    """Whether it moves or selects values, or a Resize interpolates: at the same scale too."""
    if node.op_type == "NhwcMaxPool":
        return node.domain == "com.microsoft"
    return not node.domain and node.op_type in _MOVED


def _data(node: NodeProto) -> list[str]:
    return [name for name in node.input[_MOVED[node.op_type][0]] if name]


def _results(node: NodeProto) -> list[str]:
    return [name for name in node.output[_MOVED[node.op_type][1]] if name]


def _rewritten(
    draft: Draft, node: NodeProto, told: Meanings, by_readers: Meanings
) -> Left | None:
    if not _moves(node):
        return _unmoved(node, told)
    data = _data(node)
    if draft.elem_type(data[0]) not in (0, *INTEGERS):
        return Left()
    if _folded(draft, node, data):
        return None
    names = [*data, *_results(node)]
    writers = {told[name].key: told[name] for name in data if name in told}
    readers = [by_readers[name] for name in names if name in by_readers]
    if len(writers) > 1:
        return Left("it puts integers of different scales together")
    if not writers and not readers:
        return Left()
    meaning = next(iter(writers.values())) if writers else readers[0]
    told |= dict.fromkeys(_results(node), meaning)
    if node.op_type == "Resize" and attribute(node, "mode", b"nearest") != b"nearest":
        draft.note(node, "what is interpolated is rounded, onnxruntime cuts it off")
    _WRITERS.get(node.op_type, _plain)(draft, node, meaning)
    return None


def _unmoved(node: NodeProto, told: Meanings) -> Left:
    """What else reads integers reads them as they are."""
    if node.domain or node.op_type in _UNMOVED:
        return Left()
    read = next((name for name in node.input if name in told), None)
    return Left("" if read is None else f"it computes with the stored integers {read!r}")


def _folded(draft: Draft, node: NodeProto, data: Sequence[str]) -> bool:
    """Whether all are constants: then the result is one."""
    kinds = {draft.elem_type(name) for name in data}
    if len(node.output) > 1 or not kinds <= INTEGERS.keys() - {TensorProto.INT32}:
        return False
    found = draft.value(node.output[0])
    if found is None or draft.is_output(node.output[0]):
        return False
    draft.replace(node.output[0], found)
    return True


def _reals(draft: Draft, names: Sequence[str], meaning: Quantization) -> Iterator[str]:
    """The real numbers of moved tensors; of single constants, constants."""
    for name in names:
        value = draft.value(name) if name else None
        if value is not None and value.size == 1:
            yield draft.constant(f"{name}_real", meaning.real(value))
        else:
            yield draft.real(name, meaning) if name else ""


def _plain(draft: Draft, node: NodeProto, meaning: Quantization) -> None:
    """The same op."""
    inputs, data = list(node.input), _MOVED[node.op_type][0]
    inputs[data] = _reals(draft, node.input[data], meaning)
    _write(draft, node, node.op_type, inputs, meaning)


def _write(
    draft: Draft, node: NodeProto, op: str, inputs: Sequence[str], meaning: Quantization
) -> None:
    outputs = list(node.output)
    moved = _results(node)
    reals = {name: draft.fresh(f"{name}_real") for name in moved}
    names = [reals.get(name, name) for name in outputs]
    draft.add(op, inputs, names, node.name, list(node.attribute))
    for name, real in reals.items():
        draft.store(real, name, meaning)


def _relu(draft: Draft, node: NodeProto, meaning: Quantization) -> None:
    """It clips at the stored 0."""
    _clipped(draft, node, meaning, (0, np.iinfo(meaning.zero_point.dtype).max))


def _clip(draft: Draft, node: NodeProto, meaning: Quantization) -> None:
    """At what its bounds stand for, which are integers as well."""
    ends = [input_at(node, index) for index in (1, 2)]
    if all(draft.value(name) is not None for name in ends if name):
        kind = meaning.zero_point.dtype.type
        _clipped(draft, node, meaning, clip_bounds(draft, node, kind))
        return
    inputs = [draft.real(node.input[0], meaning), *_reals(draft, ends, meaning)]
    _write(draft, node, "Clip", inputs, meaning)


def _clipped(
    draft: Draft, node: NodeProto, meaning: Quantization, bounds: tuple[int, int]
) -> None:
    x = draft.real(node.input[0], meaning)
    real = write_clip(draft, x, bounds, meaning, node)
    draft.store(real, node.output[0], meaning)


def _pad(draft: Draft, node: NodeProto, meaning: Quantization) -> None:
    """What it fills with is an integer too: the stored 0 where it says nothing."""
    inputs = [*node.input, *[""] * (3 - len(node.input))]
    inputs[0] = draft.real(node.input[0], meaning)
    if attribute(node, "mode", b"constant") == b"constant":
        (value,) = _reals(draft, [inputs[2]], meaning) if inputs[2] else [""]
        filled = meaning.real(np.zeros((), np.int32))
        inputs[2] = value or draft.constant(f"{node.output[0]}_fill", np.asarray(filled))
    _write(draft, node, "Pad", inputs, meaning)


def _nhwc_max_pool(draft: Draft, node: NodeProto, meaning: Quantization) -> None:
    rank = len(attribute(node, "kernel_shape")) + 2
    x = to_channels_first(draft, draft.real(node.input[0], meaning), rank, node)
    inner = draft.fresh(f"{node.output[0]}/MaxPool")
    draft.add("MaxPool", [x], inner, node.name, attributes_but(node))
    draft.store(to_channels_last(draft, inner, rank, node), node.output[0], meaning)


_WRITERS: Mapping[str, Callable[[Draft, NodeProto, Quantization], None]] = {
    "Relu": _relu,
    "Clip": _clip,
    "Pad": _pad,
    "NhwcMaxPool": _nhwc_max_pool,
}
"""Ops that are not just the same on real numbers."""
