"""What is found in a graph: values, types, ranks, and what its integers stand for."""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, TensorProto

from calibration.held_weights import values_of
from opsets.errors import ModelError
from qpasses.load.conversion import described
from qpasses.load.foreign.node_parts import (
    DQ,
    DYNAMIC,
    Q,
    attribute,
    input_at,
    is_standard,
    read_by,
)
from qpasses.load.foreign.quantization import INTEGERS, Quantization, same_numbers
from qpasses.load.foreign.values import computed, is_computed


@dataclass
class Ledger:
    """What the graphs of a model share: its path, opset and names, and what is said of it.

    ``opset`` is the one of what was written, ``version`` that of the model.
    """

    path: Path
    version: int
    opset: int
    taken: set[str]
    dynamic: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)


class AtRunTime(NamedTuple):
    """The tensors behind integers that are quantized at run time; "" for no zero point."""

    real: str
    scale: str
    zero_point: str


class AtRunTimeError(ModelError):
    """A scale or zero point is computed by the model: no integers are known before it runs."""


class FoundGraph:
    """A graph as a pass finds it: ``before`` holds its nodes."""

    def __init__(
        self, graph: GraphProto, ledger: Ledger, outer: "FoundGraph | None" = None
    ) -> None:
        self.graph, self.ledger, self.outer = graph, ledger, outer
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self._values: dict[str, NDArray[Any] | None] = {}
        self._names: dict[tuple[Any, ...], str] = {}
        self._kinds = {
            value.name: value.type.tensor_type
            for value in (*graph.input, *graph.value_info, *graph.output)
        }
        self._look(list(graph.node))

    def _look(self, nodes: list[NodeProto]) -> None:
        """Find what is there, after a pass has written ``nodes``."""
        self.before = nodes
        self._values.clear()
        self._producers = {name: node for node in nodes for name in node.output if name}
        self._readers = defaultdict[str, list[NodeProto]](list)
        self._reals: dict[tuple[Any, ...], str] = {}
        self._fixed: set[str] = set()
        for node in nodes:
            for name in read_by(node):
                self._readers[name].append(node)
            if is_computed(node) and all(self._is_fixed(name) for name in node.input if name):
                self._fixed |= {*node.output}
            if is_standard(node, DQ):
                self._find_real(node)

    def _find_real(self, node: NodeProto) -> None:
        """Know the DequantizeLinear of integers, for others that read them."""
        integer = self.elem_type(node.input[0]) in (TensorProto.UNDEFINED, *INTEGERS)
        blocks = attribute(node, "block_size")
        if integer and not blocks and self.value(node.input[1]) is not None:
            meaning = self.quantization(node, 0, axis=int(attribute(node, "axis", 1)))
            self._reals.setdefault((node.input[0], meaning.key), node.output[0])

    def _is_fixed(self, name: str) -> bool:
        """Whether a tensor depends on constants alone."""
        if name in self._fixed or name in self._tensors:
            return True
        own = name in self._producers or any(name == each.name for each in self.graph.input)
        return not own and self.outer is not None and self.outer._is_fixed(name)

    def tensors(self) -> list[str]:
        """The names of all tensors of the graph."""
        ends = [value.name for value in (*self.graph.input, *self.graph.output)]
        return [*dict.fromkeys([*ends, *self._tensors, *self._kinds, *self._producers])]

    def producer(self, name: str) -> NodeProto | None:
        """The node that writes a tensor."""
        return self._producers.get(name)

    def at_run_time(self, stored: str) -> AtRunTime | None:
        """What is behind integers whose scale is computed; None for all others."""
        node = self._producers.get(stored)
        if node is not None and is_standard(node, DYNAMIC):
            return AtRunTime(node.input[0], node.output[1], node.output[2])
        if node is not None and is_standard(node, Q) and self.value(node.input[1]) is None:
            return AtRunTime(node.input[0], node.input[1], input_at(node, 2))
        return None

    def sole_reader(self, name: str) -> NodeProto | None:
        """The node that alone reads a tensor, once; None where it is an output too."""
        readers = self._readers.get(name, [])
        return readers[0] if len(readers) == 1 and not self.is_output(name) else None

    def is_output(self, name: str) -> bool:
        """Whether the tensor leaves the graph."""
        return any(value.name == name for value in self.graph.output)

    def value(self, name: str) -> NDArray[Any] | None:
        """The value of a tensor that depends on constants alone, else None."""
        if name not in self._values:
            self._values[name] = self._evaluated(name)
        return self._values[name]

    def _evaluated(self, name: str) -> NDArray[Any] | None:
        if name in self._tensors:
            return values_of(self._tensors[name])
        if not self._is_fixed(name):
            return None
        if name in self._fixed:
            return computed(self._producers[name], self.value, self.ledger.version)
        return None if self.outer is None else self.outer.value(name)

    def is_constant(self, name: str) -> bool:
        """Whether the tensor is stored: an initializer, or a Constant."""
        node = self._producers.get(name)
        return name in self._tensors or (node is not None and node.op_type == "Constant")

    def elem_type(self, name: str) -> int:
        """ONNX's number for the type of the elements; 0 where it is not known."""
        if name in self._tensors:
            return int(self._tensors[name].data_type)
        if name in self._kinds and self._kinds[name].elem_type:
            return int(self._kinds[name].elem_type)
        node = self._producers.get(name)
        if node is None:
            return 0 if self.outer is None else self.outer.elem_type(name)
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            return int(node.attribute[0].t.data_type)
        if is_standard(node, Q):
            given = input_at(node, 2)
            said = attribute(node, "output_dtype") or TensorProto.UINT8
            return self.elem_type(given) if given else int(said)
        if node.op_type in _SAME_TYPE:
            return self.elem_type(node.input[_SAME_TYPE[node.op_type]])
        return 0

    def integers(self, name: str) -> type[np.integer[Any]]:
        """The type of stored integers, as numpy has it; uint8 where it is not known."""
        return INTEGERS.get(self.elem_type(name), np.uint8)

    def rank(self, name: str) -> int | None:
        """The number of dimensions, where it is known."""
        if name in self._tensors:
            return len(self._tensors[name].dims)
        if name in self._kinds and self._kinds[name].HasField("shape"):
            return len(self._kinds[name].shape.dim)
        node = self._producers.get(name)
        if node is None:
            return None if self.outer is None else self.outer.rank(name)
        if node.op_type == "Constant":
            value = self.value(name)
            return None if value is None else value.ndim
        if node.op_type in _RANK_OF and len(node.input) > _RANK_OF[node.op_type]:
            return self.rank(node.input[_RANK_OF[node.op_type]])
        return None

    def quantization(
        self,
        node: NodeProto,
        stored_at: int | None,
        places: tuple[int, int] = (1, 2),
        axis: int = 0,
    ) -> Quantization:
        """That of a node's inputs ``places`` (scale, zero point) for its input ``stored_at``.

        Raises AtRunTimeError where they are no constants, ModelError for such as cannot be.
        """
        scale = self._scale(node, input_at(node, places[0]))
        stored = "" if stored_at is None else node.input[stored_at]
        zero = self._zero_point(node, input_at(node, places[1]), stored)
        if zero.size not in (1, scale.size) or max(scale.ndim, zero.ndim) > 1:
            raise self.error(
                node,
                f"scale {node.input[places[0]]!r} of shape {list(scale.shape)} and zero point "
                f"{input_at(node, places[1])!r} of shape {list(zero.shape)} do not fit",
            )
        shape = (scale.size,) if scale.size > 1 else ()
        zero = np.broadcast_to(zero.reshape(-1), scale.size).reshape(shape)
        rank = self.rank(stored) if axis < 0 else None
        meaning = Quantization(scale.reshape(shape), zero.copy(), axis + (rank or 0))
        for place, part in zip(places, (meaning.scale, meaning.zero_point), strict=True):
            self.use_name(input_at(node, place), part)
        return meaning

    def use_name(self, name: str, values: NDArray[Any]) -> None:
        """Let nodes that need the constant ``values`` read ``name``, if that is one."""
        if name and self.is_constant(name):
            stored = self.value(name)
            if stored is not None and same_numbers(stored) == same_numbers(values):
                self._names.setdefault(same_numbers(values), name)

    def _scale(self, node: NodeProto, name: str) -> NDArray[Any]:
        scale = self.value(name) if name else None
        if scale is None:
            raise AtRunTimeError(f"its scale {name!r} is not constant")
        self.check_scale(node, name, scale)
        return scale

    def check_scale(self, node: NodeProto, name: str, scale: NDArray[Any]) -> None:
        """Raise ModelError for a scale that is zero, negative, NaN or infinite."""
        wrong = scale[~(np.isfinite(scale) & (scale > 0))]
        if wrong.size:
            raise self.error(node, f"scale {name!r} holds {wrong[0]}, not a positive number")

    def _zero_point(self, node: NodeProto, name: str, stored: str) -> NDArray[Any]:
        expected = self.elem_type(stored) if stored else 0
        if not name:
            return np.zeros((), INTEGERS.get(expected, np.uint8))
        zero = self.value(name)
        if zero is None:
            raise AtRunTimeError(f"its zero point {name!r} is not constant")
        given = self.elem_type(name)
        if expected and given and expected != given:
            kinds = [TensorProto.DataType.Name(kind).lower() for kind in (given, expected)]
            raise self.error(
                node, f"zero point {name!r} is {kinds[0]}, but {stored!r} is {kinds[1]}"
            )
        return zero

    def error(self, node: NodeProto, what: str) -> ModelError:
        """What is wrong with a node, as an exception."""
        return ModelError(f"{self.ledger.path}: {described(node)}: {what}")


_SAME_TYPE = {
    **dict.fromkeys(("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice"), 0),
    **dict.fromkeys(("Gather", "MaxPool", "Concat", "Pad", "Split", "Identity", "Expand"), 0),
    **dict.fromkeys(("Clip", "Max", "Min", "Relu", "Resize", "Tile", "NhwcMaxPool"), 0),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth", "ReduceMax", "ReduceMin"), 0),
    "Where": 1,
}
"""Ops whose results have the type of an input: which."""

_RANK_OF = {
    **dict.fromkeys(("Conv", "ConvTranspose"), 1),
    **dict.fromkeys((Q, DQ, "Transpose", "Relu", "Clip", "MaxPool", "AveragePool"), 0),
    **dict.fromkeys(("GlobalAveragePool", "Concat", "Sigmoid", "LeakyRelu", "Identity"), 0),
}
"""Ops whose results have as many dimensions as an input: which."""
