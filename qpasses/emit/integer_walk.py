"""An integer graph on its way to a program: its nodes in order, one lowering each.

Inputs and outputs are stored integers: what quantizes at the edges stays with the caller.
What follows from sizes and constants alone is computed on the way.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from opsets.errors import ModelError, UsageError
from qpasses.emit.operations import RefusedError
from qpasses.emit.tosa.equal_rescales import UnequalError
from qpasses.emit.tosa.lowering import Lowering
from qpasses.ir.flow import FLOW
from qpasses.ir.graph import Graph, Node, Tensor, is_graph_output

L = TypeVar("L", bound=Lowering)

_QUANTIZING = ("QuantizeLinear", "DequantizeLinear")

Sizes = tuple[int, ...]


def stored_inputs(to: Lowering, graph: Graph) -> Iterator[tuple[str, Tensor, Sizes]]:
    """By the name of its input, each stored tensor that is one or is made of one, and its
    sizes; inputs that nothing reads are left out.

    Raises UsageError for sizes that are free.
    """
    for tensor in graph.inputs:
        if not tensor.outputs and not is_graph_output(graph, tensor):
            continue
        with named(to, f"input {tensor.name!r}"):
            yield from ((str(tensor.name), *each) for each in _entered(to, tensor))


def _entered(to: Lowering, tensor: Tensor) -> list[tuple[Tensor, Sizes]]:
    """Each stored tensor that is made of an input, or itself."""
    shape = _fixed(to, tensor)
    found = list[tuple[Tensor, Sizes]]()
    quantizing = [n for n in tensor.outputs if n.op == "QuantizeLinear" and not n.domain]
    direct = [n for n in tensor.outputs if n not in quantizing]
    if any(n.op != "Shape" for n in direct) or not tensor.outputs:
        _check_stored(to, tensor)
        found.append((tensor, shape))
    elif direct:
        to.settle_shape(tensor, shape)
    for node in quantizing:
        found.append((node.outputs[0], shape))
    return found


def _check_stored(to: Lowering, tensor: Tensor) -> None:
    if np.dtype(tensor.dtype).kind == "f":
        readers = [node for node in tensor.outputs if node.op not in _QUANTIZING]
        raise (
            _left_in_float(to, readers[0]) if readers else RefusedError("it is given as float")
        )


def _fixed(to: Lowering, tensor: Tensor) -> Sizes:
    """The sizes of an input. Raises UsageError where they are free."""
    if tensor.shape is None:
        raise UsageError(
            f"input {tensor.name!r} has no known rank, {to.system} has fixed sizes only"
        )
    free = [str(size) for size in tensor.shape if not isinstance(size, int)]
    if free:
        shown = ",".join("SIZE" if not isinstance(n, int) else str(n) for n in tensor.shape)
        raise UsageError(
            f"input {tensor.name!r} has free sizes ({', '.join(free)}), {to.system} has fixed "
            f"ones only: give --input-shape {tensor.name}:{shown}"
        )
    return tuple(int(size) for size in tensor.shape)


def lower_nodes(
    to: L, graph: Graph, lowerings: Mapping[str, Callable[[L, Node], None]]
) -> None:
    """Each node by its lowering. Raises ModelError for what has none, naming the node."""
    for node in graph.nodes:
        if node.op in _QUANTIZING and not node.domain:
            _check_edge(to, graph, node)
            continue
        if _is_real_end(node):
            continue
        with named(to, f"node {node.name!r} ({node.op})"):
            to.begin(node)
            _lower(to, node, lowerings)


def stored_outputs(
    to: Lowering, graph: Graph, *, all_tensors: bool
) -> list[tuple[str, Tensor]]:
    """By the name of its output, the stored tensor that it is, or is made of.

    ``all_tensors``: then by its own, whatever else was written.
    """
    ends = [_stored_end(tensor) for tensor in graph.outputs]
    if all_tensors:
        given = {id(tensor) for _, tensor in ends}
        written = (tensor for node in graph.nodes for tensor in node.outputs)
        between = [each for each in written if to.is_written(each) and id(each) not in given]
        ends += [(str(each.name), each) for each in between]
    return ends


def _stored_end(tensor: Tensor) -> tuple[str, Tensor]:
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
def named(to: Lowering, what: str) -> Iterator[None]:
    """Say of what is refused what it is."""
    try:
        yield
    except (_FloatError, UsageError):
        raise
    except (ModelError, UnequalError) as error:
        raise ModelError(f"{what} as {to.system}: {error}") from error


class _FloatError(ModelError):
    """What is left in float; the message names the node."""


def _left_in_float(to: Lowering, node: Node) -> _FloatError:
    return _FloatError(f"node {node.name!r} ({node.op}) is left in float, and {to.no_float}")


def _check_edge(to: Lowering, graph: Graph, node: Node) -> None:
    """Raise ModelError, naming what is in float, for what quantizes within the graph."""
    if node.op == "QuantizeLinear":
        given = node.inputs[0]
        real = [] if any(given is each for each in graph.inputs) else given.inputs
    else:
        real = [each for each in node.outputs[0].outputs if not _is_real_end(each)]
    if real:
        raise _left_in_float(to, real[0])


def _lower(to: L, node: Node, lowerings: Mapping[str, Callable[[L, Node], None]]) -> None:
    if _settled(to, node):
        return
    if node.domain == FLOW:
        raise RefusedError(f"branches and loops have no form, as {node.attrs['of']!r} is one")
    lower = lowerings.get(node.op)
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
