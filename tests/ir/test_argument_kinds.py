"""Arguments of another kind in Python: an error that names argument and expected kind."""

from pathlib import Path

import numpy as np
import pytest

import qpasses
from qpasses.ir.commands import CalibrateOptions, QuantizeOptions
from qpasses.ir.integer_commands import VerifyOptions
from tests.support.small_models import cnn, pictures

WRONG = [3, 3.5, b"x", [], {}, object(), np.zeros(3), True]
PATHS = ["model", "output", "json_file", "calibration_table", "evidence_file"]

OPTIONS = [
    *((QuantizeOptions, ("m", "d"), name) for name in PATHS),
    *((QuantizeOptions, ("m", "d"), name) for name in ("progress", "after")),
    *((CalibrateOptions, ("m", "d"), name) for name in ("model", "output", "shard")),
    *((VerifyOptions, ("m",), name) for name in ("integer", "against", "evidence_file")),
]


@pytest.mark.parametrize(("options", "given", "name"), OPTIONS)
@pytest.mark.parametrize("wrong", WRONG, ids=[type(each).__name__ for each in WRONG])
def test_an_option_of_another_kind_is_refused_by_name(options, given, name, wrong):
    named = {name: wrong}
    given = () if name in ("model", "integer") else given
    if name == "model":
        named["data"] = "d"
    with pytest.raises(qpasses.UsageError, match=f"^{name}: .* is needed, got ") as raised:
        options(*given, **named)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("wrong", WRONG, ids=[type(each).__name__ for each in WRONG])
def test_functions_without_options_refuse_other_kinds_too(wrong):
    x, y = (qpasses.Quantization(scale, 0, "int16") for scale in (2**-12, 2**-14))
    result = qpasses.Result(None, {}, ())
    for call, name in (
        (lambda: qpasses.inspect(wrong), "model"),
        (lambda: qpasses.merge_tables(wrong), "tables|merge"),
        (lambda: qpasses.merge_tables([wrong, wrong]), "tables"),
        (lambda: qpasses.merge_tables(["a", "b"], wrong), "output"),
        (lambda: qpasses.preprocessing(wrong), "unknown preprocessing"),
        (lambda: qpasses.preprocessing("imagenet", channels=wrong), "unknown channels"),
        (lambda: qpasses.wide_table("Sqrt", wrong, y, within=1), "x"),
        (lambda: qpasses.wide_table("Sqrt", x, wrong, within=1), "y"),
        (lambda: result.save(wrong), "output"),
    ):
        with pytest.raises(qpasses.UsageError, match=f"^({name})"):
            call()


def test_paths_and_models_are_taken_as_they_are():
    assert QuantizeOptions(Path("m"), "d").model == Path("m")
    assert QuantizeOptions(cnn(), pictures()).output is None
    assert CalibrateOptions("m", "d", shard=(1, 2)).shard == (1, 2)


def test_the_name_of_a_node_is_a_text():
    made = qpasses.quantize(cnn(), pictures()).model
    with pytest.raises(qpasses.UsageError, match=r"^name: the name of a node is needed"):
        qpasses.inspect(made).node(3)
