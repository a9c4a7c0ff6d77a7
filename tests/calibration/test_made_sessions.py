"""The suite's memory of sessions: only the very same model, loaded alike, is the same one."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from calibration import held_weights, large_weights
from calibration.session import Session
from opsets.errors import ModelError
from tests.support import made_sessions
from tests.support.small_models import cnn, model, pictures
from tests.support.thoroughness import THOROUGH

pytestmark = pytest.mark.skipif(THOROUGH, reason="make thorough makes each session anew")


def made(*args, **options):
    return Session(*args, **options)._session


def test_the_same_model_loaded_alike_is_one_session():
    first = made(cnn(), optimize=False, threads=1)
    assert made(cnn(), threads=1, optimize=False) is first
    made_sessions.forget()
    assert made(cnn(), optimize=False, threads=1) is not first


@pytest.mark.parametrize(
    "options",
    [
        {"threads": 1},
        {"config": {"session.disable_prepacking": "1"}},
        {"outputs": [onnx.ValueInfoProto(name="r")]},
    ],
    ids=lambda options: next(iter(options)),
)
def test_another_option_makes_another_session(options):
    assert made(cnn(), **options) is not made(cnn())


def test_another_weight_makes_another_session():
    weights = cnn()
    weights.graph.initializer[0].CopyFrom(cnn(seed=1).graph.initializer[0])
    one, other = (Session(each).run(None, {"x": pictures()})[0] for each in (cnn(), weights))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("module", "limit"), [(held_weights, "LARGE"), (large_weights, "_MUCH")]
)
def test_weights_that_are_handed_over_otherwise_make_another_session(
    module, limit, monkeypatch
):
    first = made(cnn())
    monkeypatch.setattr(module, limit, 0)
    assert made(cnn()) is not first


def test_models_of_many_weights_are_loaded_each_time(monkeypatch):
    monkeypatch.setattr(held_weights, "MANY", 0)
    assert made(cnn()) is not made(cnn())


def test_what_cannot_be_loaded_is_refused_each_time():
    for _ in range(2):
        with pytest.raises(ModelError, match="NoSuchOp"):
            Session(model("g (float[2] x) => (float[2] y) { y = NoSuchOp(x) }"))


def test_a_module_ends_without_sessions():
    here, there = (SimpleNamespace(path=Path(name)) for name in ("here.py", "there.py"))
    for following, left in ((here, True), (there, False), (None, False)):
        made(cnn())
        made_sessions.forget_behind(here, following)
        assert bool(made_sessions._made) == left


def test_those_that_were_asked_for_last_are_kept():
    made_sessions.forget()
    first, second, third = (made(cnn(seed=seed)) for seed in range(3))
    for seed in range(3, made_sessions.KEPT):
        made(cnn(seed=seed))
    assert made(cnn()) is first
    made(cnn(seed=made_sessions.KEPT))
    assert len(made_sessions._made) == made_sessions.KEPT
    assert made(cnn(seed=2)) is third
    assert made(cnn(seed=1)) is not second
