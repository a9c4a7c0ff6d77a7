"""A TOSA program in the making: constants, operations in order, and what they give."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.emit import mlir
from qpasses.emit.operations import SHAPE, WIDE, Operations, RefusedError, Value
from qpasses.emit.tosa.profile import PRO_INT_8K, Profile


@dataclass
class Program(Operations):
    """Operations in order; what is equal is one. ``where``: the node that is lowered."""

    profile: Profile = PRO_INT_8K
    counts: dict[str, int] = field(default_factory=dict)
    _constants: dict[tuple[Any, ...], tuple[Value, Any]] = field(default_factory=dict)
    _made: dict[str, Value] = field(default_factory=dict)
    _body: list[tuple[Value, str, str]] = field(default_factory=list)
    _arguments: list[Value] = field(default_factory=list)

    @property
    def most_axes(self) -> int | None:
        """That of the profile's level."""
        return self.profile.most_axes

    @property
    def largest_kernel(self) -> int | None:
        """That of the profile's level."""
        return self.profile.largest_kernel

    @property
    def words(self) -> str:
        """As the profile holds it."""
        return self.profile.words

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

    def sizes(self, sizes: Sequence[int]) -> Value:
        """Sizes, as operations that reshape or pad read them."""
        key = (SHAPE, tuple(sizes))
        if key not in self._constants:
            value = Value(f"%c{len(self._constants)}", (len(sizes),), SHAPE)
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
        if 0 in value.shape and element != SHAPE:
            raise RefusedError("a tensor without elements")
        most = self.profile.most_axes
        if most is not None and element != SHAPE and len(value.shape) > most:
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

    def permuted(self, x: Value, axes: Sequence[int], shape: Sequence[int]) -> Value:
        """TRANSPOSE."""
        perms = f"array<i32: {', '.join(map(str, axes))}>"
        return self.add("transpose", [x], shape, x.element, perms=perms)

    def joined(self, parts: Sequence[Value], axis: int, shape: Sequence[int]) -> Value:
        """CONCAT."""
        return self.add("concat", parts, shape, parts[0].element, axis=mlir.number(axis))

    def right_shift(self, x: Value, bits: Value | int) -> Value:
        """ARITHMETIC_RIGHT_SHIFT of int32, rounded down."""
        if bits == 0:
            return x
        by = self.same_rank(bits, x) if isinstance(bits, int) else bits
        shape = np.broadcast_shapes(x.shape, by.shape)
        return self.add("arithmetic_right_shift", [x, by], shape, x.element, round="false")

    def interpolated(self, x: Value, table: NDArray[np.int64]) -> Value | None:
        """TABLE of int16, whose entries rise or fall by 15 bits at most."""
        if x.element != "i16" or np.abs(np.diff(table)).max() >= 1 << 15:
            return None
        return self.add("table", [x, self.constant(table, "int16")], x.shape, "i32")

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

    def reverse(self, x: Value, axis: int) -> Value:
        """REVERSE."""
        return self.add("reverse", [x], x.shape, x.element, axis=mlir.number(axis))

    def argmax(self, x: Value, axis: int) -> Value:
        """ARGMAX."""
        rest = [size for k, size in enumerate(x.shape) if k != axis]
        return self.add("argmax", [x], rest, "i32", axis=mlir.number(axis))

    def are_zero(self, parts: Sequence[Value]) -> Value:
        """BITWISE_OR, EQUAL."""
        found = parts[0]
        for each in parts[1:]:
            found = self.elementwise("bitwise_or", found, each)
        return self.elementwise("equal", found, self.same_rank(0, found))

    def limited(self, x: Value, low: int, high: int) -> Value:
        """CLAMP."""
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
            if value.element == SHAPE:
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
