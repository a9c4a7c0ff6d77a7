"""What a graph may contain at each stage: every rule of the tables, broken once."""

import numpy as np
import onnx.parser
import pytest

from opsets.errors import ModelError
from qpasses.ir.interchange import import_graph
from qpasses.ir.legality import CANONICAL, INTEGER, PLACED, Grounds, check_stage
from qpasses.ir.record import NodeRecord, Quantization, Record
from qpasses.ir.shapes import infer_shapes
from qpasses.ir.stages import Kind

HEADER = '<ir_version: 10, opset_import: ["" : 21, "qpasses" : 1, "qpasses.given" : 1]> '
PARAMETERS = "float scale = {0.5}, uint8 zero = {3}"

CODES = Quantization(0.5, 3, "uint8")
GROUNDS = Grounds(
    Record(
        tensors={"q": CODES, "r": CODES},
        nodes={"known": NodeRecord(["known"], {})},
        declined={"said": "a reason"},
    ),
    apart={"left"},
    computing={"Conv", "Softmax"},
)


def graph_of(body, inputs="float[4] x", output="float[4] y", constants=PARAMETERS):
    text = f"{HEADER} g ({inputs}) => ({output}) <{constants}> {{ {body} }}"
    return import_graph(infer_shapes(onnx.parser.parse_model(text)))


TABLES = {each.name: each for each in (CANONICAL, PLACED, INTEGER)}

Q, DQ = "q = QuantizeLinear (x, scale, zero)", "d = DequantizeLinear (q, scale, zero)"
LEGAL = {
    "float nodes": (CANONICAL, "y = Relu (x)", {}),
    "sizes": (CANONICAL, "s = Shape (x) y = Expand (x, s)", {}),
    "integers of the model's own": (
        CANONICAL,
        "t = Transpose (x) y = Cast <to = 1> (t)",
        {"inputs": "uint8[4] x"},
    ),
    "what prepare could not take away": (CANONICAL, "[said] y = Identity (x)", {}),
    "what the user wants left alone": (CANONICAL, "[left] y = Identity (x)", {}),
    "nodes between stored tensors": (PLACED, f"{Q} {DQ} y = Relu (d)", {}),
    "stored weights": (
        PLACED,
        "d = DequantizeLinear (w, scale, none) y = Add (x, d)",
        {"constants": "float scale = {0.5}, int32 none = {0}, int32[4] w = {1, 2, 3, 4}"},
    ),
    "an integer node": (
        INTEGER,
        f"{Q} [known] r = qpasses.Lut (q, zero) y = DequantizeLinear (r, scale, zero)",
        {},
    ),
    "moved codes": (
        INTEGER,
        f"{Q} r = Transpose (q) y = DequantizeLinear (r, scale, zero)",
        {},
    ),
    "positions by codes": (
        INTEGER,
        f"{Q} y = ArgMax <keepdims = 0> (q)",
        {"output": "int64 y"},
    ),
    "floats with a reason": (INTEGER, "[said] y = Softmax (x)", {}),
    "floats that nobody asked for": (INTEGER, "y = Relu (x)", {}),
    "stored anew with a reason": (
        INTEGER,
        f"{Q} {DQ} [said] r = QuantizeLinear (d, scale, zero) "
        "y = DequantizeLinear (r, scale, zero)",
        {},
    ),
}

BROKEN = {
    (CANONICAL.name, Kind.FLOAT, 0): ("y = Identity (x)", {}),
    (CANONICAL.name, Kind.INTEGER, 0): ("y = qpasses.Lut (x, zero)", {}),
    (CANONICAL.name, Kind.EDGE, 0): (
        "t = QuantizeLinear (x, scale, zero) y = DequantizeLinear (t, scale, zero)",
        {},
    ),
    (PLACED.name, Kind.FLOAT, 0): (f"{Q} y = Cast <to = 1> (q)", {}),
    (PLACED.name, Kind.INTEGER, 0): ("y = qpasses.Lut (x, zero)", {}),
    (PLACED.name, Kind.INTEGER, 1): (
        f"{Q} t = Transpose (q) y = DequantizeLinear (t, scale, zero)",
        {},
    ),
    (PLACED.name, Kind.SHAPE, 0): (f"{Q} y = Shape (q)", {"output": "int64[1] y"}),
    (PLACED.name, Kind.FLOAT, 1): (
        "q = QuantizeLinear (x, s, zero) y = DequantizeLinear (q, scale, zero)",
        {"inputs": "float[4] x, float s"},
    ),
    (PLACED.name, Kind.EDGE, 0): (
        "d = DequantizeLinear (w, scale, none) y = Add (x, d)",
        {"constants": "float scale = {0.5}, uint16 none = {0}, uint16[4] w = {1, 2, 3, 4}"},
    ),
    (PLACED.name, Kind.EDGE, 1): (
        "y = DequantizeLinear (x, scale, zero)",
        {"inputs": "uint8[4] x"},
    ),
    (PLACED.name, Kind.EDGE, 2): (
        "z = QuantizeLinear (x, scale, zero) y = DequantizeLinear (z, scale, zero)",
        {},
    ),
    (INTEGER.name, Kind.INTEGER, 0): ("[known] y = qpasses.Lut (x, zero)", {}),
    (INTEGER.name, Kind.INTEGER, 1): (
        f"{Q} [new] r = qpasses.Lut (q, zero) y = DequantizeLinear (r, scale, zero)",
        {},
    ),
    (INTEGER.name, Kind.INTEGER, 2): (
        f"{Q} [known] y = qpasses.Lut (q, zero)",
        {"output": "int64[4] y"},
    ),
    (INTEGER.name, Kind.FLOAT, 2): (
        "q = QuantizeLinear (x, s, zero) y = DequantizeLinear (q, scale, zero)",
        {"inputs": "float[4] x, float s"},
    ),
    (INTEGER.name, Kind.EDGE, 0): (
        "y = DequantizeLinear (x, scale, none)",
        {"inputs": "uint16[4] x", "constants": "float scale = {0.5}, uint16 none = {0}"},
    ),
    (INTEGER.name, Kind.EDGE, 1): (
        f"{Q} {DQ} r = QuantizeLinear (d, scale, zero) y = DequantizeLinear (r, scale, zero)",
        {},
    ),
    (INTEGER.name, Kind.FLOAT, 0): ("y = Softmax (x)", {}),
    (INTEGER.name, Kind.FLOAT, 1): ("y = qpasses.given.Store (x)", {}),
    (INTEGER.name, Kind.SHAPE, 0): (f"{Q} y = Cast <to = 7> (q)", {"output": "int64[4] y"}),
}
"""By stage, kind and place of the rule among those of the kind; None: the kind is none."""


def typed_graph(body, options):
    """What ONNX infers no types of: what nodes of domain qpasses write is uint8."""
    graph = graph_of(body, **options)
    for node in graph.nodes:
        for tensor in node.outputs:
            tensor.dtype = tensor.dtype or np.dtype("uint8")
    return graph


@pytest.mark.parametrize("name", LEGAL)
def test_what_may_be_in_a_graph_passes(name):
    stage, body, options = LEGAL[name]
    check_stage(stage, typed_graph(body, options), GROUNDS)


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: " ".join(map(str, case)))
def test_a_broken_rule_is_named_with_the_nodes_around_it(case):
    stage, broken, place = TABLES[case[0]], *case[1:]
    body, options = BROKEN[case]
    fault = "has no place" if place is None else stage.kinds[broken][place].fault
    with pytest.raises(ModelError, match="Around it") as raised:
        check_stage(stage, typed_graph(body, options), GROUNDS)
    assert f"{stage.name}: " in str(raised.value)
    assert fault in str(raised.value)
    assert "-> (y)" in str(raised.value)


def test_every_rule_is_broken_once():
    rules = {
        (stage.name, each, place)
        for stage in TABLES.values()
        for each, listed in stage.kinds.items()
        for place in range(len(listed))
    }
    missing = {
        (stage.name, each, None)
        for stage in TABLES.values()
        for each in Kind
        if each not in stage.kinds
    }
    assert rules | missing == {*BROKEN}
