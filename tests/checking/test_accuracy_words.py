"""The word for accuracy: of the worst output, by decibels, or by labels that are the same."""

import numpy as np
import pytest

import qpasses
from qpasses.checking.accuracy import Accuracy, rated
from tests.support.small_models import cnn, model, numbers, pictures


def outputs(**pairs):
    """``accuracy.outputs`` of float and integer outputs by name, on one sample."""
    accuracy = Accuracy([*pairs])
    accuracy.update(*zip(*pairs.values(), strict=True))
    return accuracy.as_json()


def noisy(decibels):
    """Numbers, and others that are so many decibels off."""
    real = np.full(100, 2.0)
    return real, real * (1 + 10 ** (-decibels / 20))


def labels(share, kind=np.int64):
    """A thousand labels, and others of which this share is the same."""
    real = np.arange(1000).astype(kind)
    other = real.copy()
    other[round(1000 * share) :] = np.zeros(1, kind)[0]
    return real, other


@pytest.mark.parametrize(
    ("decibels", "word"),
    [
        (40, "good"),
        (20.01, "good"),
        (19.99, "fair"),
        (10.01, "fair"),
        (9.99, "poor"),
        (-3, "poor"),
    ],
)
def test_decibels_have_a_word(decibels, word):
    found = rated(outputs(y=noisy(decibels)))
    assert found == {
        "word": word,
        "sqnr_db": pytest.approx(decibels),
        "agreement": None,
        "output": "y",
    }


@pytest.mark.parametrize("kind", [np.int64, bool, str])
@pytest.mark.parametrize(
    ("share", "word"),
    [(1, "good"), (0.98, "good"), (0.979, "fair"), (0.9, "fair"), (0.899, "poor")],
)
def test_labels_have_a_word_by_how_many_are_the_same(share, word, kind):
    if kind is bool:
        real = np.ones(1000, bool)
        pair = real, np.arange(1000) < round(1000 * share)
    else:
        pair = labels(share, kind)
    found = rated(outputs(y=pair))
    assert found == {"word": word, "sqnr_db": None, "agreement": share, "output": "y"}


@pytest.mark.parametrize(
    ("pairs", "worst"),
    [
        ({"a": noisy(30), "b": noisy(12), "c": noisy(25)}, "b"),
        ({"a": noisy(15), "b": noisy(12), "c": labels(0.99)}, "b"),
        ({"a": noisy(15), "b": labels(0.95), "c": labels(0.92)}, "c"),
        ({"a": noisy(5), "b": labels(0.95)}, "a"),
        ({"zero": (np.zeros(3), np.ones(3)), "b": noisy(50)}, "b"),
    ],
)
def test_of_several_outputs_the_worst_tells(pairs, worst):
    assert rated(outputs(**pairs))["output"] == worst


@pytest.mark.parametrize(
    "pairs",
    [
        {},
        {"y": (np.zeros(3), np.ones(3))},
        {"y": (np.ones(3), np.full(3, np.inf))},
        {"y": (np.ones(3), np.ones(4))},
        {"y": ([1, 2], [1, 2])},
        {"y": (np.zeros(0, np.int64), np.zeros(0, np.int64))},
    ],
)
def test_what_cannot_be_compared_is_not_measured(pairs):
    found = rated(outputs(**pairs) if pairs else [])
    none = dict.fromkeys(("sqnr_db", "agreement", "output"))
    assert found == {"word": "not measured", **none}


def test_reports_have_it_beside_the_verdict():
    made = qpasses.quantize(cnn(), pictures())
    summary, (output,) = made.report["summary"], made.report["accuracy"]["outputs"]
    assert summary["verdict"] == "ok"
    assert summary["accuracy"]["word"] == output["word"] == "good"
    assert summary["accuracy"]["sqnr_db"] == output["sqnr_db"]
    unmeasured = qpasses.verify(made.model, cnn()).report["summary"]
    assert (unmeasured["verdict"], unmeasured["accuracy"]["word"]) == (
        "incomplete",
        "not measured",
    )


def test_a_classifiers_labels_are_counted_as_such():
    made = model(
        """g (float[N, 4] x) => (int64[N] label, float[N, 3] y) {
            y = MatMul (x, w) label = ArgMax <axis = 1, keepdims = 0> (y)
        }""",
        w=numbers(4, 3),
    )
    report = qpasses.quantize(made, numbers(64, 4)).report
    label, y = report["accuracy"]["outputs"]
    assert label["agreement"] > 0.9 and y["agreement"] is None
    assert label["word"] in ("good", "fair")
