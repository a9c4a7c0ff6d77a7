"""A quantized source is compared as it was given, where onnxruntime runs it so."""

import numpy as np
import pytest

from qpasses.load.arguments import given_source
from tests.support.small_models import model, numbers

PRODUCT = """g (uint8[2, 3] x) => (uint8[2, 4] y) {
    y = QLinearMatMul (x, s, z, w, s, z, s, z)
}"""

CONSTANTS = {
    "s": np.float32(0.5),
    "z": np.uint8(3),
    "w": numbers(3, 4).astype(np.uint8),
}


@pytest.mark.parametrize("domains", [(), ("ai.onnx.training", "com.microsoft.experimental")])
def test_domains_that_are_imported_and_not_used_change_nothing(domains):
    made = model(PRODUCT, domains=domains, **CONSTANTS)
    source = given_source(made)
    assert [node.op_type for node in source.reference.graph.node] == ["QLinearMatMul"]
    assert "MatMul" in [node.op_type for node in source.model.graph.node]


def test_what_onnxruntime_does_not_know_is_compared_as_it_is_translated():
    text = """g (float[2, 3] x) => (float[2, 3] y) {
        q = qonnx.custom_op.general.Quant (x, s, z, b)
        y = Relu (q)
    }"""
    stored = {"s": np.float32(0.5), "z": np.float32(0), "b": np.float32(8)}
    made = model(text, domains=("qonnx.custom_op.general",), **stored)
    source = given_source(made)
    assert source.reference is source.model
