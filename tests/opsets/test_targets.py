"""Targets: the shipped ones, a user's own, and what is wrong with a bad file."""

import ast
import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from onnx.numpy_helper import to_array

import qpasses
from opsets.errors import UsageError
from opsets.target import Target, load_target, other_names, target_names
from tests.support.small_models import cnn, model, numbers, pictures

GOOD = {
    "name": '"mine"',
    "description": '"my chip"',
    "multiplier_bits": "31",
    "rounding": '"half_up"',
}


@pytest.fixture
def target_file(tmp_path):
    def write(**changes):
        path = tmp_path / "mine.toml"
        rules = {name: value for name, value in (GOOD | changes).items() if value is not None}
        path.write_text("\n".join(f"{name} = {value}" for name, value in rules.items()))
        return path

    return write


def test_the_default_target_is_shipped():
    assert "onnx" in target_names()
    assert target_names() == sorted(target_names())


def test_every_shipped_target_loads_under_its_name():
    assert [load_target(name).name for name in target_names()] == target_names()


def test_a_target_is_known_by_its_other_name_too():
    assert other_names() == {"tflite": "tflm"}
    assert load_target("tflite") == load_target("tflm")
    assert_usage_error("tflight", "litert, onnx, tflite, tflite-single, tflm, tosa")


def test_the_onnx_target_has_float32_multipliers_and_rounds_half_to_even():
    target = load_target("onnx")
    assert (target.multiplier_bits, target.rounding) == (24, "half_to_even")
    assert target.scale_to_multiplier(0.1) == (13421773, 27)
    ties = target.requantize([-3, -1, 1, 3], 1, 1)
    assert ties.tolist() == [-2, 0, 0, 2]


@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_a_users_own_file_is_a_target(target_file, kind):
    target = load_target(kind(target_file()))
    assert (target.name, target.description) == ("mine", "my chip")
    assert target.scale_to_multiplier(0.1234) == (2119995857, 34)
    assert target.requantize([-3, -1, 1, 3], 1, 1).tolist() == [-1, 0, 1, 2]


def assert_usage_error(source, *culprits):
    with pytest.raises(UsageError) as caught:
        load_target(source)
    assert caught.value.exit_code == 2
    assert all(str(culprit) in str(caught.value) for culprit in culprits)


def test_an_unknown_name_is_an_error_that_lists_the_known_ones():
    assert_usage_error("onxx", "'onxx'", "onnx")


@pytest.mark.parametrize("name", ["absent.toml", "target.json", "folder.toml"])
def test_a_path_that_is_no_toml_file_is_an_error(tmp_path, name):
    (tmp_path / "target.json").write_text("{}")
    (tmp_path / "folder.toml").mkdir()
    assert_usage_error(tmp_path / name, tmp_path / name)


def test_broken_toml_is_an_error_that_names_the_file(target_file):
    path = target_file(name="'unclosed")
    assert_usage_error(path, path, "not valid TOML")


def test_a_file_that_is_not_utf_8_is_an_error_that_names_it(target_file):
    path = target_file()
    path.write_bytes(path.read_bytes().replace(b"my chip", b"my \xff"))
    assert_usage_error(path, path, "not valid TOML")


@pytest.mark.parametrize("rule", GOOD)
def test_a_missing_rule_is_named(target_file, rule):
    path = target_file(**{rule: None})
    assert_usage_error(path, path, f"missing rule {rule!r}")


def test_an_unknown_rule_is_named(target_file):
    path = target_file(colour='"red"')
    assert_usage_error(path, path, "unknown rule 'colour'")


@pytest.mark.parametrize("rounding", ['"half_sideways"', '""', "1", "[]"])
def test_an_unknown_rounding_is_an_error_that_lists_the_known_ones(target_file, rounding):
    path = target_file(rounding=rounding)
    assert_usage_error(path, path, "rounding", "half_to_even, half_up, half_away")


@pytest.mark.parametrize(
    ("bits", "shown"),
    [
        ("0", "0"),
        ("32", "32"),
        ("-1", "-1"),
        ("true", "True"),
        ("24.0", "24.0"),
        ('"24"', "'24'"),
    ],
)
def test_impossible_multiplier_bits_are_an_error(target_file, bits, shown):
    path = target_file(multiplier_bits=bits)
    assert_usage_error(path, path, f"multiplier_bits must be 1 to 31, got {shown}")


@pytest.mark.parametrize("bits", ["1", "31"])
def test_the_ends_of_multiplier_bits_are_accepted(target_file, bits):
    assert load_target(target_file(multiplier_bits=bits)).multiplier_bits == int(bits)


# Rules that name arithmetic

NAMED = {
    "multiplier": "nearest, quantize_multiplier, ",
    "elementwise": "nearest, quantize_multiplier, ",
    "add": "one_rounding, shift_20, shift_15, operands_rounded",
    "average_pool": "requantized, divided, reciprocal",
    "mean": "requantized, folded",
    "slopes": "multipliers, quantized, common_shift",
    "activations": "asymmetric, symmetric",
    "non_negative": "as_others, unsigned",
    "conv_weights": "per_channel, per_tensor",
    "matmul_weights": "per_channel, per_tensor",
}


@pytest.mark.parametrize("rule", NAMED)
@pytest.mark.parametrize("given", ['"other"', "1", "[]", "true"])
def test_an_unknown_name_of_a_rule_is_an_error_that_lists_the_known_ones(
    target_file, rule, given
):
    path = target_file(**{rule: given})
    assert_usage_error(path, path, f"unknown {rule}", f"use one of {NAMED[rule]}")


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (
            {"min_shift": "9", "max_shift": "8"},
            "the shift range is empty: min_shift 9 is above",
        ),
        ({"min_shift": "0"}, "min_shift must be 1 to 61 with 'nearest', got 0"),
        ({"max_shift": "62"}, "max_shift must be 1 to 61 with 'nearest', got 62"),
        ({"max_shift": '"40"'}, "max_shift must be 1 to 61 with 'nearest', got '40'"),
        ({"multiplier": '"tosa"'}, "min_shift must be 2 to 62 with 'tosa', got 1"),
        (
            {"multiplier": '"tosa"', "multiplier_bits": "16"},
            "multiplier_bits must be 15 or 31 with 'tosa', got 16",
        ),
        (
            {"multiplier": '"quantize_multiplier"', "multiplier_bits": "8"},
            "multiplier_bits must be 31 with 'quantize_multiplier', got 8",
        ),
        ({"elementwise": '"nearest"'}, "elementwise_bits must be 1 to 31, got None"),
        (
            {"elementwise": '"nearest"', "elementwise_bits": "0"},
            "elementwise_bits must be 1 to 31, got 0",
        ),
        ({"elementwise_bits": "8"}, "elementwise_bits is given without elementwise"),
        ({"word_multiplier": '"tosa"'}, "word_multiplier_bits must be 15 or 31 with 'tosa'"),
        ({"word_multiplier_bits": "8"}, "word_multiplier_bits is given without word_mul"),
        ({"word_add": '"other"'}, "unknown word_add 'other': use one of one_rounding"),
        ({"byte_ops": '"Div"'}, "byte_ops must be a list of names of ops, got 'Div'"),
        ({"byte_ops": "[1]"}, "byte_ops must be a list of names of ops, got [1]"),
        ({"accumulator_bits": "8"}, "accumulator_bits must be 16 to 64, got 8"),
        ({"accumulator_bits": "32.0"}, "accumulator_bits must be 16 to 64, got 32.0"),
        ({"tables": "1"}, "tables must be true or false, got 1"),
    ],
)
def test_an_impossible_rule_is_an_error(target_file, rules, said):
    path = target_file(**rules)
    assert_usage_error(path, path, said)


# Scales


@pytest.mark.parametrize("name", target_names())
@pytest.mark.parametrize("scale", [-1.0, -1e-30, float("inf"), float("nan"), "1", None])
def test_what_is_no_scale_is_an_error(name, scale):
    with pytest.raises(UsageError, match="a scale is a finite number from 0 on"):
        load_target(name).scale_to_multiplier(scale)


@pytest.mark.parametrize(
    ("name", "scale", "said"),
    [
        ("onnx", 2.0**24, "it is 2 times the largest, 8.38861e+06"),
        ("exact", 1e300, "it is 9.31323e+290 times the largest, 1.07374e+09"),
        ("tflm", 2.0**31, "it is 1.00000000047 times the largest, 2147483647"),
        ("tflite-single", 2.0**31, "it is 2 times the largest, 1.07374e+09"),
        ("tosa", 1e12, "it is 1862.65 times the largest, 5.36871e+08"),
        ("bm1684x", 2.0**64, "it is 2 times the largest, 9.22337e+18"),
        ("bm1684x", 2.0**-31, "it is 0.5 times the smallest, 9.31323e-10"),
        ("ivit", 2.0**63, "it is 2 times the largest, 4.61169e+18"),
    ],
)
def test_a_scale_that_a_target_cannot_express_says_by_how_much(name, scale, said):
    with pytest.raises(
        UsageError, match=f"target '{name}' cannot express the scale"
    ) as caught:
        load_target(name).scale_to_multiplier(scale)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", target_names())
def test_a_scale_of_zero_has_multiplier_zero(name):
    target = load_target(name)
    multiplier, shift = target.scale_to_multiplier(0.0)
    assert multiplier == 0
    assert target.requantize([-(2**31), 2**31 - 1], multiplier, shift).tolist() == [0, 0]


@pytest.mark.parametrize("name", sorted({*target_names()} - {"bm1684x", "ivit"}))
def test_a_multiplier_of_zero_stands_for_scales_that_no_accumulator_notices(name):
    target = load_target(name)
    for exponent in (33, 40, 70, 200):
        multiplier, shift = target.scale_to_multiplier(2.0**-exponent)
        ends = target.requantize([-(2**31), 2**31 - 1], multiplier, shift)
        assert np.abs(ends).max() == 0, exponent


def test_elementwise_multipliers_are_those_of_accumulators_unless_a_target_says_more():
    for name in target_names():
        target = load_target(name)
        differ = target.elementwise_multiplier(0.3) != target.scale_to_multiplier(0.3)
        assert differ == (name == "bm1684x")
    assert load_target("bm1684x").elementwise_multiplier(0.3) == (77, 8)


@pytest.mark.parametrize(
    "given", [([0.5], 1, 1), ([1], 1.5, 1), ([1], 1, 63), ([2**31], 1, 40), ([1], 2**40, 1)]
)
def test_what_cannot_be_requantized_is_an_error(given):
    with pytest.raises(UsageError, match="requantize: "):
        load_target("tflite").requantize(*given)


# Which of them graphs can be made for


@pytest.mark.thinned
@pytest.mark.parametrize("name", target_names())
def test_graphs_can_be_made_for_every_shipped_target_and_are_verified(name):
    made = qpasses.quantize(cnn(), pictures(), target=name)
    assert made.verdict == "ok"
    assert made.report["target"] == name
    assert qpasses.verify(made.model, cnn(), pictures()).verdict == "ok"


SOURCES = Path(qpasses.__file__).parents[1]
FOLLOWING = [
    path
    for folder in ("opsets", "calibration", "qpasses")
    for path in sorted((SOURCES / folder).rglob("*.py"))
    if not {"cli", "report", "checking"} & {*path.relative_to(SOURCES).parts}
]
"""What makes graphs; what shows a target, or checks a graph by it, follows no rule."""


def rules_read_in(path):
    """What is read of a target: of ``self`` in Target, but for where it checks itself."""
    tree, owners = ast.parse(path.read_text("utf-8")), {"target", "_target", "rules"}
    if path.name == "target.py":
        owners.add("self")
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name in CHECKED_BY:
            function.body = []
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and getattr(node.value, "id", getattr(node.value, "attr", "")) in owners
    }


CHECKED_BY = {"__post_init__", "_check_shifts"}
RULES = {each.name for each in fields(Target)} - {"name", "description"}


def test_every_rule_of_a_target_is_read_by_what_makes_graphs():
    followed = set().union(*map(rules_read_in, FOLLOWING))
    assert RULES - followed == set()


@pytest.mark.parametrize("rounding", ["half_down", "down"])
def test_a_rounding_that_no_node_has_is_refused(target_file, rounding):
    path = target_file(rounding=f'"{rounding}"')
    with pytest.raises(UsageError, match=f"no pass follows rounding = '{rounding}'"):
        qpasses.quantize(cnn(), pictures(), target=path)


@pytest.mark.parametrize(
    "rules",
    [
        {"multiplier": '"tosa"', "min_shift": "2"},
        {"max_shift": "40"},
        {"scales": '"double"'},
        {"elementwise": '"nearest"', "elementwise_bits": "20"},
    ],
)
def test_a_rule_of_multipliers_is_followed_without_fast_kernels_alone(target_file, rules):
    name, value = next(iter(rules.items()))
    shown = value.replace('"', "'")
    with pytest.raises(UsageError, match=f"{name} = {shown} with fast_kernels"):
        qpasses.quantize(cnn(), pictures(), target=target_file(**rules))
    portable = target_file(**rules, fast_kernels="false")
    assert qpasses.quantize(cnn(), pictures(), target=portable).verdict == "ok"


@pytest.mark.parametrize(("rule", "bits"), [("nearest", 12), ("quantize_multiplier", 31)])
def test_a_rule_for_sums_of_16_bits_is_followed_and_judged(target_file, rule, bits):
    rules = {"word_multiplier": f'"{rule}"', "word_multiplier_bits": str(bits)}
    path = target_file(**rules, fast_kernels="false", rounding='"half_away"')
    made = qpasses.quantize(cnn(), pictures(), target=path, tensor_types=[".*=int16"])
    assert made.verdict == qpasses.verify(made.model, cnn(), pictures()).verdict == "ok"
    numbers = {each.name: to_array(each) for each in made.model.graph.initializer}
    convolutions = [node for node in made.model.graph.node if node.op_type == "IntConv"]
    found = [numbers[node.input[5]] for node in convolutions]
    assert found and all((each >> (bits - 1) == 1).all() for each in found)


@pytest.mark.parametrize("name", target_names())
def test_the_rules_of_a_target_are_its_file(name):
    target = load_target(name)
    assert Target(**target.rules()) == target


def test_the_recorded_rules_of_old_targets_are_those_of_before():
    rules = ["name", "description", "multiplier_bits", "rounding", "fast_kernels"]
    assert all(list(load_target(name).rules()) == rules for name in ("exact", "onnx"))


# Whether multipliers are chosen for onnxruntime's kernels


def test_the_exact_target_has_the_widest_multipliers_and_no_fast_kernels():
    target = load_target("exact")
    assert (target.multiplier_bits, target.rounding) == (31, "half_to_even")
    assert target.fast_kernels is False
    assert load_target("onnx").fast_kernels is True


@pytest.mark.parametrize(
    ("given", "expected"), [(None, True), ("true", True), ("false", False)]
)
def test_fast_kernels_are_wanted_unless_the_file_says_no(target_file, given, expected):
    assert load_target(target_file(fast_kernels=given)).fast_kernels is expected


@pytest.mark.parametrize("given", ["0", "1", '"no"', "[]", "1.0"])
def test_fast_kernels_that_are_neither_true_nor_false_are_an_error(target_file, given):
    path = target_file(fast_kernels=given)
    shown = given.replace('"', "'")
    assert_usage_error(path, path, f"fast_kernels must be true or false, got {shown}")


@pytest.mark.parametrize("rounding", ["half_to_even", "half_up", "half_away"])
def test_without_fast_kernels_bodies_follow_the_multipliers_and_are_proved(
    target_file, rounding
):
    path = target_file(multiplier_bits="31", rounding=f'"{rounding}"', fast_kernels="false")
    result = qpasses.quantize(cnn(), pictures(), target=path)
    bodies = {node["body"] for node in result.report["evidence"]["nodes"]} - {"standard"}
    assert all(body.startswith("onnxruntime") for body in bodies)
    searched = {"onnxruntime", "onnxruntime_clamped", "onnxruntime_matrix"}
    assert not bodies <= searched  # what those kernels give is not what the rule says
    assert result.report["configuration"]["target"]["fast_kernels"] is False
    assert result.verdict == "ok"
    assert qpasses.verify(result.model, cnn(), pictures()).verdict == "ok"


def test_a_target_is_taken_as_an_object_too_and_recorded_whole():
    target = Target("mine", "my chip", 20, "half_to_even", fast_kernels=False)
    result = qpasses.quantize(cnn(), pictures(), target=target)
    assert result.report["target"] == "mine"
    recorded = qpasses.inspect(result.model).about["configuration"]["target"]
    assert Target(**recorded) == target
    assert json.loads(json.dumps(result.report))["configuration"]["target"] == recorded


def test_multipliers_of_a_target_without_fast_kernels_are_near_to_real_arithmetic():
    exact, plain = (
        qpasses.inspect(qpasses.quantize(cnn(), pictures(), target=name).model)
        for name in ("exact", "onnx")
    )
    changes = [
        max(
            abs(multiplier / 2**shift / real - 1)
            for row in found.rows
            for multiplier, shift, real in zip(
                row.multiplier, row.shift, row.real_scale, strict=False
            )
        )
        for found in (exact, plain)
    ]
    assert changes[0] < 2**-27 < changes[1]


def test_a_scale_between_the_ends_that_the_rule_has_no_shift_for_says_so(target_file):
    rules = {
        "multiplier": '"get_scale_and_shift"',
        "multiplier_bits": "7",
        "rounding": '"half_up"',
    }
    shifts = {"min_shift": "8", "max_shift": "10", "fast_kernels": "false"}
    target = load_target(target_file(**rules, **shifts))
    assert target.scale_to_multiplier(0.3) == (77, 8)
    with pytest.raises(UsageError, match=r"it is 51 / 2\*\*7, shifts are 8 to 10"):
        target.scale_to_multiplier(0.4)
    with pytest.raises(UsageError, match=r"1\.024e-09 times the smallest"):
        target.scale_to_multiplier(1e-12)


@pytest.mark.parametrize("op", ["Add", "Sub"])
def test_a_sum_keeps_to_the_shifts_of_a_target(target_file, op):
    path = target_file(
        multiplier_bits="8", min_shift="20", max_shift="30", fast_kernels="false"
    )
    text = f"g (float[1, 4] x, float[1, 4] z) => (float[1, 4] y) {{ [sum] y = {op} (x, z) }}"
    samples = [{"x": numbers(1, 4, seed=i), "z": numbers(1, 4, seed=i + 9)} for i in range(4)]
    result = qpasses.quantize(model(text), samples, target=path)
    (left,) = result.report["summary"]["float_nodes"]
    assert "shifts are 20 to 30" in left["reason"]
