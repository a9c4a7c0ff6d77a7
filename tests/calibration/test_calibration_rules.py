"""Rules: which method gives each tensor its range, and the overrides that users write."""

from typing import get_args

import pytest

from calibration.methods import METHODS, NEEDS_HISTOGRAM, Wanted, auto_choice, threshold
from calibration.rules import Override, Rules
from calibration.statistics import Range
from opsets.errors import DataError, UsageError
from qpasses.ir.choices import CalibrationMethod
from tests.support.statistics_of import statistics_of

WANTED = Wanted(percentile=99)
SKEWED = statistics_of([-1, *(i * i / 1e4 for i in range(300)), 50], samples=3)
FLAT = statistics_of([i / 100 for i in range(-200, 400)], samples=3)
SEEN = {"conv1/relu": SKEWED, "conv2/relu": FLAT, "logits": SKEWED}


def chosen(method, *overrides, seen=SEEN):
    return Rules(method, WANTED, [Override.parsed(text) for text in overrides]).choose(seen)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "auto"])
def test_every_tensor_gets_the_range_of_the_method_and_its_name(method):
    for name, each in chosen(method).items():
        assert each.range == threshold(method, SEEN[name], WANTED)
        assert each.method == method


def test_auto_says_for_each_tensor_which_method_it_took():
    seen = {**SEEN, "constant": statistics_of([3, 3])}
    found = chosen("auto", seen=seen)
    for name, each in found.items():
        assert (each.method, each.range) == auto_choice(seen[name], WANTED)
    assert found["constant"].method == "minmax"
    assert {each.method for each in found.values()} > {"minmax"}
    assert "auto" not in {each.method for each in found.values()}


# Overrides


def test_an_override_by_name_is_for_that_tensor_alone():
    found = chosen("minmax", "logits=mse")
    assert [each.method for each in found.values()] == ["minmax", "minmax", "mse"]
    assert found["logits"].range == threshold("mse", SKEWED, WANTED)


def test_an_override_by_regular_expression_is_for_all_whose_whole_name_matches():
    assert [each.method for each in chosen("minmax", "conv./relu=mse").values()] == [
        "mse",
        "mse",
        "minmax",
    ]
    assert {each.method for each in chosen("minmax", "conv=mse").values()} == {"minmax"}


def test_the_first_override_that_matches_counts():
    found = chosen("minmax", "conv1.*=entropy", "conv.*=octav", ".*=0,1")
    assert [each.method for each in found.values()] == ["entropy", "octav", "given"]
    assert {each.method for each in chosen("minmax", ".*=0,1", "logits=mse").values()} == {
        "given"
    }


def test_a_percentile_of_its_own_is_for_its_tensors_alone():
    found = chosen("percentile", "logits=percentile:90.5", "conv2/relu=percentile")
    assert found["logits"].range == threshold("percentile", SKEWED, Wanted(percentile=90.5))
    assert found["conv1/relu"].range == threshold("percentile", SKEWED, WANTED)
    assert found["conv2/relu"].range == threshold("percentile", FLAT, WANTED)
    assert {each.method for each in found.values()} == {"percentile"}


@pytest.mark.parametrize("text", ["-1.5,6", "0,0", "2,3", "-1e-3,1E3", " -1 , 6 "])
def test_a_range_is_taken_as_it_is_given(text):
    low, high = map(float, text.split(","))
    assert chosen("minmax", f"logits={text}")["logits"].range == Range(low, high)


def test_a_range_needs_no_histogram_where_the_method_does():
    bare = statistics_of([-1, 2], histogram=False)
    (found,) = chosen("mse", "x=-1,2", seen={"x": bare}).values()
    assert (found.range, found.method) == (Range(-1, 2), "given")
    with pytest.raises(DataError, match="'x': method mse needs a histogram"):
        chosen("mse", seen={"x": bare})
    with pytest.raises(DataError, match="'x': method auto needs a histogram"):
        chosen("minmax", "x=auto", seen={"x": bare})


def test_names_may_hold_an_equals_sign_and_rules_may_not():
    override = Override.parsed("a=b=mse")
    assert (override.pattern.pattern, override.method) == ("a=b", "mse")


@pytest.mark.parametrize("method", METHODS)
def test_histograms_are_wanted_exactly_where_a_method_needs_one(method):
    needed = method in NEEDS_HISTOGRAM
    assert Rules(method, WANTED).histograms is needed
    assert Rules("minmax", WANTED, [Override.parsed(f"x={method}")]).histograms is needed


# What is no override

WRONG = {
    "logits": "write REGEX=RULE",
    "=mse": "write REGEX=RULE",
    "": "write REGEX=RULE",
    "(=mse": "'(' is no regular expression",
    "logits=": "is no method",
    "logits=entorpy": "did you mean entropy?",
    "logits=median": "methods: minmax, moving-average",
    "logits=mse:3": "did you mean mse?",
    "logits=percentile:": "'' is no number",
    "logits=percentile:x": "'x' is no number",
    "logits=percentile:50": "50.0 is not above 50",
    "logits=percentile:100.5": "100.5 is not above 50",
    "logits=percentile:nan": "nan is not above 50",
    "logits=1": "is no method",
    "logits=1,": "'' is no number",
    "logits=1,2,3": "'2,3' is no number",
    "logits=2,1": "2,1 is no range",
    "logits=nan,1": "nan,1 is no range",
    "logits=0,inf": "0,inf is no range",
    "logits=0,1e39": "0,1e39 is no range",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_override_is_quoted_with_the_reason(text):
    with pytest.raises(UsageError) as raised:
        Override.parsed(text)
    assert repr(text) in str(raised.value)
    assert WRONG[text] in str(raised.value)


def test_an_override_that_matches_no_tensor_is_an_error_with_a_near_name():
    rules = Rules(
        "minmax", WANTED, [Override.parsed("logits=mse"), Override.parsed("logit=mse")]
    )
    with pytest.raises(UsageError, match=r"'logit=mse' matches no tensor.*mean 'logits'"):
        rules.check(SEEN)
    with pytest.raises(UsageError, match=r"'zzz=mse' matches no tensor that is observed$"):
        Rules("minmax", WANTED, [Override.parsed("zzz=mse")]).check(SEEN)


def test_an_override_that_an_earlier_one_hides_is_no_error():
    rules = Rules("minmax", WANTED, [Override.parsed(t) for t in (".*=mse", "logits=octav")])
    rules.check(SEEN)


# How much a percentile cuts


@pytest.mark.parametrize(
    ("overrides", "symmetric", "share"),
    [
        ([], False, 0.005),
        ([], True, 0.01),
        (["x=percentile:90"], False, 0.05),
        (["x=mse"], False, None),
        (["x=0,1"], False, None),
    ],
)
def test_the_share_that_a_percentile_cuts_at_an_end_is_known(overrides, symmetric, share):
    wanted = Wanted(symmetric=symmetric, percentile=99)
    rules = Rules("percentile", wanted, [Override.parsed(text) for text in overrides])
    assert rules.cut_share("x") == (share and pytest.approx(share))
    assert Rules("minmax", wanted).cut_share("x") is None


def test_every_method_can_be_chosen():
    assert list(get_args(CalibrationMethod)) == list(METHODS)
