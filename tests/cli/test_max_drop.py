"""--max-drop, --metric, --labels: tensors of 16 bits until a metric falls by little enough."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import qpasses
from opsets.errors import UsageError
from qpasses.ir.max_drop import as_drop
from qpasses.jobs.goals import DropGoal, Reached
from qpasses.jobs.metrics import METRICS
from tests.support.commands import USAGE, Desk, assert_refused, read_json
from tests.support.small_models import model, numbers, save, session
from tests.support.thoroughness import thoroughly

COUNT, CLASSES = 40, 5
JUDGING = range(0, COUNT, 4)
"""A quarter is held back, spread evenly."""

FUNCTIONS = """
import numpy as np


def right(outputs, labels):
    return np.mean([each["y"].argmax() == label for each, label in zip(outputs, labels)])


def spoiling(outputs, labels):
    for each in outputs:
        each["y"] *= 0
    return 1


def without(outputs, labels):
    return 1 if labels is None else 0


def broken(outputs, labels):
    return outputs[0]["logits"]


def endless(outputs, labels):
    return float("nan")


def text(outputs, labels):
    return "good"


def nothing(outputs, labels):
    return None


def array(outputs, labels):
    return np.ones(3)


def huge(outputs, labels):
    return 10**400


def yes(outputs, labels):
    return True


def alone(outputs):
    return 1


number = 3
"""


def net():
    return model(
        """g (float[1, 1, 8, 8] x) => (float[1, 5] y) {
            c = Conv <pads = [1, 1, 1, 1]> (x, w)
            r = Relu (c)
            d = Conv <pads = [1, 1, 1, 1]> (r, v)
            s = Add (d, r)
            p = GlobalAveragePool (s)
            f = Flatten (p)
            y = MatMul (f, m)
        }""",
        w=numbers(4, 1, 3, 3),
        v=numbers(4, 4, 3, 3, seed=1),
        m=numbers(4, CLASSES, seed=2),
    )


DATA = numbers(COUNT, 1, 8, 8, seed=3)
FEEDS = [{"x": each[None]} for each in DATA]


def outputs_of(made):
    ran = session(made)
    return [ran.run(None, feed)[0] for feed in FEEDS]


FLOAT = outputs_of(net())
LABELS = np.array([each.argmax() for each in FLOAT])
LABELS[::8] = (LABELS[::8] + 1) % CLASSES  # float is right on half of those that judge


def cosine(made):
    """Of those that judge."""
    found = [each.ravel().astype(np.float64) for each in outputs_of(made)]
    pairs = [
        (real.ravel().astype(np.float64), y) for real, y in zip(FLOAT, found, strict=True)
    ]
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs]
    return np.mean([cosines[i] for i in JUDGING])


@pytest.fixture
def desk(tmp_path, monkeypatch):
    (tmp_path / "own_metrics.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "own_metrics", raising=False)
    return Desk(tmp_path, net(), DATA)


@pytest.fixture
def labels(desk):
    return save(desk.folder, "labels.npy", LABELS)


def quantized(**options):
    return qpasses.quantize(net(), FEEDS, **options)


def widths(**options):
    return widths_of(FEEDS, **options)


def widths_of(data, **options):
    return qpasses.quantize(net(), data, **options).report["widths"]


# What it does


def test_a_drop_that_bytes_meet_needs_no_16_bits(desk, labels):
    ended = desk.quantize("--max-drop", "top1=0.5", "--labels", labels)
    assert ended.code == 0
    assert "max-drop top1=0.5" in ended.out and "10 held-back samples: met" in ended.out
    found = read_json(desk.report)["widths"]
    assert (found["tensors"], found["met"], found["missed"]) == ([], True, [])
    assert (found["samples"], found["held_back"]) == (10, 10)
    assert found["metric"]["float"] == 0.5
    integer = np.mean(
        [outputs_of(quantized().model)[i].argmax() == LABELS[i] for i in JUDGING]
    )
    assert found["metric"]["integer"] == integer


def test_a_drop_between_bytes_and_words_is_met_by_some_tensors():
    every = widths(max_drop="cosine=0")
    rounds = [each["metric"] for each in every["rounds"]]
    assert rounds[-1] > rounds[0] and len(rounds) > 2
    wanted = 1 - (rounds[0] + rounds[1]) / 2
    result = quantized(max_drop={"cosine": wanted})
    found = result.report["widths"]
    assert found["met"] and 0 < len(found["tensors"]) < len(every["tensors"])
    assert [each["metric"] for each in found["rounds"]] == rounds[:2]
    assert found["metric"]["integer"] == pytest.approx(cosine(result.model), abs=1e-9)
    assert result.verdict == "ok"


def test_each_round_leaves_half_of_the_noise_and_the_last_none():
    found = widths(max_drop="cosine=0")
    counts = [each["tensors"] for each in found["rounds"]]
    assert counts == sorted({*counts}) and counts[0] == 0
    assert len(counts) <= 8
    assert counts[-1] == len(found["tensors"]) + len(found["refused"])


def test_what_cannot_be_met_is_written_and_exits_with_1_saying_how_far(desk):
    ended = desk.quantize("--max-drop", "cosine=0")
    assert ended.code == 1 and desk.output.exists()
    report = read_json(desk.report)
    (missed,) = report["widths"]["missed"]
    assert missed in report["warnings"] and not report["widths"]["met"]
    drop = report["widths"]["metric"]["drop"]
    assert drop > 0 and f"{drop:.3g} less, on 10 samples that are held back" in missed
    assert missed in ended.out and ": not met" in ended.out
    quiet = desk.quantize("--max-drop", "cosine=0", "--quiet")
    assert (quiet.code, quiet.out) == (1, "")
    assert " ".join(quiet.err.split()) == f"warning: {missed}"


def test_both_goals_have_to_be_met(desk):
    both = widths(max_drop="agreement=1", min_sqnr=200)
    assert not both["met"] and both["metric"]["met"]
    assert len(both["missed"]) == 1 and "--min-sqnr" in both["missed"][0]
    both = widths(max_drop="cosine=0", min_sqnr=1)
    assert not both["met"] and not both["metric"]["met"]
    assert len(both["missed"]) == 1 and "--max-drop" in both["missed"][0]
    assert widths(max_drop="agreement=1", min_sqnr=1)["met"]
    ended = desk.quantize("--max-drop", "agreement=1", "--min-sqnr", 1)
    assert "min-sqnr 1 dB" in ended.out and "max-drop agreement=1" in ended.out


def test_without_a_goal_nothing_is_said_of_widths(desk):
    ended = desk.quantize()
    assert "in 16 bits" not in ended.out
    assert read_json(desk.report)["widths"] is None


def test_the_costliest_three_are_named(desk):
    ended = desk.quantize("--min-sqnr", 200)
    assert ended.code == 1
    names = read_json(desk.report)["widths"]["tensors"]
    assert len(names) > 3
    text = f"{len(names)} tensors, what cost most first: {', '.join(names[:3])} and "
    assert text in ended.out


def test_the_page_shows_the_goal(desk):
    pytest.importorskip("vl_convert")
    page = desk.folder / "page.html"
    assert desk.quantize("--max-drop", "agreement=1", "--html", page).code == 0
    assert "<dt>max-drop agreement=1</dt>" in page.read_text()


@pytest.mark.parametrize("emit", ["qdq", "standard", "tosa"])
def test_what_is_emitted_otherwise_is_judged_as_integers(desk, emit):
    ended = desk.quantize("--max-drop", "agreement=0", "--emit", emit)
    assert ended.code == 0 and desk.output.exists()
    found = read_json(desk.report)
    assert found["widths"]["met"] and found["configuration"]["emit"] == emit


def test_with_too_few_samples_all_judge_and_that_is_said():
    found = widths_of(FEEDS[:3], max_drop="cosine=0")
    assert (found["samples"], found["held_back"]) == (3, 0)
    assert "on 3 samples in use, with" in found["missed"][0]


def test_so_many_judge_as_a_quarter_is_and_there_is_room_for_their_outputs(monkeypatch):
    data, seen = [{"x": numbers(1, 1, 8, 8, seed=seed)} for seed in range(100)], []

    def metric(_outputs, labels):
        seen.append(labels)
        return 0

    how = {"labels": range(100), "metric": metric, "max_drop": "metric=0"}
    assert widths_of(data, **how)["samples"] == 25
    monkeypatch.setattr("qpasses.jobs.weighing._BYTES", 1)
    assert widths_of(data, **how)["samples"] == 16
    many = [4 * i for i in range(25)]
    assert seen == [many, many, *[[many[i * 25 // 16] for i in range(16)]] * 2]


# Functions of users


def test_a_function_sees_outputs_and_labels_of_the_samples_that_judge(desk, labels):
    seen = []

    def metric(outputs, labels):
        seen.append((outputs, labels))
        return np.mean(
            [each["y"].argmax() == i for each, i in zip(outputs, labels, strict=True)]
        )

    found = widths(metric=metric, labels=LABELS, max_drop={"metric": 1})
    assert found["metric"]["name"] == "metric"
    assert len(seen) == 2
    for outputs, wanted in seen:
        assert [*wanted] == [LABELS[i] for i in JUDGING]
        assert {*outputs[0]} == {"y"} and len(outputs) == len(JUDGING)
    for position, i in enumerate(JUDGING):
        assert np.array_equal(seen[0][0][position]["y"], FLOAT[i])
    text = "own_metrics:right"
    ended = desk.quantize("--metric", text, "--max-drop", "metric=1", "--labels", labels)
    assert ended.code == 0
    by_name = read_json(desk.report)["widths"]["metric"]
    assert by_name == found["metric"] | {"name": text}


def test_a_function_may_change_what_it_is_given(desk):
    plain = widths(max_drop="metric=0", metric="own_metrics:spoiling")
    assert plain["met"] and plain["reached_db"] == widths(max_drop="agreement=1")["reached_db"]


def test_without_labels_a_function_gets_none(desk):
    found = widths(max_drop="metric=0", metric="own_metrics:without")
    assert found["metric"]["integer"] == 1


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("own_metrics:broken", "KeyError: 'logits'"),
        ("own_metrics:endless", "a finite number is needed, got nan"),
        ("own_metrics:text", "a finite number is needed, got 'good'"),
        ("own_metrics:nothing", "a finite number is needed, got None"),
        ("own_metrics:array", "a finite number is needed, got array"),
        ("own_metrics:huge", "a finite number is needed, got something of type int"),
        ("own_metrics:yes", "a finite number is needed, got True"),
    ],
)
def test_a_function_that_fails_or_gives_no_number_is_named_with_the_samples(
    desk, metric, words
):
    refused = desk.refused("--metric", metric, "--max-drop", "metric=0.1")
    assert f"metric {metric}: on outputs of the float model, 10 samples: {words}" in refused


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("own_metrics:alone", "is called with outputs and labels"),
        ("own_metrics:number", "3 cannot be called"),
        ("own_metrics:lost", "no attribute 'lost'"),
        ("no_metrics:right", "No module named 'no_metrics'"),
        ("agreemnt", "unknown metric 'agreemnt' (did you mean 'agreement'?)"),
        ("top1", "needs labels (--labels"),
    ],
)
def test_what_is_no_metric_is_refused(desk, metric, words):
    assert words in desk.refused("--metric", metric, "--max-drop", "metric=0.1")


# What is asked for


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": len}, "metric (--metric) is for how far a metric may fall"),
        ({"labels": [1]}, "labels (--labels) is for how far a metric may fall"),
        ({"max_drop": "metric=1"}, "give metric (--metric MODULE:FUNCTION) too"),
        ({"max_drop": "top1=1"}, "needs labels (--labels"),
        ({"max_drop": "agreement=1", "labels": [1]}, "agreement reads none"),
        ({"max_drop": "top-1=1"}, "unknown metric 'top-1' (did you mean 'top1'?)"),
        ({"max_drop": "TOP1=1"}, "did you mean 'top1'?"),
        ({"max_drop": "recall=1"}, "use one of top1, agreement, cosine"),
        ({"max_drop": "top1=1", "metric": "cosine"}, "is of 'top1', metric (--metric) is"),
        ({"max_drop": "agreement=1", "metric": 3}, "MODULE:FUNCTION is needed, got 3"),
        ({"max_drop": "agreement=1", "target": "tflite-single"}, "has no sums of 16 bits"),
        ({"max_drop": "agreement=1", "stop_after": "place"}, "has no outputs"),
    ],
)
def test_what_does_not_go_together_is_refused(options, words):
    with pytest.raises(UsageError) as refused:
        quantized(**options)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        *("", "top1", "=1", " =1", "top1=", "top1=x", "top1=1%", "top1=-1", "top1=nan"),
        *("top1=inf", 3, [1], {}, {1: 1}, {"a": 1, "b": 1}),
        *({"a": 10**400}, {"a": True}, {"a": None}, {"a": "x"}),
    ],
)
def test_what_is_no_drop_is_refused(given):
    with pytest.raises(UsageError, match="max_drop"):
        quantized(max_drop=given)


@thoroughly(100)
@given(st.text(min_size=1).map(str.strip).filter(bool), st.floats(0, 1e9))
def test_a_text_says_what_a_dict_does(name, most):
    assert as_drop(f"{name}={most!r}") == as_drop({name: most}) == {name: most}
    assert as_drop(as_drop({name: most})) == {name: most}


def test_a_quantized_model_keeps_its_scales(desk):
    made = qpasses.quantize(desk.model, FEEDS, emit="qdq").model
    for command in (qpasses.quantize, qpasses.integerize):
        with pytest.raises(UsageError, match=r"max_drop.*is quantized already"):
            command(made, FEEDS, max_drop="agreement=1")


def test_there_have_to_be_samples(desk):
    table = qpasses.calibrate(desk.model, FEEDS, desk.table)
    assert table
    with pytest.raises(UsageError, match=r"max_drop.*give --data"):
        qpasses.quantize(desk.model, calibration_table=desk.table, max_drop="agreement=1")


def test_a_drop_of_as_much_as_is_allowed_is_met():
    goal = DropGoal(METRICS["top1"], 0.01)
    assert goal.is_met(Reached(None, 1.0, 0.99)) and goal.is_met(Reached(None, 0.5, 0.75))
    assert not goal.is_met(Reached(None, 1.0, 0.9899))
    assert DropGoal(METRICS["top1"], 0.0).is_met(Reached(None, 0.5, 0.5))
    assert not DropGoal(METRICS["top1"], 0.0).is_met(Reached(None, 0.5, 0.5 - 1e-9))


# Labels


def figure(data=FEEDS, **options):
    report = qpasses.quantize(net(), data, max_drop="top1=1", **options).report
    return report["widths"]["metric"]["float"]


@pytest.mark.thinned
@pytest.mark.parametrize(
    "made",
    [
        lambda: LABELS,
        lambda: [*LABELS],
        lambda: tuple(LABELS.tolist()),
        lambda: (each for each in LABELS),
        lambda: LABELS[:, None],
        lambda: LABELS.astype(float),
    ],
)
def test_labels_may_be_what_can_be_iterated(made):
    assert figure(labels=made()) == 0.5


def test_labels_may_be_a_file(desk):
    for name, content in {"l.npy": LABELS, "l.npz": {"labels": LABELS}}.items():
        place = save(desk.folder, name, content)
        assert figure(labels=place) == figure(labels=str(place)) == 0.5


def test_labels_follow_samples_that_are_chosen():
    wrong = LABELS.copy()
    wrong[1::2] = (LABELS[1::2] + 1) % CLASSES  # those are not used
    wrong[::2] = [FLOAT[i].argmax() for i in range(0, COUNT, 2)]
    assert figure(labels=wrong, samples=20) == 1
    out = [rf"data\[{i}\]" for i in range(1, COUNT, 2)]
    assert figure(labels=wrong, samples_to_exclude=out) == 1


def test_data_and_labels_may_be_read_once():
    assert figure(iter(FEEDS), labels=iter(LABELS)) == 0.5
    assert figure(iter(FEEDS), labels=LABELS, samples=20) == figure(
        FEEDS[:20], labels=LABELS[:20]
    )


@pytest.mark.parametrize("count", [0, 1, COUNT - 1, COUNT + 1])
def test_labels_of_another_number_are_refused(desk, count):
    labels = save(desk.folder, "labels.npy", np.resize(LABELS, count))
    refused = desk.refused("--max-drop", "top1=1", "--labels", labels)
    assert f"labels (--labels): there are {count}, for {COUNT} samples" in refused


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("l.npy", np.array(3), "got a single number"),
        ("l.npz", {"classes": LABELS}, "holds 'classes', no array 'labels'"),
        ("l.npy", b"labels", "cannot be read as .npy or .npz"),
        ("l.npy", b"", "cannot be read as .npy or .npz"),
        ("l.npz", b"PK\3\4", "cannot be read as .npy or .npz"),
        ("l.npy", np.array(["a"] * COUNT), "1 numbers of classes are needed"),
        ("l.npy", np.zeros((COUNT, 2)), "1 numbers of classes are needed"),
        ("l.npy", np.full(COUNT, CLASSES), "classes are from 0 to 4"),
        ("l.npy", np.full(COUNT, -1), "classes are from 0 to 4"),
        ("l.npy", np.full(COUNT, np.nan), "classes are from 0 to 4"),
    ],
)
def test_labels_that_are_none_are_refused(desk, name, content, words):
    place = save(desk.folder, name, content)
    assert words in desk.refused("--max-drop", "top1=1", "--labels", place)


@pytest.mark.parametrize("given", [3, {"a": 1}, b"12"])
def test_labels_of_another_kind_are_refused(given):
    with pytest.raises(UsageError, match=r"labels.*is needed"):
        figure(labels=given)


def test_labels_that_are_absent_or_overwritten_are_named(desk, labels):
    refused = desk.refused("--max-drop", "top1=1", "--labels", desk.folder / "none.npy")
    assert "none.npy: no such file" in refused
    assert "directory" in desk.refused("--max-drop", "top1=1", "--labels", desk.folder)
    before = labels.read_bytes()
    ended = desk.quantize("--max-drop", "top1=1", "--labels", labels, "--evidence", labels)
    assert_refused(ended, USAGE, labels)
    assert labels.read_bytes() == before


def test_labels_may_be_the_folders_that_pictures_are_in(desk):
    for i in range(12):
        place = desk.folder / "shots" / "ab"[i % 2]
        place.mkdir(parents=True, exist_ok=True)
        pixels = np.uint8(numbers(8, 8, seed=i) * 40 + 128)
        Image.fromarray(pixels).save(place / f"{i:02}.png")
    desk.data = desk.folder / "shots"
    seen = []

    def metric(_outputs, labels):
        seen.append([*labels])
        return 0

    how = {"preprocessing": "mnist", "labels": "folders", "metric": metric}
    qpasses.quantize(desk.model, desk.data, max_drop="metric=0", **how)
    assert seen == [[0, 0, 1]] * 2  # of a/00 ... a/10, b/01 ... b/11 the first, fifth, ninth
    for place in (desk.data / "a", FEEDS):
        how = {"labels": "folders"} | ({} if place is FEEDS else {"preprocessing": "mnist"})
        with pytest.raises(UsageError, match="a folder for each class"):
            qpasses.quantize(desk.model, place, max_drop="top1=1", **how)


# Our own metrics, as they are


def rows(*values):
    return [{"y": np.array(each, np.float32)} for each in values]


def value(name, outputs, labels=None, real=None):
    return METRICS[name].figure(outputs, labels, outputs if real is None else real, "float")


def test_top1_is_the_share_of_positions_whose_arg_max_is_the_label():
    found = rows([[[0, 1], [1, 0]]], [[[0, 1], [0, 1]]])
    assert value("top1", found, [[1, 0], [0, 0]]) == 0.5
    assert value("top1", rows([[0, 1, 0]], [[0, 0, 1]]), np.array([1, 1])) == 0.5
    as_pictures = rows([[[[0]], [[1]]]], [[[[1]], [[0]]]])  # [1, 2, 1, 1]
    assert value("top1", as_pictures, [1, 1]) == 0.5


def test_agreement_and_cosine_are_with_the_float_model():
    one, other = rows([[3, 4]], [[1, 0]]), rows([[4, 3]], [[2, 0]])
    assert value("agreement", one, real=one) == value("cosine", one, real=one) == 1
    assert value("agreement", other, real=one) == 0.5
    assert value("cosine", other, real=one) == pytest.approx((24 / 25 + 1) / 2)
    nothing = rows([[0, 0]], [[0, 0]])
    assert value("cosine", nothing, real=nothing) == 1
    assert value("cosine", nothing, real=one) == 0


def test_sizes_that_follow_from_values_do_not_agree():
    one, other = rows([[0, 1]], [[0, 1]]), rows([[0, 1], [0, 1]], [[0, 1]])
    assert value("agreement", other, real=one) == value("cosine", other, real=one) == 0.5


@pytest.mark.parametrize("name", ["top1", "agreement"])
@pytest.mark.parametrize(
    "first", [np.float32(3), np.zeros((1, 1)), np.zeros((1, 0)), np.array(["a", "b"]), [1]]
)
def test_an_arg_max_needs_two_classes(name, first):
    with pytest.raises(UsageError, match=r"1 sample: an arg-max needs two classes.*'y'"):
        value(name, [{"y": first}], [0])


def test_outputs_without_numbers_have_no_cosine():
    with pytest.raises(UsageError, match="outputs hold no numbers"):
        value("cosine", [{"y": np.array(["a"])}])
