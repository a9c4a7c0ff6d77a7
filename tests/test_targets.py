"""Targets: the shipped ones, a user's own, and what is wrong with a bad file."""

import json

import pytest
from small_models import cnn, pictures

import qpasses
from opsets.errors import UsageError
from opsets.target import Target, load_target, target_names

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


@pytest.mark.parametrize("rounding", ['"half_down"', '""', "1", "[]"])
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
def test_without_fast_kernels_bodies_are_portable_and_proved(target_file, rounding):
    path = target_file(multiplier_bits="16", rounding=f'"{rounding}"', fast_kernels="false")
    result = qpasses.quantize(cnn(), pictures(), target=path)
    bodies = {node["body"] for node in result.report["evidence"]["nodes"]} - {"standard"}
    assert all(body.startswith("portable") for body in bodies)
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
