"""What a quantized model says itself: scales of activations, and codes of constants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from qpasses.ir.graph import Graph, Node, Tensor, is_graph_output, redirect
from qpasses.ir.order import tidy
from qpasses.ir.record import Quantization


@dataclass(frozen=True)
class Codes:
    """A constant as a model stores it: real = stored * scale, element by element.

    ``levels``: integers, the zero point taken away, in as few bytes as hold them; ``scale``:
    float64, of the same shape: what is the same along an axis may be there but once.
    """

    levels: NDArray[np.signedinteger[Any]]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, stored: NDArray[Any], zero: NDArray[Any], scale: NDArray[Any]) -> "Codes":
        """Those of integers with ``zero`` and ``scale``, which broadcast to them."""
        levels = stored
        if zero.any() or stored.dtype.kind != "i":
            wide = {1: np.int16, 2: np.int32}.get(stored.dtype.itemsize, np.int64)
            levels = np.asarray(np.subtract(stored, zero, dtype=wide, casting="unsafe"))
        return cls(_in_few_bytes(levels), np.broadcast_to(scale, stored.shape))

    @property
    def stored(self) -> NDArray[np.int32]:
        """The integers as int32."""
        return self.levels.astype(np.int32)

    def moved(self, move: Callable[[NDArray[Any]], NDArray[Any]]) -> "Codes":
        """Those of the constant that ``move`` makes, which puts numbers elsewhere."""
        return Codes(move(self.levels), move(self.scale))

    def scaled(self, factor: NDArray[np.float64]) -> "Codes":
        """Those of the constant times ``factor``, which broadcasts to it: the same integers.

        Where a factor is negative they change their sign.
        """
        shape = self.levels.shape
        steps, factors = _once(self.scale), _once(np.broadcast_to(factor, shape))
        scale, negative = np.broadcast_to(steps * np.abs(factors), shape), factors < 0
        if not negative.any():
            return Codes(self.levels, scale)
        stored = self.stored
        return Codes(_in_few_bytes(np.where(negative, -stored, stored)), scale)

    def scales_along(self, axis: int) -> NDArray[np.float64] | None:
        """The scale of each channel, [1] where all have one; None if they differ within."""
        if not self.scale.size:
            return None
        steps = _once(self.scale)
        rows = np.moveaxis(steps, axis, 0).reshape(steps.shape[axis], -1)
        if (rows != rows[:, :1]).any():
            return None
        column = rows[:, 0]
        return column[:1] if (column == column[0]).all() else column


def _once(whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """``whole`` without the repetitions that take no memory: it broadcasts to what it was."""
    return whole[tuple(slice(None) if step else slice(0, 1) for step in whole.strides)]


def _in_few_bytes(levels: NDArray[Any]) -> NDArray[np.signedinteger[Any]]:
    """``levels`` as the smallest type that holds them, of 32 bits at most."""
    low, high = int(levels.min(initial=0)), int(levels.max(initial=0))
    for dtype in (np.int8, np.int16):
        ends = np.iinfo(dtype)
        if ends.min <= low and high <= ends.max:
            return levels.astype(dtype, copy=False)
    return levels.astype(np.int32, copy=False)


@dataclass
class Given:
    """What a quantized model says of its own tensors, which the integer graph keeps.

    ``scales``: by the name of a STORE, how what it reads is stored there: it stands for the
    QuantizeLinear and DequantizeLinear of the model. ``codes``: by the name of a constant.
    ``edges``: inputs and outputs of the graph that are stored integers themselves. ``kept``:
    the names of nodes whose weights have the integers of the model; ``lost``: of others, with
    the reason; ``biases``: by node, real biases that int32 does not hold in their steps;
    ``twice``: tensors that are stored in two ways, and computed twice.
    """

    scales: dict[str, Quantization] = field(default_factory=dict)
    codes: dict[str, Codes] = field(default_factory=dict)
    edges: dict[str, Quantization] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    biases: dict[str, list[float]] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.scales or self.codes)

    def codes_of(self, tensor: Tensor | None) -> Codes | None:
        """The integers that the model stores a constant as, if it does."""
        return None if tensor is None else self.codes.get(tensor.name)

    def carry(self, old: Tensor, new: Tensor, change: Callable[[Codes], Codes]) -> None:
        """``new`` was made of ``old``; ``change`` says what became of its integers."""
        if old.name in self.codes:
            self.codes[new.name] = change(self.codes[old.name])

    def rounded(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """A ``prepared_model`` that rounds and clips where tensors are stored."""
        return self._storing(model, _quantize_and_back)

    def clipped(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """A ``prepared_model`` that clips there alone: small differences stay small."""
        return self._storing(model, _clip)

    def _storing(self, model: onnx.ModelProto, store: "_Storing") -> onnx.ModelProto:
        made = onnx.ModelProto()
        made.CopyFrom(model)
        nodes: list[onnx.NodeProto] = []
        for node in made.graph.node:
            meaning = self.scales.get(node.name)
            nodes += [node] if meaning is None else store(node, meaning)
        kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del made.graph.node[:]
        made.graph.node.extend(kept)
        return made


_Storing = Callable[[onnx.NodeProto, Quantization], list[onnx.NodeProto]]
"""What stands for a STORE."""


def _quantize_and_back(node: onnx.NodeProto, meaning: Quantization) -> list[onnx.NodeProto]:
    """In float: what onnxruntime makes of Q and DQ around a node may be another kernel."""
    end = node.output[0]
    low, high = (limit - meaning.zero_point for limit in meaning.limits)
    values = {"scale": meaning.scale, "low": low, "high": high}
    steps = [
        ("Div", [node.input[0], f"{end}::scale"], f"{end}::quotient"),
        ("Round", [f"{end}::quotient"], f"{end}::level"),
        ("Clip", [f"{end}::level", f"{end}::low", f"{end}::high"], f"{end}::clipped"),
        ("Mul", [f"{end}::clipped", f"{end}::scale"], end),
    ]
    return [
        *_constants(end, values),
        *(helper.make_node(op, inputs, [result]) for op, inputs, result in steps),
    ]


def _clip(node: onnx.NodeProto, meaning: Quantization) -> list[onnx.NodeProto]:
    end = node.output[0]
    low, high = ((limit - meaning.zero_point) * meaning.scale for limit in meaning.limits)
    inputs = [node.input[0], f"{end}::low", f"{end}::high"]
    return [
        *_constants(end, {"low": low, "high": high}),
        helper.make_node("Clip", inputs, [end]),
    ]


def _constants(end: str, values: Mapping[str, float]) -> list[onnx.NodeProto]:
    return [
        helper.make_node(
            "Constant",
            [],
            [f"{end}::{name}"],
            value=numpy_helper.from_array(np.array(value, np.float32)),
        )
        for name, value in values.items()
    ]


@dataclass(frozen=True)
class Read:
    """Input ``index`` of the node ``reader`` reads ``tensor`` as ``meaning`` stores it."""

    reader: str
    index: int
    tensor: str
    meaning: Quantization


def without_stores(graph: Graph, scales: Mapping[str, Quantization]) -> list[Read]:
    """Take the STORE nodes named in ``scales`` out of ``graph``; who read what they write.

    One that leads from an edge of the graph to another stays, for that output alone.
    """
    found: list[tuple[Node, int, Quantization]] = []
    for node in [each for each in graph.nodes if each.name in scales]:
        source, result = node.inputs[0], node.outputs[0]
        for reader in {id(each): each for each in result.outputs}.values():
            for index, tensor in enumerate(reader.inputs):
                if tensor is result:
                    found.append((reader, index, scales[node.name]))
                    reader.inputs[index] = source
        if is_graph_output(graph, result):
            if not source.inputs or is_graph_output(graph, source):
                continue
            redirect(graph, result, source)
        node.inputs.clear()
        node.outputs.clear()
    tidy(graph)
    return [
        Read(reader.name, index, reader.inputs[index].name, meaning)
        for reader, index, meaning in found
        if reader.inputs and reader.name not in scales
    ]


def without_edges(graph: Graph, edges: Mapping[str, Quantization]) -> None:
    """Let ``graph`` take and give the real numbers of its inputs and outputs in ``edges``.

    Those of an input have its name.
    """
    for place, tensor in enumerate(graph.inputs):
        readers = [each for each in tensor.outputs if each.op == "DequantizeLinear"]
        if tensor.name not in edges or len(readers) < len(tensor.outputs):
            continue
        (real,) = readers[0].outputs
        for reader in readers[1:]:
            redirect(graph, reader.outputs[0], real)
        for reader in readers:
            reader.inputs.clear()
            reader.outputs.clear()
        graph.inputs[place], real.name = real, tensor.name
    for place, tensor in enumerate(graph.outputs):
        if tensor.name in edges and tensor.inputs:
            node = tensor.inputs[0]
            graph.outputs[place] = node.inputs[0]
            node.inputs.clear()
            node.outputs.clear()
    tidy(graph)
