"""A TFLite graph in the making: its tensors, and operators in order, with their versions.

What works on int32 follows TOSA's operations exactly: there is an operator for most, and the
rest, bits of a number, is said by arithmetic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.emit import mlir
from qpasses.emit.operations import Operations, RefusedError, Value
from qpasses.emit.tflite.flatbuffer import FileOperator, FileTensor, Scales
from qpasses.emit.tflite.litert_arithmetic import Runtime, runtime_of

_DTYPES = {"i8": "int8", "ui8": "uint8", "i16": "int16", "i32": "int32", "i1": "bool"}

_ALIKE: Mapping[str, tuple[str, int, str, Mapping[str, Any]]] = {
    "add": ("ADD", 2, "AddOptions", {}),
    "sub": ("SUB", 2, "SubOptions", {}),
    "mul": ("MUL", 2, "MulOptions", {}),
    "intdiv": ("DIV", 1, "DivOptions", {}),
    "maximum": ("MAXIMUM", 2, "MaximumMinimumOptions", {}),
    "minimum": ("MINIMUM", 2, "MaximumMinimumOptions", {}),
    "equal": ("EQUAL", 2, "EqualOptions", {}),
    "greater": ("GREATER", 2, "GreaterOptions", {}),
    "greater_equal": ("GREATER_EQUAL", 2, "GreaterEqualOptions", {}),
    "logical_and": ("LOGICAL_AND", 1, "LogicalAndOptions", {}),
    "logical_or": ("LOGICAL_OR", 1, "LogicalOrOptions", {}),
    "logical_xor": ("NOT_EQUAL", 2, "NotEqualOptions", {}),
    "logical_not": ("LOGICAL_NOT", 1, "LogicalNotOptions", {}),
    "select": ("SELECT_V2", 1, "SelectV2Options", {}),
    "reshape": ("RESHAPE", 1, "", {}),
    "slice": ("SLICE", 2, "SliceOptions", {}),
    "tile": ("TILE", 2, "TileOptions", {}),
    "gather": ("GATHER", 5, "GatherOptions", {"axis": 1, "batchDims": 1}),
}
"""By TOSA's name: operator, version and options of what computes the same of int32, or moves
what it is given."""

_OF_WORDS = "add", "sub", "mul", "intdiv", "greater", "greater_equal"

_REDUCES = {"reduce_sum": "SUM", "reduce_max": "REDUCE_MAX", "reduce_min": "REDUCE_MIN"}


@dataclass
class TfliteOperations(Operations):
    """Operators in order; what is equal is one.

    ``runtime``: whose kernels compute them; ``meaning``: of codes that a node writes.
    """

    runtime: Runtime = field(default_factory=lambda: runtime_of("litert"))
    meaning: Scales | None = None
    tensors: list[FileTensor] = field(default_factory=list)
    operators: list[FileOperator] = field(default_factory=list)
    arguments: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    _made: dict[tuple[Any, ...], Value] = field(default_factory=dict)
    _named: set[str] = field(default_factory=set)

    def tensor(self, value: Value) -> FileTensor:
        """What it is in the file."""
        return self.tensors[place_of(value)]

    def scales(self, value: Value) -> Scales:
        """What its codes mean. Raises RefusedError for what has no meaning."""
        found = self.tensor(value).meaning
        if found is None:
            raise RefusedError("it reads integers whose scale the model does not say")
        return found

    def call(self, value: Value, name: str) -> None:
        """Give what an operator wrote, or an input, a name of its own, once."""
        tensor = self.tensor(value)
        if tensor.values is None:
            self.call_constant(value, name)

    def call_constant(self, value: Value, name: str) -> None:
        """The same of what is known."""
        tensor = self.tensor(value)
        if name not in self._named and not tensor.name:
            self._named.add(name)
            tensor.name = name

    def rename(self, value: Value, name: str) -> None:
        """Call it that, whatever it is called, if nothing else is."""
        if name not in self._named:
            self._named.add(name)
            self.tensor(value).name = name

    def is_known(self, value: Value) -> bool:
        """Whether it is a constant."""
        return self.tensor(value).values is not None

    def argument(self, shape: Sequence[int], element: str) -> Value:
        """An input of the file."""
        value = self._new(shape, element)
        self.arguments.append(value)
        return value

    def constant(self, values: Any, dtype: str) -> Value:
        """An array, of this numpy type; of codes the meaning is that of what is written."""
        are_codes = dtype in ("int8", "int16")
        return self.stored(np.asarray(values, dtype), self.meaning if are_codes else None)

    def stored(self, values: NDArray[Any], meaning: Scales | None) -> Value:
        """An array as it is; ``meaning`` of codes."""
        array = np.ascontiguousarray(values).reshape(values.shape)
        element = mlir.ELEMENTS[array.dtype.name]
        raw = array.reshape(-1).view(np.uint8).data
        key = ("constant", element, array.shape, blake2b(raw).digest(), meaning)
        if key not in self._made:
            value = self._new(array.shape, element, meaning)
            self.tensor(value).values = array
            self._made[key] = value
        return self._made[key]

    @property
    def words(self) -> str:
        """As itself."""
        return "i16"

    def wide_constant(self, values: Any) -> Value:
        """No type of TFLite has 48 bits."""
        raise RefusedError("sums of 48 bits")

    def interpolated(self, x: Value, table: NDArray[np.int64]) -> Value | None:
        """None: entries are taken by GATHER."""
        return None

    def multiply(self, a: Value, b: Value, shift: int = 0) -> Value:
        """MUL of int32, which no operator shifts and rounds."""
        if shift:
            raise RefusedError("a product of more than 32 bits, shifted and rounded")
        return super().multiply(a, b)

    def sizes(self, sizes: Sequence[int]) -> Value:
        """int32, without a meaning."""
        return self.stored(np.array(sizes, np.int32), None)

    def _new(self, shape: Sequence[int], element: str, meaning: Scales | None = None) -> Value:
        if 0 in shape:
            raise RefusedError("a tensor without elements")
        return self.fresh([*map(int, shape)], element, meaning)

    def operator(
        self,
        name: str,
        version: int,
        inputs: Sequence[Value],
        shape: Sequence[int],
        element: str,
        options: str = "",
        meaning: Scales | None = None,
        **numbers: Any,
    ) -> Value:
        """One that gives one tensor. Codes mean what the first input of their type does, if
        nothing is said: it moves them.
        """
        kinds = [inputs[0].element, *([] if name == "ARG_MAX" else [element])]
        for each in kinds:
            if each in self.runtime.lacking.get(name, ()):
                raise RefusedError(f"{self.runtime.title} has no {name} of {_DTYPES[each]}")
        most = self.runtime.most_axes.get(name, len(shape))
        if len(shape) > most:
            raise RefusedError(f"{len(shape)} axes: {name} has {most} at most")
        if meaning is None and element in ("i8", "ui8", "i16"):
            like = (self.tensor(each).meaning for each in inputs if each.element == element)
            meaning = next(like, self.meaning)
        key = (name, tuple(inputs), tuple(shape), element, meaning, *sorted(numbers.items()))
        if key not in self._made:
            self._made[key] = self._new(shape, element, meaning)
            self.append(name, version, inputs, self._made[key], options, numbers)
        return self._made[key]

    def append(
        self,
        name: str,
        version: int,
        inputs: Sequence[Value | None],
        value: Value,
        options: str,
        numbers: Mapping[str, Any],
        between: Sequence[Value] = (),
    ) -> None:
        """One that gives ``value``; ``between``: what it computes on the way."""
        places = [-1 if each is None else place_of(each) for each in inputs]
        rest = [place_of(value)], options, numbers, [*map(place_of, between)]
        self.operators.append(FileOperator(name, version, places, *rest))
        self.counts[name] = 1 + self.counts.get(name, 0)

    def fresh(
        self, shape: Sequence[int], element: str, meaning: Scales | None, is_kept: bool = False
    ) -> Value:
        """A tensor that no operator writes yet, of sizes that may be 0; or a variable."""
        self.tensors.append(FileTensor("", (*shape,), element, None, meaning, is_kept))
        return Value(f"%{len(self.tensors) - 1}", (*shape,), element)

    def add(
        self,
        op: str,
        inputs: Sequence[Value],
        shape: Sequence[int],
        element: str,
        **attributes: str,
    ) -> Value:
        """The operator that stands for TOSA's."""
        if op == "cast":
            return self._cast(inputs[0], element)
        if op == "clz":
            return self._leading_zeros(inputs[0])
        if op == "table":
            codes = self.cast(inputs[0], "i32")
            places = self.elementwise("add", codes, self.same_rank(128, codes))
            return self.looked_up(inputs[1], places)
        if op == "bitwise_not":
            wide = self.cast(inputs[0], "i32")
            flipped = self.elementwise("sub", self.same_rank(-1, wide), wide)
            return self.cast(flipped, element)
        if op not in _ALIKE or attributes:
            raise RefusedError(f"there is no operator for {op}")
        if op in _OF_WORDS and {each.element for each in inputs[:2]} != {"i32"}:
            raise RefusedError(f"{op} of what is not int32")
        name, version, options, numbers = _ALIKE[op]
        given = inputs[:2] if op == "mul" else inputs
        return self.operator(name, version, given, shape, element, options, **numbers)

    def _cast(self, x: Value, element: str) -> Value:
        codes = self.meaning if element in ("i8", "i16") else None
        return self.operator("CAST", 1, [x], x.shape, element, "CastOptions", meaning=codes)

    def _leading_zeros(self, x: Value) -> Value:
        """Of int32 from 0 on: 32 less its bits, found by halves."""
        bits = self.same_rank(0, x)
        for places in (16, 8, 4, 2, 1):
            is_long = self.elementwise("greater", x, self.same_rank((1 << places) - 1, x))
            counted = self.multiply(self._cast(is_long, "i32"), self.same_rank(places, x))
            bits = self.elementwise("add", bits, counted)
            x = self.select(is_long, self.right_shift(x, places), x)
        bits = self.elementwise("add", bits, x)  # 0 or 1 is left
        return self.elementwise("sub", self.same_rank(32, bits), bits)

    def are_zero(self, parts: Sequence[Value]) -> Value:
        """EQUAL, LOGICAL_AND."""
        found = [self.elementwise("equal", each, self.same_rank(0, each)) for each in parts]
        whole = found[0]
        for each in found[1:]:
            shape = np.broadcast_shapes(whole.shape, each.shape)
            whole = self.add("logical_and", [whole, each], shape, "i1")
        return whole

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """SQUEEZE to a scalar, whose sizes have no elements, else RESHAPE."""
        if shape or not x.shape:
            return super().reshape(x, shape)
        axes = tuple(range(len(x.shape)))
        return self.operator(
            "SQUEEZE", 1, [x], (), x.element, "SqueezeOptions", squeezeDims=axes
        )

    def permuted(self, x: Value, axes: Sequence[int], shape: Sequence[int]) -> Value:
        """TRANSPOSE."""
        given = [x, self.sizes(axes)]
        return self.operator("TRANSPOSE", 2, given, shape, x.element, "TransposeOptions")

    @property
    def longest_list(self) -> int:
        """That of the runtime."""
        return self.runtime.longest_list

    def tile(self, x: Value, times: Sequence[int]) -> Value:
        """TILE, or CONCATENATION with itself along each axis."""
        if self.runtime.has_tile:
            return super().tile(x, times)
        for axis, count in enumerate(times):
            x = self.concat([x] * count, axis)
        return x

    def joined(self, parts: Sequence[Value], axis: int, shape: Sequence[int]) -> Value:
        """CONCATENATION, which wants codes of one meaning."""
        meanings = {self.tensor(each).meaning for each in parts}
        if len(meanings) > 1:
            raise RefusedError("it joins codes of unlike scales")
        return self.operator(
            *("CONCATENATION", 2, parts, shape, parts[0].element, "ConcatenationOptions"),
            axis=axis,
        )

    def pad(self, x: Value, pads: Sequence[tuple[int, int]], filling: int) -> Value:
        """PAD, which fills with the zero point, or PADV2."""
        if not any(map(any, pads)):
            return x
        shape = [size + sum(each) for size, each in zip(x.shape, pads, strict=True)]
        meaning = self.tensor(x).meaning
        given = [x, self.stored(np.array(pads, np.int32), None)]
        zero = 0 if meaning is None else meaning.zero
        if filling == zero:
            return self.operator("PAD", 2, given, shape, x.element, "PadOptions")
        number = self.stored(np.array([filling], _DTYPES[x.element]), meaning)
        return self.operator("PADV2", 2, [*given, number], shape, x.element, "PadV2Options")

    def reduce(self, op: str, x: Value, axis: int) -> Value:
        """SUM of int32, REDUCE_MAX and REDUCE_MIN."""
        if op == "reduce_sum" and x.element != "i32":
            raise RefusedError("a sum of codes")
        shape = [1 if k == axis else size for k, size in enumerate(x.shape)]
        given = [x, self.sizes([axis])]
        return self.operator(
            *(_REDUCES[op], 2, given, shape, x.element, "ReducerOptions"), keepDims=True
        )

    def reverse(self, x: Value, axis: int) -> Value:
        """REVERSE_V2."""
        given = [x, self.sizes([axis])]
        return self.operator("REVERSE_V2", 1, given, x.shape, x.element, "ReverseV2Options")

    def argmax(self, x: Value, axis: int) -> Value:
        """ARG_MAX."""
        rest = [size for k, size in enumerate(x.shape) if k != axis]
        given = [x, self.sizes([axis])]
        return self.operator(
            *("ARG_MAX", 2, given, rest, "i32", "ArgMaxOptions"),
            outputType="TensorType.INT32",
        )

    def masked(self, x: Value, mask: int) -> Value:
        """The lowest bits as a remainder, or what is left without them."""
        rest = ~mask if mask < 0 else mask
        if rest & (rest + 1):
            raise RefusedError(f"the bits {mask:b}")
        x = self.cast(x, "i32")
        lowest = self.right(x, "FLOOR_MOD", "FloorModOptions", rest + 1)
        return lowest if mask >= 0 else self.elementwise("sub", x, lowest)

    def right(self, x: Value, name: str, options: str, divisor: int) -> Value:
        """int32 by a number, rounded down."""
        if divisor == 1 << 31:
            raise RefusedError("all bits but the sign")
        given = [x, self.same_rank(divisor, x)]
        return self.operator(name, 2, given, x.shape, "i32", options)

    def right_shift(self, x: Value, bits: Value | int) -> Value:
        """FLOOR_DIV, or RIGHT_SHIFT by what varies."""
        if bits == 0:
            return x
        x = self.cast(x, "i32")
        if isinstance(bits, int) and bits < 31:
            return self.right(x, "FLOOR_DIV", "FloorDivOptions", 1 << bits)
        if isinstance(bits, int):
            is_negative = self.elementwise("greater", self.same_rank(0, x), x)
            sign = self._cast(is_negative, "i32")
            return self.elementwise("sub", self.same_rank(0, sign), sign)
        shape = np.broadcast_shapes(x.shape, bits.shape)
        return self.operator("RIGHT_SHIFT", 1, [x, bits], shape, "i32", "RightShiftOptions")

    def left_shift(self, x: Value, bits: Value | int) -> Value:
        """MUL by a power of two, which is looked up where it varies."""
        if isinstance(bits, int):
            return x if bits == 0 else self.multiply(x, self.same_rank(1 << bits, x))
        powers = self.stored((1 << np.arange(31)).astype(np.int32), None)
        return self.multiply(x, self.looked_up(powers, bits))

    def looked_up(self, table: Value, places: Value) -> Value:
        """GATHER of entries [K] at int32 places of any shape."""
        return self.operator(
            *("GATHER", 1, [table, places], places.shape, table.element, "GatherOptions"),
            axis=0,
        )

    def limited(self, x: Value, low: int, high: int) -> Value:
        """MAXIMUM and MINIMUM with a code."""
        limits = np.iinfo(_DTYPES[x.element])
        for op, end, kept in (("maximum", low, limits.min), ("minimum", high, limits.max)):
            if end != kept:
                code = np.full([1] * len(x.shape), end, _DTYPES[x.element])
                x = self.elementwise(op, x, self.stored(code, self.tensor(x).meaning))
        return x

    def rescale(
        self,
        x: Value,
        element: str,
        pairs: tuple[NDArray[Any], NDArray[Any]],
        zeros: tuple[int, int] = (0, 0),
        unsigned: tuple[bool, bool] = (False, False),
    ) -> Value:
        """None of TFLite's operators rounds as RESCALE does."""
        raise RefusedError("a requantization rounded once, half up")


def place_of(value: Value) -> int:
    """Which of the tensors it is."""
    return int(value.name[1:])
