"""Quantized networks with one thing wrong, and what they were before."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.support.small_models import model, numbers

STRAIGHT = """
straight (float[N, 3, 12, 12] x) => (float[N, 5, 12, 12] y) {
    [one] a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    [two] b = Relu (a)
    [three] c = Conv <pads = [1, 1, 1, 1]> (b, w2, b2)
    [four] d = Relu (c)
    [five] e = Conv <pads = [1, 1, 1, 1], group = 8> (d, w3, b3)
    [six] f = HardSwish (e)
    [seven] y = Conv (f, w4, b4)
}"""


def straight(**weights):
    """Convolutions one after the other, with biases."""
    own = {
        "w1": numbers(8, 3, 3, 3) / 5,
        "b1": numbers(8) / 5,
        "w2": numbers(8, 8, 3, 3) / 8,
        "b2": numbers(8) / 5,
        "w3": numbers(8, 1, 3, 3) / 3,
        "b3": numbers(8) / 5,
        "w4": numbers(5, 8, 1, 1) / 3,
        "b4": numbers(5) / 5,
    }
    return model(STRAIGHT, **own | weights)


def straight_feeds(count=12, seed=3):
    """Samples for it."""
    return [{"x": each} for each in numbers(count, 1, 3, 12, 12, seed=seed)]


def with_rounding(made, tensor, scale, zero_point):
    """A float model that rounds one tensor to 8 bits, written by hand."""
    spoiled = onnx.ModelProto.FromString(made.SerializeToString())
    graph = spoiled.graph
    for node in graph.node:
        node.input[:] = [f"{name}_rounded" if name == tensor else name for name in node.input]
    graph.initializer.append(numpy_helper.from_array(np.float32(scale), "rounding_scale"))
    graph.initializer.append(numpy_helper.from_array(np.uint8(zero_point), "rounding_zero"))
    ends = "rounding_scale", "rounding_zero"
    pair = [
        helper.make_node("QuantizeLinear", [tensor, *ends], [f"{tensor}_codes"]),
        helper.make_node(
            "DequantizeLinear", [f"{tensor}_codes", *ends], [f"{tensor}_rounded"]
        ),
    ]
    writers = [k for k, node in enumerate(graph.node) if tensor in node.output]
    place = writers[0] + 1 if writers else 0
    nodes = [*graph.node[:place], *pair, *graph.node[place:]]
    del graph.node[:]
    graph.node.extend(nodes)
    for value in graph.output:
        if value.name == tensor:
            value.name = f"{tensor}_rounded"
    return spoiled
