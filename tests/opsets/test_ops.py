"""Every op of OPS: its meaning against plain loops, its bodies against its meaning."""

import dataclasses
import itertools
import re
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from unittest import SkipTest
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from calibration.session import Session
from opsets import qpasses_v1
from opsets.fixed_point import ROUNDINGS
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.int_reduce import FOLDED
from opsets.rounding import NODE_ROUNDINGS
from qpasses.ir.runtime import IR_VERSION, OPSET, opset_imports, run_op
from tests.support.op_cases import CASES, Case
from tests.support.op_loops import PLAIN
from tests.support.recurrent_cases import RECURRENT_PLAIN
from tests.support.thoroughness import THOROUGH, exactly, thoroughly

INTEGER_TYPES = {
    *(TensorProto.BOOL, TensorProto.INT8, TensorProto.INT16),
    *(TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT8, TensorProto.UINT32, TensorProto.UINT64),
}
INTEGER_OPS = {
    *("Abs", "Add", "And", "BitShift", "BitwiseAnd", "Cast", "CastLike", "Concat", "Constant"),
    *("Div", "Equal", "MatMul", "Max", "Neg", "Or", "ReduceMax", "ReduceMin", "Slice"),
    *("ConstantOfShape", "ConvInteger", "Gather", "Greater", "Less", "MatMulInteger", "Mod"),
    *(
        "Mul",
        "NonZero",
        "Pad",
        "Range",
        "ReduceProd",
        "ReduceSum",
        "Reshape",
        "Shape",
        "Size",
        "Sub",
    ),
    *("Expand", "Identity", "Loop", "Squeeze", "Unsqueeze"),
    *("Split", "Transpose", "Where"),
}

BODIES = [(op.name, body.overload) for op in OPS.values() for body in op.bodies]
PORTABLE = [(name, key) for name, key in BODIES if key.startswith("portable")]
FAST = {name for name, key in BODIES if key.startswith("onnxruntime")}
NEAR = {
    (name, key)
    for name in ("IntAdd", "IntMul", "IntSub")
    for key in ("onnxruntime", "onnxruntime_clamped")
}
"""Bodies that leave the meaning near ties: whether they do is asked of each node."""
CLAMPED = [name for name, overload in BODIES if overload == "onnxruntime_clamped"]

SOME = 20
"""So many places of a result are looked at, the first and the last among them."""

OF_BYTES = {
    f"{end}_{what}": np.zeros((), np.uint8)
    for end, what in itertools.product("abxy", ("zero", "min", "max"))
}

every_op = pytest.mark.parametrize("name", OPS)


def each(bodies):
    return pytest.mark.parametrize(("name", "overload"), bodies)


def nodes_for_each(bodies):
    """How many nodes are enough: bodies of several roundings have most text in common."""
    return max(12, 60 // len(bodies)) if THOROUGH else max(2, 5 // len(bodies))


def value_info(name, array):
    elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, elem_type, array.shape)


def frozen(op, body, case):
    """The body as a model has it: optimized, all but the activations initializers."""
    tensors = dict(zip(op.inputs, case.inputs, strict=True))
    feeds = {name: tensors.pop(name) for name in op.data}
    formal = [op.name, list(op.inputs), list(op.outputs)]
    node = helper.make_node(*formal, None, None, DOMAIN, body.overload, **case.attributes)
    graph = helper.make_graph(
        [node],
        op.name,
        [value_info(name, array) for name, array in feeds.items()],
        [ValueInfoProto(name=name) for name in op.outputs],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    model = helper.make_model(
        graph,
        functions=[op.function(body, OPSET)],
        opset_imports=opset_imports(OPSET),
        ir_version=IR_VERSION,
    )
    return Session(model, threads=1)


def activations(op, case):
    named = zip(op.inputs, case.inputs, strict=True)
    return {name: array for name, array in named if name in op.data}


def outputs(result):
    """A list of what a node gives, mostly one array."""
    return list(result) if isinstance(result, tuple) else [result]


def same(results, expected):
    for result, array in zip(results, outputs(expected), strict=True):
        np.testing.assert_array_equal(result, array, strict=True)


def run_everywhere(op, body, cases):
    """What the body gives for each of ``cases``, which differ in activations alone."""
    for optimize in (False, True) if THOROUGH else (False,):  # optimized it is below
        for case in cases:
            given = case.inputs, case.attributes
            yield case, outputs(run_op(op.name, body.overload, *given, optimize=optimize))
    session = frozen(op, body, cases[0])
    for case in cases:
        yield case, outputs(tuple(session.run(None, activations(op, case))))


FIXED = {"sequence_lens"}
"""Data that is known of a node, on which its body may depend."""


def alike(op, case):
    """The node on what was drawn, its complement, and turned: runs are free, sessions not."""
    return [
        Case(
            [
                np.array(change(array)) if name in op.data and name not in FIXED else array
                for name, array in zip(op.inputs, case.inputs, strict=True)
            ],
            case.attributes,
        )
        for change in (np.copy, np.invert, np.flip)
    ]


def accepted_fast_bodies(op, case):
    constants = dict(zip(op.inputs, case.inputs, strict=True))
    fast = [body for body in op.bodies if body.flavour == "onnxruntime"]
    return [body for body in fast if body.accepts(constants, case.attributes)]


def meaning_through(kernel, op, case):
    """The op's reference with the model of a kernel in place of the exact rounding."""

    def rounded(acc, multiplier, shift, _rounding, *rests):
        return kernel(*map(np.asarray, (acc, multiplier, shift, *rests)))

    with patch.object(sys.modules[op.reference.__module__], "requantize", rounded):
        return op.reference(*case.inputs, **case.attributes)


@every_op
@thoroughly(200)
@given(data=st.data())
def test_the_reference_equals_plain_loops_and_obeys_its_laws(name, data):
    case = data.draw(CASES[name])
    assert OPS[name].laws
    for law in OPS[name].laws.values():
        law(*case.inputs, **case.attributes)
    stored = OPS[name].reference(*case.inputs, **case.attributes)
    if name in RECURRENT_PLAIN:
        same(outputs(stored), RECURRENT_PLAIN[name](*case.inputs, **case.attributes))
        return
    shape, code_at = PLAIN[name](*case.inputs, **case.attributes)
    assert (stored.shape, stored.dtype) == (shape, case.inputs[-1].dtype)
    positions = list(np.ndindex(shape))
    for place in {*np.linspace(0, len(positions) - 1, SOME).astype(int)} if positions else ():
        assert stored[positions[place]] == code_at(*positions[place]), positions[place]


@pytest.mark.thinned
@each(PORTABLE)
def test_a_portable_body_equals_the_reference(name, overload):
    op, body = OPS[name], OPS[name].overload(overload)
    alternatives = [each for each in op.bodies if each.flavour == "portable"]

    def roundings(case):
        """Those with which the body takes it: some take words alone, or round once."""
        known, attributes = dict(zip(op.inputs, case.inputs, strict=True)), case.attributes
        if "rounding" not in op.attributes:
            return [""] if len(alternatives) == 1 or body.accepts(known, attributes) else []
        ways = ({**attributes, "rounding": each} for each in NODE_ROUNDINGS)
        return [each["rounding"] for each in ways if body.accepts(known, each)]

    @exactly(nodes_for_each(alternatives))
    @given(CASES[name].filter(roundings))
    def on_every_node(case):
        if "rounding" in op.attributes:
            case.attributes["rounding"] = roundings(case)[0]
        for node, result in run_everywhere(op, body, alike(op, case)):
            expected = op.reference(*node.inputs, **node.attributes)
            same(result, expected)

    on_every_node()


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_portable_levels_beyond_32_bits_saturate(rounding):
    """Where onnxruntime's Clip of int64 returns 0 for 255."""
    acc = np.arange(-1200, 1200, dtype=np.int32)
    scale, ends = np.int32([[1 << 23], [1]]), [np.array(end, np.uint8) for end in (7, 0, 255)]
    op, attributes = OPS["Requantize"], {"axis": 0, "rounding": rounding}
    body = op.body("portable", {}, attributes)
    for _, result in run_everywhere(op, body, [Case([acc, *scale, *ends], attributes)]):
        assert result[0].tolist() == [0] * 1200 + [7] + [255] * 1199


class EnoughError(SkipTest):
    """No more nodes are needed: Hypothesis lets this through at once."""


@pytest.mark.thinned
@pytest.mark.parametrize("name", sorted(FAST))
def test_fast_bodies_equal_the_meaning_through_their_kernel(name):
    op, compared = OPS[name], Counter()
    bodies = {body.overload for body in op.bodies if body.flavour == "onnxruntime"}
    enough = nodes_for_each(bodies)
    drawn = max(150, 80 * len(bodies))  # it ends with the last of them

    @exactly(drawn)  # some bodies are for few nodes
    @given(CASES[name])
    def on_every_node(case):
        if compared == dict.fromkeys(bodies, enough):
            raise EnoughError
        for body in accepted_fast_bodies(op, case):
            if (name, body.overload) in NEAR or compared[body.overload] == enough:
                compared[body.overload] = enough
                continue
            for node, result in run_everywhere(op, body, alike(op, case)):
                expected = op.reference(*node.inputs, **node.attributes)
                if body.kernel is not None:
                    expected = meaning_through(body.kernel, op, node)
                same(result, expected)
            compared[body.overload] += 1

    with suppress(EnoughError):
        on_every_node()
    assert set(compared) == bodies


@thoroughly(100)
@given(CASES["IntAdd"])
def test_the_fast_add_leaves_its_meaning_by_one_and_only_near_ties(case):
    op = OPS["IntAdd"]
    for body in accepted_fast_bodies(op, case):
        for node, (result,) in run_everywhere(op, body, alike(op, case)):
            a, a_zero, b, b_zero, m_a, m_b, shift = map(np.int64, node.inputs[:7])
            step = 1 << int(shift)
            beyond_tie = ((a - a_zero) * m_a + (b - b_zero) * m_b) % step - step // 2
            expected = op.reference(*node.inputs, **node.attributes)
            assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
            off = np.abs(result.astype(np.int64) - expected)
            assert off.max() <= 1
            assert (np.abs(beyond_tie)[off != 0] * 4096 < step).all()


def test_every_module_declares_the_op_it_is_named_after():
    modules = {path.stem for path in Path(qpasses_v1.__file__).parent.glob("[!_]*.py")}
    snake_case = {name: re.sub("(?<=.)(?=[A-Z])", "_", name).lower() for name in OPS}
    assert set(snake_case.values()) == modules
    for name, op in OPS.items():
        assert op.reference.__module__.endswith(f".{snake_case[op.name]}") and name == op.name


@every_op
def test_each_rounding_has_exactly_one_portable_body(name):
    portable = [body for body in OPS[name].bodies if body.flavour == "portable"]
    declared = OPS[name].roundings
    for rounding in NODE_ROUNDINGS:
        attributes = {"rounding": rounding, "mean": FOLDED}
        accepting = [body for body in portable if body.accepts(OF_BYTES, attributes)]
        assert len(accepting) == (rounding in declared or not declared)


def inner_too(nodes):
    """Nodes, and those of the bodies in them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from inner_too(attribute.g.node)


@each(PORTABLE)
def test_a_portable_body_holds_standard_integer_ops_only(name, overload):
    for node in inner_too(OPS[name].function(OPS[name].overload(overload), OPSET).node):
        assert node.domain == "" and node.op_type in INTEGER_OPS
        if node.op_type in ("Constant", "ConstantOfShape", "Cast"):
            assert len(node.attribute) == 1  # without a value ConstantOfShape makes floats
        for attribute in node.attribute:
            assert attribute.type not in (AttributeProto.FLOAT, AttributeProto.FLOATS)
            if attribute.type == AttributeProto.TENSOR:
                assert attribute.t.data_type in INTEGER_TYPES
            if attribute.name == "to":
                assert attribute.i in INTEGER_TYPES


@each(BODIES)
def test_a_body_defines_every_name_once_and_before_use(name, overload):
    def define(nodes, defined):
        for node in nodes:
            assert defined.issuperset(node.input)
            assert defined.isdisjoint(node.output)
            for body in (each.g for each in node.attribute if each.HasField("g")):
                inner = defined | {each.name for each in body.input}
                define(body.node, inner)
                assert inner.issuperset(each.name for each in body.output)
            defined.update(node.output)

    defined = set(OPS[name].inputs)
    define(OPS[name].function(OPS[name].overload(overload), OPSET).node, defined)
    assert defined.issuperset(OPS[name].outputs)


@pytest.mark.parametrize("name", CLAMPED)
def test_a_clamp_inside_the_type_takes_the_clamped_kernel(name):
    whole = {"y_min": np.array(0, np.uint8), "y_max": np.array(255, np.uint8)}
    whole["w"] = np.zeros((1, 1, 1, 1), np.int8)
    whole |= {f"{end}_zero": np.array(0, np.uint8) for end in "abxy"}
    inside = whole | {"y_max": np.array(254, np.uint8)}
    attributes, body = {"rounding": "half_up"}, OPS[name].body
    assert body("onnxruntime", whole, attributes).overload == "onnxruntime"
    assert body("onnxruntime", inside, attributes).overload == "onnxruntime_clamped"
    assert body("portable", whole, attributes).overload == "portable_half_up"


@pytest.mark.parametrize("w_zero", [np.array(128, np.uint8), np.array(0, np.int8)])
@pytest.mark.parametrize("name", ["IntConv", "IntGemm", "IntMatMul"])
def test_int8_activations_run_on_the_kernel_for_uint8(name, w_zero):
    ends = {"y_min": np.array(-128, np.int8), "y_max": np.array(127, np.int8)}
    ends |= {f"{end}_zero": np.array(0, np.int8) for end in "abxy"}
    inside = ends | {"y_min": np.array(0, np.int8)}
    body, attributes = OPS[name].body, {"rounding": "half_to_even"}
    whole = body("onnxruntime", ends | {"w_zero": w_zero}, attributes)
    clamped = body("onnxruntime", inside | {"w_zero": w_zero}, attributes)
    assert whole.overload == "onnxruntime_signed"
    assert clamped.overload == "onnxruntime_signed_clamped"


def test_an_op_without_a_fast_body_gets_the_portable_one():
    bodies = [body for body in OPS["Requantize"].bodies if body.flavour == "portable"]
    slow = dataclasses.replace(OPS["Requantize"], bodies=bodies)
    assert slow.body("onnxruntime", {}, {"rounding": "half_up"}).overload == "portable_half_up"


@every_op
def test_unknown_bodies_and_roundings_are_lookup_errors(name):
    with pytest.raises(LookupError, match=f"{name} has no body 'fastest'"):
        OPS[name].overload("fastest")
    if "rounding" in OPS[name].attributes:
        with pytest.raises(LookupError, match=f"no body of {name} accepts"):
            OPS[name].body("portable", OF_BYTES, {"rounding": "half_odd"})
