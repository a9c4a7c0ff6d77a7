"""Infinite: what finite inputs make NaN or infinite, in every sample, stays float."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from calibration import Samples, Session
from calibration.revealed import revealed
from opsets.errors import DataError
from qpasses.ir.graph import STORE, Graph
from qpasses.ir.interchange import prepared_model
from qpasses.ir.rewriting import Context
from qpasses.place.placed_states import observable
from qpasses.place.planning import Plan


def leave_infinite(
    graph: Graph, chosen: Plan, names: Sequence[str], samples: Samples, context: Context
) -> bool:
    """Exclude nodes at those of ``names`` that are not finite in any of ``samples``.

    ``names``: tensors, and states of nodes that are ``chosen`` to be integer. Samples that
    cannot be read are left out. False, and nothing excluded, if there is no such tensor, or if
    all outputs are NaN alone: then the model is damaged, or the samples are.
    """
    found = _infinite(graph, chosen, names, samples) if names else set()
    for node in [each for each in graph.nodes if each.op != STORE]:
        ends = [each.name for each in (*node.inputs, *node.outputs) if each.name in found]
        if ends:
            reason = f"{ends[0]!r} holds NaN or infinite values in every sample"
            context.selection.excluded.setdefault(node.name, reason)
    return bool(found)


def _infinite(graph: Graph, chosen: Plan, names: Sequence[str], samples: Samples) -> set[str]:
    found, seen, was_read, has_numbers = {*names}, set[str](), False, False
    session = Session(_watched(graph, chosen, names), optimize=False)
    for position in range(len(samples)):
        with suppress(DataError):
            feed = samples.read(position)
            values = session.run(None, feed, samples.name(position))
            outputs, rest = values[: len(graph.outputs)], values[len(graph.outputs) :]
            held = [*zip(names, rest[::2], rest[1::2], strict=True)]
            seen |= {name for name, sum_, _ in held if np.isnan(sum_)}
            found &= {name for name, sum_, size in held if np.isnan(sum_) or not size}
            has_numbers |= not all(map(_is_nan, outputs))
            was_read = True
        if not found:
            break
    return found & seen if was_read and has_numbers else set()


def _is_nan(value: Any) -> bool:
    """Whether an output holds values, and all of them are NaN."""
    is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return is_float and bool(value.size and np.isnan(value).all())


def _watched(graph: Graph, chosen: Plan, names: Sequence[str]) -> onnx.ModelProto:
    """``graph``, that also gives for each of ``names`` its sum times 0: NaN if not finite.

    And how many numbers it has: what a branch computes that is not taken has none.
    """
    model = observable(prepared_model(graph), chosen)
    own = [*model.graph.output]
    model = revealed(model, [*own, *(onnx.ValueInfoProto(name=name) for name in names)])
    del model.graph.output[len(own) :]
    inner, zero = model.graph, "times zero"
    inner.initializer.append(numpy_helper.from_array(np.zeros((), np.float32), zero))
    for name in names:
        zeros, total, size = f"{name} times zero", f"{name} is finite", f"{name} has so many"
        inner.node.append(helper.make_node("Mul", [name, zero], [zeros]))
        inner.node.append(helper.make_node("ReduceSum", [zeros], [total], keepdims=0))
        inner.node.append(helper.make_node("Size", [name], [size]))
        inner.output.append(helper.make_tensor_value_info(total, onnx.TensorProto.FLOAT, []))
        inner.output.append(helper.make_tensor_value_info(size, onnx.TensorProto.INT64, []))
    return model
