"""Endless: what holds infinity in every sample, as masks that are added do, stays float."""

import numpy as np
import onnx

from calibration import Samples, Session
from qpasses.ir.graph import STORE, Graph, Node, constant, is_float
from qpasses.ir.interchange import prepared_model
from qpasses.ir.patterns import data_inputs
from qpasses.ir.rewriting import Context
from qpasses.ir.runtime import Arrays


def leave_endless(graph: Graph, samples: Samples, sample: Arrays, context: Context) -> None:
    """Exclude nodes around inputs that are infinite in every one of ``samples``.

    So are those that put infinity from a constant in or add it, masks that are not known, and
    those around what is made of all these, as long as it is not finite on ``sample``: where it
    becomes so by other ways in another one, that is an error like any. What a quantized model
    stores itself is no mask: infinite samples of it are damaged.
    """
    names = samples.endless(sample)
    for node in [each for each in graph.nodes if each.op != STORE]:
        found = [each.name for each in node.inputs if each.name in names and is_float(each)]
        found += _infinite_constants(node)
        if found:
            ends = [each.name for each in node.outputs if is_float(each)]
            names |= _not_finite(graph, ends, sample)
            reason = f"{found[0]!r} holds infinite values in every sample"
            context.selection.excluded.setdefault(node.name, reason)


def _infinite_constants(node: Node) -> list[str]:
    """Those whose infinity a node hands on: a Where of scores has a range for the others."""
    if node.op not in ("Add", "Sub", "Where") or (node.op == "Where" and data_inputs(node)):
        return []
    values = [(each.name, constant(each)) for each in node.inputs if is_float(each)]
    return [name for name, value in values if value is not None and np.isinf(value).any()]


def _not_finite(graph: Graph, names: list[str], sample: Arrays) -> set[str]:
    if not names:
        return set()
    watched = prepared_model(graph)
    del watched.graph.output[:]
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    found = Session(watched, optimize=False).run(names, sample, "the first sample")
    return {n for n, each in zip(names, found, strict=True) if not np.isfinite(each).all()}
