"""What lowerings to TFLite share: codes with their scales, proofs that a kernel is equal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opsets.errors import ModelError
from opsets.fixed_point import Int64
from opsets.multipliers import Pair
from opsets.qpasses_v1 import OPS
from opsets.realised import node_pair
from opsets.rounding import NodeRounding, wraps
from qpasses.emit.layouts import Order
from qpasses.emit.operations import RefusedError, Value
from qpasses.emit.tflite.flatbuffer import Scales
from qpasses.emit.tflite.litert_arithmetic import (
    ROUNDING,
    Runtime,
    activation,
    single,
)
from qpasses.emit.tflite.tflite_operations import TfliteOperations
from qpasses.emit.tosa.equal_rescales import UNCHANGED, Pairs
from qpasses.emit.tosa.lowering import Lowering, offset
from qpasses.evidence.bodies import constants_of
from qpasses.evidence.prove import rests_of
from qpasses.evidence.prove_pairs import all_pairs
from qpasses.evidence.thresholds import Interval, levels, meaning_thresholds
from qpasses.ir.graph import Node, Tensor
from qpasses.ir.record import Quantization, Record

Given = Mapping[str, NDArray[Any]]

_ELEMENTS = {
    **{"int8": "i8", "uint8": "i8", "int16": "i16"},
    **{"int32": "i32", "int64": "i32", "bool": "i1"},
}


class UnlikeRuntimeError(RefusedError):
    """The runtime's arithmetic gives other integers; the message says both numbers."""

    def __init__(self, ours: object, theirs: object, by: Runtime) -> None:
        super().__init__(
            f"its numbers are {ours}, {by.title} derives {theirs} from the scales, and some "
            f"of their results differ: quantize with --target {by.name}, or export for "
            "another runtime (--tflite-runtime)"
        )


@dataclass
class TfliteLowering(Lowering):
    """A graph on its way to a TFLite file.

    ``record``: that of the model; ``ends``: its outputs; ``columns``: by tensor, where in
    ONNX's row each column is, of rows that lie as the pictures do which they are made of.
    """

    system: ClassVar[str] = "TFLite"
    no_float: ClassVar[str] = "the file has integers alone"

    program: TfliteOperations = field(default_factory=TfliteOperations)
    record: Record = field(default_factory=Record)
    columns: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    ends: Sequence[Tensor] = ()

    @property
    def runtime(self) -> Runtime:
        """Whose kernels compute it."""
        return self.program.runtime

    def is_wanted(self, tensor: Tensor) -> bool:
        """Whether anything reads it, or it leaves the graph."""
        return bool(tensor.outputs) or any(tensor is each for each in self.ends)

    def begin(self, node: Node) -> None:
        """What it writes means what the record says of its first output."""
        super().begin(node)
        self.program.meaning = self.meaning_of(node.outputs[0])

    def meaning_of(self, tensor: Tensor) -> Scales | None:
        """What its codes mean as they are stored here, if they do."""
        found = self.record.tensors.get(str(tensor.name))
        if not isinstance(found, Quantization):
            return None
        return meaning(found.scale, found.zero)

    def write(self, tensor: Tensor, value: Value, order: Order | None = None) -> None:
        """A value is called by the first tensor that it is."""
        if tensor.dtype is not None:
            stored = self.element_of(np.dtype(tensor.dtype), str(tensor.name))
            if value.element == "i32" and stored == "i16":  # words are int32 for TOSA
                value = self.program.cast(value, stored)
            if value.element != stored:
                raise RefusedError(f"its result is {value.element}, stored as {stored}")
        super().write(tensor, value, order)
        self.program.call(value, str(tensor.name))

    def element_of(self, dtype: np.dtype[np.generic], name: str) -> str:
        """uint8 is stored as int8, 128 lower, int64 as int32."""
        if dtype.kind == "f":
            raise ModelError(f"tensor {name!r} is left in float, and {self.no_float}")
        if dtype.name not in _ELEMENTS:
            raise ModelError(f"tensor {name!r} is {dtype.name}, of which no operator works")
        return _ELEMENTS[dtype.name]

    def unread(self, node: Node) -> RefusedError:
        """What is raised for channels with scales of their own."""
        return RefusedError(f"{node.op} of channels with scales of their own has no operator")

    def requantized(self, acc: Value, node: Node, reachable: Interval) -> Value:
        """Sums in int32, exactly: no operator takes them."""
        given = self.constants(node)
        return self.by_limbs(acc, given, node.attrs["rounding"], reachable, rests_of(node))

    def ended(self, acc: Value, pairs: Pairs, given: Given) -> Value:
        """int32 levels as the codes between the ends that ``given`` has."""
        if pairs is not UNCHANGED:
            raise RefusedError("a requantization rounded once")
        dtype = given["y_zero"].dtype
        element, less = self.element_of(dtype, "y"), offset(dtype)
        zero, low, high = (int(given[name]) - less for name in ("y_zero", "y_min", "y_max"))
        number = self.program.same_rank
        if zero:
            acc = self.program.elementwise("add", acc, number(zero, acc))
        acc = self.program.elementwise("maximum", acc, number(low, acc))
        acc = self.program.elementwise("minimum", acc, number(high, acc))
        return self.program.cast(acc, element)

    def codes_of(self, node: Node, name: str, order: Order | None) -> tuple[Value, Scales]:
        """What operand ``name`` of a node is, and what it means to the node.

        Raises RefusedError where the file and the node have another zero point.
        """
        op, given = OPS[node.op], constants_of(node)
        tensor = node.inputs[[*op.inputs].index(name)]
        zero = given[f"{name}_zero"]
        if zero.ndim:
            raise self.unread(node)
        values = self.known(tensor)
        if values is not None:
            known = meaning(self.record.nodes[str(node.name)].scales[name][0], zero)
            whole = np.reshape(values, (1,) * (len(order or ()) - values.ndim) + values.shape)
            stored = np.transpose(whole, order) if order else values
            return self.program.stored(self.as_stored(stored, "")[0], known), known
        value = self.read(tensor, order) if order is None else self.broadcast(tensor, order)
        found = self.program.scales(value)
        if found.zero != int(zero) - offset(zero.dtype):
            raise RefusedError(
                f"its zero point of {name} is not that of tensor {tensor.name!r}"
            )
        return value, found

    def has_words(self, node: Node, *names: str) -> bool:
        """Whether all of these operands have 16 bits. Raises RefusedError where some have."""
        given = constants_of(node)
        found = {given[f"{name}_zero"].dtype.itemsize > 1 for name in names}
        if len(found) > 1:
            raise RefusedError("tensors of 8 and of 16 bits have no operator together")
        return found.pop()

    def written(self, node: Node) -> Scales:
        """What the node writes means. Raises RefusedError for another zero point of it."""
        zero = constants_of(node)["y_zero"]
        found = self.program.meaning
        if zero.ndim or found is None or len(found.scales) > 1:
            raise self.unread(node)
        if found.zero != int(zero) - offset(zero.dtype):
            raise RefusedError("its zero point is not that of the tensor that it writes")
        return found

    def weight_scales(self, node: Node, count: int) -> list[float]:
        """Of each output channel. Raises RefusedError for a scale that is no float32."""
        found = self.record.nodes[str(node.name)].scales["w"]
        for each in found:
            meaning(each, np.array(0, np.int8))
        return [*found] * (count // len(found))

    def ends_of(self, given: Given) -> tuple[int, int]:
        """The smallest and the largest code that a node writes, as they are stored here."""
        low, high = (
            int(given[name]) - offset(given[name].dtype) for name in ("y_min", "y_max")
        )
        return low, high

    def fused(self, meaning: Scales, given: Given) -> str | None:
        """The fused activation that bounds codes as the node does, if there is one."""
        limits = np.iinfo(np.int16 if given["y_zero"].dtype == np.int16 else np.int8)
        whole = range(int(limits.min), int(limits.max) + 1)
        return activation(meaning.scale, meaning.zero, *self.ends_of(given), whole)

    def bounded(self, codes: Value, name: str | None, given: Given) -> Value:
        """Codes within the node's bounds, if no fused activation keeps them there."""
        return codes if name is not None else self.program.limited(codes, *self.ends_of(given))

    def check_steps(
        self, node: Node, given: Given, theirs: Sequence[Pair], reachable: Interval
    ) -> None:
        """Raise UnlikeRuntimeError unless all sums in reach step where the runtime's do.

        ``theirs``: multiplier and shift of each channel, rounded twice.
        """
        multiplier, shift = (np.array(each, np.int64) for each in zip(*theirs, strict=True))
        if reachable.wraps(shift, ROUNDING):
            raise RefusedError("its sums wrap in the runtime as they are shifted to the left")
        steps = levels(*(int(given[name]) for name in ("y_zero", "y_min", "y_max")))
        self.check_thresholds(
            *(node, given, meaning_thresholds(multiplier, shift, steps, ROUNDING)),
            *(reachable, theirs),
        )

    def check_thresholds(
        self,
        node: Node,
        given: Given,
        theirs: Int64,
        reachable: Interval,
        shown: Sequence[object],
    ) -> None:
        """The same of the runtime's steps; ``shown``: its numbers for each channel."""
        steps = levels(*(int(given[name]) for name in ("y_zero", "y_min", "y_max")))
        rounding, rest, count = node.attrs["rounding"], rests_of(node), len(theirs)
        own = [
            np.broadcast_to(given[name].reshape(-1).astype(np.int64), (count,))
            for name in ("multiplier", "shift")
        ]
        whole = Interval(
            *(np.broadcast_to(e, (count,)) for e in (reachable.low, reachable.high))
        )
        if not whole.fits_int32():
            raise RefusedError("its sums are beyond int32")
        if any(wraps(end, own[1], rounding).any() for end in (whole.low, whole.high)):
            raise RefusedError("its sums wrap as they are shifted to the left")
        ours = meaning_thresholds(own[0], own[1], steps, rounding, rest)
        unlike = (whole.clip(ours) != whole.clip(theirs)).any(axis=1)
        if unlike.any():
            channel = int(unlike.argmax())
            numbers = f"{own[0][channel]} / 2**{own[1][channel]} {rounding}, channel {channel}"
            raise UnlikeRuntimeError(numbers, shown[channel % len(shown)], self.runtime)

    def check_numbers(
        self, node: Node, theirs: Mapping[str, Sequence[Pair]], rounding: NodeRounding
    ) -> None:
        """Raise UnlikeRuntimeError unless a node has the runtime's numbers and rounding.

        For words, whose codes are too many to try. ``theirs``: pairs of each channel, by what
        the names of multiplier and shift begin with.
        """
        given, own_rounding = self.constants(node), node.attrs["rounding"]
        for name, pairs in theirs.items():
            wanted = np.array([node_pair(each, rounding) for each in pairs], np.int64)
            parts = [given[f"{name}{part}"].reshape(-1) for part in ("multiplier", "shift")]
            own = np.stack(np.broadcast_arrays(*parts), axis=-1)
            is_zero = (own[:, 0] == 0) & (wanted[:, 0] == 0)  # whatever the shift
            unlike = (own != wanted).any(axis=1) & ~is_zero | (own_rounding != rounding)
            if unlike.any():
                at = int(unlike.argmax())
                ours, found = own[at % len(own)].tolist(), wanted[at % len(wanted)].tolist()
                numbers = f"{ours[0]} / 2**{ours[1]} {own_rounding}"
                raise UnlikeRuntimeError(numbers, (*found, rounding), self.runtime)

    def check_pairs(self, node: Node, given: Given, theirs: Int64, shown: object) -> None:
        """Raise UnlikeRuntimeError unless all pairs of codes give what ``theirs`` are."""
        names = ("a", "b")
        codes = (all_pairs(given[f"{n}_zero"].dtype.name)[k] for k, n in enumerate(names))
        pairs = dict(zip(names, codes, strict=True))
        self._check(node, {**given, **pairs}, theirs, shown)

    def check_codes(self, node: Node, given: Given, theirs: Int64, shown: object) -> None:
        """The same of all codes of one tensor, in a row."""
        self._check(
            node, {**given, "x": all_pairs(given["x_zero"].dtype.name)[1]}, theirs, shown
        )

    def _check(self, node: Node, inputs: Given, theirs: Int64, shown: object) -> None:
        op = OPS[node.op]
        attributes = {name: each for name, each in node.attrs.items() if name in op.attributes}
        ours = op.reference(*(inputs[name] for name in op.inputs), **attributes)
        zero, low, high = (int(inputs[name]) for name in ("y_zero", "y_min", "y_max"))
        if not np.array_equal(ours, np.clip(theirs + zero, low, high)):
            own = [np.ravel(inputs[n])[:3].tolist() for n in op.inputs if "multiplier" in n]
            raise UnlikeRuntimeError(own, shown, self.runtime)


def meaning(scale: float, zero: NDArray[Any]) -> Scales:
    """Raises RefusedError for a scale that is no float32."""
    if single(scale) != scale:
        raise RefusedError(f"the scale {scale!r} is no float32, which the file has")
    return Scales((scale,), (int(zero) - offset(zero.dtype),))
