"""`qpasses targets`: the list, and one target in words with formulas."""

from dataclasses import fields

import pytest

from opsets.forms import ADD_FORMS, MEAN_FORMS, POOL_FORMS, SLOPE_FORMS
from opsets.multipliers import MULTIPLIERS
from opsets.rounding import ROUNDING_RULES
from opsets.target import Target, load_target, target_names
from tests.support.commands import USAGE, run

OWN = """
name = "mine"
description = "my [chip]"
multiplier_bits = 15
rounding = "down"
elementwise = "nearest"
elementwise_bits = 7
accumulator_bits = 24
"""


def test_targets_lists_every_shipped_target_and_whether_graphs_are_made_for_it():
    ended = run("targets")
    lines = [line.split() for line in ended.out.splitlines()]
    assert ended.code == 0 and [line[0] for line in lines] == ["target", *target_names()]
    assert all("yes" in line for line in lines[1:])
    assert all(load_target(line[0]).description in " ".join(line) for line in lines[1:])


@pytest.mark.parametrize("name", target_names())
def test_show_explains_every_rule_with_its_formula(name):
    ended, target = run("targets", "show", name), load_target(name)
    said = " ".join(ended.out.split())
    assert ended.code == 0 and said.startswith(f"{name}: {target.description}")
    formulas = [
        MULTIPLIERS[target.multiplier].formula,
        ROUNDING_RULES[target.rounding].formula,
        ADD_FORMS[target.add].formula,
        POOL_FORMS[target.average_pool].formula,
        MEAN_FORMS[target.mean].formula,
        SLOPE_FORMS[target.slopes].formula,
    ]
    assert [formula for formula in formulas if formula not in said] == []


@pytest.mark.parametrize("name", target_names())
def test_show_leaves_no_rule_out(name):
    lines = run("targets", "show", name).out.splitlines()
    shown = {line.split()[0] for line in lines if line and not line.startswith(" ")}
    rules = {field.name for field in fields(Target)}
    elsewhere = {
        *(
            "name",
            "description",
            "multiplier_bits",
            "elementwise_bits",
            "word_multiplier_bits",
        ),
        *("min_shift", "max_shift", "accumulator_bits"),
    }
    if load_target(name).elementwise is None:
        elsewhere |= {"elementwise"}
    assert rules - elsewhere <= shown and {"shift", "accumulator"} <= shown


def test_show_takes_a_users_own_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(OWN)
    said = " ".join(run("targets", "show", path).out.split())
    assert said.startswith("mine: my [chip]")
    assert "nearest, 15 bits" in said and "nearest, 7 bits" in said and "24 bits" in said
    assert "cannot be made for it yet" in said and "rounding = 'down'" in said


def test_a_target_that_is_not_there_is_a_users_mistake():
    ended = run("targets", "show", "onxx")
    assert ended.code == USAGE and "unknown target 'onxx': use one of bm1684x" in ended.err


def test_quantize_refuses_a_target_that_no_pass_follows(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(OWN)
    arguments = "model.onnx", "--data", "random:1", "-o", tmp_path / "out.onnx"
    ended = run("quantize", *arguments, "--target", path)
    assert ended.code == USAGE and "no graph can be made for it yet" in ended.err
