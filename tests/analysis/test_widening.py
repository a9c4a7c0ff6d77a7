"""--accuracy best and --min-sqnr: 16 bits for the tensors that cost the outputs most."""

import numpy as np
import onnx
import pytest

import qpasses
from calibration import Session
from opsets.errors import UsageError
from qpasses.jobs.pricing import Prices
from tests.support.commands import run
from tests.support.small_models import model, numbers

WEIGHTS = {
    "w1": numbers(16, 16) / 3,
    "w2": numbers(16, 16, seed=1) / 3,
    "v": numbers(16, 8, seed=2),
}
TEXT = """g (float[N, 16] x) => (float[N, 8] y) {
    a = MatMul (x, w1) b = Tanh (a) c = MatMul (b, w2) d = Sigmoid (c) y = MatMul (d, v) }"""
FEEDS = [{"x": numbers(8, 16, seed=seed)} for seed in range(24)]
OTHERS = [{"x": numbers(8, 16, seed=100 + seed)} for seed in range(40)]


def net():
    return model(TEXT, opset=21, **WEIGHTS)


def made(**options):
    return qpasses.quantize(net(), FEEDS, **options)


def decibels(result):
    """On samples that nothing has seen."""
    ours, theirs = (Session(each) for each in (result.model, net()))
    pairs = [(ours.run(None, s)[0], theirs.run(None, s)[0]) for s in OTHERS]
    found, real = (np.concatenate(each) for each in zip(*pairs, strict=True))
    return float(10 * np.log10(np.square(real).sum() / np.square(real - found).sum()))


def test_best_is_nearer_to_float_than_balanced():
    best = made(accuracy="best")
    assert best.verdict == "ok"
    assert decibels(best) > decibels(made(accuracy="balanced")) + 3
    widths = best.report["widths"]
    assert widths["met"]
    assert widths["tensors"]
    assert widths["rounds"][0]["tensors"] == 0
    checked = qpasses.verify(best.model, net(), OTHERS[:4])
    assert checked.verdict == "ok"


def test_so_many_tensors_as_are_needed_have_16_bits():
    counts = []
    plain = made().report["accuracy"]["outputs"][0]["sqnr_db"]
    for more in (-5, 2, 5):
        widths = made(min_sqnr=plain + more).report["widths"]
        assert widths["met"]
        assert widths["reached_db"] >= plain + more
        counts.append(len(widths["tensors"]))
    assert counts[0] == 0 < counts[1] <= counts[2]


def test_a_goal_that_cannot_be_met_is_said_and_the_best_is_kept(tmp_path):
    onnx.save(net(), tmp_path / "m.onnx")
    np.savez(tmp_path / "s.npz", x=np.concatenate([each["x"] for each in FEEDS]))
    options = ["--data", tmp_path / "s.npz", "-o", tmp_path / "o.onnx", "--min-sqnr", "150"]
    ended = run("quantize", tmp_path / "m.onnx", *options)
    assert ended.code == 1
    assert "--min-sqnr) 150 dB cannot be met" in " ".join(ended.out.split())
    assert (tmp_path / "o.onnx").is_file()


def test_what_is_chosen_is_what_the_rules_give():
    found = made(min_sqnr=45.0)
    configuration = found.report["configuration"]
    assert configuration["tensor_types"]
    names = "tensor_types", "weight_rounding"
    again = made(**{name: configuration[name] for name in names})
    assert again.model.graph == found.model.graph


@pytest.mark.thinned
@pytest.mark.parametrize(
    "options",
    [
        {"integer_io": True},
        {"emit": "standard"},
        {"tensor_types": ["a=int8"]},
        {"symmetric": True},
        {"activation_type": "int8"},
        {"target": "tosa"},
        {"target": "tosa", "emit": "tosa", "input_shape": ["x:8,16"]},
    ],
    ids=str,
)
def test_best_goes_with_other_options(options):
    best = made(accuracy="best", **options)
    widths = best.report["widths"]
    assert best.verdict == "ok"
    assert widths["tensors"]
    assert "tensor_types" not in options or "a" not in widths["tensors"]
    first, *_ = found = [each["sqnr_db"] for each in widths["rounds"]]
    assert widths["reached_db"] >= first and max(found) > first


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "bm1684x", "min_sqnr": 30.0}, "min_sqnr.*bm1684x.*16 bits"),
        ({"target": "bm1684x", "accuracy": "best"}, "accuracy 'best'.*bm1684x"),
        (
            {"accuracy": "best", "emit": "tosa", "input_shape": ["x:8,16"]},
            "best.*emit 'tosa'.*target 'onnx', whose sums of 16 bits RESCALE does not scale",
        ),
        ({"min_sqnr": 30.0, "stop_after": "place"}, "min_sqnr.*no outputs"),
        ({"min_sqnr": -1.0}, "min_sqnr"),
    ],
)
def test_where_nothing_can_be_chosen_is_an_error(options, said):
    with pytest.raises(UsageError, match=said):
        made(**options)


def test_a_model_that_is_quantized_already_keeps_its_scales():
    qdq = made(accuracy="fast", emit="qdq").model
    for options in ({"min_sqnr": 30.0}, {"accuracy": "best"}):
        with pytest.raises(UsageError, match="quantized already"):
            qpasses.quantize(qdq, FEEDS, **options)


def chosen_for(text, goal, **more):
    """The widths for ``goal`` of a model of [4, 16]."""
    found = qpasses.quantize(model(text, opset=21, **more), BATCHES, **goal)
    assert found.verdict == "ok"
    return found.report["widths"]


BATCHES = [{"x": numbers(4, 16, seed=seed)} for seed in range(24)]
SQUARE = numbers(16, 16, seed=11) / 3


def test_a_tensor_that_a_softmax_reads_too_stays_wide():
    """It has a copy in 8 bits; what reads 16 has these in every later model."""
    text = """g (float[4, 16] x) => (float[4, 8] y) { a = MatMul (x, w1)
        s = Softmax <axis = 1> (a) c = MatMul (a, w2) d = Sigmoid (c) e = Mul (d, s)
        y = MatMul (e, v) }"""
    weights = {"w1": SQUARE, "w2": numbers(16, 16, seed=1) / 3, "v": numbers(16, 8, seed=2)}
    widths = chosen_for(text, {"min_sqnr": 37.97}, **weights)
    assert widths["met"]
    counts = [each["tensors"] for each in widths["rounds"]]
    assert len({*counts}) == len(counts)  # no set is made twice


def test_what_is_moved_costs_what_it_is_made_of():
    text = """g (float[4, 16] x) => (float[4, 16] y) { a = MatMul (x, w1) r = Reshape (a, s)
        t = Transpose <perm = [1, 0]> (r) u = Transpose <perm = [1, 0]> (t)
        c = Tanh (u) y = MatMul (c, w2) }"""
    weights = {"w1": SQUARE, "w2": SQUARE.T.copy(), "s": np.array([4, 16])}
    widths = chosen_for(text, {"accuracy": "best"}, **weights)
    assert "a" in widths["tensors"] and not {*"rtu"} & {*widths["tensors"]}


def test_labels_say_nothing_of_decibels():
    text = """g (float[4, 16] x) => (float[4, 16] y, int64[4] l) { a = MatMul (x, w1)
        y = Tanh (a) b = MatMul (y, w1) l = ArgMax <axis = 1, keepdims = 0> (b) }"""
    plain = chosen_for(text, {"min_sqnr": 1.0}, w1=SQUARE)["reached_db"]
    widths = chosen_for(text, {"min_sqnr": plain + 3}, w1=SQUARE)
    assert plain > 20 and widths["met"]


def test_tensors_without_numbers_are_no_bargain():
    text = """g (float[4, 16] x) => (float[4, 8] y, float[0, 16] z) { a = MatMul (x, w1)
        z = Slice (a, n, n, n) c = Concat <axis = 0> (a, z) d = MatMul (c, v) y = Tanh (d) }"""
    weights = {"w1": SQUARE, "v": numbers(16, 8, seed=1) / 3, "n": np.array([0])}
    assert chosen_for(text, {"accuracy": "best"}, **weights)["tensors"]


def test_a_goal_is_of_the_model_that_is_written():
    """A Q/DQ model is run as onnxruntime fuses it, not as integers."""
    made_so = made(min_sqnr=46.0, emit="qdq")
    widths = made_so.report["widths"]
    assert widths["reached_db"] == pytest.approx(decibels(made_so), abs=2)
    assert widths["met"] == (widths["reached_db"] >= 46)


def test_where_tosa_is_written_a_goal_is_asked_of_eight_bits():
    widths = made(min_sqnr=60.0, emit="tosa", input_shape=["x:8,16"]).report["widths"]
    assert not widths["met"] and widths["tensors"] == [] and len(widths["rounds"]) == 1


def test_best_goes_on_where_a_goal_is_met():
    plain = made(accuracy="best").report["widths"]
    both = made(accuracy="best", min_sqnr=20.0).report["widths"]
    assert both["met"] and both["tensors"] == plain["tensors"] != []


@pytest.mark.parametrize("seed", range(20))
def test_no_tensor_that_is_chosen_is_needless(seed):
    """Of any costs and times, what is left is allowed, and with one less it is not."""
    draws = np.random.default_rng(seed)
    prices = Prices()
    prices.noise = {f"t{k}": float(10 ** draws.uniform(-6, -1)) for k in range(40)}
    prices.noise["nothing"] = 0.0
    prices.time = {name: float(10 ** draws.uniform(3, 7)) for name in prices.noise}
    allowed = float(10 ** draws.uniform(-5, -1))
    chosen = prices.cheapest(list(prices.noise), allowed)
    left = sum(noise for name, noise in prices.noise.items() if name not in chosen)
    assert "nothing" not in chosen
    assert left <= allowed
    assert all(left + prices.noise[name] > allowed for name in chosen)


DEEP = """g (float[1, 8, 8, 8] x) => (float[N] y) {
    a = Conv (x, k) b = Relu (a) c = Conv (b, l) d = Add (c, x) e = Relu (d)
    f = Conv (e, m) g = Relu (f) h = Conv (g, n) i = Add (h, e) y = GlobalAveragePool (i) }"""


def test_nodes_of_one_width_are_widened_with_what_they_write():
    """Else they read a copy in 8 bits of what has 16, which costs as much as before."""
    weights = {name: numbers(8, 8, 1, 1, seed=k) / 3 for k, name in enumerate("klmn")}
    deep = model(DEEP, opset=21, **weights)
    feeds = [{"x": numbers(1, 8, 8, 8, seed=k)} for k in range(24)]
    made = {
        target: qpasses.quantize(deep, feeds, accuracy="best", target=target)
        for target in ("onnx", "litert")
    }
    reached = {target: each.report["widths"]["reached_db"] for target, each in made.items()}
    assert reached["litert"] > reached["onnx"] - 3
    assert all(each.verdict == "ok" for each in made.values())


IN_BODIES = """g (float[N, 16] x, int64 turns, bool far) => (float[N, 8] y) {
    s, all = Loop <body = b (int64 i, bool on, float[N, 16] s) => (
        bool off, float[N, 16] t, float[N, 16] e
    ) {
        off = Identity (on) p = MatMul (s, w1) q = Add (p, x) t = Tanh (q) e = Identity (q)
    }> (turns, "", x)
    d = If (far) <
        then_branch = one () => (float[N, 16] c) { o = MatMul (s, w2) c = Mul (o, s) },
        else_branch = two () => (float[N, 16] k) { r = MatMul (s, w1) k = Sigmoid (r) }
    >
    y = MatMul (d, v) }"""


@pytest.fixture(scope="module")
def in_bodies():
    given = model(IN_BODIES, opset=21, **WEIGHTS)
    flags = {"turns": np.array(3)}
    return given, [
        {**each, **flags, "far": np.array(k % 2 > 0)} for k, each in enumerate(FEEDS)
    ]


@pytest.mark.parametrize("options", [{"accuracy": "best"}, {"min_sqnr": 43.0}])
def test_what_stands_in_bodies_gets_16_bits_too(in_bodies, options):
    given, feeds = in_bodies
    plain = qpasses.quantize(given, feeds).report["accuracy"]["outputs"][0]["sqnr_db"]
    found = qpasses.quantize(given, feeds, **options)
    assert found.verdict == "ok"
    widths = found.report["widths"]
    assert widths["met"]
    assert {"q", "t", "c"} <= {*widths["tensors"]}
    assert found.report["accuracy"]["outputs"][0]["sqnr_db"] > plain + 6


def test_a_product_of_16_bits_stays_integer_from_a_quantized_model():
    given = qpasses.quantize(net(), FEEDS, tensor_types=["b=int16"], emit="qdq").model
    found = qpasses.integerize(given, FEEDS)
    assert found.verdict == "ok"
    assert qpasses.verify(found.model, given, FEEDS[:4]).verdict == "ok"
    assert found.report["accuracy"]["outputs"][0]["sqnr_db"] > 40
