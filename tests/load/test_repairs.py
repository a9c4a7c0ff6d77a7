"""What ONNX's converter refuses, and graphsurgeon drops, is kept: results and types."""

import numpy as np
import onnx
import onnx.parser
import onnx.reference
import pytest

from calibration import Session
from qpasses.ir.interchange import export_graph, import_graph
from qpasses.load.upgrade import upgrade
from tests.support.releases import needs_opset_27

SPACE = """<ir_version: 10, opset_import: ["": 28]>
g (float[N, %s, 6, H] x) => (float[N, K, 3, J] y)
{ [blocks] y = SpaceToDepth <blocksize = 2, mode = "CRD"> (x) }"""

SCAN = """<ir_version: 3, opset_import: ["": 8]>
g (float[3, 2] first, float[3, 4, 2] x) => (float[3, 2] last, float[3, 4, 2] y) {
    last, y = Scan <num_scan_inputs = 1, directions = [%d],
        body = b (float[2] sum, float[2] next) => (float[2] more, float[2] out) {
            more = Add (sum, next)
            out = Relu (more)
        }
    > ("", first, x)
}"""

EMPTY = """<ir_version: 8, opset_import: ["": 16]>
g (bool cond) => (bool y) {
    y = If (cond) <
        then_branch = t () => (bool a) {
            none = Optional <type = float[5]> ()
            a = OptionalHasElement (none)
        },
        else_branch = e () => (bool b) {
            one = Constant <value_float = 1.0> ()
            some = Optional (one)
            b = OptionalHasElement (some)
        }
    >
}"""


@needs_opset_27
def test_space_to_depth_keeps_the_blocks_of_a_channel_together_below_opset_28():
    made = onnx.parser.parse_model(SPACE % 5)
    lowered = upgrade(made, None, newest=27)
    assert {each.version for each in lowered.opset_import} == {27}
    x = np.arange(2 * 5 * 6 * 4, dtype=np.float32).reshape(2, 5, 6, 4)
    (expected,) = onnx.reference.ReferenceEvaluator(made).run(None, {"x": x})
    (found,) = Session(lowered, optimize=False).run(None, {"x": x})
    assert np.array_equal(found, expected)


def test_without_a_number_of_channels_it_stays_at_its_opset():
    made = onnx.parser.parse_model(SPACE % "C")
    assert upgrade(made, None, newest=27) is made


@pytest.mark.parametrize("direction", [0, 1])
def test_a_scan_of_opset_8_walks_each_row_as_onnxruntime_does(direction):
    made = onnx.parser.parse_model(SCAN % direction)
    random = np.random.default_rng(0)
    sizes = {"first": (3, 2), "x": (3, 4, 2)}
    feed = {name: random.normal(size=each).astype("f") for name, each in sizes.items()}
    raised = upgrade(made, feed)
    assert {each.version for each in raised.opset_import} == {21}
    expected = Session(made, optimize=False).run(None, feed)
    found = Session(raised, optimize=False).run(None, feed)
    assert all(np.array_equal(*pair) for pair in zip(found, expected, strict=True))


def test_the_type_of_an_empty_optional_survives_the_graph():
    made = onnx.parser.parse_model(EMPTY)
    again = export_graph(import_graph(made))
    for cond in (True, False):
        found = [Session(each).run(None, {"cond": np.array(cond)}) for each in (made, again)]
        assert found[0] == found[1] == [not cond]
