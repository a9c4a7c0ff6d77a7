"""qpasses integerize: what it says, what it needs, what it refuses."""

import json

import numpy as np
import onnx
import pytest

import qpasses
from tests.support.commands import MODEL, USAGE, assert_refused, run
from tests.support.quantized_nets import (
    BACK,
    CONV,
    OUTPUT,
    PLAIN,
    STORED,
    WEIGHTS,
    feeds,
    net,
)
from tests.support.small_models import cnn, model

HALF = f"""{STORED} {WEIGHTS} {CONV} r = Conv <pads = [1, 1, 1, 1]> (d, dw) s = Add (r, c)
    qs = QuantizeLinear (s, sz, zz) t = DequantizeLinear (qs, sz, zz)
    {BACK}"""
"""A sum of two tensors; of one the model does not say how it is stored."""


BOTH = f"{OUTPUT}, float[N, 3, 6, 6] t"


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


class Desk:
    def __init__(self, folder):
        self.output, self.report = folder / "out.onnx", folder / "report.json"
        self.given, self.data = folder / "given.onnx", folder / "data"
        self.data.mkdir()
        for place, feed in enumerate(feeds()):
            np.savez(self.data / f"{place}.npz", **feed)

    def integerize(self, model, *options, command="integerize"):
        onnx.save(model, self.given)
        return run(command, self.given, "-o", self.output, "--json", self.report, *options)

    @property
    def kept(self):
        return json.loads(self.report.read_text("utf-8"))["kept"]


@pytest.mark.parametrize("command", ["integerize", "quantize"])
def test_the_report_says_what_was_kept(desk, command):
    ended = desk.integerize(net(PLAIN), command=command)
    assert ended.code == 0
    assert "weights kept bit for bit" in ended.out and "verdict: proofs ok" in ended.out
    assert "on 1 sample\n" in ended.out.replace(" \n", "\n")
    assert desk.kept["weights"] == 1 and desk.kept["from_samples"] == []
    assert json.loads(desk.report.read_text("utf-8"))["command"] == command


def test_inspect_shows_where_scales_come_from(desk):
    assert desk.integerize(net(HALF, outputs=BOTH), "--data", desk.data).code == 0
    shown = run("inspect", desk.output).out
    assert "(model)" in shown and "(calibration)" in shown
    assert run("verify", desk.output, "--against", desk.given, "--data", desk.data).code == 0


def test_what_the_model_does_not_say_stays_float_by_name_or_comes_from_data(desk):
    ended = desk.integerize(net(HALF, outputs=BOTH))
    assert ended.code == 0 and "verdict: proofs incomplete (" in ended.out
    assert "'r': the model does not say how it is stored" in ended.out
    assert desk.integerize(net(HALF, outputs=BOTH), "--data", desk.data).code == 0
    assert "r" in desk.kept["from_samples"] and "c" not in desk.kept["from_samples"]


def test_what_is_not_taken_over_as_it_was_is_a_warning(desk):
    given = model(
        """g (float[1, 2, 6, 6] x) => (float[1, 2, 6, 6] y) {
        [tied] y = onnx.brevitas.Quant <signed = 0, narrow = 0, rounding_mode = "ROUND">
            (x, step, three, eight) }""",
        domains=["onnx.brevitas"],
        step=np.float32(0.1),
        three=np.float32(3),
        eight=np.float32(8),
    )
    ended = desk.integerize(given)
    assert ended.code == 0
    said = json.loads(desk.report.read_text("utf-8"))["warnings"]
    assert any("'tied'" in each and "ties round to even" in each for each in said)


def test_a_float_model_is_refused(desk):
    assert_refused(desk.integerize(cnn()), MODEL, desk.given, "float model", "quantize")
    assert not desk.output.exists()


ONLY_WEIGHTS = f"{WEIGHTS} y = Conv <pads = [1, 1, 1, 1]> (x, dw, db)"
DYNAMIC = """q, s, z = DynamicQuantizeLinear (x)
    i = ConvInteger <pads = [1, 1, 1, 1]> (q, w, z) f = Cast <to = 1> (i)
    k = Mul (s, one) y = Mul (f, k)"""


@pytest.mark.parametrize(
    ("body", "why"), [(ONLY_WEIGHTS, "only its weights"), (DYNAMIC, "run time")]
)
def test_without_any_scale_of_an_activation_there_must_be_data(desk, body, why):
    original = net(body, one=np.float32(0.01))
    assert_refused(desk.integerize(original), USAGE, desk.given, why, "--data")
    assert desk.integerize(original, "--data", desk.data).code == 0
    assert desk.kept["weights"] == 1


def test_free_sizes_need_a_sample(desk):
    free = net(PLAIN, inputs="float[N, 2, H, W] x", outputs="float[N, 3, H, W] y")
    assert_refused(desk.integerize(free), USAGE, desk.given, "free sizes", "--data")
    assert desk.integerize(free, "--data", desk.data).code == 0


@pytest.mark.parametrize(
    "options", [("--activation-bits", "4"), ("--narrow-range",), ("--share-tables", "1")]
)
def test_options_about_codes_are_refused(desk, options):
    assert_refused(desk.integerize(net(PLAIN), *options), USAGE, options[0], "leave")


def test_sums_that_can_overflow_are_declined_with_channel_and_amount(desk):
    wide = np.full((3, 70000, 1, 1), 127, np.int8)
    wide[1] = -128
    body = f"{STORED} dw = DequantizeLinear <axis = 0> (w, sw, zw) c = Conv (d, dw) {BACK}"
    large = net(body, inputs="float[1, 70000, 1, 1] x", outputs="float[1, 3, 1, 1] y", w=wide)
    ended = desk.integerize(large)
    assert ended.code == 0
    (left,) = json.loads(desk.report.read_text("utf-8"))["summary"]["float_nodes"]
    assert "channel" in left["reason"] and "int32" in left["reason"]


def test_exact_gives_what_the_model_means_on_every_sum(desk):
    assert desk.integerize(net(PLAIN), "--exact").code == 0
    summary = json.loads(desk.report.read_text("utf-8"))["summary"]
    assert (summary["channels"], summary["channels_moved"]) == (3, 0)


def test_calibrate_says_where_to_go(desk, tmp_path):
    onnx.save(net(PLAIN), desk.given)
    ended = run("calibrate", desk.given, "--data", desk.data, "-o", tmp_path / "table.json")
    assert_refused(ended, MODEL, desk.given, "integerize")


@pytest.mark.parametrize("options", [{}, {"target": "tflite"}, {"activation_type": "int8"}])
def test_there_and_back_gives_the_same_integers(options):
    original, samples = cnn(), [{"x": feed["x"][:, :1]} for feed in feeds(shape=(1, 1, 8, 8))]
    at_once = qpasses.quantize(original, samples, **options)
    between = qpasses.quantize(original, samples, emit="qdq", **options).model
    back = qpasses.integerize(between, **options)
    assert essence(back.model) == essence(at_once.model)


def essence(model):
    """Ops, bodies and constants, without names."""
    tensors = {t.name: t for t in model.graph.initializer}
    return [
        (
            node.op_type,
            node.overload,
            [tensors[n].raw_data if n in tensors else None for n in node.input],
        )
        for node in model.graph.node
    ]


def test_an_output_that_stays_float_before_it_is_stored_is_named(desk):
    body = f"{STORED} {WEIGHTS} {CONV} {BACK}"
    assert desk.integerize(net(body, outputs=f"{OUTPUT}, float[N, 3, 6, 6] c")).code == 0
    assert desk.kept["read_before_stored"] == ["c"]
