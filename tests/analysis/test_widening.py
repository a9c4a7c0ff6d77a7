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


@pytest.mark.parametrize(
    "options",
    [
        {"integer_io": True},
        {"emit": "standard"},
        {"tensor_types": ["a=int8"]},
        {"symmetric": True},
        {"activation_type": "int8"},
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
        ({"target": "tosa", "min_sqnr": 30.0}, "min_sqnr.*tosa.*16 bits"),
        ({"target": "tosa", "accuracy": "best"}, "accuracy 'best'.*tosa"),
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
