"""The word that a proof gives is the one that the op declares, and so is the probe."""

import numpy as np
import onnx_graphsurgeon as gs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from opsets.activations import Activation, said
from opsets.declaration import PER_CHANNEL, Scaling
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.evidence.kernel_probe import probe_kernels
from qpasses.evidence.prove import PROOFS, prove_node
from qpasses.ir.function import Function
from qpasses.ir.record import SCALED, NodeRecord, Quantization, Record
from qpasses.ir.runtime import OPSET
from tests.support.op_cases import CASES, emitted
from tests.support.thoroughness import thoroughly

SLOPES = Function.single("LeakyRelu", "", 20, {"alpha": 0.25}).as_text()

every_proof = pytest.mark.parametrize("name", PROOFS)
on_few_nodes = thoroughly(4)


def function_of(op, tensors):
    """What a record says of a node with slopes or a table: a sum, or a factor per channel."""
    if op.scaling is Scaling.SLOPES:
        return SLOPES
    if op.scaling is Scaling.RECURRENT:
        count = sum(name.endswith("_table") for name in op.inputs)
        return said([Activation("Tanh")] * count)
    if op.scaling not in (Scaling.TABLE, Scaling.WIDE_TABLE):
        return ""
    real, y = [gs.Variable(name, np.float32) for name in op.data], gs.Variable("y", np.float32)
    if len(real) == 2:
        return Function.of([gs.Node("Add", "", {}, real, [y])], real, y, OPSET).as_text()
    if "tables" not in tensors:
        return ""
    factors = gs.Constant("c", np.ones(len(tensors["tables"]), np.float32))
    nodes = [gs.Node("Mul", "", {}, [*real, factors], [y])]
    return Function.of(nodes, real, y, OPSET).as_text()


def node_of(op, case):
    """A drawn node, of one slope, with a record whose scales are all one."""
    tensors, attributes = emitted(op, case)
    assume(len(tensors.get("tables", "several")) > 1)  # a factor for one channel is a number
    for key in tensors:
        if key.startswith("slope_"):
            tensors[key] = np.asarray(tensors[key].flat[0])
    inputs = [
        gs.Variable(key, value.dtype, value.shape)
        if key in op.data
        else gs.Constant(key, value)
        for key, value in tensors.items()
    ]
    dtypes = {"y": case.inputs[-1].dtype}
    dtypes |= {name: np.dtype(np.int16) for name in op.outputs if name not in dtypes}
    if op.name in ("IntLstm", "IntRnn"):
        dtypes["y_h"] = dtypes["y"]
    outputs = [gs.Variable(name, dtypes[name]) for name in op.outputs]
    around = {
        each.name: each.dtype.name
        for each in [*inputs, *outputs]
        if each.name in op.outputs
        or (each.name in op.data and op.inputs[each.name].holds_codes)
    }
    entry = NodeRecord(["node"], {name: [1.0] for name in around if name in SCALED})
    entry.scales |= {"w": [1.0]} if "w" in tensors else {}
    if op.scaling is Scaling.RECURRENT:
        rows = [1.0] * tensors["r"].shape[1]
        entry.scales = {"x": [1.0], "y": [1.0], "gates": [1.0], "w": rows, "r": rows}
    entry.overload = op.body("portable", tensors, attributes).overload
    entry.function = function_of(op, tensors)
    record = Record(nodes={"node": entry})
    record.tensors |= {key: Quantization(1.0, 0, dtype) for key, dtype in around.items()}
    return gs.Node(op.name, "node", attributes, inputs, outputs, DOMAIN), record


def _has_words(record):
    return any(each.dtype == "int16" for each in record.tensors.values())


@pytest.mark.thinned
@every_proof
@on_few_nodes
@given(data=st.data())
def test_a_proof_gives_the_word_that_the_op_declares(name, data):
    op = OPS[name]
    node, record = node_of(op, data.draw(CASES[name]))
    word = (op.evidence_of_words if _has_words(record) else None) or op.evidence
    assert prove_node(node, record).kind == word


@pytest.mark.thinned
@every_proof
@on_few_nodes
@given(data=st.data())
def test_the_nodes_that_are_probed_are_those_whose_op_declares_how(name, data):
    op = OPS[name]
    node, record = node_of(op, data.draw(CASES[name]))
    probed = probe_kernels(gs.Graph([node]), record)
    is_probed = op.probe is not None and not _has_words(record)
    assert set(probed) == ({"node"} if is_probed else set())
    assert all(count > 0 and wrong == 0 for count, wrong in probed.values())


@every_proof
def test_what_is_probed_has_a_multiplier_per_channel_and_thresholds(name):
    op = OPS[name]
    if op.probe is not None:
        assert op.evidence == "thresholds" and op.inputs["multiplier"].dims == PER_CHANNEL
