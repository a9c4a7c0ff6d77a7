"""Running single ops in onnxruntime, and the versions the toolkit emits."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from calibration.inputs import Feed
from calibration.session import Session
from opsets.op import DOMAIN, VERSION, Body
from opsets.qpasses_v1 import OPS

OPSET = 21

OPSET_INT8 = 20
"""With int8 activations: from opset 21 on, onnxruntime 1.31 writes output_dtype on the
QuantizeLinear nodes that its optimizer moves, and refuses its own graph unless it is uint8
(issue 25526)."""

OPSET_INT16 = 21
"""From here on Q/DQ nodes know int16."""

IR_VERSION = 10

Arrays = Feed
"""A sample, or any other values by name."""


@lru_cache(maxsize=256)
def _op_session(
    op: str,
    body: Body,
    types: tuple[np.dtype[Any], ...],
    attributes: tuple[tuple[str, Any], ...],
    optimize: bool,
) -> Session:
    declaration = OPS[op]
    function = declaration.function(body, OPSET)
    node = onnx.helper.make_node(
        op,
        list(declaration.inputs),
        list(declaration.outputs),
        domain=DOMAIN,
        overload=body.overload,
        **dict(attributes),
    )
    graph = onnx.helper.make_graph(
        [node],
        op,
        [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(dtype), None
            )
            for name, dtype in zip(declaration.inputs, types, strict=True)
        ],
        [onnx.ValueInfoProto(name=name) for name in declaration.outputs],
    )
    model = onnx.helper.make_model(
        graph,
        functions=[function],
        opset_imports=opset_imports(function.opset_import[0].version),
        ir_version=IR_VERSION,
    )
    return Session(model, optimize=optimize, threads=1)


def _hashable(attributes: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (name, tuple(value) if isinstance(value, list) else value)
        for name, value in sorted(attributes.items())
    )


def opset_imports(opset: int) -> list[onnx.OperatorSetIdProto]:
    """The domains an integer graph uses."""
    versions = {"": opset, "com.microsoft": 1, DOMAIN: VERSION}
    return [onnx.helper.make_opsetid(domain, version) for domain, version in versions.items()]


Runner = Callable[[Sequence[NDArray[Any]]], Any]
"""What a body gives for inputs, in the order of the signature: an array, or several."""


def run_op(
    op: str,
    body: Body | str,
    inputs: Sequence[NDArray[Any]],
    attributes: Mapping[str, Any],
    *,
    optimize: bool = False,
) -> Any:
    """Run one body of one op in onnxruntime on ``inputs``, in the order of the signature.

    The result is an array, or a tuple where the op has several outputs. ``body``: a body, or
    the overload of a declared one.
    """
    return op_runner(op, body, inputs, attributes, optimize=optimize)(inputs)


def op_runner(
    op: str,
    body: Body | str,
    inputs: Sequence[NDArray[Any]],
    attributes: Mapping[str, Any],
    *,
    optimize: bool = False,
) -> Runner:
    """``run_op`` for many inputs, all of the types of ``inputs``."""
    if isinstance(body, str):
        body = OPS[op].overload(body)
    types = tuple(np.asarray(each).dtype for each in inputs)
    session = _op_session(op, body, types, _hashable(attributes), optimize)
    names = list(OPS[op].inputs)

    def run(given: Sequence[NDArray[Any]]) -> Any:
        arrays = (np.asarray(each, order="C") for each in given)
        found = session.run(None, dict(zip(names, arrays, strict=True)))
        return np.asarray(found[0]) if len(found) == 1 else tuple(map(np.asarray, found))

    return run
