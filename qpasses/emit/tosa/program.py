"""A TOSA program in the making: constants, operations in order, and what they give."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.errors import ModelError
from qpasses.emit import mlir
from qpasses.emit.tosa.profile import PRO_INT_8K, Profile


class RefusedError(ModelError):
    """What TOSA cannot say; the message names no node."""


@dataclass(frozen=True)
class Value:
    """What an operation gives: its name in the text, its sizes, the type of its elements."""

    name: str
    shape: tuple[int, ...]
    element: str

    @property
    def type(self) -> str:
        """Its type in the text."""
        if self.element == _SHAPE:
            return f"!tosa.shape<{self.shape[0]}>"
        return mlir.tensor(self.shape, self.element)


_SHAPE = "shape"

WIDE = "i48"
"""Sums of products with int16."""

NUMPY = {"i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32"}
"""numpy's names of elements."""

_LIST = 64
"""So many tensors level 8K joins at most: MAX_TENSOR_LIST_SIZE."""

_COMPARING = ("equal", "greater", "greater_equal")


@dataclass
class Program:
    """Operations in order; what is equal is one. ``where``: the node that is lowered."""

    profile: Profile = PRO_INT_8K
    where: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    _constants: dict[tuple[Any, ...], tuple[Value, Any]] = field(default_factory=dict)
    _made: dict[str, Value] = field(default_factory=dict)
    _body: list[tuple[Value, str, str]] = field(default_factory=list)
    _arguments: list[Value] = field(default_factory=list)

    def argument(self, shape: Sequence[int], element: str) -> Value:
        """An input of the program."""
        if 0 in shape:
            raise RefusedError("a tensor without elements")
        value = Value(f"%arg{len(self._arguments)}", tuple(shape), element)
        self._arguments.append(value)
        return value

    def constant(self, values: Any, dtype: str) -> Value:
        """An array, of this numpy type."""
        array = np.ascontiguousarray(np.asarray(values, dtype)).reshape(np.shape(values))
        raw = array.reshape(-1).view(np.uint8).data
        key = (dtype, array.shape, blake2b(raw).digest())
        if key not in self._constants:
            value = Value(f"%c{len(self._constants)}", array.shape, mlir.ELEMENTS[dtype])
            self._constants[key] = value, array
        return self._constants[key][0]

    def wide_constant(self, values: Any) -> Value:
        """An array of int48, which numpy has not."""
        array = np.asarray(values, np.int64)
        key = (WIDE, array.shape, array.tobytes())
        if key not in self._constants:
            value = Value(f"%c{len(self._constants)}", array.shape, WIDE)
            self._constants[key] = value, array
        return self._constants[key][0]

    def zero_point(self, number: int, element: str) -> Value:
        """One number of this type."""
        return (
            self.wide_constant([number])
            if element == WIDE
            else self.constant([number], NUMPY[element])
        )

    def sizes(self, sizes: Sequence[int]) -> Value:
        """Sizes, as operations that reshape or pad read them."""
        key = (_SHAPE, tuple(sizes))
        if key not in self._constants:
            value = Value(f"%c{len(self._constants)}", (len(sizes),), _SHAPE)
            self._constants[key] = value, sizes
        return self._constants[key][0]

    def add(
        self,
        op: str,
        inputs: Sequence[Value],
        shape: Sequence[int],
        element: str,
        **attributes: str,
    ) -> Value:
        """An operation; ``attributes`` are text as ``mlir`` writes it."""
        value = Value(f"%{len(self._body)}", tuple(map(int, shape)), element)
        if 0 in value.shape and element != _SHAPE:
            raise RefusedError("a tensor without elements")
        most = self.profile.most_axes
        if most is not None and element != _SHAPE and len(value.shape) > most:
            raise RefusedError(f"{len(value.shape)} axes: level 8K has {most} at most")
        given = ", ".join(f"{name} = {each}" for name, each in attributes.items())
        names = ", ".join(each.name for each in inputs)
        types = ", ".join(each.type for each in inputs)
        shown = f" <{{{given}}}>" if given else ""
        text = f'"tosa.{op}"({names}){shown} : ({types}) -> {value.type}'
        if text in self._made and op != "identity":
            return self._made[text]
        self._made[text] = value
        self._body.append((value, text, self.where))
        self.counts[op] = self.counts.get(op, 0) + 1
        return value

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """``x`` with other sizes."""
        if tuple(shape) == x.shape:
            return x
        assert prod(shape) == prod(x.shape)
        return self.add("reshape", [x, self.sizes(shape)], shape, x.element)

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        """``x`` with its axes in another order."""
        shape = [x.shape[k] for k in axes]
        moved = [k for k in axes if x.shape[k] > 1]
        if moved == sorted(moved):  # axes of one alone
            return self.reshape(x, shape)
        perms = f"array<i32: {', '.join(map(str, axes))}>"
        return self.add("transpose", [x], shape, x.element, perms=perms)

    def slice(self, x: Value, start: Sequence[int], size: Sequence[int]) -> Value:
        """A part of ``x``."""
        if tuple(size) == x.shape:
            return x
        ends = [self.sizes(start), self.sizes(size)]
        return self.add("slice", [x, *ends], size, x.element)

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """``parts`` behind one another."""
        if len(parts) == 1:
            return parts[0]
        if len(parts) > _LIST:
            firsts = range(0, len(parts), _LIST)
            return self.concat([self.concat(parts[k : k + _LIST], axis) for k in firsts], axis)
        shape = list(parts[0].shape)
        shape[axis] = sum(each.shape[axis] for each in parts)
        return self.add("concat", parts, shape, parts[0].element, axis=mlir.number(axis))

    def pad(self, x: Value, pads: Sequence[tuple[int, int]], filling: int) -> Value:
        """``x`` with so many elements more before and behind along each axis."""
        if not any(map(any, pads)):
            return x
        shape = [size + sum(each) for size, each in zip(x.shape, pads, strict=True)]
        ends = self.sizes([end for each in pads for end in each])
        operands = [x, ends, self.zero_point(filling, x.element)]
        return self.add("pad", operands, shape, x.element)

    def cast(self, x: Value, element: str) -> Value:
        """``x`` as other integers."""
        return x if x.element == element else self.add("cast", [x], x.shape, element)

    def elementwise(self, op: str, a: Value, b: Value, **attributes: str) -> Value:
        """An operation of two tensors of one rank, which broadcast; comparisons give i1."""
        shape = np.broadcast_shapes(a.shape, b.shape)
        element = "i1" if op in _COMPARING else a.element
        return self.add(op, [a, b], shape, element, **attributes)

    def same_rank(self, number: int, x: Value) -> Value:
        """A number in the type of ``x``, i32, that broadcasts with it."""
        return self.constant(np.full([1] * max(len(x.shape), 1), number), "int32")

    def multiply(self, a: Value, b: Value, shift: int = 0) -> Value:
        """The product of int32 tensors over ``2**shift``, half up, which has to fit int32."""
        shape = np.broadcast_shapes(a.shape, b.shape)
        return self.add("mul", [a, b, self.constant([shift], "int8")], shape, "i32")

    def select(self, where: Value, a: Value, b: Value) -> Value:
        """``a`` where it is true, elsewhere ``b``."""
        shape = np.broadcast_shapes(where.shape, a.shape, b.shape)
        return self.add("select", [where, a, b], shape, a.element)

    def masked(self, x: Value, mask: int) -> Value:
        """Bits of int32."""
        return self.elementwise("bitwise_and", x, self.same_rank(mask, x))

    def right_shift(self, x: Value, bits: Value | int) -> Value:
        """int32 over ``2**bits``, rounded down."""
        if bits == 0:
            return x
        by = self.same_rank(bits, x) if isinstance(bits, int) else bits
        return self.elementwise("arithmetic_right_shift", x, by, round="false")

    def left_shift(self, x: Value, bits: Value | int) -> Value:
        """int32 times ``2**bits``, which has to fit int32."""
        if bits == 0:
            return x
        by = self.same_rank(bits, x) if isinstance(bits, int) else bits
        return self.elementwise("logical_left_shift", x, by)

    def rescale(
        self,
        x: Value,
        element: str,
        pairs: tuple[NDArray[Any], NDArray[Any]],
        zeros: tuple[int, int] = (0, 0),
        unsigned: tuple[bool, bool] = (False, False),
    ) -> Value:
        """RESCALE with one rounding; multipliers and shifts one or a channel.

        Multipliers have 32 bits, of int48 16.
        """
        multipliers, shifts = pairs
        is_wide = x.element == WIDE
        operands = [
            x,
            self.constant(np.reshape(multipliers, -1), "int16" if is_wide else "int32"),
            self.constant(np.reshape(shifts, -1), "int8"),
            self.zero_point(zeros[0], x.element),
            self.zero_point(zeros[1], element),
        ]
        return self.add(
            *("rescale", operands, x.shape, element),
            input_unsigned=mlir.flag(unsigned[0]),
            output_unsigned=mlir.flag(unsigned[1]),
            per_channel=mlir.flag(np.size(multipliers) > 1),
            rounding_mode="#tosa.rounding_mode<SINGLE_ROUND>",
            scale32=mlir.flag(not is_wide),
        )

    def reduce(self, op: str, x: Value, axis: int) -> Value:
        """``x`` reduced along an axis, of which one is left."""
        shape = [1 if k == axis else size for k, size in enumerate(x.shape)]
        return self.add(op, [x], shape, x.element, axis=mlir.number(axis))

    def clamp(self, x: Value, low: int, high: int) -> Value:
        """``x`` within two codes; nothing where they are the ends of its type."""
        bits = int(x.element[1:])
        if low <= -(1 << (bits - 1)) and high >= (1 << (bits - 1)) - 1:
            return x
        if x.element == "i32":  # has no clamp
            x = self.elementwise("maximum", x, self.same_rank(low, x))
            return self.elementwise("minimum", x, self.same_rank(high, x))
        return self.add(
            *("clamp", [x], x.shape, x.element),
            min_val=mlir.number(low, x.element),
            max_val=mlir.number(high, x.element),
        )

    def lines(self, outputs: Sequence[Value]) -> Iterator[str]:
        """The module, whose function ``main`` gives the ``outputs``, in pieces.

        Large constants are resources, behind it.
        """
        given = ", ".join(f"{each.name}: {each.type}" for each in self._arguments)
        types = ", ".join(each.type for each in self._arguments)
        results = ", ".join(each.type for each in outputs)
        signature = f'function_type = ({types}) -> ({results}), sym_name = "main"'
        yield f'"builtin.module"() ({{\n  "func.func"() <{{{signature}}}> ({{\n'
        yield f"  ^bb0({given}):\n"
        large = {}
        for value, held in self._constants.values():
            yield f'    {value.name} = "tosa.const'
            if value.element == _SHAPE:
                sizes = ", ".join(map(str, held))
                yield f'_shape"() <{{values = dense<[{sizes}]> : tensor<{len(held)}xindex>}}>'
            elif value.element == WIDE:
                yield f'"() <{{values = {mlir.written_out(held, WIDE)}}}>'
            elif held.nbytes < _LARGE or mlir.is_uniform(held):
                yield f'"() <{{values = {mlir.dense(held)}}}>'
            else:
                large[value.name[1:]] = held
                yield f'"() <{{values = dense_resource<{value.name[1:]}> : {value.type}}}>'
            yield f" : () -> {value.type}\n"
        for value, text, where in self._body:
            yield f"    {value.name} = {text} loc({mlir.text(where)})\n"
        names = ", ".join(each.name for each in outputs)
        yield f'    "func.return"({names}) : ({results}) -> ()\n  }}) : () -> ()\n'
        yield "}) : () -> ()\n"
        if large:
            yield "\n{-#\n  dialect_resources: {\n    builtin: {\n"
            for place, (name, held) in enumerate(large.items(), 1):
                end = "," if place < len(large) else ""
                yield f"      {name}: {mlir.resource(held)}{end}\n"
            yield "    }\n  }\n#-}\n"


_LARGE = 1 << 12
"""Constants of so many bytes are resources."""
