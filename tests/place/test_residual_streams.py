"""Residual streams in 16 bits: which tensors they are, what reads them, and the evidence."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from opsets.errors import ModelError, UsageError
from opsets.qpasses_v1 import OPS
from opsets.target import load_target
from qpasses import quantize, verify
from qpasses.evidence.prove_streams import sum_bound
from qpasses.ir.record import Quantization
from qpasses.place.residuals import LONGEST_BRANCH
from tests.support.commands import USAGE, run
from tests.support.small_models import model, numbers, session
from tests.support.stage_checks import (
    CONSTANTS,
    check,
    check_single_op,
    net,
    networks,
    random_feeds,
    seeds,
    stages,
)
from tests.support.thoroughness import thoroughly

WIDTH = 8
WEIGHTS = {
    "u": numbers(WIDTH, WIDTH) / 3,
    "v": numbers(WIDTH, WIDTH, seed=1) / 3,
    "g": np.ones(WIDTH, np.float32),
    "b": numbers(WIDTH, seed=2),
}
PRE_NORM = """
    n = LayerNormalization (x, g, b) f = MatMul (n, u) [first] s = Add (x, f)
    m = LayerNormalization (s, g, b) h = MatMul (m, v) [second] t = Add (h, s)
    k = LayerNormalization (t, g, b) y = MatMul (k, u)
"""
POST_NORM = """
    f = MatMul (x, u) [first] s = Add (x, f) n = LayerNormalization (s, g, b)
    h = MatMul (n, v) [second] t = Add (h, n) y = LayerNormalization (t, g, b)
"""
INT16 = {"residual_type": "int16"}


def graph(body, ends=f"(float[N, T, {WIDTH}] x) => (float[A, B, {WIDTH}] y)", **weights):
    return model(f"g {ends} {{ {body} }}", opset=21, **WEIGHTS, **weights)


def feeds(count=4):
    return [{"x": numbers(2, 5, WIDTH, seed=seed)} for seed in range(count)]


def wide_tensors(result):
    found = {value.name: value for value in result.model.graph.value_info}
    return sorted(n.removesuffix("_quantized") for n, v in found.items() if is_wide(v))


def is_wide(value):
    return value.type.tensor_type.elem_type == onnx.TensorProto.INT16


def ops(result):
    return [node.op_type for node in result.model.graph.node]


def evidence(result, name):
    return next(each for each in result.evidence if each.name == name)


# Which tensors are streams.


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("body", "streams"),
    [
        (PRE_NORM, ["s", "t"]),
        (POST_NORM, ["s", "t"]),
        # what a Relu leaves, and the sum before that another branch leaves from
        ("[p] s = Add (x, e) r = Relu (s) f = MatMul (r, u) [q] t = Add (r, f) "
         "k = Relu (t) y = MatMul (k, v)", ["k", "r"]),
        # the kept one is only moved
        ("f = MatMul (x, u) k = Reshape (x, same) s = Add (k, f) y = MatMul (s, v)", ["s"]),
        # two branches, none of which is computed from the other
        ("f = MatMul (x, u) h = MatMul (x, v) s = Add (f, h) y = MatMul (s, v)", []),
        ("s = Add (x, x) y = MatMul (s, u)", []),
        ("s = Add (x, e) y = MatMul (s, u)", []),
    ],
)  # fmt: skip
def test_streams_are_sums_with_what_they_are_computed_from(body, streams):
    embedded = {"e": numbers(5, WIDTH, seed=3), "same": np.array([0, -1, WIDTH])}
    made = graph(body, **{k: v for k, v in embedded.items() if f" {k}" in body})
    result = quantize(made, feeds(), **INT16)
    assert wide_tensors(result) == streams and result.verdict == "ok"
    assert verify(result.model, made, feeds()).verdict == "ok"
    assert wide_tensors(quantize(made, feeds())) == []


def test_a_branch_is_followed_so_far_and_no_farther(monkeypatch):
    assert LONGEST_BRANCH >= 1000  # of an attention with its moves there are some hundred
    monkeypatch.setattr("qpasses.place.residuals.LONGEST_BRANCH", 60)

    def branch(length):
        steps = "".join(f" c{i + 1} = Sin (c{i})" for i in range(length))
        return f"c0 = MatMul (x, u) {steps} s = Add (x, c{length}) y = MatMul (s, v)"

    for length, streams in ((50, ["s"]), (70, [])):
        result = quantize(graph(branch(length)), feeds(1), stop_after="place", **INT16)
        stored = [n for n in result.model.graph.node if n.op_type == "QuantizeLinear"]
        types = {t.name: t.data_type for t in result.model.graph.initializer}
        found = [n.name for n in stored if types[n.input[2]] == onnx.TensorProto.INT16]
        assert found == [f"{name}_quantize" for name in streams]


def test_nodes_that_read_8_bits_share_one_way_back():
    body = """f = MatMul (x, u) s = Add (x, f) a = MatMul (s, u) c = MatMul (s, v)
        p = Transpose <perm = [0, 2, 1]> (s) q = Transpose <perm = [0, 2, 1]> (p)
        e = Sigmoid (s) d = Mul (e, a) k = Add (d, c) h = Add (k, q) y = MatMul (h, u)"""
    made = graph(body)
    result = quantize(made, feeds(), **INT16)
    narrowed = [each.name for each in result.evidence if each.op == "IntRescale"]
    assert narrowed == ["s_rescaled_quantize", "h_rescaled_quantize"]
    assert result.report["summary"]["integer_only"]
    assert evidence(result, "s_rescaled_quantize").kind == "exhaustive"
    assert evidence(result, "s_rescaled_quantize").domain == 65536
    assert verify(result.model, made, feeds()).verdict == "ok"


def test_float_nodes_and_outputs_read_all_16_bits():
    body = "f = MatMul (x, u) s = Add (x, f) y = CumSum (s, last)"
    ends = f"(float[N, T, {WIDTH}] x) => (float[A, B, {WIDTH}] s, float[A, B, {WIDTH}] y)"
    made = graph(body, ends, last=np.array(1))
    result = quantize(made, feeds(), **INT16)
    assert wide_tensors(result) == ["s"] and "IntRescale" not in ops(result)
    found, expected = (session(each).run(None, feeds()[0]) for each in (result.model, made))
    stored = quantize(made, feeds())
    for value, real, coarse in zip(
        found, expected, session(stored.model).run(None, feeds()[0]), strict=True
    ):
        assert np.abs(value - real).max() <= np.abs(coarse - real).max()


# What becomes of them.


WAYS = [
    {"bodies": "portable"},
    {"activation_type": "int8"},
    {"symmetric": True},
    {"activation_bits": 5, "narrow_range": True},
    {"integer_io": True},
    {"target": "exact"},
    {"target": "ivit"},
    {"target": "bm1684x"},
    {"layernorm": "ivit"},
]


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("body", "options"),
    [
        (PRE_NORM, {}),
        (POST_NORM, {}),
        *((PRE_NORM if i % 2 else POST_NORM, options) for i, options in enumerate(WAYS)),
    ],
    ids=str,
)
def test_every_way_to_quantize_takes_streams_of_16_bits(body, options):
    made = graph(body)
    result = quantize(made, feeds(), **INT16, **options)
    assert len(wide_tensors(result)) == 2 and result.verdict == "ok"
    assert result.report["summary"]["integer_only"] and all(e.proved for e in result.evidence)
    assert result.report["configuration"]["residual_type"] == "int16"
    assert verify(result.model, made, feeds()).verdict == "ok"


@pytest.mark.thinned
@pytest.mark.parametrize("emit", ["qdq", "standard"])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_other_emitted_graphs_have_them_too(emit, kind):
    made = graph(PRE_NORM)
    result = quantize(made, feeds(), emit=emit, activation_type=kind, **INT16)
    types = [value.type.tensor_type.elem_type for value in result.model.graph.value_info]
    inside = [t.data_type for t in result.model.graph.initializer]
    assert onnx.TensorProto.INT16 in [*types, *inside]
    found, expected = (session(each).run(None, feeds()[0])[0] for each in (result.model, made))
    assert np.abs(found - expected).max() < 0.1 * np.abs(expected).max()


def deep(blocks=24):
    """Small steps beside a stream whose size one of its channels decides."""
    text, x = "", "x"
    for i in range(blocks):
        text += f" n{i} = LayerNormalization ({x}, g, b) f{i} = MatMul (n{i}, small)"
        text += f" s{i} = Add ({x}, f{i})"
        x = f"s{i}"
    small = WEIGHTS["u"] / 8
    return graph(text + f" k = LayerNormalization ({x}, g, b) y = MatMul (k, v)", small=small)


def test_16_bits_are_nearer_to_float():
    samples = [{"x": each["x"] * np.float32([30] + [1] * (WIDTH - 1))} for each in feeds(8)]
    made, noise = deep(), {}
    for kind in ("activation", "int16"):
        result = quantize(made, samples, residual_type=kind)
        runs = (session(each) for each in (made, result.model))
        ours, theirs = ([run.run(None, s)[0] for s in samples] for run in runs)
        noise[kind] = float(np.square(np.subtract(ours, theirs)).mean())
    assert noise["int16"] < noise["activation"] / 4


def test_a_target_that_shifts_operands_out_of_32_bits_has_none():
    with pytest.raises(UsageError, match=r"--residual-type.*shift_20"):
        quantize(graph(PRE_NORM), feeds(), target="tflite-single", **INT16)


@pytest.mark.parametrize("target", ["tosa", "tflm", "litert"])
def test_targets_shift_operands_by_as_much_as_32_bits_hold(target):
    result = quantize(graph(PRE_NORM), feeds(), target=target, **INT16)
    constants = {
        each.name: numpy_helper.to_array(each) for each in result.model.graph.initializer
    }
    sums = [node for node in result.model.graph.node if node.op_type == "IntRescaledAdd"]
    assert sums and {int(constants[node.input[4]]) for node in sums} == {15}
    assert verify(result.model, graph(PRE_NORM), feeds()).verdict == result.verdict == "ok"


def test_a_model_of_an_older_opset_is_raised_and_one_that_cannot_be_says_so(monkeypatch):
    made = graph(POST_NORM)
    made.opset_import[0].version = 20
    result = quantize(made, feeds(), **INT16)
    assert {o.domain: o.version for o in result.model.opset_import}[""] == 21

    def stuck(model, *_):
        return model

    monkeypatch.setattr("qpasses.prepare.canonical.upgrade", stuck)
    with pytest.raises(ModelError, match="opset 21"):
        quantize(made, feeds(), **INT16)


@thoroughly(60)
@given(made=networks(), seed=seeds, kind=st.sampled_from(["uint8", "int8"]))
def test_random_networks_are_proved(made, seed, kind):
    found = stages(made, random_feeds(made, seed), activation_type=kind, **INT16)
    check(found, random_feeds(made, seed + 1))


@pytest.mark.parametrize("seed", range(3))
def test_a_single_sum_is_that_of_real_arithmetic(seed):
    body = "f = MatMul (x, matrix) y = Add (f, x)"
    made = net([1, 2, 4, 4], body, outputs="float[] y", **CONSTANTS)
    check_single_op(made, seed, ["IntGemm", "IntAdd"], **INT16)


# Evidence.


def constants(result, name):
    node = next(each for each in result.model.graph.node if each.name == name)
    known = {t.name: numpy_helper.to_array(t) for t in result.model.graph.initializer}
    pairs = zip(OPS[node.op_type].inputs, node.input, strict=True)
    return {formal: known[actual] for formal, actual in pairs if actual in known}


@pytest.mark.parametrize("target", ["onnx", "ivit"])
def test_the_bound_of_a_sum_holds_on_random_pairs(target):
    result = quantize(graph(PRE_NORM), feeds(), target=target, **INT16)
    given_to = constants(result, "second")
    proof = evidence(result, "second")
    rounding = load_target(target).rounding if target == "ivit" else "half_to_even"
    (node,) = [each for each in result.model.graph.node if each.name == "second"]
    scales = json.loads(
        next(e.value for e in node.metadata_props if e.key == "qpasses.scales")
    )
    ratios = [Fraction(scales[n][0]) / Fraction(scales["y"][0]) for n in "ab"]
    rng = np.random.default_rng(0)
    pair = {
        name: rng.integers(*limits(given_to[f"{name}_zero"]), 2000, endpoint=True).astype(
            given_to[f"{name}_zero"].dtype
        )
        for name in "ab"
    }
    inputs = [(given_to | pair)[name] for name in OPS[node.op_type].inputs]
    found = OPS[node.op_type].reference(*inputs, rounding=rounding)
    zeros = {name: int(given_to[f"{name}_zero"]) for name in "aby"}
    assert proof.kind == "bounded" and 0 < proof.bound < 0.6 and proof.domain > 65536
    assert proof.bound == sum_bound(given_to, ratios, rounding)
    for a, b, y in zip(pair["a"], pair["b"], found, strict=True):
        real = (int(a) - zeros["a"]) * ratios[0] + (int(b) - zeros["b"]) * ratios[1]
        low, high = limits(given_to["y_zero"])
        real = min(max(real + zeros["y"], low), high)
        assert abs(int(y) - real) <= Fraction(proof.bound) + Fraction(1, 2)


def limits(zero):
    info = np.iinfo(zero.dtype)
    return info.min, info.max


def changed(result, name, formal, value):
    made = onnx.ModelProto()
    made.CopyFrom(result.model)
    node = next(each for each in made.graph.node if each.name == name)
    place = list(OPS[node.op_type].inputs).index(formal)
    old = next(t for t in made.graph.initializer if t.name == node.input[place])
    new = numpy_helper.from_array(np.asarray(value, numpy_helper.to_array(old).dtype), "new")
    made.graph.initializer.append(new)
    node.input[place] = "new"
    return made


@pytest.fixture(scope="module")
def unchanged():
    made = graph(PRE_NORM.replace("y = MatMul (k, u)", "z = MatMul (k, u) q = MatMul (t, v)"
                                  " y = Mul (z, q)"))  # fmt: skip
    result = quantize(made, feeds(), **INT16)
    assert verify(result.model, made, feeds()).verdict == "ok"
    return made, result


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("node", "formal", "value"),
    [
        ("second", "a_multiplier", 12345),
        ("second", "a_multiplier", -(2**31)),
        ("second", "shift", 20),
        ("second", "y_min", -5),
        ("second", "b_zero", 3),
        ("t_rescaled_quantize", "multiplier", 77777),
        ("t_rescaled_quantize", "shift", 9),
        ("t_rescaled_quantize", "x_zero", 1),
        ("t_rescaled_quantize", "y_max", 200),
    ],
)
def test_a_number_that_was_changed_is_found(unchanged, node, formal, value):
    made, result = unchanged
    forged = changed(result, node, formal, value)
    found = verify(forged, made).report["summary"]["problems"]
    assert any(node in each for each in found)


def test_16_bits_that_nobody_asked_for_are_found():
    made = graph(PRE_NORM)
    result = quantize(made, feeds(), **INT16)
    forged = onnx.ModelProto()
    forged.CopyFrom(result.model)
    entry = next(e for e in forged.metadata_props if e.key == "qpasses.configuration")
    entry.value = json.dumps(json.loads(entry.value) | {"residual_type": "activation"})
    found = verify(forged, made, feeds()).report["summary"]["problems"]
    assert any("is int16" in each and "recorded settings" in each for each in found)


def test_codes_of_16_bits_are_all_codes():
    stored = Quantization(1.0, 0, "int16")
    assert stored.limits == stored.type_limits == (-32768, 32767)
    assert stored.store(1e9) == 32767 and stored.store(-40000.0) == -32768


def test_the_command_takes_the_option(tmp_path):
    onnx.save(graph(PRE_NORM), tmp_path / "m.onnx")
    np.savez(tmp_path / "s.npz", **feeds()[0])
    written = tmp_path / "o.onnx"
    options = ["--data", tmp_path / "s.npz", "--residual-type", "int16", "-o", written]
    ended = run("quantize", tmp_path / "m.onnx", *options)
    assert ended.code == 0 and "residual-type" in ended.out
    assert any(map(is_wide, onnx.load(written).graph.value_info))
    refused = run("quantize", tmp_path / "m.onnx", *options, "--target", "tflite-single")
    assert refused.code == USAGE and "--residual-type" in refused.err


# What hostile models make of it.


def test_what_stays_float_behind_the_8_bits_is_verified():
    body = "f = MatMul (x, u) s = Add (x, f) m = ReduceMean <axes = [1]> (s) y = MatMul (m, v)"
    ends = f"(float[N, 5, {WIDTH}] x) => (float[A, B, {WIDTH}] y)"
    made = model(f"g {ends} {{ {body} }}", opset=17, u=WEIGHTS["u"], v=WEIGHTS["v"])
    for target in ("ivit", "bm1684x", "onnx"):
        result = quantize(made, feeds(), target=target, **INT16)
        assert wide_tensors(result) == ["s"]
        assert verify(result.model, made, feeds()).verdict == result.verdict


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("side", "size", "narrowed"), [(16, 1, 0), (46, 1, 0), (260, 1, 0), (46, 1e-6, 1)]
)
def test_norms_read_16_bits_unless_epsilon_is_too_large_for_them(side, size, narrowed):
    made = model(
        f"""g (float[1, 2, {side}, {side}] x) => (float[1, 2, {side}, {side}] y) {{
            f = Conv (x, w) s = Add (x, f) y = InstanceNormalization (s, g, b)
        }}""",
        opset=21,
        w=numbers(2, 2, 1, 1),
        g=np.ones(2, np.float32),
        b=np.zeros(2, np.float32),
    )
    samples = [{"x": numbers(1, 2, side, side) * np.float32(size)}]
    result = quantize(made, samples, **INT16)
    assert result.verdict == "ok" and ops(result).count("IntRescale") == narrowed
    assert verify(result.model, made, samples).verdict == "ok"


@pytest.mark.parametrize("size", [1, 1e-3, 1e-5])
def test_a_branch_that_is_zero_takes_no_bits_from_its_sum(size):
    made = graph("z = MatMul (x, none) s = Add (x, z) y = MatMul (s, u)",
                 none=np.zeros((WIDTH, WIDTH), np.float32))  # fmt: skip
    samples = [{"x": each["x"] * np.float32(size)} for each in feeds()]
    result = quantize(made, samples, **INT16)
    (proof,) = [each for each in result.evidence if each.op == "IntAdd"]
    assert result.verdict == "ok" and proof.bound < 0.1
    assert verify(result.model, made, samples).verdict == "ok"


@pytest.mark.parametrize("bits", [8, 11, 12])
def test_multipliers_of_few_bits_that_share_a_shift_are_refused(bits):
    target = replace(load_target("exact"), name="few", multiplier_bits=bits)
    if bits < 12:
        with pytest.raises(UsageError, match=f"multipliers of {bits} bits are too few"):
            quantize(graph(PRE_NORM), feeds(), target=target, **INT16)
    else:
        assert quantize(graph(PRE_NORM), feeds(), target=target, **INT16).verdict == "ok"


def test_a_record_or_an_input_of_16_bits_where_8_are_read_is_one_line():
    body = """f = MatMul (x, u) s = Add (x, f) a = MatMul (s, u) e = Sigmoid (s)
        y = Mul (e, a)"""
    made = graph(body)
    result = quantize(made, feeds(), **INT16)
    reads, records = onnx.ModelProto(), onnx.ModelProto()
    reads.CopyFrom(result.model)
    records.CopyFrom(result.model)
    next(n for n in reads.graph.node if n.op_type == "Lut").input[0] = "s_quantized"
    value = next(v for v in records.graph.value_info if v.name == "s_rescaled")
    next(p for p in value.metadata_props if p.key == "qpasses.dtype").value = '"int16"'
    next(p for p in value.metadata_props if p.key == "qpasses.zero_point").value = "0"
    for forged in (reads, records):
        with pytest.raises(ModelError, match="takes no 16 bits"):
            verify(forged, made, feeds())


@pytest.mark.parametrize("rounding", ["tflite_double", "ruy", "half_up"])
def test_the_bound_holds_where_operands_are_rounded_twice(rounding):
    rng = np.random.default_rng(5)
    for _ in range(20):
        shifts = rng.integers(31, 40, 2)
        found = [int(rng.integers(1 << 30, 1 << 31)) for _ in "ab"]
        numbers_of = [0, found[0], shifts[0], found[1], shifts[1], 1 << 30, 30]
        zeros = [np.array(rng.integers(-100, 100), t) for t in (np.int16, np.int8)]
        ends = [np.array(value, np.int16) for value in (0, -32768, 32767)]
        scalars = [np.array(value, np.int32) for value in numbers_of]
        a = rng.integers(-32768, 32767, 4000).astype(np.int16)
        b = rng.integers(-128, 127, 4000).astype(np.int8)
        inputs = [a, zeros[0], b, zeros[1], *scalars, *ends]
        given_to = dict(zip(OPS["IntRescaledAdd"].inputs, inputs, strict=True))
        ratios = [Fraction(m, 1 << int(s)) for m, s in zip(found, shifts, strict=True)]
        y = OPS["IntRescaledAdd"].reference(*inputs, rounding=rounding).astype(float)
        real = sum(
            (codes.astype(float) - int(zero)) * float(ratio)
            for codes, zero, ratio in zip((a, b), zeros, ratios, strict=True)
        )
        inside = np.abs(real) < 32700
        bound = sum_bound(given_to, ratios, rounding) + 0.5
        assert np.abs(y - real)[inside].max(initial=0) <= bound + 1e-9


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("options", "streams"),
    [
        ({"nodes_to_exclude": ["first"]}, ["t"]),
        ({"nodes_to_exclude": ["second"]}, ["s"]),
        ({"nodes_to_exclude": ["LayerNormalization.*"]}, ["s", "t"]),
        ({"op_types_to_quantize": ["MatMul", "LayerNormalization"]}, []),
        ({"calibration_method": "entropy"}, ["s", "t"]),
        ({"calibration_overrides": ["s=-1,1"]}, ["s", "t"]),
        ({"alignment": "tpu-mlir"}, ["s", "t"]),
        ({"table_ranges": "function"}, ["s", "t"]),
    ],
    ids=str,
)
def test_options_that_choose_nodes_and_ranges_go_with_streams(options, streams):
    made = graph(PRE_NORM)
    result = quantize(made, feeds(), **INT16, **options)
    assert wide_tensors(result) == streams
    assert verify(result.model, made, feeds()).verdict == result.verdict != "failed"
