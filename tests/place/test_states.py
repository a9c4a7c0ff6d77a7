"""States: an input and the output that is its next value keep one scale and type."""

import json
import re

import numpy as np
import onnx
import pytest

from calibration import Session
from opsets.errors import UsageError
from opsets.target import load_target
from qpasses import inspect, quantize, verify
from qpasses.checking.meaning import Pair
from qpasses.checking.rules import check_states
from qpasses.ir.interchange import import_graph
from qpasses.ir.record import Record
from qpasses.ir.settings import Settings
from qpasses.ir.shapes import infer_shapes
from qpasses.place.states import find_states
from tests.support.commands import run
from tests.support.small_models import model, numbers

CACHED = """
g (float[1, 4, 1] x, float[1, 4, 6] cache) => (float[1, 3, 5] y, float[1, 4, 6] after) {
    joined = Concat <axis = 2> (cache, x)
    y = Conv (joined, w)
    after = Slice (joined, one, seven, two)
}"""
CUT = {
    **{"w": numbers(3, 4, 3), "one": np.array([1]), "seven": np.array([7])},
    "two": np.array([2]),
}
WRITTEN_OUT = """
g (float[1, 4] x, float[1, 5] h) => (float[1, 5] after, float[1, 2] y) {
    a = MatMul (x, v)
    b = MatMul (h, u)
    sum = Add (a, b)
    after = Tanh (sum)
    y = MatMul (after, w)
}"""
GATES = {"v": 3 * numbers(4, 5), "u": numbers(5, 5, seed=1) / 2, "w": numbers(5, 2, seed=2)}

LSTM = "LSTM <hidden_size = 3> (x, w, r, b, , h, c)"
RECURRENT = {
    "w": numbers(1, 12, 4) / 2,
    "r": numbers(1, 12, 3, seed=1) / 2,
    "b": numbers(1, 24, seed=2) / 2,
    **{"first": np.array([0]), "second": np.array([1]), "third": np.array([2])},
    **{"zero": np.array(0), "axis": np.array([0]), "halves": np.array([1, 1])},
}
ENDS = "float[T, 1, 4] x, float[1, 1, 3] h, float[1, 1, 3] c"

SEEN = {
    "both of an LSTM": (
        f"g ({ENDS}) => (float[1, 1, 3] d, float[1, 1, 3] k) {{ y, d, k = {LSTM} }}",
        [("h", "d"), ("c", "k")],
    ),
    "one in a stack of both, beside what is no state": (
        """g (float[T, 1, 4] x, float[2, 1, 3] s, float[2, 1, 3] o)
            => (float[2, 1, 3] after, float[2, 1, 3] other) {
            h, c = Split <axis = 0> (s, halves)
            y, d, k = LSTM <hidden_size = 3> (x, w, r, b, , h, c)
            after = Concat <axis = 0> (d, k)
            other = Relu (o)
        }""",
        [("s", "after")],
    ),
    "squeezed, sliced and transposed": (
        """g (float[T, 1, 4] x, float[1, 3, 1] s) => (float[1, 3] after) {
            h = Transpose <perm = [0, 2, 1]> (s)
            y, d = GRU <hidden_size = 3> (x, v, q, a, , h)
            after = Squeeze (d, axis)
        }""",
        [],
    ),
    "what a Loop carries": (
        """g (int64 n, bool go, float[1, 3] h) => (float[1, 3] after, float[n, 1, 3] all) {
            after, all = Loop <body = body (int64 i, bool c, float[1, 3] s) => (
                bool d, float[1, 3] t, float[1, 3] e
            ) { d = Identity (c) t = Tanh (s) e = Identity (t) }> (n, go, h)
        }""",
        [("h", "after")],
    ),
    "what a Scan carries": (
        """g (float[5, 3] x, float[3] h) => (float[3] after, float[5, 3] all) {
            after, all = Scan <num_scan_inputs = 1, body = body (float[3] s, float[3] i) => (
                float[3] t, float[3] e
            ) { t = Add (s, i) e = Identity (t) }> (h, x)
        }""",
        [("h", "after")],
    ),
    "what branches give": (
        """g (float[T, 1, 4] x, bool far, float[1, 1, 3] s) => (float[1, 1, 3] after) {
            after = If (far) <
                then_branch = t () => (float[1, 1, 3] d) {
                    y, d = GRU <hidden_size = 3> (x, v, q, a, , s)
                },
                else_branch = e () => (float[1, 1, 3] k) {
                    h = Squeeze (s, axis)
                    k = Unsqueeze (h, axis)
                }
            >
        }""",
        [("s", "after")],
    ),
    "a cache that a Slice cuts": (CACHED, [("cache", "after")]),
    "a cache that a Split cuts": (
        """g (float[1, 4, 1] x, float[1, 4, 1] cache) => (float[1, 4, 1] after) {
            joined = Concat <axis = 2> (cache, x)
            old, after = Split <axis = 2> (joined, halves)
        }""",
        [],
    ),
    "a cache that grows": (
        """g (float[1, 4, 1] x, float[1, 4, P] cache) => (float[1, 4, N] after) {
            after = Concat <axis = 2> (cache, x)
        }""",
        [],
    ),
    "what is computed by hand": (WRITTEN_OUT, []),
    "the last step that a Gather takes": (
        """g (float[3, 1, 4] x, float[1, 1, 3] h) => (float[1, 1, 3] after) {
            y = GRU <hidden_size = 3> (x, v, q, a, , h)
            after = Gather <axis = 0> (y, last)
        }""",
        [("h", "after")],
    ),
    "the last step that a Gather takes, squeezed and turned": (
        """g (float[2, 1, 4] x, float[1, 3] s) => (float[1, 3] after) {
            h = Unsqueeze (s, axis)
            y = GRU <hidden_size = 3> (x, v, q, a, , h)
            rows = Squeeze (y, one)
            turned = Transpose <perm = [1, 0, 2]> (rows)
            after = Gather <axis = 1> (turned, second_of)
        }""",
        [("s", "after")],
    ),
    "the last step that a Slice takes, however many there are": (
        """g (float[T, 1, 4] x, float[1, 1, 3] h) => (float[1, 1, 3] after) {
            y = GRU <hidden_size = 3> (x, v, q, a, , h)
            rows = Squeeze (y, one)
            after = Slice (rows, last, endless, axis)
        }""",
        [("h", "after")],
    ),
    "another step": (
        """g (float[3, 1, 4] x, float[1, 1, 3] h) => (float[1, 1, 3] after) {
            y = GRU <hidden_size = 3> (x, v, q, a, , h)
            after = Gather <axis = 0> (y, second_of)
        }""",
        [],
    ),
    "the only step there is, where no state is given": (
        """g (float[1, 1, 4] x, float[1, 1, 3] h) => (float[1, 1, 3] after) {
            y = GRU <hidden_size = 3> (x, v, q, a, , h)
            after = Squeeze (y, axis)
        }""",
        [("h", "after")],
    ),
    "the state beside the only step there is": (
        """g (float[1, 1, 4] x, float[1, 1, 3] h)
            => (float[1, 1, 3] seen, float[1, 1, 3] after) {
            y, after = GRU <hidden_size = 3> (x, v, q, a, , h)
            seen = Squeeze (y, axis)
        }""",
        [("h", "after")],
    ),
}
"""By what it shows, a graph and the states in it. A Split of two inputs of one size could be
the next value of either: neither is taken for a state."""


CONSTANTS = {
    **{"v": numbers(1, 9, 4), "q": numbers(1, 9, 3), "a": numbers(1, 18)},
    **{"last": np.array([-1]), "second_of": np.array(1), "one": np.array([1])},
    "endless": np.array([2**63 - 1]),
    **RECURRENT,
}


def graph_of(text):
    known = CONSTANTS | ({} if "LSTM" in text or "GRU" in text else CUT | GATES)
    read = set(re.findall(r"\w+", text))
    made = model(text, **{name: value for name, value in known.items() if name in read})
    return import_graph(infer_shapes(made))


@pytest.mark.parametrize("name", SEEN)
def test_states_are_seen_by_what_becomes_of_them(name):
    text, expected = SEEN[name]
    assert find_states(graph_of(text), ()) == expected


@pytest.mark.parametrize("name", SEEN)
def test_who_judges_sees_the_same_states(name):
    text, expected = SEEN[name]
    graph = graph_of(text)
    pair = Pair(graph, Record(), Settings(load_target("onnx")), graph)
    found = check_states._wanted(pair)
    names = {(graph.inputs[a].name, graph.outputs[b].name) for a, b in found}
    assert names == {*expected}


def samples(made, count=12, factor=1.0):
    """Random numbers for each input, small ones for states."""
    shapes = {
        value.name: [d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in made.graph.input
    }
    return [
        {
            name: numbers(*shape, seed=seed) * np.float32(1 if name == "x" else factor)
            for name, shape in shapes.items()
        }
        for seed in range(count)
    ]


def metadata(made):
    return {each.key.removeprefix("qpasses."): each.value for each in made.metadata_props}


def stored_ends(made):
    """How ``made``, with integer_io, stores each input and output: names and parameters."""
    ends = (made.graph.input, "inputs"), (made.graph.output, "outputs")
    found = {what: json.loads(metadata(made)[what]) for _, what in ends}
    return [[(each.name, found[what][each.name]) for each in part] for part, what in ends]


def test_a_named_state_and_its_next_value_have_one_scale():
    made = model(WRITTEN_OUT, **GATES)
    feeds = samples(made, factor=0.01)
    apart = quantize(made, feeds, integer_io=True)
    (_, (_, given)), ((_, after), _) = stored_ends(apart.model)
    assert given != after
    assert apart.report["states"] == []
    assert any("'h'" in w and "--states h=after" in w for w in apart.report["warnings"])
    tied = quantize(made, feeds, integer_io=True, states=["h=after"])
    (_, (_, given)), ((_, after), _) = stored_ends(tied.model)
    assert given == after
    assert json.loads(metadata(tied.model)["states"]) == [[1, 0]]
    assert [each["tied"] for each in tied.report["states"]] == [True]
    assert not any("--states" in each for each in tied.report["warnings"])


def test_steps_that_are_written_out_and_become_a_node_have_a_state():
    step = """a{n} = MatMul (x, v) b{n} = MatMul ({h}, u)
        s{n} = Add (a{n}, b{n}) {to} = Tanh (s{n})"""
    text = f"""g (float[1, 4] x, float[1, 5] h) => (float[1, 5] after, float[1, 2] y) {{
        {step.format(n=1, h="h", to="one")}
        {step.format(n=2, h="one", to="two")}
        {step.format(n=3, h="two", to="after")}
        y = MatMul (after, w)
    }}"""
    made = model(text, **GATES)
    result = quantize(made, samples(made, factor=0.01), integer_io=True)
    (_, (_, given)), ((_, after), _) = stored_ends(result.model)
    assert given == after
    assert [each["tied"] for each in result.report["states"]] == [True]
    assert result.report["warnings"] == []


@pytest.mark.thinned
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"integer_io": True},
        {"activation_bits": 5, "integer_io": True},
        {"activation_bits": 5, "narrow_range": True},
        {"target": "litert"},
        {"target": "tflm", "integer_io": True},
        {"target": "litert", "tensor_types": [".*=int16"]},
        {"target": "tosa", "tensor_types": [".*=int16"], "integer_io": True},
        {"target": "bm1684x", "alignment": "tpu-mlir"},
        {"tensor_types": ["h|cache=int16"]},
        {"residual_type": "int16"},
        {"tensor_types": ["after=int16"], "integer_io": True},
        {"share_tables": 3.0},
        {"accuracy": "best"},
    ],
)
@pytest.mark.parametrize("text", [WRITTEN_OUT, WRITTEN_OUT.replace("Tanh", "Sigmoid"), CACHED])
def test_states_keep_one_scale_and_type_whatever_else_is_asked(text, options, tmp_path):
    made = model(text, **(CUT if text == CACHED else GATES))
    feeds, path = samples(made, factor=0.1), tmp_path / "made.onnx"
    states = ["cache=after" if text == CACHED else "h=after"]
    result = quantize(made, feeds, path, states=states, **options)
    assert [each["tied"] for each in result.report["states"]] == [True]
    assert verify(path, made, data=feeds).verdict == "ok"


@pytest.mark.parametrize(
    ("text", "constants", "states"), [(WRITTEN_OUT, GATES, ["h=after"]), (CACHED, CUT, [])]
)
def test_a_thousand_steps_with_stored_states_are_those_with_states_in_float(
    text, constants, states
):
    made = model(text, **constants)
    feeds = samples(made)
    real = Session(quantize(made, feeds, states=states).model)
    stored = quantize(made, feeds, integer_io=True, states=states).model
    whole, ((x_name, x_way), (name, way)), ends = Session(stored), *stored_ends(stored)
    place = [value.name for value in made.graph.output].index("after")
    state = made.graph.input[1].name
    hidden = np.zeros_like(feeds[0][state])
    codes = stored_as(way, hidden)
    for step in range(1000):
        x = numbers(*feeds[0]["x"].shape, seed=1000 + step)
        found = real.run(None, {"x": x, state: hidden})
        others = whole.run(None, {x_name: stored_as(x_way, x), name: codes})
        for one, other, (_, each) in zip(found, others, ends, strict=True):
            assert (one == real_of(each, other)).all(), step
        hidden, codes = found[place], others[place]
    assert np.ptp(codes) > 50


def stored_as(way, values):
    codes = np.rint(values / np.float32(way["scale"])) + way["zero_point"]
    ends = np.iinfo(way["dtype"])
    return np.clip(codes, ends.min, ends.max).astype(way["dtype"])


def real_of(way, codes):
    levels = codes.astype(np.int32) - way["zero_point"]
    return levels.astype(np.float32) * np.float32(way["scale"])


def test_streaming_stays_as_near_to_float_after_a_thousand_steps():
    made = model(WRITTEN_OUT, **GATES)
    integer = Session(quantize(made, samples(made), states=["h=after"]).model)
    real, h, k, errors = Session(made), np.zeros((1, 5), np.float32), None, []
    k = h
    for step in range(1000):
        x = numbers(1, 4, seed=1000 + step)
        h, wanted = real.run(None, {"x": x, "h": h})
        k, found = integer.run(None, {"x": x, "h": k})
        errors.append(np.abs(found - wanted).max())
    early, late = np.mean(errors[50:200]), np.mean(errors[-150:])
    assert late < 2 * early


GIVEN = """
g (float[1, 4] x, float[1, 5] h) => (float[1, 5] after, float[1, 2] y) {
    hq = QuantizeLinear (h, scale, zero)
    hd = DequantizeLinear (hq, scale, zero)
    xq = QuantizeLinear (x, half, zero)
    xd = DequantizeLinear (xq, half, zero)
    uq = DequantizeLinear (codes, small, none)
    vq = DequantizeLinear (others, small, none)
    a = MatMul (xd, vq)
    b = MatMul (hd, uq)
    sum = Add (a, b)
    after = Tanh (sum)
    y = Relu (x)
}"""


def test_a_state_has_the_scale_that_a_quantized_model_says(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "made.onnx"
    made = model(
        GIVEN,
        **{"scale": np.float32(1 / 100), "half": np.float32(1 / 50), "zero": np.uint8(128)},
        **{"codes": rng.integers(-128, 128, (5, 5), np.int8), "small": np.float32(1 / 200)},
        **{"others": rng.integers(-128, 128, (4, 5), np.int8), "none": np.int8(0)},
    )
    feeds = samples(made)
    result = quantize(made, feeds, path, integer_io=True, states=["h=after"])
    (_, (_, given)), ((_, after), _) = stored_ends(result.model)
    assert given == after
    assert given["scale"] == np.float32(1 / 100)
    assert verify(path, made, data=feeds).verdict == "ok"


WRONG = {
    "h": "'h' is not INPUT=OUTPUT",
    "=after": "'=after' is not INPUT=OUTPUT",
    "z=after": "no input 'z', but 'x', 'h'",
    "h=z": "no output 'z', but 'after', 'y'",
    "h=y": r"'h' .* has sizes \[1, 5\], output 'y' \[1, 2\]",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_state_is_named(text):
    made = model(WRITTEN_OUT, **GATES)
    with pytest.raises(UsageError, match=WRONG[text]):
        quantize(made, samples(made), states=[text])


def test_an_end_of_another_type_is_no_state_and_none_stands_twice():
    text = (
        "g (float[2] x, int64[2] n) => (float[2] y, float[2] z) { y = Relu (x) z = Abs (x) }"
    )
    made = model(text)
    feeds = [{"x": numbers(2), "n": np.array([1, 2])}]
    with pytest.raises(UsageError, match=r"'n' .* is INT64, output 'y' FLOAT"):
        quantize(made, feeds, states=["n=y"])
    with pytest.raises(UsageError, match="input 'x' is given twice"):
        quantize(made, feeds, states=["x=y", "x=z"])


def test_a_state_of_which_one_end_is_in_float_is_said_to_be():
    made = model(WRITTEN_OUT, **GATES)
    options = {"nodes_to_exclude": ["sum", "after"], "states": ["h=after"]}
    result = quantize(made, samples(made), **options)
    (state,) = result.report["states"]
    assert not state["tied"]
    assert any("'after' in float" in each for each in result.report["warnings"])


def test_metadata_of_other_states_and_unlike_scales_are_found(tmp_path):
    made = model(WRITTEN_OUT, **GATES)
    feeds, path = samples(made, factor=0.01), tmp_path / "made.onnx"
    tied = quantize(made, feeds, states=["h=after"]).model
    assert problems(tied, made, feeds, path) == []
    for value in ("[]", "[[0, 0]]", "[[1, 1]]"):
        assert any(
            "on states" in each for each in problems(tied, made, feeds, path, states=value)
        )
    apart = quantize(made, feeds).model
    configuration = json.loads(metadata(apart)["configuration"]) | {"states": ["h=after"]}
    found = problems(apart, made, feeds, path, configuration=json.dumps(configuration))
    assert any("state 'h' is stored as" in each for each in found)


def problems(integer, original, feeds, path, **entries):
    """What verify says of ``integer`` with other entries of metadata."""
    forged = onnx.ModelProto()
    forged.CopyFrom(integer)
    for each in forged.metadata_props:
        each.value = entries.get(each.key.removeprefix("qpasses."), each.value)
    onnx.save(forged, path)
    return verify(path, original, data=feeds).report["summary"]["problems"]


def test_inspect_says_which_states_are_stored_alike(tmp_path):
    made, path = model(CACHED, **CUT), tmp_path / "made.onnx"
    quantize(made, samples(made), path, integer_io=True)
    assert inspect(path).as_json()["record"]["states"] == [[1, 1]]
    shown = " ".join(run("inspect", path).out.split())
    assert "cache_quantized: next value after_quantized, stored alike" in shown


@pytest.mark.parametrize("options", [{}, {"narrow_range": True}, {"bodies": "portable"}])
def test_what_moves_a_last_state_has_its_16_bits(options):
    net = """g (float[4, 2, 3] x) => (float[2, 4] y) {
        all, last = GRU <hidden_size = 4> (x, w, r)
        top = MaxPool <kernel_shape = [2], pads = [1, 0]> (last)
        h = Squeeze (top, axis)
        y = Add (h, h)
    }"""
    weights = {"w": numbers(1, 12, 3), "r": numbers(1, 12, 4, seed=1), "axis": np.array([0])}
    made = model(net, opset=18, **weights)
    feeds = [{"x": numbers(4, 2, 3, seed=seed)} for seed in range(4)]
    quantized = quantize(made, feeds, **options)
    assert [n.op_type for n in quantized.model.graph.node].count("IntMaxPool") == 1
    assert quantized.verdict == verify(quantized.model, made, feeds).verdict == "ok"


def test_gates_that_reach_beyond_any_step_of_1_stay_in_float_by_name():
    net = """g (float[1, 2, 3] x) => (float[1, 1, 2, 4] y) {
        y = GRU <hidden_size = 4, activations = ["Relu", "Tanh"]> (x, w, r)
    }"""
    made = model(net, opset=18, w=numbers(1, 12, 3), r=numbers(1, 12, 4, seed=1))
    feeds = [{"x": 1e9 * numbers(1, 2, 3, seed=seed)} for seed in range(4)]
    quantized = quantize(made, feeds)
    (left,) = quantized.report["summary"]["float_nodes"]
    assert left["op_type"] == "GRU" and "no step of their 16 bits" in left["reason"]
    assert verify(quantized.model, made, feeds).verdict == quantized.verdict == "incomplete"
