"""Cases of models that are quantized already: a float graph, and Q/DQ nodes at random."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.bench.fuzzing.builder import Arrays, Builder
from tests.bench.fuzzing.graphs import Case, drawn, every_tensor, is_legal
from tests.bench.fuzzing.quantizing import Quantizing
from tests.bench.fuzzing.steps import (
    STEPS,
    clip,
    conv,
    gemm,
    matmul,
    pair,
    pool,
    relu,
    reshape,
)

OPSETS = range(10, 22)
PLAIN = ((conv, 6), (gemm, 3), (matmul, 2), (pair, 4), (relu, 3), (clip, 2), (pool, 3))
"""What quantized models mostly consist of."""

OPTIONS: Sequence[Mapping[str, Any]] = (
    *({} for _ in range(10)),
    *({"activation_type": "int8"}, {"activation_type": "int8"}, {"integer_io": True}),
    *({"exact": True}, {"bodies": "portable"}, {"activation_form": "multiplier"}),
    *({"symmetric": True}, {"per_channel": False}, {"residual_type": "int16"}),
)

Q_SEED = 1
"""Beside seed and number, so that these cases are others than the float ones."""


def quantized_case(seed: int, number: int) -> Case | None:
    """Case ``number`` of ``seed``; None where what was drawn does not run to finite values."""
    rng = np.random.default_rng([seed, number, Q_SEED])
    steps = STEPS if rng.random() < 0.35 else (*PLAIN, (reshape, 1))
    made = drawn(rng, OPSETS, steps, OPTIONS)
    if made is None:
        return None
    builder = Builder(rng, made.model.opset_import[0].version)
    quantizing = Quantizing(builder, made.model, every_tensor(made))
    quantizing.run()
    found = _assembled(made, quantizing)
    return found if _is_quantized(found.model) and is_legal(found) else None


def _is_quantized(model: onnx.ModelProto) -> bool:
    return any(node.op_type == "DequantizeLinear" for node in model.graph.node)


def _assembled(made: Case, q: Quantizing) -> Case:
    """The model of the nodes that were written, and samples of its inputs."""
    model = onnx.ModelProto()
    model.CopyFrom(made.model)
    graph = model.graph
    ends: dict[str, onnx.ValueInfoProto] = {}
    for value in made.model.graph.output:
        name, dtype = q.end(value.name)
        kind = value.type.tensor_type.elem_type
        if dtype is not None:
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        shape = [None] * len(value.type.tensor_type.shape.dim)
        ends.setdefault(name, helper.make_tensor_value_info(name, kind, shape))
    feeds = (
        _integer_inputs(graph, q, made.feeds, ends) if q.habits.integer_edges else made.feeds
    )
    for part, content in ((graph.node, q.nodes), (graph.output, ends.values())):
        del part[:]
        part.extend(content)
    read = {name for node in graph.node for name in node.input} | ends.keys()
    del graph.initializer[:]
    graph.initializer.extend(
        numpy_helper.from_array(values, name)
        for name, values in q.made.items()
        if name in read
    )
    return Case(model, feeds, made.options, is_quantized=True)


def _integer_inputs(
    graph: onnx.GraphProto,
    q: Quantizing,
    feeds: Sequence[Arrays],
    ends: Mapping[str, onnx.ValueInfoProto],
) -> Sequence[Arrays]:
    """Inputs that are only stored become integers."""
    found = [dict(feed) for feed in feeds]
    for value in graph.input:
        readers = [node for node in q.nodes if value.name in node.input]
        if len(readers) != 1 or readers[0].op_type != "QuantizeLinear" or value.name in ends:
            continue
        (stored,) = readers[0].output
        how = next(how for name, how in q.stored.values() if name == stored)
        if stored in ends or how.axis is not None:
            continue
        q.nodes.remove(readers[0])
        for feed in found:
            feed[stored] = how.codes(feed.pop(value.name))
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(how.dtype)
        value.name = stored
    return found
