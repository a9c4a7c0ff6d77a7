"""Options as fields: their checks, the signatures and the settings that derive from them."""

import inspect
from dataclasses import MISSING, dataclass, fields
from typing import get_args

import pytest

import qpasses
from calibration.presets import preprocessing
from opsets.errors import UsageError
from opsets.op import Flavour
from opsets.target import load_target
from qpasses.api import run_passes_alone
from qpasses.ir.choices import Bodies
from qpasses.ir.commands import (
    COMMANDS,
    CalibrateOptions,
    ConvertOptions,
    OptOptions,
    QuantizeOptions,
)
from qpasses.ir.declared import TEXTS, Options, declared, option
from qpasses.ir.integer_commands import VerifyOptions
from qpasses.ir.keywords import takes
from qpasses.ir.options import HEADINGS
from qpasses.ir.settings import Settings, usual_options
from qpasses.ir.terminal_options import PictureOptions

FUNCTIONS = {
    qpasses.quantize: QuantizeOptions,
    qpasses.calibrate: CalibrateOptions,
    qpasses.convert_table: ConvertOptions,
    qpasses.verify: VerifyOptions,
    run_passes_alone: OptOptions,
}

EVERY = [
    pytest.param(path, each, id=f"{path} {name}")
    for path, options in COMMANDS.items()
    for name, each in declared(options).items()
]


@pytest.mark.parametrize(("path", "found"), EVERY)
def test_an_option_has_a_known_heading_and_says_its_default(path, found):
    assert found.option.heading in HEADINGS
    assert found.option.help.endswith(".")
    if found.option.choices and found.default is None:
        assert found.option.unset
    if found.option.choices and found.default not in (None, MISSING):
        assert found.default in found.option.choices


def test_what_starts_from_others_says_what_that_mostly_is():
    told = declared(QuantizeOptions)
    for name, usual in usual_options(load_target("onnx")).items():
        if isinstance(usual, str):
            assert usual in told[name].option.unset


# Checks


@pytest.mark.parametrize(("path", "found"), EVERY)
def test_a_value_of_another_type_is_refused_by_name(path, found):
    if not found.is_typed:
        return  # what reads it checks it
    for wrong in (b"x", 1j, {}, "" if found.kind is TEXTS else [""]):
        with pytest.raises(UsageError, match=f"^{found.name}: .*got|^{found.name}: unknown"):
            found.checked(wrong)


def test_numbers_beside_their_bounds_are_refused_and_those_on_them_taken():
    told = declared(QuantizeOptions)
    for name, good, bad in (
        ("activation_bits", (2, 8), (1, 9, 8.0, True)),
        ("samples", (None, 1), (0, -1)),
        ("share_tables", (None, 0, 1e300), (-1, float("nan"), float("inf"))),
        ("percentile", (50.001, 100), (50, 100.1, float("nan"))),
        ("softmax_bits", (16, 24, 32), (31, 8, 32.0, True)),
    ):
        for value in good:
            assert told[name].checked(value) == value
        for value in bad:
            with pytest.raises(UsageError, match=name):
                told[name].checked(value)


def test_lists_are_kept_as_tuples_and_op_types_are_separated():
    made = QuantizeOptions("m", nodes_to_exclude=["a"], op_types_to_quantize=["Conv,Add", "C"])
    assert made.nodes_to_exclude == ("a",)
    assert made.op_types_to_quantize == ("Conv", "Add", "C")


# Signatures


@pytest.mark.parametrize(
    ("function", "options"),
    [pytest.param(*each, id=each[0].__name__) for each in FUNCTIONS.items()],
)
def test_a_signature_has_every_option_with_its_default(function, options):
    shown = inspect.signature(function).parameters
    assert [*shown] == [each.name for each in _as_given(options)]
    for name, each in declared(options).items():
        is_needed = each.default is MISSING
        assert shown[name].default == (inspect.Parameter.empty if is_needed else each.default)
        assert f"  {name}: {each.option.help.split()[0]}" in function.__doc__
    names = {each.flag for each in declared(options).values()}
    path = next(path for path, cls in COMMANDS.items() if issubclass(cls, options))
    assert names <= {each.flag for each in declared(COMMANDS[path]).values()}


def _as_given(options):
    return sorted(fields(options), key=lambda each: bool(each.kw_only))


def test_settings_and_functions_have_the_same_defaults():
    settled = declared(Settings)
    told = declared(QuantizeOptions)
    assert settled.keys() < told.keys()
    assert all(each == told[name] for name, each in settled.items())
    observed = declared(CalibrateOptions)
    shared = settled.keys() & observed.keys()
    assert len(shared) == 12 and all(observed[name] == settled[name] for name in shared)


def test_the_bodies_are_those_of_ops():
    assert {*get_args(Bodies)} == {*get_args(Flavour)}


def test_pictures_are_described_as_in_python():
    other = {"name", "crop_fraction", "layout"}
    named = {*inspect.signature(preprocessing).parameters} - other
    assert {*declared(PictureOptions)} == named | {"preprocess", "picture_layout"}


@dataclass(frozen=True)
class Knobs(Options):
    """What ``turned`` takes."""

    model: str
    power: int = option(3, "How strong.", HEADINGS[0], least=1)


@takes(Knobs)
def turned(knobs: Knobs) -> tuple[str, int]:
    """Turn the knobs."""
    return knobs.model, knobs.power


def test_a_function_takes_fields_by_place_and_by_name():
    assert turned("m") == ("m", 3)
    assert turned(power=5, model="m") == ("m", 5)
    assert turned.__doc__ == f"Turn the knobs.\n\n{HEADINGS[0]}\n  power: How strong."
    with pytest.raises(UsageError, match=r"^power: a whole number of at least 1 is needed"):
        turned("m", power=0)


@pytest.mark.parametrize(
    ("given", "keywords", "said"),
    [
        (("m",), {"powr": 1}, r"turned\(\) has no argument 'powr': did you mean 'power'\?"),
        (("m",), {"zzz": 1}, r"turned\(\) has no argument 'zzz'$"),
        ((), {}, r"turned\(\): missing a required argument: 'model'"),
        (("m", 1, 2), {}, r"turned\(\): too many positional arguments"),
        (("m",), {"model": "n"}, r"turned\(\): multiple values for argument 'model'"),
    ],
)
def test_arguments_that_do_not_fit_are_a_type_error(given, keywords, said):
    with pytest.raises(TypeError, match=said):
        turned(*given, **keywords)


def test_an_unknown_keyword_of_quantize_names_the_nearest():
    with pytest.raises(TypeError, match=r"'residuals_type': did you mean 'residual_type'"):
        qpasses.quantize("model.onnx", residuals_type="int16")
