"""int16 in the extension for it: sums of int48, the integers of the reference."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, assume, given, settings

from calibration import Session, input_specs, open_samples
from opsets.errors import ModelError
from opsets.fixed_point import ROUNDINGS
from opsets.qpasses_v1 import OPS
from qpasses import export, quantize, verify
from qpasses.checking.beside import other_programs
from qpasses.emit.tosa.emit import emit_tosa
from qpasses.emit.tosa.profile import PRO_INT_8K
from qpasses.ir.moving import MOVING
from qpasses.ir.progress import no_progress
from qpasses.load.integer_model import read_integer_model
from tests.emit.test_tosa_ops import (
    LOWERED,
    REFUSED_EDGES,
    REFUSED_STANDARD,
    at_an_end,
    compare,
    drawn,
    stored_at_random,
)
from tests.support.commands import run
from tests.support.op_cases import CASES, Case
from tests.support.op_edges import edges_of
from tests.support.small_models import model, numbers
from tests.support.standard_nodes import STANDARD, side_by_side, standard_model
from tests.support.thoroughness import THOROUGH, exactly, only_thorough
from tests.support.tosa_nodes import Running, emitted_program, needs_tools, refusal, refusal_of

WITH_WORDS = PRO_INT_8K.with_words()
PRODUCTS = "IntConv", "IntGemm", "IntMatMul"
RARE = [HealthCheck.filter_too_much]
"""Of products few at random have int16."""


def reads_words(op, case):
    given = dict(zip(op.inputs, case.inputs, strict=True))
    return any(given[name].dtype == np.int16 for name in ("x", "a", "b") if name in given)


def has_words(op, case):
    ends = [*case.inputs, op.reference(*case.inputs, **case.attributes)]
    return any(each.dtype == np.int16 for each in ends)


def in_short(op, case):
    """The node with numbers as target tosa has them: 15 bits, half up, levels of some 17."""
    given = dict(zip(op.inputs, case.inputs, strict=True))
    if "w" in given:
        factors = given["w"].size // len(given["bias"]), 1 << 8
    else:
        factors = given["a"].shape[-1], 1 << 15
    reach = int(np.prod([1 << 15, *factors])) + int(np.abs(given.get("bias", 0)).max())
    rng, channels = np.random.default_rng(reach), given["multiplier"].shape
    tops = np.where(
        rng.random(channels) < 0.5, 1 << 14, rng.integers(1 << 14, 1 << 15, channels)
    )
    given["multiplier"] = tops.astype(np.int32)
    given["shift"] = np.int32(reach.bit_length() - 3 + rng.integers(0, 3, channels))
    for zero in ("a_zero", "b_zero"):
        if zero in given and given[zero].dtype == np.int16:
            given[zero] = np.zeros_like(given[zero])
    return Case([*given.values()], {**case.attributes, "rounding": "half_up"})


def cases_of(name):
    """Random nodes and edges of an op, by what they are called."""
    found = {f"random {place}": case for place, case in enumerate(drawn(name))}
    return found | {label: case for label, case in edges_of(name).items() if case}


@needs_tools
@pytest.mark.parametrize("name", PRODUCTS)
def test_sums_of_int48_are_scaled_as_the_node_says(name, tmp_path):
    op, taken = OPS[name], {}

    @settings(exactly(30 if THOROUGH else 8), suppress_health_check=RARE)
    @given(CASES[name])
    def draw(case):
        assume(all(np.size(array) for array in case.inputs) and reads_words(op, case))
        short = in_short(op, case)
        if reason := refusal(op, short):
            assert "its windows read padding alone" in reason or "a vector" in reason, reason
        else:
            taken[f"random {len(taken)}"] = short
            taken[f"random {len(taken)}, at an end"] = at_an_end(op, short)

    draw()
    compare(name, taken, tmp_path)
    assert len(taken) > 4


@only_thorough
@needs_tools
@pytest.mark.parametrize("name", LOWERED)
def test_nodes_give_the_integers_of_the_reference_where_int16_is_held_as_itself(
    name, tmp_path
):
    op, taken = OPS[name], {}
    for label, case in cases_of(name).items():
        known = REFUSED_EDGES.get((name, label[-1]), "")
        if has_words(op, case) and not known and not refusal(op, case):
            taken[label] = case
    if not taken:
        pytest.skip("it has no int16")
    compare(name, taken, tmp_path, WITH_WORDS)


@needs_tools
@pytest.mark.parametrize("shift", [15, 16, 22])
def test_ties_of_int48_go_up_for_every_code(shift, tmp_path):
    x = np.arange(-(1 << 15), 1 << 15, dtype=np.int16).reshape(-1, 2)
    scale = [np.int32([1 << 14, 24577]), np.full(2, shift, np.int32)]
    ends = [np.int16(each) for each in (0, -32768, 32767)]
    weights = [np.int8([[1, 0], [0, -127]]), np.int8(0), np.int32([0, (1 << 30) - 1])]
    case = Case([x, np.int16(0), *weights, *scale, *ends], {"rounding": "half_up"})
    compare("IntGemm", {"it": case}, tmp_path)


@needs_tools
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_sums_that_int32_holds_are_scaled_there_however_a_node_rounds(rounding, tmp_path):
    x = np.arange(-(1 << 15), 1 << 15, dtype=np.int16).reshape(-1, 2)
    scale = [np.int32([1 << 23, (1 << 24) - 1]), np.int32([24, 30])]
    ends = [np.int16(each) for each in (0, -32768, 32767)]
    weights = [np.int8([[1, 7], [-3, -127]]), np.int8(0), np.int32([0, 77])]
    case = Case([x, np.int16(0), *weights, *scale, *ends], {"rounding": rounding})
    compare("IntGemm", {"it": case}, tmp_path)
    wide = np.int8(np.full((600, 2), -127))
    long = [np.zeros((1, 600), np.int16), np.int16(0), wide, *case.inputs[3:]]
    reason = refusal(OPS["IntGemm"], Case(long, case.attributes))
    assert reason.startswith("its sums of 16-bit integers leave int32")


def finds_places(op, kind):
    """Of which onnxruntime has no kernel of int16; or has codes of 8 bits as places."""
    return any(word in STANDARD[op][kind] for word in ("ArgMax", "TopK", "Cast"))


@needs_tools
def test_standard_ops_move_int16_as_itself(tmp_path):
    taken = {}
    for op in (each for each in STANDARD if each in MOVING and MOVING[each].words):
        for kind in (each for each in STANDARD[op] if not finds_places(op, each)):
            made = standard_model(op, kind, "int16")
            part, reason = REFUSED_STANDARD.get((op, kind), ""), refusal_of(made)
            assert part in reason and bool(part) == bool(reason), (op, kind, reason)
            if not reason:
                taken[f"{op}, {kind}"] = made
    whole = side_by_side(taken)
    feed = dict(stored_at_random(whole))
    found = Running(emitted_program(whole, WITH_WORDS), tmp_path).run(feed)
    session = Session(whole, optimize=False)
    theirs = session.run(session.outputs, feed)
    for name, ours, exact in zip(session.outputs, found, theirs, strict=True):
        assert np.array_equal(ours, exact), name
    assert len(taken) > 30


# Whole nets


BLOCK = """
    t = Conv <pads = [1, 1, 1, 1]> (x, k, c) u = Sigmoid (t) v = Mul (t, u)
    d = Conv <pads = [1, 1, 1, 1], group = 6> (v, g) e = Relu (d) s = Add (v, e)
    p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (s)
    q = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (p)
    f = Flatten (q) y = Gemm (f, w)
"""
WEIGHTS = {
    "k": numbers(6, 4, 3, 3) / 3,
    "c": numbers(6),
    "g": numbers(6, 1, 3, 3) / 3,
    "w": numbers(96, 5) / 9,
}


def made(body, source="float[1, 4, 8, 8] x", **options):
    net = model(f"g ({source}) => (float[] y) {{ {body} }}", opset=18, **WEIGHTS)
    shape = [each.dim_value for each in net.graph.input[0].type.tensor_type.shape.dim]
    feeds = [{"x": numbers(*shape, seed=k)} for k in range(8)]
    asked = {"target": "tosa", "tensor_types": [".*=int16"], "accuracy": "fast"}
    found = quantize(net, feeds, **(asked | options))
    assert verify(found.model, net, feeds).verdict == found.verdict == "ok"
    return net, feeds, found


def differing(net, feeds, integer):
    runner = other_programs.runner_of("tosa-reference", PRO_INT_8K)
    samples = open_samples(feeds[:3], input_specs(net))
    options = {"all_tensors": True}
    found = other_programs.check_with(
        runner, integer, Path("m"), net, samples, no_progress, **options
    )
    assert not found.problems and found.elements > 0
    return found.differences


@needs_tools
@pytest.mark.parametrize("bodies", ["onnxruntime", "portable"])
def test_a_net_of_int16_gives_the_same_integers_in_the_reference_model(bodies):
    net, feeds, found = made(BLOCK, bodies=bodies)
    program = emit_tosa(read_integer_model(found.model, "m").graph)
    assert program.extensions == ("int16",)
    assert differing(net, feeds, found.model) == 0
    counts = program.operations
    wanted = {"conv2d": 2, "depthwise_conv2d": 1, "max_pool2d": 1, "avg_pool2d": 1}
    assert {op: counts[op] for op in wanted} == wanted
    assert ' = "tosa.conv2d"' in program.text and "i48" in program.text
    assert program.inputs[0].stored_as == "as stored"


def test_export_says_that_it_needs_the_extension(tmp_path):
    _, _, found = made("y = Conv (x, k)")
    onnx.save(found.model, tmp_path / "m.onnx")
    ended = run("export", tmp_path / "m.onnx", "--check")
    assert ended.code == 0 and "needs TOSA's extension int16\n" in ended.out
    assert "input 0: x, 1x4x8x8, as stored" in ended.out
    for types in ([], ["y=int16"]):  # sums of bytes are int32
        _, _, found = made("y = Conv (x, k)", tensor_types=types)
        onnx.save(found.model, tmp_path / "m.onnx")
        ended = run("export", tmp_path / "m.onnx", "--check")
        assert ended.code == 0 and "extension" not in ended.out


@pytest.mark.parametrize("target", ["onnx", "exact"])
def test_a_layer_of_another_target_whose_sums_leave_int32_is_refused_by_name(target):
    wide = {"weight": 3 * np.ones((1200, 2), np.float32) + numbers(1200, 2)}
    net = model(
        "g (float[1, 1200] x) => (float[] y) { y = MatMul (x, weight) }", opset=18, **wide
    )
    feeds = [{"x": numbers(1, 1200, seed=k)} for k in range(4)]
    options = {"tensor_types": ["x=int16"], "accuracy": "fast"}
    found = quantize(net, feeds, target=target, **options)
    with pytest.raises(
        ModelError, match=r"node 'MatMul' .*sums of 16-bit integers leave int32.*tosa"
    ):
        export(found.model)
    assert export(quantize(net, feeds, target="tosa", **options).model).extensions == (
        "int16",
    )


@needs_tools
@pytest.mark.parametrize("target", ["onnx", "exact", "tosa"])
def test_a_small_layer_of_any_target_is_the_same(target):
    net, feeds, found = made("y = Conv (x, k, c)", target=target)
    assert differing(net, feeds, found.model) == 0


@only_thorough
@needs_tools
def test_best_is_written_as_tosa_and_gives_the_same_integers(tmp_path):
    net, feeds, found = made(BLOCK, tensor_types=[], accuracy="best")
    assert found.report["widths"]["tensors"]
    assert differing(net, feeds, found.model) == 0
    options = {"target": "tosa", "accuracy": "best", "emit": "tosa"}
    written = quantize(net, feeds, output=tmp_path / "m.mlir", **options)
    assert written.report["widths"]["tensors"] == found.report["widths"]["tensors"]
    assert "i48" in (tmp_path / "m.mlir").read_text("utf-8")


def test_targets_without_sums_of_16_bits_refuse_them(tmp_path):
    net, feeds, _ = made("y = Conv (x, k)")
    onnx.save(net, tmp_path / "m.onnx")
    np.savez(tmp_path / "s.npz", x=np.concatenate([each["x"] for each in feeds]))
    given = ["quantize", tmp_path / "m.onnx", "--data", tmp_path / "s.npz"]
    given += ["-o", tmp_path / "o.onnx", "--target", "bm1684x"]
    for asked in (["--accuracy", "best"], ["--min-sqnr", "30"], ["--tensor-types", "x=int16"]):
        ended = run(*given, *asked)
        assert ended.code == 2 and "'bm1684x', which has no sums of 16 bits" in ended.err
        assert not (tmp_path / "o.onnx").exists()
