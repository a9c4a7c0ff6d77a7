"""QuantizeLinear and DequantizeLinear: other domains', of constants, and around a Clip.

before:  QuantizeLinear (x) -> Clip (stored) -> DequantizeLinear
after:   Clip (x) -> QuantizeLinear -> DequantizeLinear

The numbers stay: QuantizeLinear is monotone, and gives a bound back for what it stands for.
"""

import numpy as np
from onnx import NodeProto, TensorProto

from qpasses.load.foreign.draft import Draft, Left, Table
from qpasses.load.foreign.node_parts import DQ, Q, attribute, input_at, is_standard
from qpasses.load.foreign.quantization import INTEGERS
from qpasses.load.foreign.real_bounds import write_clip


def _contrib(draft: Draft, node: NodeProto) -> Left | None:
    """onnxruntime's own op, for its 16 bits: ONNX has them from opset 21 on."""
    standard = NodeProto()
    standard.CopyFrom(node)
    standard.domain = ""
    meaning = draft.quantization(
        node, 0 if node.op_type == DQ else None, axis=int(attribute(node, "axis", 1))
    )
    if not meaning.per_axis:
        del standard.attribute[:]
    draft.need(meaning.opset())
    draft.keep(standard)
    return None


def _quantize(draft: Draft, node: NodeProto) -> Left | None:
    """Of constants, the integers themselves."""
    if reason := _strange(draft, node, draft.elem_type(node.output[0])):
        return Left(reason)
    if draft.at_run_time(node.output[0]):
        return Left()  # whatever reads it tells what becomes of it
    meaning = draft.quantization(node, None, axis=int(attribute(node, "axis", 1)))
    real = draft.value(node.input[0])
    if real is None or draft.is_output(node.output[0]):
        return Left()
    kind = INTEGERS.get(draft.elem_type(node.output[0]), np.uint8)
    draft.replace(node.output[0], meaning.of_type(kind).stored(real))
    return None


def _strange(draft: Draft, node: NodeProto, kind: int) -> str:
    """Why it stays, whatever its scale; "" where it need not."""
    if kind not in (TensorProto.UNDEFINED, *INTEGERS):
        name = TensorProto.DataType.Name(kind).lower()
        return f"what it stores is {name}, not integers of 8 bits or more"
    if attribute(node, "block_size"):
        return "every block of numbers has a scale of its own"
    return ""


def _dequantize(draft: Draft, node: NodeProto) -> Left | None:
    """What was quantized at run time is read as it was."""
    dynamic = draft.at_run_time(node.input[0])
    if dynamic and (node.input[1], input_at(node, 2)) == dynamic[1:]:
        draft.add("Identity", [dynamic.real], node.output[0], node.name)
        draft.say_dynamic(node)
        return None
    if reason := _strange(draft, node, draft.elem_type(node.input[0])):
        return Left(reason)
    draft.quantization(node, 0, axis=int(attribute(node, "axis", 1)))  # raises if it is none
    return Left()


def _clip(draft: Draft, node: NodeProto) -> Left | None:
    """Between QuantizeLinear and its readers; of constants, the integers themselves."""
    kind = INTEGERS.get(draft.elem_type(node.input[0]))
    ends = [draft.value(name) for name in (input_at(node, 1), input_at(node, 2)) if name]
    if kind is None or any(end is None for end in ends):
        return Left()
    stored = draft.value(node.input[0])
    lowest, highest = clip_bounds(draft, node, kind)
    if stored is not None and not draft.is_output(node.output[0]):
        draft.replace(node.output[0], np.clip(stored, lowest, highest))
        return None
    source = draft.producer(node.input[0])
    if source is None or not is_standard(source, Q) or draft.at_run_time(node.input[0]):
        return Left()
    meaning = draft.quantization(source, None, axis=int(attribute(source, "axis", 1)))
    if meaning.per_axis or draft.sole_reader(node.input[0]) is not node:
        return Left()  # what moves integers is said later
    _clip_before(draft, node, source, (lowest, highest))
    return None


def clip_bounds(draft: Draft, node: NodeProto, kind: type) -> tuple[int, int]:
    """The constant bounds of a Clip of integers, within those of its type."""
    limits = np.iinfo(kind)
    found = [limits.min, limits.max]
    for index in (0, 1):
        name = input_at(node, index + 1)
        value = draft.value(name) if name else None
        if value is not None:
            found[index] = int(value.reshape(()))
    return max(found[0], limits.min), min(found[1], limits.max)


def _clip_before(
    draft: Draft, node: NodeProto, source: NodeProto, bounds: tuple[int, int]
) -> None:
    meaning = draft.quantization(source, None).of_type(
        INTEGERS[draft.elem_type(source.output[0])]
    )
    clipped = write_clip(draft, source.input[0], bounds, meaning, node)
    draft.store(clipped, node.output[0], meaning, source.name)
    draft.skip(source)


LINEAR_NODES: Table = {
    ("com.microsoft", Q): _contrib,
    ("com.microsoft", DQ): _contrib,
    ("", Q): _quantize,
    ("", DQ): _dequantize,
    ("", "Clip"): _clip,
}
"""What they become: by domain and op."""
