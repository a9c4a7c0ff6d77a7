"""Single nodes as TOSA programs: many of them in one, run by TOSA's reference model."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

from opsets.errors import ModelError
from opsets.op import DOMAIN
from qpasses.checking.beside.tosa_tools import ReferenceModel
from qpasses.emit.tosa.emit import emit_tosa
from qpasses.emit.tosa.profile import PRO_INT_8K
from qpasses.ir.interchange import import_graph
from qpasses.ir.runtime import IR_VERSION, OPSET, opset_imports

needs_tools = pytest.mark.skipif(
    not (Path(sys.executable).parent / "tosa-opt").is_file()
    and shutil.which("tosa-opt") is None,
    reason="tosa-tools are not installed: pip install --no-deps tosa-tools",
)


def value_info(name, array):
    elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, elem_type, array.shape)


def expected(op, case):
    """What the reference gives: an array, or one of each output."""
    found = op.reference(*case.inputs, **case.attributes)
    return tuple(map(np.asarray, found)) if isinstance(found, tuple) else np.asarray(found)


def each_output(exact):
    """What ``expected`` gives as a sequence of arrays."""
    return exact if isinstance(exact, tuple) else (exact,)


def model_of_nodes(op, cases, exact=None):
    """A node for each of ``cases``, named by its label, with ends of its own.

    ``exact``: what the reference gives for each, where that is known.
    """
    nodes, given, constants, results = [], [], [], []
    exact = exact or [expected(op, case) for case in cases.values()]
    for place, (label, case) in enumerate(cases.items()):
        names = [f"{name}_{place}" for name in op.inputs]
        ends = [f"{name}_{place}" for name in op.outputs]
        attributes = {"domain": DOMAIN, **case.attributes}
        nodes.append(helper.make_node(op.name, names, ends, str(label), **attributes))
        for formal, name, array in zip(op.inputs, names, case.inputs, strict=True):
            if formal in op.data:
                given.append(value_info(name, array))
            else:
                constants.append(numpy_helper.from_array(np.asarray(array), name))
        arrays = each_output(exact[place])
        results += [value_info(*end) for end in zip(ends, arrays, strict=True)]
    graph = helper.make_graph(nodes, op.name, given, results, constants)
    return helper.make_model(graph, opset_imports=opset_imports(OPSET), ir_version=IR_VERSION)


def emitted_program(model, profile=PRO_INT_8K):
    return emit_tosa(import_graph(model), profile=profile)


def refusal(op, case):
    """Why such a node has no form as TOSA; nothing if it has one."""
    return refusal_of(model_of_nodes(op, {"it": case}))


def refusal_of(model):
    try:
        emitted_program(model)
    except ModelError as error:
        return str(error).partition(" as TOSA: ")[2] or str(error)
    return ""


class Running:
    """A program in the reference model, given and giving what the ONNX model stores."""

    def __init__(self, program, folder):
        self._program, self._folder = program, folder
        self._runner = ReferenceModel(PRO_INT_8K)
        self._prepared = self._runner.prepared(program, folder / "program")

    def run(self, feed):
        """The outputs in order, in TOSA's shapes; uint8 is a byte of int8 there."""
        given = [stored_as(feed[end.tensor], end) for end in self._program.inputs]
        ends = self._program.outputs
        found = self._runner.run(self._prepared, given, len(ends), self._folder)
        return [
            values.astype(np.int8).view(np.uint8) if end.unsigned else values
            for values, end in zip(found, ends, strict=True)
        ]


def stored_as(array, end):
    whole = np.ascontiguousarray(array).reshape(end.shape)
    if end.unsigned:
        return whole.view(np.int8)
    return saturated(whole) if end.element == "i32" else whole


def saturated(whole):
    """Integers as int32, whose ends programs take for what lies beyond."""
    limits = np.iinfo(np.int32)
    return np.clip(whole, limits.min, limits.max).astype(np.int32)


def run_nodes(op, cases, folder, profile=PRO_INT_8K):
    """(label, what the program gives, what the reference gives) for each of ``cases``.

    All of them are nodes of one program.
    """
    exact = [expected(op, case) for case in cases.values()]
    running = Running(emitted_program(model_of_nodes(op, cases, exact), profile), folder)
    feed = {
        f"{name}_{place}": array
        for place, case in enumerate(cases.values())
        for name, array in zip(op.inputs, case.inputs, strict=True)
    }
    yield from zip(cases, running.run(feed), exact, strict=True)
