"""LSTM as TFLite's operator: no stored integer of the interpreters differs."""

import pytest

from opsets.errors import ModelError
from opsets.target import load_target
from qpasses import export
from tests.support.litert import RUNTIMES, needs_litert, needs_tflm
from tests.support.litert_nets import check, integer_of
from tests.support.small_models import model, numbers

HIDDEN, SIZE, STEPS = 6, 4, 5


def net(body, ways=1, hidden=HIDDEN, given="", ends="float[A,B,C,D] y", steps=STEPS):
    return model(
        f"g (float[{steps},2,{SIZE}] x{given}) => ({ends}) {{ {body} }}",
        opset=21,
        w=numbers(ways, 4 * hidden, SIZE, seed=1),
        r=numbers(ways, 4 * hidden, hidden, seed=2) / 2,
        b=numbers(ways, 8 * hidden, seed=3) / 4,
        m=numbers(hidden, 3, seed=4),
    )


LSTM = f"LSTM <hidden_size = {HIDDEN}> (x, w, r, b)"
BOTH = f'LSTM <hidden_size = {HIDDEN}, direction = "bidirectional"> (x, w, r, b)'
BACK = f'LSTM <hidden_size = {HIDDEN}, direction = "reverse"> (x, w, r, b)'

NETS = {
    "of all steps": net(f"y = {LSTM}"),
    "a dense layer behind": net(f"a, h = {LSTM} y = MatMul (h, m)", ends="float[1,2,3] y"),
    "all and the last": net(f"y, h = {LSTM}", ends="float[A,B,C,D] y, float[E,F,G] h"),
    "reversed": net(f"y = {BACK}"),
    "both directions": net(f"y = {BOTH}", ways=2),
    "loud": net("y = LSTM <hidden_size = 70> (x, w, r, b)", hidden=70),
    "one step": net(f"y = {LSTM}", steps=1),
}


@pytest.mark.thinned
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", NETS)
def test_nets_give_the_integers_of_the_runtime(name, runtime):
    integer, _ = check(NETS[name], load_target(runtime), runtime)
    file = export(integer, to="tflite", tflite_runtime=runtime)
    count = file.operations["UNIDIRECTIONAL_SEQUENCE_LSTM"]
    assert count == (2 if name == "both directions" else 1)


@needs_tflm
@pytest.mark.parametrize("name", ["of all steps", "both directions", "loud"])
def test_tflite_micro_has_words(name):
    made = NETS[name]
    integer, found = check(made, load_target("tflm"), "tflm", tensor_types=[".*=int16"])
    assert found.elements > 0
    with pytest.raises(ModelError, match="LiteRT has the operator for 8 bits alone"):
        export(integer, to="tflite", tflite_runtime="litert")


STATE = f", float[1,2,{HIDDEN}] s, float[1,2,{HIDDEN}] t"

REFUSED = {
    "its initial_h comes from outside": net(
        f"y = LSTM <hidden_size = {HIDDEN}> (x, w, r, b, , s)", given=STATE
    ),
    "its initial_h is not zero": net(
        f"s = Constant <value = float[1,1,{HIDDEN}] {{{', '.join(['0.5'] * HIDDEN)}}}> () "
        f"t = Concat <axis = 1> (s, s) y = LSTM <hidden_size = {HIDDEN}> (x, w, r, b, , t)"
    ),
}


@needs_litert
@pytest.mark.parametrize("reason", REFUSED)
def test_what_the_operator_does_not_have_is_refused(reason):
    with pytest.raises(ModelError, match=reason):
        export(integer_of(REFUSED[reason]), to="tflite")


@needs_litert
def test_graphs_of_the_other_runtime_are_refused():
    for one, other in (("litert", "tflm"), ("tflm", "litert")):
        integer = integer_of(NETS["of all steps"], load_target(one))
        with pytest.raises(ModelError, match=f"quantize with --target {other}"):
            export(integer, to="tflite", tflite_runtime=other)
