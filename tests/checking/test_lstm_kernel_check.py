"""Attributes of an LSTM by a kernel: one that is changed, added or left out is found."""

import onnx
import onnx.helper
import pytest

from qpasses import verify
from tests.lowering.test_lstm_kernels import integer
from tests.support.recurrent_nets import Net

NETS = {
    "saturating": (Net("LSTM", hidden=90, seed=3), "tflm", False),
    "whole": (Net("LSTM", hidden=4), "tflm", False),
    "of words": (Net("LSTM", hidden=4), "tflm", True),
    "litert": (Net("LSTM", hidden=4), "litert", False),
}

CHANGES = {
    "saturating": [{"saturates_state": None}],
    "whole": [{"saturates_state": 1}, {"product_rounding": "tflite_double"}],
    "of words": [{"product_rounding": None}, {"rounding": "half_away"}],
    "litert": [{"saturates_state": 1}, {"rounding": "half_up"}],
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", NETS)
def test_a_changed_attribute_is_found(name):
    net, target, wide = NETS[name]
    result, made, feeds = integer(net, target, wide)
    assert verify(result.model, made, feeds).verdict == "ok"
    for change in CHANGES[name]:
        changed = onnx.ModelProto.FromString(result.model.SerializeToString())
        (node,) = (each for each in changed.graph.node if each.op_type == "IntLstm")
        for key, value in change.items():
            kept = [each for each in node.attribute if each.name != key]
            assert (len(kept) < len(node.attribute)) or value is not None
            del node.attribute[:]
            node.attribute.extend(kept)
            if value is not None:
                node.attribute.append(onnx.helper.make_attribute(key, value))
        found = verify(changed, made, feeds)
        assert found.verdict == "failed"
        assert "net" in str(found.report["summary"]["problems"])
