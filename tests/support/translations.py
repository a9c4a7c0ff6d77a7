"""Models of other tools beside what they are translated to: their runs, and its form."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from qpasses.ir.model_nodes import nodes_of
from qpasses.load.foreign import standard_qdq
from tests.support.small_models import session

PATH = Path("foreign.onnx")

STRANGE = ("QLinear", "QGemm", "Integer", "DynamicQuantize", "Quant")


def translated(made):
    """The translated model, which is valid, standard, and has one DQ for each reading."""
    result = standard_qdq(made, PATH).model
    onnx.checker.check_model(result, full_check=True)
    nodes = list(nodes_of(result))
    foreign = [n.op_type for n in nodes if n.domain or n.op_type.startswith(STRANGE)]
    assert [op for op in foreign if op != "QuantizeLinear"] == []
    reads = Counter(tuple(n.input) for n in nodes if n.op_type == "DequantizeLinear")
    assert [names for names, count in reads.items() if count > 1] == []
    return result


def random_feed(made, seed=0):
    """Integers over the whole range of their type, standard normal numbers."""
    rng, feed = np.random.default_rng(seed), {}
    for value in made.graph.input:
        kind = value.type.tensor_type
        shape = [dim.dim_value or 3 for dim in kind.shape.dim]
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
        if dtype.kind == "f":
            feed[value.name] = rng.normal(size=shape).astype(dtype)
        elif dtype.kind == "b":
            feed[value.name] = rng.integers(0, 2, shape).astype(dtype)
        else:
            info = np.iinfo(dtype)
            feed[value.name] = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    return feed


def run(made, feed):
    """The outputs, without optimizations."""
    return session(made, optimize=False).run(None, feed)


def differences(made, *, seeds=2):
    """Of integers: how many differ, the largest difference, and how many there are."""
    result = translated(made)
    different, largest, count = 0, 0, 0
    for seed in range(seeds):
        feed = random_feed(made, seed)
        for expected, found in zip(run(made, feed), run(result, feed), strict=True):
            assert (expected.shape, expected.dtype) == (found.shape, found.dtype)
            assert expected.dtype.kind in "iu" and np.unique(expected).size > 2
            gap = np.abs(expected.astype(np.int64) - found)
            different, count = different + np.count_nonzero(gap), count + gap.size
            largest = max(largest, int(gap.max()))
    return different, largest, count


def operations(made):
    """The ops of the main graph, in order, without Constant."""
    return [node.op_type for node in made.graph.node if node.op_type != "Constant"]


def quantizing_at_run_time(result):
    """The translated model with what the original did at run time: x as 8 bits hold it."""
    made = onnx.ModelProto()
    made.CopyFrom(result.model)
    nodes = []
    for node in made.graph.node:
        if node.name in result.dynamic:
            x = node.input[0]
            parts = [
                f"{node.output[0]}<{what}" for what in ("stored", "scale", "zero", "real")
            ]
            nodes.append(helper.make_node("DynamicQuantizeLinear", [x], parts[:3]))
            nodes.append(helper.make_node("DequantizeLinear", parts[:3], parts[3:]))
            node.input[0] = parts[3]
        nodes.append(node)
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made
