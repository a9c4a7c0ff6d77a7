"""Endless: what holds infinity in every sample, as masks that are added do, stays float."""

import numpy as np
import onnx

from calibration import Samples, Session
from qpasses.ir.graph import Graph, is_float, prepared_model
from qpasses.ir.rewriting import Context
from qpasses.ir.runtime import Arrays


def leave_endless(graph: Graph, samples: Samples, sample: Arrays, context: Context) -> None:
    """Exclude nodes around inputs that are infinite in every one of ``samples``.

    So are those around what is made of them, as long as it is not finite on ``sample``: where
    it becomes so by other ways in another one, that is an error like any.
    """
    names = samples.endless(sample)
    if not names:
        return
    for node in graph.nodes:
        for tensor in node.inputs:
            if tensor.name in names and is_float(tensor):
                ends = [each.name for each in node.outputs if is_float(each)]
                names |= _not_finite(graph, ends, sample)
                reason = f"{tensor.name!r} holds infinite values in every sample"
                context.selection.excluded.setdefault(node.name, reason)


def _not_finite(graph: Graph, names: list[str], sample: Arrays) -> set[str]:
    if not names:
        return set()
    watched = prepared_model(graph)
    del watched.graph.output[:]
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    found = Session(watched, optimize=False).run(names, sample, "the first sample")
    return {n for n, each in zip(names, found, strict=True) if not np.isfinite(each).all()}
