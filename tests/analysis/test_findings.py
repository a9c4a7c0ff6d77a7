"""One layer is spoiled: it comes first in the list, and the option named repairs it."""

import tomllib

import numpy as np
import pytest

import qpasses
from qpasses.analysis.findings import Change, costly_in_float, costly_in_words, findings
from qpasses.jobs.trying import BEST, Trials
from tests.support.small_models import model, numbers
from tests.support.spoiled import straight, straight_feeds
from tests.support.thoroughness import THOROUGH, only_thorough

FEEDS = straight_feeds(12)


@pytest.fixture(autouse=True)
def measured_soon(monkeypatch):
    """What options cost is measured for a second each; no test reads how much it is."""
    if not THOROUGH:
        monkeypatch.setattr("qpasses.jobs.trying._SECONDS", 0.02)


def analyzed(integer, made, feeds=FEEDS, **options):
    return qpasses.analyze(integer, made, feeds, **options).report["analysis"]


def integers(made=None, feeds=FEEDS, **options):
    return qpasses.quantize(made or straight(), feeds, accuracy="fast", **options).model


def outputs_db(integer, made, feeds=FEEDS):
    return analyzed(integer, made, feeds, seconds=0)["sqnr_db"]


@pytest.mark.parametrize("tensor", ["b", "d", "f"])
def test_a_range_that_is_fifty_times_too_wide(tensor):
    made = straight()
    plain = analyzed(integers(), made, seconds=0)
    (row,) = [row for row in plain["tensors"] if row["real"] == tensor]
    low, high = (50 * each for each in row["range"])
    spoiled = integers(calibration_overrides=[f"{tensor}={low},{high}"])
    found = analyzed(spoiled, made)["findings"][0]
    assert (found["kind"], found["tensor"]) == ("wide range", row["tensor"])
    flag, override = found["option"].split(" ")
    assert flag == "--calibration-overrides"
    mended = integers(calibration_overrides=[override.strip("'")])
    assert outputs_db(spoiled, made) < plain["sqnr_db"] - 10
    assert outputs_db(mended, made) == pytest.approx(plain["sqnr_db"], abs=1)


def assert_gains_as_told(made, feeds, tensor):
    """In 16 bits it costs nothing any more, and the outputs gain what it was said to cost."""
    spoiled = analyzed(integers(made, feeds), made, feeds)
    mended = analyzed(integers(made, feeds, tensor_types=[f"{tensor}=int16"]), made, feeds)
    (before,), (after,) = (
        [row["cost"] for row in each["tensors"] if row["real"] == tensor]
        for each in (spoiled, mended)
    )
    assert before["share"] > 0.5 and after["share"] < 0.01
    assert mended["sqnr_db"] - spoiled["sqnr_db"] == pytest.approx(before["gain_db"], abs=0.5)


def test_the_weights_of_one_channel_are_fifty_times_as_large():
    w1, b1, w2 = (
        np.array(each)
        for each in (numbers(8, 3, 3, 3) / 5, numbers(8) / 5, numbers(8, 8, 3, 3) / 8)
    )
    w1[3], b1[3], w2[:, 3] = 50 * w1[3], 50 * b1[3], w2[:, 3] / 50
    made = straight(w1=w1, b1=b1, w2=w2)
    spoiled = integers(made)
    found = analyzed(spoiled, made)["findings"][0]
    assert found["kind"] == "outlier channels"
    assert found["text"].startswith("b: channel 3 reaches ")
    assert found["option"] == "--tensor-types b=int16"
    assert_gains_as_told(made, FEEDS, "b")


def test_channels_that_nothing_sums_can_have_scales_of_their_own():
    w2, b2 = np.array(numbers(8, 8, 3, 3) / 8), np.array(numbers(8) / 5)
    w3 = np.array(numbers(8, 1, 3, 3) / 3)
    w2[5], b2[5], w3[5] = 50 * w2[5], 50 * b2[5], w3[5] / 50
    made = straight(w2=w2, b2=b2, w3=w3)
    found = analyzed(integers(made), made)["findings"][0]
    assert (found["kind"], found["option"]) == (
        "outlier channels",
        "--activation-scales per-channel",
    )
    mended = integers(made, activation_scales="per-channel")
    assert outputs_db(mended, made) > outputs_db(integers(made), made) + 6


def test_one_bad_sample():
    feeds = [dict(each) for each in FEEDS]
    feeds[5] = {"x": 60 * feeds[5]["x"]}
    made = straight()
    spoiled = integers(feeds=feeds)
    found = analyzed(spoiled, made, feeds)["findings"][0]
    assert found["kind"] == "bad sample"
    assert found["text"].startswith("sample data[5] reaches ")
    assert found["option"] == r"--samples-to-exclude 'data\[5\]'"
    mended = integers(feeds=feeds, samples_to_exclude=[r"data\[5\]"])
    good = [each for place, each in enumerate(feeds) if place != 5]
    assert outputs_db(mended, made, good) > outputs_db(spoiled, made, good) + 10


def test_ranges_that_are_too_narrow():
    made = straight()
    clipped = integers(calibration_overrides=["d=0,0.8"])
    found = analyzed(clipped, made)["findings"][0]
    assert (found["kind"], found["tensor"]) == ("clipped tails", "d_quantized")
    mended = integers(calibration_overrides=[found["option"].split(" ")[1]])
    assert outputs_db(mended, made) > outputs_db(clipped, made) + 10


def test_ranges_of_too_few_samples():
    made = straight()
    few = integers(feeds=FEEDS[:1])
    kinds = [each["kind"] for each in analyzed(few, made)["findings"]]
    assert kinds[0] == "too few samples"
    assert "too few samples" not in [e["kind"] for e in analyzed(integers(), made)["findings"]]


def test_channels_that_are_dead():
    b1 = np.array(numbers(8) / 5)
    b1[:5] = -100
    made = straight(b1=b1)
    found = analyzed(integers(made), made)["findings"]
    assert [each["text"] for each in found if each["kind"] == "dead channels"] == [
        "b: 5 of 8 channels hold one number on all samples: they could be pruned"
    ]


@only_thorough
def test_options_that_are_tried_are_kept_if_they_gain(tmp_path):
    made, feeds = straight(), straight_feeds(24)
    spoiled = integers(feeds=feeds, calibration_overrides=["d=-100,100"])
    config = tmp_path / "tried.toml"
    found = analyzed(spoiled, made, feeds, try_options=True, config_output=config)
    first = found["tried"][0]
    assert first["option"].startswith("--calibration-overrides d=0,")
    assert first["kept"]
    assert first["gain_db"] > 15
    assert 'calibration_overrides = ["d=0,' in config.read_text()
    assert config.read_text().endswith(found["configuration"])


@pytest.fixture
def in_order(monkeypatch):
    """The options that --try comes to, none of which is taken."""
    seen = []

    def note(self, change, best):
        seen.append(change)
        return best

    monkeypatch.setattr(Trials, "_try", note)
    return seen


def test_what_takes_time_is_tried_last_and_where_it_is_needed(in_order):
    made = straight()
    spoiled = integers(calibration_overrides=["d=-300,300"])
    analyzed(spoiled, made, try_options=True)
    overrides, *others = [change.name for change in in_order]
    assert overrides == "calibration_overrides"
    assert others.index("tensor_types") > others.index("weight_rounding")
    assert in_order[-2:] == [BEST, Change("nodes_to_exclude", "d", True)]
    assert len(in_order) <= 8
    in_order.clear()
    analyzed(integers(), made, try_options=True)
    assert in_order and BEST not in in_order  # it has more than 30 dB


def test_best_is_tried_as_quantize_takes_it(monkeypatch):
    tried = Trials._try

    def best_alone(self, change, best):
        return tried(self, change, best) if change == BEST else best

    monkeypatch.setattr(Trials, "_try", best_alone)
    made = straight()
    spoiled = integers(calibration_overrides=["d=-300,300"])
    found = analyzed(spoiled, made, try_options=True)
    (option,) = found["tried"]
    assert option["option"] == "--accuracy best" and option["kept"]
    assert option["gain_db"] > 10
    assert tomllib.loads(found["configuration"])["quantize"]["accuracy"] == "best"


def test_whether_sixteen_bits_are_needed_all_samples_say(in_order, monkeypatch):
    """The first quarter may be nearer to float than the others are."""
    judged, seen = Trials._judged, []

    def nearer_at_first(self, options, fold):
        seen.append(fold)
        state, rows = judged(self, options, fold)
        return state, np.full_like(rows, 40.0 if len(seen) == 1 else 20.0)

    monkeypatch.setattr(Trials, "_judged", nearer_at_first)
    found = analyzed(integers(), straight(), try_options=True)
    assert found["tried_on"] == {"samples": len(FEEDS), "sqnr_db": pytest.approx(25.0)}
    assert BEST in in_order


def test_a_model_of_best_keeps_what_was_chosen(in_order):
    made = straight()
    best = qpasses.quantize(made, FEEDS, accuracy="best")
    found = analyzed(best.model, made, try_options=True)
    written = tomllib.loads(found["configuration"])["quantize"]
    assert written["accuracy"] == "balanced"
    assert written["tensor_types"] == [*best.report["configuration"]["tensor_types"]] != []


def test_a_change_is_an_option_of_the_command_line():
    assert Change("per_channel", True).text == "--per-channel"
    more = Change("nodes_to_exclude", "a|b", is_more=True)
    assert more.text == "--nodes-to-exclude 'a|b'"
    assert more.applied_to({"nodes_to_exclude": ["c"]}) == {"nodes_to_exclude": ("a|b", "c")}
    assert more.applied_to({}) == {"nodes_to_exclude": ("a|b",)}


VECTORS = [{"x": numbers(2, 8, seed=seed)} for seed in range(20)]
CONFIGURATION = {
    "activation_bits": 8,
    "accuracy": "balanced",
    "calibration_method": "minmax",
    "calibration_overrides": [],
    "samples": 8,
}


def row(name, share, low=-1.0, high=1.0, counts=(1,) * 8, gain=1.0, **more):
    """Of an activation with such a range, whose numbers fill eight bins of it."""
    step = (high - low) / len(counts)
    usual = {
        "tensor": f"{name}_quantized",
        "real": name,
        "range_of": name,
        "kind": "activation",
        "op": "IntGemm",
        "type": "uint8",
        "shape": [1, 8],
        "function": [],
        "read_by": ["IntGemm"],
        "around": [name, f"behind_{name}"],
        "reads": [f"before_{name}"],
        "free_channels": False,
        "scale": (high - low) / 255,
        "zero_point": 128,
        "range": [low, high],
        "smallest": low,
        "largest": high,
        "clipped": 0.0,
        "split": {"clipping": 0.0},
        "local_sqnr_db": 40.0,
        "channels": None,
        "histogram": {
            "counts": [*counts],
            "edges": [low + step * place for place in range(len(counts) + 1)],
        },
        "cost": {"share": share, "alone_db": 20.0, "gain_db": gain, "samples": 1},
    }
    return usual | more


def found_in(*rows):
    return [(each.kind, each.change) for each in findings(rows, {}, [], CONFIGURATION, True)]


def test_a_mask_has_a_gap_and_a_softmax_behind_it():
    masked = {"low": -1e4, "high": 5.0, "read_by": ["TableSoftmax"]}
    ((kind, change),) = found_in(row("m", 1, counts=(9, 0, 0, 0, 0, 0, 0, 9), **masked))
    assert kind == "mask" and change == Change("calibration_overrides", "m=-100,5", True)
    kinds = {
        kind for kind, _ in found_in(row("m", 1, counts=(9, 0, 5, 3, 0, 0, 0, 9), **masked))
    }
    assert "mask" not in kinds
    elsewhere = masked | {"read_by": ["IntAdd"]}
    assert "mask" not in {kind for kind, _ in found_in(row("m", 1, **elsewhere))}


@pytest.mark.parametrize("read_by", [["IntGemm"], ["Slice"]])
@pytest.mark.parametrize("smallest", [-2.0, -1e4])
def test_tails_that_nobody_reads_and_masks_that_are_cut_are_left_alone(read_by, smallest):
    tails = {"smallest": smallest, "clipped": 0.1, "split": {"clipping": 0.9}}
    kinds = [kind for kind, _ in found_in(row("t", 1, read_by=read_by, **tails))]
    is_worth_it = read_by == ["IntGemm"] and smallest == -2
    assert ("clipped tails" in kinds) == is_worth_it


def test_a_range_is_widened_and_no_side_of_it_cut():
    tails = {"smallest": -2.0, "largest": 0.5, "clipped": 0.1, "split": {"clipping": 0.9}}
    assert found_in(row("t", 1, **tails)) == [
        ("clipped tails", Change("calibration_overrides", "t=-2,1", True))
    ]


def test_an_option_is_named_once_and_only_if_what_it_is_of_gains():
    tails = {"smallest": -2.0, "clipped": 0.1, "split": {"clipping": 0.9}}
    assert [change for _, change in found_in(row("t", 0.5, gain=0.0, **tails))] == [None]
    twice = row("t", 0.6, **tails), row("u", 0.4, range_of="t", **tails)
    assert [change is None for _, change in found_in(*twice)] == [False, True]
    divided = {"read_by": ["Div"]}
    ((_, change),) = found_in(row("d", 1, **divided))
    assert change == Change("tensor_types", "d=int16", True)
    divided |= {"type": "int16"}  # it has 16 bits: the nodes around it are left
    for gain, is_named in ((1.0, True), (None, False)):
        ((kind, change),) = found_in(row("d", 1, gain=gain, **divided))
        assert kind == "small divisors" and (change is not None) == is_named


def test_what_costs_most_and_gains_may_go_back_to_float():
    rows = [row("a", 0.5), row("b", 0.3, gain=0.0), row("x", 0.1, op="QuantizeLinear")]
    changes = [Change("nodes_to_exclude", name, True) for name in ("a", "x|behind_x")]
    assert costly_in_float(rows) == changes


def test_what_costs_most_and_gains_may_have_sixteen_bits():
    rows = [
        row("a", 0.5),
        row("b", 0.3, gain=0.0),
        row("c.1", 0.1),
        row("d", 0.2, type="int16"),
    ]
    rows.append(row("w", 0.6, kind="weights"))
    (change,) = costly_in_words(rows)
    assert change.text == r"--tensor-types 'a|c\.1=int16'"
    assert costly_in_words(rows[3:]) == []


def test_what_has_eight_bits_is_told_of_the_accuracy_that_is_next():
    flat = {"counts": (1,) * 64, "low": -1.0, "high": 1.0}
    for accuracy, change in (
        ("fast", Change("accuracy", "balanced")),
        ("balanced", Change("accuracy", "best")),
        ("best", Change("tensor_types", "a=int16", True)),
    ):
        given = CONFIGURATION | {"accuracy": accuracy}
        (found,) = findings([row("a", 1, **flat)], {}, [], given, True)
        assert (found.kind, found.change) == ("eight bits", change)


def test_a_table_that_is_steep_wants_what_it_reads_in_sixteen_bits():
    steep = {"function": ["Reciprocal"], "local_sqnr_db": 9.0}
    assert found_in(row("t", 1, **steep)) == [
        ("small divisors", Change("tensor_types", "before_t=int16", True))
    ]
    for more in ({"reads": []}, {"reads": ["u"]}):  # u has 16 bits
        rows = row("t", 1, **steep, **more), row("u", 0, type="int16")
        ((_, change),) = found_in(*rows)
        assert change == Change("nodes_to_exclude", "t", True)


def test_targets_without_sums_of_sixteen_bits_have_float_named():
    steep = {"function": ["Reciprocal"], "local_sqnr_db": 9.0}
    balanced, flat = CONFIGURATION | {"accuracy": "balanced"}, {"counts": (1,) * 64}
    for each in (row("t", 1, **steep), row("d", 1, read_by=["Div"]), row("a", 1, **flat)):
        (found,) = findings([each], {}, [], balanced, False)
        assert found.change.name == "nodes_to_exclude"


def test_a_mask_that_quantize_leaves_out_of_the_range_is_no_finding():
    text = """g (float[2, 8] x, float[2, 8] m) => (float[2, 8] y) {
        a = MatMul (x, v) b = Add (a, m) s = Softmax <axis = 1> (b) y = MatMul (s, v) }"""
    made = model(text, v=numbers(8, 8))
    feeds = [
        {**feed, "m": np.where(numbers(2, 8, seed=place + 50) > 1, np.float32(-1e4), 0)}
        for place, feed in enumerate(VECTORS)
    ]
    kinds = {each["kind"] for each in analyzed(integers(made, feeds), made, feeds)["findings"]}
    assert not kinds & {"clipped tails", "too few samples", "mask"}


def test_what_is_divided_by_is_told_of():
    text = """g (float[2, 8] x) => (float[2, 8] y) {
        a = MatMul (x, v) b = Abs (a) d = Add (b, small) [inverse] y = Reciprocal (d) }"""
    made = model(text, v=numbers(8, 8), small=np.float32(0.03))
    first = analyzed(integers(made, VECTORS), made, VECTORS)["findings"][0]
    assert first["kind"] == "small divisors" and "Reciprocal" in first["text"]
    assert first["option"] == "--tensor-types a=int16"
    assert_gains_as_told(made, VECTORS, "a")
