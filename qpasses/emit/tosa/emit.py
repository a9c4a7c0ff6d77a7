"""An integer model as a TOSA program: its nodes in order, one lowering each."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from opsets.errors import ModelError, UsageError
from qpasses.emit import mlir
from qpasses.emit.layouts import in_order
from qpasses.emit.tosa.equal_rescales import UNCHANGED, UnequalError
from qpasses.emit.tosa.lowering import Lowering
from qpasses.emit.tosa.lowerings import LOWERINGS
from qpasses.emit.tosa.profile import PRO_INT_8K, Profile
from qpasses.emit.tosa.program import Program, RefusedError, Value
from qpasses.ir.graph import Graph, Node, Tensor, is_graph_output

_QUANTIZING = ("QuantizeLinear", "DequantizeLinear")


@dataclass(frozen=True)
class End:
    """An input or output of the program, and the tensor of the ONNX model that it is.

    ``tensor``: of the stored integers; ``name``: of the model's own input or output, which
    stands before or behind a node that quantizes. ``unsigned``: bytes stand for uint8.
    ``element``: as the program has it.
    """

    name: str
    tensor: str
    shape: tuple[int, ...]
    unsigned: bool
    dtype: np.dtype[Any]
    element: str

    @property
    def stored_as(self) -> str:
        """What the program takes or gives for it."""
        if self.unsigned:
            return "uint8 as bytes of i8"
        is_kept = self.dtype.itemsize == 1 or self.element == mlir.ELEMENTS[self.dtype.name]
        return "as stored" if is_kept else f"{self.dtype} as {self.element}"


@dataclass(frozen=True)
class TosaProgram:
    """A program and its ends in order."""

    program: Program
    results: Sequence[Value]
    inputs: Sequence[End]
    outputs: Sequence[End]

    @property
    def text(self) -> str:
        """MLIR in generic form."""
        return "".join(self.program.lines(self.results))

    def content(self) -> Iterator[bytes]:
        """The same as a file has it, in pieces."""
        return (line.encode("utf-8") for line in self.program.lines(self.results))

    @property
    def operations(self) -> Mapping[str, int]:
        """How often it does what."""
        return self.program.counts

    @property
    def extensions(self) -> Sequence[str]:
        """Those of TOSA that it needs beyond the integer profile: ``int16``."""
        return self.program.profile.extensions

    @property
    def transposes(self) -> int:
        """How many there are."""
        return self.operations.get("transpose", 0)


def emit_tosa(
    graph: Graph, *, profile: Profile = PRO_INT_8K, all_tensors: bool = False
) -> TosaProgram:
    """The integer ``graph`` as TOSA, without inputs that nothing reads.

    Where nodes multiply or pool int16 the profile has the extension for it. ``all_tensors``:
    gives what nodes give, too. Inputs and outputs are stored integers: what
    quantizes at the edges stays with the caller. Raises ModelError for what TOSA cannot say,
    naming the node, UsageError for sizes that are free.
    """
    to = Lowering(program=Program(_extended(profile, graph)))
    used = [each for each in graph.inputs if each.outputs or is_graph_output(graph, each)]
    inputs = []
    for tensor in used:
        with _named(f"input {tensor.name!r}"):
            inputs += _entered(to, tensor)
    for node in graph.nodes:
        if node.op in _QUANTIZING and not node.domain:
            _check_edge(graph, node)
            continue
        if _is_real_end(node):
            continue
        to.program.where = str(node.name)
        with _named(f"node {node.name!r} ({node.op})"):
            _lowered(to, node)
    ends = [_stored_end(graph, tensor) for tensor in graph.outputs]
    if all_tensors:
        given = {id(tensor) for _, tensor in ends}
        written = (tensor for node in graph.nodes for tensor in node.outputs)
        between = [each for each in written if to.is_written(each) and id(each) not in given]
        ends += [(str(each.name), each) for each in between]
    values, outputs = [], []
    for name, tensor in ends:
        to.program.where = name
        with _named(f"output {name!r}"):
            value = to.read(tensor)
        unsigned = tensor.dtype == np.uint8
        if unsigned:
            value = _moved(to, value, unsigned_output=True)
        if value in values or value.name[1] not in "0123456789":  # tools name results apart
            value = to.program.add("identity", [value], value.shape, value.element)
        values.append(value)
        dtype = np.dtype(tensor.dtype)
        end = End(name, str(tensor.name), value.shape, unsigned, dtype, value.element)
        outputs.append(end)
    return TosaProgram(to.program, values, inputs, outputs)


_OF_WORDS = frozenset({"IntConv", "IntGemm", "IntMatMul"}) | {
    *("IntCountedAveragePool", "IntMaxPool"),
}
"""Ops that TOSA has of int16 in the extension of that name alone."""


def _extended(profile: Profile, graph: Graph) -> Profile:
    """With the extension for int16 if some node needs it."""
    nodes = (node for node in graph.nodes if node.op in _OF_WORDS)
    read = (each for node in nodes for each in node.inputs[:3:2])  # x, or a and b
    return profile.with_words() if any(each.dtype == np.int16 for each in read) else profile


def _moved(to: Lowering, value: Any, *, unsigned_output: bool) -> Any:
    """int8 codes as bytes of uint8 ones, or the other way round."""
    zeros = (0, -128) if unsigned_output else (-128, 0)
    sides = (False, True) if unsigned_output else (True, False)
    return to.program.rescale(value, "i8", UNCHANGED, zeros, sides)


def _entered(to: Lowering, tensor: Tensor) -> list[End]:
    """Of an input an argument for each stored tensor that is made of it, or for itself."""
    shape = _fixed(tensor)
    found = []
    quantizing = [n for n in tensor.outputs if n.op == "QuantizeLinear" and not n.domain]
    direct = [n for n in tensor.outputs if n not in quantizing]
    if any(n.op != "Shape" for n in direct) or not tensor.outputs:
        found.append(_argument(to, tensor.name, tensor, shape))
    elif direct:
        to.settle_shape(tensor, shape)
    for node in quantizing:
        found.append(_argument(to, tensor.name, node.outputs[0], shape))
    return found


def _argument(to: Lowering, name: str, tensor: Tensor, shape: tuple[int, ...]) -> End:
    dtype = np.dtype(tensor.dtype)
    if dtype.kind == "f":
        readers = [node for node in tensor.outputs if node.op not in _QUANTIZING]
        raise _left_in_float(readers[0]) if readers else RefusedError("it is given as float")
    to.program.where = name
    element = to.element_of(dtype, name)
    value = to.program.argument(shape, element)
    unsigned = dtype == np.uint8
    if unsigned:
        value = _moved(to, value, unsigned_output=False)
    to.write(tensor, value, in_order(len(shape)))
    return End(name, str(tensor.name), shape, unsigned, dtype, element)


def _fixed(tensor: Tensor) -> tuple[int, ...]:
    """The sizes of an input. Raises UsageError where they are free."""
    if tensor.shape is None:
        raise UsageError(f"input {tensor.name!r} has no known rank, TOSA has fixed sizes only")
    free = [str(size) for size in tensor.shape if not isinstance(size, int)]
    if free:
        shown = ",".join("SIZE" if not isinstance(n, int) else str(n) for n in tensor.shape)
        raise UsageError(
            f"input {tensor.name!r} has free sizes ({', '.join(free)}), TOSA has fixed ones "
            f"only: give --input-shape {tensor.name}:{shown}"
        )
    return tuple(int(size) for size in tensor.shape)


def _stored_end(graph: Graph, tensor: Tensor) -> tuple[str, Tensor]:
    """An output by name, and the stored tensor it is, or is made of."""
    name, node = str(tensor.name), tensor.inputs[0] if tensor.inputs else None
    if node is not None and _is_real_end(node):
        node = node.inputs[0].inputs[0]
    if node is not None and node.op == "DequantizeLinear" and not node.domain:
        return name, node.inputs[0]
    return name, tensor


def _is_real_end(node: Node) -> bool:
    """Whether it only gives an output another name, as a real number."""
    before = node.inputs[0].inputs if node.op == "Identity" and not node.domain else []
    return bool(before) and before[0].op == "DequantizeLinear"


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Say of what is refused what it is."""
    try:
        yield
    except (_FloatError, UsageError):
        raise
    except (ModelError, UnequalError) as error:
        raise ModelError(f"{what} as TOSA: {error}") from error


class _FloatError(ModelError):
    """What is left in float; the message names the node."""


def _left_in_float(node: Node) -> _FloatError:
    return _FloatError(
        f"node {node.name!r} ({node.op}) is left in float, and TOSA's integer profile has none"
    )


def _check_edge(graph: Graph, node: Node) -> None:
    """Raise ModelError, naming what is in float, for what quantizes within the graph."""
    if node.op == "QuantizeLinear":
        given = node.inputs[0]
        real = [] if any(given is each for each in graph.inputs) else given.inputs
    else:
        real = [each for each in node.outputs[0].outputs if not _is_real_end(each)]
    if real:
        raise _left_in_float(real[0])


def _lowered(to: Lowering, node: Node) -> None:
    if _settled(to, node):
        return
    lower = LOWERINGS.get(node.op)
    if lower is None:
        raise RefusedError("there is no form of this op yet")
    for each in node.inputs:
        if each.dtype is None and not each.is_empty() and to.known(each) is None:
            raise RefusedError(f"the model does not say the type of {each.name!r}")
    lower(to, node)


_SIZES = ("Shape", "Size")


def _settled(to: Lowering, node: Node) -> bool:
    """Compute a node of ONNX that follows from sizes and constants alone."""
    if node.domain:
        return False
    if node.op in _SIZES:
        shape = to.shape(node.inputs[0])
        start, end = node.attrs.get("start", 0), node.attrs.get("end")
        sizes = np.array(shape, np.int64)
        found = sizes[slice(start, end)] if node.op == "Shape" else np.array(sizes.prod())
        to.settle(node.outputs[0], found.astype(np.int64))
        return True
    given = [None if each.is_empty() else to.known(each) for each in node.inputs]
    if any(
        values is None and not each.is_empty()
        for values, each in zip(given, node.inputs, strict=True)
    ):
        return False
    for output, values in zip(node.outputs, _computed(node, given), strict=True):
        to.settle(output, np.asarray(values))
    return True


def _computed(node: Node, given: Sequence[Any]) -> Sequence[Any]:
    names = ["" if each is None else f"x{k}" for k, each in enumerate(given)]
    outputs = [f"y{k}" for k in range(len(node.outputs))]
    attributes = {k: v for k, v in node.attrs.items() if v is not None}
    made = helper.make_node(node.op, names, outputs, **attributes)
    feed = {n: each for n, each in zip(names, given, strict=True) if each is not None}
    ends = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in feed.items()
    ]
    results = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in outputs]
    whole = helper.make_graph([made], "known", ends, results)
    opset = [helper.make_opsetid("", 21)]
    model = helper.make_model(whole, opset_imports=opset)
    return list(ReferenceEvaluator(model).run(None, feed))
