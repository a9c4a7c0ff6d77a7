"""An integer model as a TOSA program: its nodes in order, one lowering each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qpasses.emit import mlir
from qpasses.emit.integer_walk import lower_nodes, named, stored_inputs, stored_outputs
from qpasses.emit.layouts import in_order
from qpasses.emit.operations import Value
from qpasses.emit.tosa.equal_rescales import UNCHANGED
from qpasses.emit.tosa.lowering import Lowering
from qpasses.emit.tosa.lowerings import LOWERINGS
from qpasses.emit.tosa.profile import PRO_INT_8K, Profile
from qpasses.emit.tosa.program import Program
from qpasses.ir.graph import Graph, Tensor


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
    program = Program(_extended(profile, graph))
    to = Lowering(program=program)
    inputs = []
    for name, tensor, sizes in stored_inputs(to, graph):
        with named(to, f"input {name!r}"):
            inputs.append(_argument(to, name, tensor, sizes))
    lower_nodes(to, graph, LOWERINGS)
    ends = stored_outputs(to, graph, all_tensors=all_tensors)
    values, outputs = [], []
    for name, tensor in ends:
        to.program.where = name
        with named(to, f"output {name!r}"):
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
    return TosaProgram(program, values, inputs, outputs)


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


def _argument(to: Lowering, name: str, tensor: Tensor, shape: tuple[int, ...]) -> End:
    dtype = np.dtype(tensor.dtype)
    to.program.where = name
    element = to.element_of(dtype, name)
    value = to.program.argument(shape, element)
    unsigned = dtype == np.uint8
    if unsigned:
        value = _moved(to, value, unsigned_output=False)
    to.write(tensor, value, in_order(len(shape)))
    return End(name, str(tensor.name), shape, unsigned, dtype, element)
