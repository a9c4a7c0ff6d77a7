"""A plain interpreter of integer graphs: references of qpasses ops, floats for moving ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from calibration import Session
from opsets.either_layout import ATTRIBUTE
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.ir.stages import QUANTIZING
from tests.bench.fuzzing.builder import Arrays
from tests.support.op_loops import PLAIN
from tests.support.recurrent_cases import RECURRENT_PLAIN

STORED = (np.uint8, np.int8, np.int16)
POSITIONS = 4
"""In so many places of each result the reference is compared with plain loops."""


class WrongReferenceError(Exception):
    """A reference differs from plain loops: in which node and where."""


def is_integer(node: onnx.NodeProto, values: Mapping[str, NDArray[Any]]) -> bool:
    """Whether ``node`` computes on stored integers, which ``values`` has."""
    if node.domain == DOMAIN:
        return True
    found = [values[name] for name in node.input if name in values]
    stored = any(value.dtype in STORED for value in found)
    return stored and node.op_type not in {*QUANTIZING, "Cast"}


def split(model: onnx.ModelProto, values: Mapping[str, NDArray[Any]]) -> tuple[list[str], ...]:
    """What others write that integer nodes read, and what integer nodes write for others.

    ``values`` has every tensor.
    """
    nodes = [(node, is_integer(node, values)) for node in model.graph.node]
    ours = {name for node, integer in nodes if integer for name in node.output if name}
    read = {name for node, integer in nodes if integer for name in node.input}
    theirs = [name for node, integer in nodes if not integer for name in node.output]
    needed = {name for node, integer in nodes if not integer for name in node.input}
    needed |= {value.name for value in model.graph.output}
    return [name for name in theirs if name in read], sorted(ours & needed)


def interpret(
    model: onnx.ModelProto, given: Mapping[str, NDArray[Any]], rng: np.random.Generator
) -> Arrays:
    """What the integer nodes of ``model`` write, from what others wrote: ``given``."""
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    values, found = {**constants, **given}, {}
    for node in model.graph.node:
        if not is_integer(node, values):
            continue
        inputs = [values[name] if name else None for name in node.input]
        run = _reference if node.domain == DOMAIN else _moved
        written = zip(node.output, run(node, inputs, rng), strict=True)
        for name, result in written:
            if name:
                found[name] = values[name] = result
    return found


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node as references take them."""
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return {
        name: value.decode() if isinstance(value, bytes) else value
        for name, value in given.items()
    }


def _reference(
    node: onnx.NodeProto, inputs: Sequence[Any], rng: np.random.Generator
) -> list[NDArray[Any]]:
    how = attributes(node)
    result = OPS[node.op_type].reference(*inputs, **how)
    if node.op_type in RECURRENT_PLAIN:
        plain = RECURRENT_PLAIN[node.op_type](*inputs, **how)
        if any((one != other).any() for one, other in zip(result, plain, strict=True)):
            raise WrongReferenceError(f"{node.op_type}: its states, by plain loops others")
        return list(result)
    seen, given = result, inputs
    if how.pop(ATTRIBUTE, 0):
        seen, given = np.moveaxis(result, -1, 1), [np.moveaxis(inputs[0], -1, 1), *inputs[1:]]
    shape, code_at = PLAIN[node.op_type](*given, **how)
    if seen.shape != tuple(shape):
        raise WrongReferenceError(f"{node.op_type}: {seen.shape}, plain loops {shape}")
    for _ in range(POSITIONS if result.size else 0):
        at = tuple(int(rng.integers(size)) for size in shape)
        if int(seen[at]) != code_at(*at):
            raise WrongReferenceError(
                f"{node.op_type} at {at}: {seen[at]}, plain loops {code_at(*at)}"
            )
    return [result]


def _moved(
    node: onnx.NodeProto, inputs: Sequence[Any], _rng: np.random.Generator
) -> list[NDArray[Any]]:
    """A standard op on codes as floats, which hold them exactly."""
    dtype = next(each.dtype for each in inputs if each is not None and each.dtype in STORED)
    feeds = {
        name: value.astype(np.float32) if value.dtype in STORED else value
        for name, value in zip(node.input, inputs, strict=True)
        if name
    }
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in feeds.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    imports = [helper.make_opsetid("", OPSET_OF_MOVES)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    found = iter(Session(model, optimize=False, threads=1).run(None, feeds))
    results = [next(found) if name else np.array(0) for name in node.output]
    return [each.astype(dtype) if each.dtype == np.float32 else each for each in results]


OPSET_OF_MOVES = 21
