"""The proofs on whole integer graphs: right ones hold, and every single break is caught."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import onnx_graphsurgeon as gs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import qpasses
from opsets.convolution import convolve
from opsets.fixed_point import saturate
from opsets.kernels import float32_kernel
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from opsets.rounding import requantize
from qpasses.emit.overloads import with_bodies
from qpasses.evidence import prove_tables as tables
from qpasses.evidence.bodies import constants_of
from qpasses.evidence.kernel_probe import probe_kernels, probe_node, probe_saturation
from qpasses.evidence.prove import accumulator_interval, prove
from qpasses.ir.interchange import import_graph
from qpasses.ir.metadata import read_record
from qpasses.ir.record import NodeRecord, Quantization, Record
from qpasses.ir.runtime import op_runner, run_op
from tests.support.thoroughness import thoroughly

DIGITS = Path(__file__).parents[2] / "models" / "digits_cnn"
HEAD, STEM, POOL, ADD = "head/conv", "stem/conv", "head/max_pool", "residual/add"
INT32 = np.iinfo(np.int32)


@cache
def digits_model(flavour):
    data = DIGITS / "calibration.npz"
    return qpasses.quantize(
        DIGITS / "digits_cnn.onnx", data, bodies=flavour, layout="nchw"
    ).model


@dataclass
class Integer:
    """An integer graph that a test may break."""

    graph: gs.Graph
    record: Record

    def node(self, name):
        return next(node for node in self.graph.nodes if node.name == name)

    def get(self, name, formal):
        node = self.node(name)
        return node.inputs[list(OPS[node.op].inputs).index(formal)].values

    def set(self, name, formal, values):
        """Give one node another constant."""
        node = self.node(name)
        index = list(OPS[node.op].inputs).index(formal)
        old = node.inputs[index].values
        constant = gs.Constant(f"{name}.{formal}.broken", np.asarray(values, old.dtype))
        node.inputs[index] = constant

    def evidence(self, name):
        return next(each for each in prove(self.graph, self.record) if each.name == name)

    def probe(self, name):
        return probe_kernels(self.graph, self.record)[name]


def integer_graph(model):
    return Integer(import_graph(model), read_record(model)[0])


@pytest.fixture
def digits():
    return integer_graph(digits_model("onnxruntime"))


def single(op, record, attributes=None, **constants):
    """A graph of one node; formal inputs that are not given are variables."""
    dtype = constants.get("y_zero", constants.get("table")).dtype
    inputs = [
        gs.Constant(name, np.asarray(constants[name]))
        if name in constants
        else gs.Variable(name, dtype)
        for name in OPS[op].inputs
    ]
    node = gs.Node(op, "node", attributes or {}, inputs, [gs.Variable("y", dtype)], DOMAIN)
    record.nodes.setdefault("node", NodeRecord([], {}, overload="onnxruntime"))
    return Integer(gs.Graph([node]), record)


def layer(w, bias=None, multiplier=(1 << 23,), shift=(24,), rounding="half_to_even", y_zero=0):
    """A dense IntGemm of uint8 [1, K] by ``w`` int8 [K, N]."""
    columns = np.shape(w)[1]
    entry = NodeRecord([], {"x": [1.0], "y": [1.0]}, overload="onnxruntime")
    entry.scales["w"] = [float(m * 2.0**-s) for m, s in zip(multiplier, shift, strict=True)]
    return single(
        "IntGemm",
        Record(nodes={"node": entry}),
        {"rounding": rounding},
        x_zero=np.uint8(0),
        w=np.asarray(w, np.int8),
        w_zero=np.int8(0),
        bias=np.zeros(columns, np.int32) if bias is None else np.asarray(bias, np.int32),
        multiplier=np.array(multiplier, np.int32),
        shift=np.array(shift, np.int32),
        y_zero=np.uint8(y_zero),
        y_min=np.uint8(0),
        y_max=np.uint8(255),
    )


# What is right is proved.


@pytest.mark.parametrize("flavour", ["onnxruntime", "portable"])
def test_every_node_of_a_whole_network_is_proved_and_probed_without_mismatch(flavour):
    model = integer_graph(digits_model(flavour))
    found = list(prove(model.graph, model.record))
    assert [each.op for each in found].count("IntConv") == 7
    assert all(each.proved and each.mismatches == 0 for each in found)
    assert all(each.reference_max_lsb <= 1 for each in found)
    probed = probe_kernels(model.graph, model.record)
    assert len(probed) == 10
    assert all(count > 0 and wrong == 0 for count, wrong in probed.values())


def test_bodies_switched_afterwards_are_those_chosen_at_first():
    fast, portable = map(digits_model, ("onnxruntime", "portable"))
    for flavour, expected in (("portable", portable), ("onnxruntime", fast)):
        for model in (fast, portable):
            switched = with_bodies(model, flavour)
            assert list(switched.graph.node) == list(expected.graph.node)
            assert list(switched.functions) == list(expected.functions)


def test_the_evidence_does_not_depend_on_the_bodies_but_for_their_names():
    fast, portable = (
        list(prove(model.graph, model.record))
        for model in map(integer_graph, map(digits_model, ("onnxruntime", "portable")))
    )
    assert [replace(each, body="") for each in fast] == [
        replace(each, body="") for each in portable
    ]
    assert {each.body for each in portable} == {"portable", "standard"}
    assert not {each.body for each in fast} & {"portable"}


# The accumulators that a proof covers are those that occur, no fewer and no more.


def extremes(model, accumulate, cells):
    """[2, channels]: what stored inputs at their ends reach, over every corner."""
    given = constants_of(model.node("node"))
    limits = np.iinfo(given["x_zero"].dtype)
    ends = [limits.min, limits.max, int(given["x_zero"])]
    seen = [accumulate(np.array(corner), given) for corner in product(ends, repeat=cells)]
    return np.min(seen, axis=0), np.max(seen, axis=0)


def random_constants(rng, channels, w_shape, dtype, w_type):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    w_info = np.iinfo(w_type)
    return {
        "x_zero": dtype.type(rng.choice([low, high, rng.integers(low, high, endpoint=True)])),
        "w": rng.integers(w_info.min, w_info.max, w_shape, w_type, endpoint=True),
        "w_zero": w_type.type(rng.integers(w_info.min, w_info.max, endpoint=True)),
        "bias": rng.integers(-1000, 1000, channels, np.int32),
        "multiplier": np.full(channels, 1 << 23, np.int32),
        "shift": np.full(channels, 30, np.int32),
        **{name: dtype.type(0) for name in ("y_zero", "y_min", "y_max")},
    }


stored_type = st.sampled_from([np.dtype(np.uint8), np.dtype(np.int8)])
generator = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@thoroughly(60)
@given(generator, stored_type, stored_type, st.integers(1, 5))
def test_the_interval_of_a_gemm_is_what_all_corners_reach(rng, dtype, w_type, inner):
    constants = random_constants(rng, 3, (inner, 3), dtype, w_type)
    model = single("IntGemm", Record(), {"rounding": "half_to_even"}, **constants)

    def accumulate(x, given):
        weights = given["w"].astype(int) - int(given["w_zero"])
        return (x - int(given["x_zero"])) @ weights + given["bias"]

    found = accumulator_interval(model.node("node"), constants)
    low, high = extremes(model, accumulate, inner)
    assert (found.low.tolist(), found.high.tolist()) == (low.tolist(), high.tolist())


@thoroughly(60)
@given(generator, stored_type, stored_type, st.integers(1, 3), st.integers(1, 2), st.data())
def test_the_interval_of_a_padded_conv_is_what_all_corners_reach(
    rng, dtype, w_type, kernel, group, data
):
    """Where some window lies inside; padding alone reaches less, never more."""
    size = data.draw(st.integers(1, 6 // group))
    constants = random_constants(rng, 2, (2, 1, kernel), dtype, w_type)
    attributes = {"group": group, "pads": [1, 2], "strides": [1], "rounding": "half_to_even"}
    model = single("IntConv", Record(), attributes, **constants)

    def accumulate(x, given):
        levels = x.reshape(1, group, size) - int(given["x_zero"])
        weights = given["w"].astype(int) - int(given["w_zero"])
        acc = convolve(levels, weights, group, pads=[1, 2], strides=[1])[0]
        acc += given["bias"][:, None]
        return np.stack([acc.min(axis=1), acc.max(axis=1)])

    found = accumulator_interval(model.node("node"), constants)
    low, high = extremes(model, accumulate, group * size)
    low, high = low[0], high[1]
    if size >= kernel:
        assert (found.low.tolist(), found.high.tolist()) == (low.tolist(), high.tolist())
    assert (found.low <= low).all() and (found.high >= high).all()


@pytest.mark.parametrize(
    ("op", "window"),
    [("IntAveragePool", "kernel_shape"), ("IntGlobalAveragePool", "spatial_shape")],
)
@pytest.mark.parametrize("x_zero", [0, 7, 255])
def test_the_interval_of_an_average_is_what_its_window_sums_to(op, window, x_zero):
    constants = {name: np.uint8(0) for name in ("y_zero", "y_min", "y_max")}
    constants |= {"x_zero": np.uint8(x_zero), "multiplier": np.array([1], np.int32)}
    constants["shift"] = np.array([1], np.int32)
    model = single(op, Record(), {window: [2, 3], "channels": 4}, **constants)
    found = accumulator_interval(model.node("node"), constants)
    low, high = extremes(model, lambda x, given: (x - int(given["x_zero"])).sum(), 6)
    assert (found.low.tolist(), found.high.tolist()) == ([low], [high])


def test_the_interval_of_every_channel_holds_what_real_samples_reach(digits):
    node = digits.node(STEM)
    given, attributes = constants_of(node), dict(node.attrs)
    found = accumulator_interval(node, given)
    assert len(found.low) == 16
    del attributes["rounding"]
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (50, given["w"].shape[1], 8, 8)) - int(given["x_zero"])
    weights = given["w"].astype(np.int64)
    acc = convolve(x, weights, **attributes) + given["bias"].reshape(-1, 1, 1)
    assert (acc.min(axis=(0, 2, 3)) >= found.low).all()
    assert (acc.max(axis=(0, 2, 3)) <= found.high).all()


# One break at a time: thresholds.


def kernel_leaves_meaning(model, name, channel):
    """Brute force over every accumulator of one channel, before any threshold."""
    given = constants_of(model.node(name))
    reachable = accumulator_interval(model.node(name), given)
    acc = np.arange(reachable.low[channel], reachable.high[channel] + 1)
    scale = [given[formal].astype(np.int64)[channel] for formal in ("multiplier", "shift")]
    ends = [given[formal] for formal in ("y_zero", "y_min", "y_max")]
    meant = saturate(requantize(acc, *scale, "half_to_even"), *ends)
    return bool((saturate(float32_kernel(acc, *scale), *ends) != meant).any())


def test_a_multiplier_is_a_mismatch_exactly_if_brute_force_finds_one(digits):
    """Moved by up to 12 units: proof and probe both see what brute force sees."""
    original, seen = digits.get(HEAD, "multiplier").copy(), set()
    for change in range(-12, 13):
        multiplier = original.copy()
        multiplier[5] += change
        digits.set(HEAD, "multiplier", multiplier)
        evidence, wrong = digits.evidence(HEAD), kernel_leaves_meaning(digits, HEAD, 5)
        assert (evidence.mismatches > 0) == wrong == (digits.probe(HEAD)[1] > 0)
        assert evidence.proved is not wrong
        seen.add(wrong)
    assert seen == {False, True}


def test_a_shift_dropped_in_one_channel_is_counted_against_real_arithmetic(digits):
    before, shift = digits.evidence(HEAD), digits.get(HEAD, "shift").copy()
    shift[3] -= 1
    digits.set(HEAD, "shift", shift)
    evidence = digits.evidence(HEAD)
    assert evidence.reference_moved > 1000 * before.reference_moved
    assert evidence.reference_max_lsb > 1 >= before.reference_max_lsb


def test_multipliers_far_from_their_scales_are_counted_against_real_arithmetic(digits):
    before = digits.evidence(STEM).reference_moved
    digits.set(STEM, "multiplier", digits.get(STEM, "multiplier") * 0.99)
    assert digits.evidence(STEM).reference_moved > 100 * before


@pytest.mark.parametrize("rounding", ["half_up", "half_away"])
def test_the_wrong_rounding_is_a_mismatch_where_ties_are_reachable(rounding):
    """Half of an integer is a tie; a third never is."""
    tied = layer([[3, -3]] * 40, multiplier=(1 << 23,) * 2, shift=(24,) * 2, y_zero=100)
    untied = layer([[3, -3]] * 40, multiplier=(11184811,) * 2, shift=(25,) * 2, y_zero=100)
    assert tied.evidence("node").proved and untied.evidence("node").proved
    for model in (tied, untied):
        model.node("node").attrs["rounding"] = rounding
    evidence = tied.evidence("node")
    assert evidence.mismatches > 50 and not evidence.proved
    assert untied.evidence("node").proved
    tied.record.nodes["node"].overload = f"portable_{rounding}"
    assert tied.evidence("node").proved


@pytest.mark.parametrize("end", ["low", "high"])
def test_an_accumulator_may_reach_the_end_of_int32_but_not_leave_it(end):
    weights = [[127 if end == "high" else -127]] * 3
    products = 3 * 127 * 255
    border = INT32.max - products if end == "high" else INT32.min + products
    beyond = 1 if end == "high" else -1
    last = layer(weights, [border], shift=(50,)).evidence("node")
    assert last.proved
    over = layer(weights, [border + beyond], shift=(50,)).evidence("node")
    assert "int32" in over.problem and not over.proved


def test_so_many_large_weights_that_int32_overflows_are_a_problem():
    cells = INT32.max // (127 * 255) + 1
    for count, fits in ((cells - 1, True), (cells, False)):
        evidence = layer(np.full((count, 1), 127), shift=(61,)).evidence("node")
        assert evidence.proved is fits and ("int32" in evidence.problem) is not fits
        assert evidence.accumulator == (0, count * 127 * 255)


# One break at a time: moved integers, pairs, tables.


def test_moving_between_different_scales_or_zero_points_is_a_problem(digits):
    assert digits.evidence(POOL).proved
    name = digits.node(POOL).outputs[0].name
    own = digits.record.tensors[name]
    for broken in (
        replace(own, scale=float(np.nextafter(np.float32(own.scale), np.float32(9)))),
        replace(own, zero_point=own.zero_point + 1),
        replace(own, dtype="int8"),
    ):
        digits.record.tensors[name] = broken
        evidence = digits.evidence(POOL)
        assert evidence.problem and not evidence.proved
    digits.record.tensors[name] = own
    assert digits.evidence(POOL).proved


def test_a_multiplier_of_an_add_is_a_mismatch_wherever_some_pair_differs(digits):
    """The proof runs onnxruntime; here the kernel is called once more on all pairs."""
    names = "a_zero", "b_zero", "a_multiplier", "b_multiplier", "shift"
    original, seen = digits.get(ADD, "a_multiplier").copy(), set()
    for change in range(-40, 41, 5):
        digits.set(ADD, "a_multiplier", original + change)
        given = {name: digits.get(ADD, name) for name in (*names, "y_zero", "y_min", "y_max")}
        codes = np.arange(256, dtype=np.uint8)
        pairs = {"a": np.repeat(codes, 256), "b": np.tile(codes, 256)}
        arrays = [np.asarray((pairs | given)[name]) for name in OPS["IntAdd"].inputs]
        rounding = {"rounding": "half_to_even"}
        overload = digits.record.nodes[ADD].overload
        found = run_op("IntAdd", overload, arrays, rounding)
        wrong = bool((found != OPS["IntAdd"].reference(*arrays, **rounding)).any())
        evidence = digits.evidence(ADD)
        assert evidence.proved is (evidence.mismatches == 0)
        assert evidence.mismatches > 0 or not wrong
        seen.add(wrong)
    assert seen == {False, True}


@pytest.mark.parametrize("formal", ["a_multiplier", "b_multiplier"])
def test_a_multiplier_of_an_add_far_from_its_scale_is_counted(digits, formal):
    assert digits.evidence(ADD).reference_moved == 0
    digits.set(ADD, formal, digits.get(ADD, formal) * 15 // 16)
    assert digits.evidence(ADD).reference_moved > 1000


def test_a_shift_of_an_add_dropped_is_counted_by_more_than_a_step(digits):
    digits.set(ADD, "shift", digits.get(ADD, "shift") + 1)
    assert digits.evidence(ADD).reference_max_lsb > 1


def rescaling(dtype, y_scale=0.75):
    """A Lut from one scale to another, its table by the definition of QuantizeLinear."""
    low = np.iinfo(dtype).min
    x, y = Quantization(0.5, low + 128, dtype), Quantization(y_scale, low + 101, dtype)
    codes = np.arange(256, dtype=np.uint8).view(dtype).astype(int)
    reals = [(code - x.zero_point) * Fraction(x.scale) for code in codes.tolist()]
    levels = [round(real / Fraction(y_scale)) + y.zero_point for real in reals]
    table = np.clip(levels, low, low + 255).astype(dtype)
    return single("Lut", Record(tensors={"x": x, "y": y}), table=table)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("y_scale", [0.75, 1.0, 0.3, 7.0])
def test_a_changed_entry_of_a_table_is_counted_against_real_arithmetic(dtype, y_scale):
    model = rescaling(dtype, y_scale)
    evidence = model.evidence("node")
    assert evidence.proved and evidence.domain == 256
    assert (evidence.reference_moved, evidence.reference_max_lsb) == (0, 0)
    table = model.get("node", "table")
    for entry in (0, 100, 255):
        for step in (1, 3):
            broken = table.copy()
            broken[entry] = int(table[entry]) + (step if table[entry] < 100 else -step)
            model.set("node", "table", broken)
            evidence = model.evidence("node")
            assert (evidence.reference_moved, evidence.reference_max_lsb) == (1, step)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_body_that_looks_one_entry_up_wrongly_is_a_mismatch(dtype, monkeypatch):
    def off_at_17(*given, **options):
        def run(inputs):
            found = op_runner(*given, **options)(inputs)
            found[17] ^= 1
            return found

        return run

    model = rescaling(dtype)
    monkeypatch.setattr(tables, "op_runner", off_at_17)
    tables._differences.cache_clear()
    evidence = model.evidence("node")
    tables._differences.cache_clear()
    assert evidence.mismatches == 1 and not evidence.proved


# The probe runs the real kernels.


def test_the_probe_notices_a_kernel_that_rounds_ties_otherwise():
    tied = layer([[3, -3]] * 40, multiplier=(1 << 23,) * 2, shift=(24,) * 2, y_zero=100)
    node, given = tied.node("node"), constants_of(tied.node("node"))
    assert probe_node(node, given, "onnxruntime")[1] == 0
    node.attrs["rounding"] = "half_up"
    assert probe_node(node, given, "onnxruntime")[1] > 50
    assert probe_node(node, given, "portable_half_up")[1] == 0


def test_the_probe_asks_every_channel_at_every_reachable_step(digits):
    count, wrong = digits.probe(HEAD)
    steps = int(digits.get(HEAD, "y_max")) - int(digits.get(HEAD, "y_min"))
    assert (count, wrong) == (2 * steps * 32, 0)


def test_a_clamp_inside_the_type_is_proved_and_probed_for_the_clamping_body(digits):
    before = digits.evidence(STEM)
    digits.set(STEM, "y_max", 200)
    digits.record.nodes[STEM].overload = "onnxruntime_clamped"
    assert digits.evidence(STEM).proved and digits.evidence(STEM).domain == before.domain
    assert digits.probe(STEM) == (2 * 200 * 16, 0)


def has_vnni():
    cpu = Path("/proc/cpuinfo")
    return cpu.is_file() and "vnni" in cpu.read_text()


@pytest.mark.skipif(not has_vnni(), reason="this CPU shows no VNNI in /proc/cpuinfo")
def test_products_of_bytes_do_not_saturate_on_this_machine():
    assert probe_saturation() == 0
