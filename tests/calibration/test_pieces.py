"""Models of thousands of function calls run in pieces as they run whole."""

from typing import Any

import numpy as np
import onnx
import pytest

from calibration import Session, pieces
from calibration.pieces import Pieces, loaded

MODEL = """
    <ir_version: 10, opset_import: ["": 21, "local": 1]>
    g (float[2, 3] x, bool c) => (float[2, 3] y, float[2, 3] early, float[2, 3] left)
        <float[1] one = {1}, float[1] two = {2}, float[2, 3] a, float[2, 3] b, float[2, 3] d>
    {
        a = local.AddTwice (x, one)
        early = local.AddTwice (a, two)
        b, unread = local.Both (early, a)
        left = Mul (b, one)
        d = If (c) <
            then_branch = g1 () => (float[2, 3] t) { t = local.Plus (a, two) },
            else_branch = g2 () => (float[2, 3] e) { e = Clip (b, , two) }>
        y = local.AddTwice (d, x)
    }
    <domain: "local", opset_import: ["": 21, "local": 1]>
    AddTwice (p, q) => (r) { s = local.Plus (p, q) r = Add (s, q) }
    <domain: "local", opset_import: ["": 21]>
    Plus (p, q) => (r) { r = Add (p, q) }
    <domain: "local", opset_import: ["": 21]>
    Both (p, q) => (r, s) { r = Sub (p, q) s = Add (p, q) }
"""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "FEW", 4)
    monkeypatch.setattr(pieces, "PIECE", 2)


def _model() -> onnx.ModelProto:
    return onnx.parser.parse_model(MODEL)


def _feed(condition: bool) -> dict[str, Any]:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    return {"x": x, "c": np.array(condition)}


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("outputs", [None, ["left"], ["y", "early"]])
def test_pieces_give_what_the_whole_gives(condition: bool, outputs: list[str] | None) -> None:
    ours = loaded(_model())
    assert isinstance(ours, Pieces)
    assert ours.outputs == ["y", "early", "left"]
    found = ours.run(outputs, _feed(condition))
    expected = Session(_model()).run(outputs, _feed(condition))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_piece_has_the_functions_it_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those called in branches and by functions too, and no others."""
    found = list[list[str]]()

    def made(model: onnx.ModelProto, **options: Any) -> Session:
        found.append(sorted(each.name for each in model.functions))
        return Session(model, **options)

    monkeypatch.setattr(pieces, "Session", made)
    assert isinstance(loaded(_model()), Pieces)
    twice = ["AddTwice", "Plus"]
    assert found == [twice, twice, ["Both"], ["Plus"], twice]


def test_a_piece_is_run_with_the_options_of_the_whole() -> None:
    found = loaded(_model(), optimize=False).run(["y"], _feed(True))
    np.testing.assert_array_equal(found[0], Session(_model()).run(["y"], _feed(True))[0])


@pytest.mark.parametrize("lost", ["a", "b"])
def test_tensors_of_unknown_type_are_not_handed_on(lost: str) -> None:
    model = _model()
    kept = [value for value in model.graph.value_info if value.name != lost]
    del model.graph.value_info[:]
    model.graph.value_info.extend(kept)
    assert isinstance(loaded(model), Session)


def test_an_input_that_need_not_be_fed_stays_in_the_whole() -> None:
    model = _model()
    model.graph.input.append(onnx.helper.make_tensor_value_info("one", 1, [1]))
    whole = loaded(model)
    assert isinstance(whole, Session)
    assert whole.run(["early"], _feed(True))[0][0, 0] == 6


def test_models_without_functions_or_of_few_nodes_are_loaded_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pieces, "FEW", 10)
    assert isinstance(loaded(_model()), Session)
    monkeypatch.setattr(pieces, "FEW", 0)
    model = _model()
    del model.graph.node[:], model.functions[:]
    model.graph.node.extend(
        onnx.helper.make_node("Neg", ["x"], [each.name]) for each in model.graph.output
    )
    assert isinstance(loaded(model), Session)
