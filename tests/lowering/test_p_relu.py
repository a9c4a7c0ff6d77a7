"""LeakyRelu and PRelu by multipliers: chosen, proved, recorded, derived again."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, numpy_helper

from opsets.kernels import float32_kernel
from opsets.op import DOMAIN
from opsets.target import Target, load_target
from qpasses import UsageError, quantize, verify
from qpasses.evidence.prove import prove_node
from qpasses.evidence.prove_slopes import real_levels
from qpasses.ir.record import Quantization
from qpasses.load.integer_model import read_integer_model
from qpasses.lowering.numbers.slope_numbers import choose_slopes
from tests.support.commands import USAGE, Desk, assert_refused, read_json, run
from tests.support.small_models import model, numbers
from tests.support.thoroughness import thoroughly, together

SHAPES = [(), (1,), (4, 1, 1), (1, 4, 1, 1), (4, 3, 2), (3, 2), (2,), (1, 3, 1), (4, 1, 2)]
"""Of slopes that broadcast to [N, 4, 3, 2]."""

BETWEEN = "x = Conv (i, w) {body} o = Conv (y, w)"


def net(body, slopes=0.25, place=BETWEEN, size=(3, 2)):
    """The model of ``body``, which makes y of x, with ``slopes`` between two convolutions."""
    shape = f"float[N, 4, {size[0]}, {size[1]}]"
    text = f"g ({shape} i) => ({shape} o) {{ {place.format(body=body)} }}"
    weights = {"w": numbers(4, 4, 1, 1)} | {"s": np.asarray(slopes, np.float32)}
    return model(text, opset=18, **{n: v for n, v in weights.items() if f" {n})" in text})


def samples():
    return [{"i": numbers(2, 4, 3, 2, seed=seed)} for seed in range(3)]


def checked(made, **options):
    """What quantize gives, which verify accepts."""
    options = {"activation_form": "multiplier", **options}
    result = quantize(made, samples(), **{"layout": "nchw", **options})
    assert result.verdict == "ok"
    assert verify(result.model, made, samples()).verdict == "ok"
    return result


def ops(result):
    return [node.op_type for node in result.model.graph.node if node.domain == DOMAIN]


def only_proof(result):
    (proof,) = (each for each in result.evidence if each.op == "IntPRelu")
    return proof


OF_EVERY_SHAPE = [{}, {"activation_type": "int8"}, {"bodies": "portable"}]
"""What the kernel that spreads the slopes depends on."""

OF_SOME_SHAPES = [
    {"symmetric": True},
    {"activation_type": "int8", "symmetric": True, "activation_bits": 5},
    {"exact": True},
    {"emit": "integer", "integer_io": True},
    {"table_ranges": "function"},
]


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        *together(SHAPES, OF_EVERY_SHAPE),
        *together([(4, 1, 1), (3, 2)], OF_SOME_SHAPES),
    ],
    ids=str,
)
def test_slopes_of_every_shape_are_proved_and_derived_again(shape, options):
    slopes = np.random.default_rng(len(shape)).uniform(-1.5, 1.5, shape)
    result = checked(net("y = PRelu (x, s)", slopes), **options)
    proof = only_proof(result)
    assert (proof.kind, proof.mismatches, proof.domain) == ("exhaustive", 0, 256 * slopes.size)
    assert proof.reference_max_lsb <= 1


@thoroughly(25)
@given(
    seed=st.integers(0, 999),
    shape=st.sampled_from(SHAPES),
    dtype=st.sampled_from(["uint8", "int8"]),
    largest=st.sampled_from([1e-30, 0.01, 1, 300, 1e20]),
)
def test_slopes_of_any_size_are_proved(seed, shape, dtype, largest):
    rng = np.random.default_rng(seed)
    slopes = rng.uniform(-1, 1, shape) * largest * rng.integers(0, 2, shape)
    made = net("y = PRelu (x, s)", slopes)
    result = checked(made, activation_type=dtype)
    assert only_proof(result).mismatches == 0


@pytest.mark.parametrize("shape", [(4, 3, 2), (3, 2), (4, 1, 2)], ids=str)
def test_slopes_along_several_axes_need_no_option(shape):
    made = net("y = PRelu (x, s)", numbers(*shape))
    results = [checked(made, activation_form=form) for form in ("table", "multiplier")]
    assert ops(results[0]) == ops(results[1]) == ["IntConv", "IntPRelu", "IntConv"]
    assert results[0].report["summary"]["float_nodes"] == []


FORMS = {
    "y = LeakyRelu (x)": ["IntPRelu"],
    "y = LeakyRelu <alpha = -2.5> (x)": ["IntPRelu"],
    "y = PRelu (x, s)": ["IntPRelu"],
    "y = PRelu (x, x)": ["Lut"],
    "a = LeakyRelu (x) y = Sigmoid (a)": ["Lut"],
    "a = Neg (x) y = LeakyRelu (a)": ["Lut"],
    "a = Relu (x) y = LeakyRelu (a)": ["IntPRelu"],  # the convolution clamps
    "a = LeakyRelu (x) y = Relu (a)": ["Lut"],
    "y = Sigmoid (x)": ["Lut"],
}
SEVERAL = {
    "a = PRelu (x, s) y = Sigmoid (a)": ["IntPRelu", "Lut"],
    "a = Sigmoid (x) y = PRelu (a, s)": ["Lut", "IntPRelu"],
    "a = Relu (x) y = PRelu (a, s)": ["IntPRelu"],
    "a = PRelu (x, s) y = Relu (a)": ["IntPRelu"],
    "a = PRelu (x, s) b = Relu (a) y = Tanh (b)": ["IntPRelu", "Lut"],
    "a = PRelu (x, s) y = PRelu (a, s)": ["IntPRelu", "IntPRelu"],
    "a = PRelu (x, s) y = Mul (a, x)": ["IntPRelu", "IntMul"],
}


@pytest.mark.thinned
@pytest.mark.parametrize("body", FORMS)
def test_a_chain_of_more_than_one_function_stays_a_table(body):
    assert ops(checked(net(body)))[1:-1] == FORMS[body]


@pytest.mark.thinned
@pytest.mark.parametrize("form", ["table", "multiplier"])
@pytest.mark.parametrize("body", SEVERAL)
def test_slopes_along_several_axes_stand_alone(body, form):
    result = checked(net(body, numbers(4, 3, 2)), activation_form=form)
    assert ops(result)[1:-1] == SEVERAL[body]
    assert result.report["summary"]["float_nodes"] == []


def test_slopes_that_are_not_finite_have_no_multiplier():
    slopes = numbers(4, 3, 2)
    slopes[0, 0, 0] = np.inf
    result = quantize(net("a = Exp (x) [act] y = PRelu (a, s)", slopes), samples())
    assert [n["name"] for n in result.report["summary"]["float_nodes"]] == ["act"]


def test_only_a_part_of_the_elements_is_proved_once_and_all_are_counted():
    slopes = np.tile(np.float32([0.5, 0.25]), (4, 3, 2, 1))[..., 0]
    assert only_proof(checked(net("y = PRelu (x, s)", slopes))).domain == 256 * 24


def test_targets_round_as_they_say():
    for rounding in ("half_up", "half_away"):
        mine = Target("mine", "for a test", 16, rounding)
        result = checked(net("y = PRelu (x, s)", numbers(4, 1, 1)), target=mine)
        assert only_proof(result).mismatches == 0
        (node,) = (n for n in result.model.graph.node if n.op_type == "IntPRelu")
        assert node.attribute[0].s.decode() == rounding


# Multipliers

UNTIED = Quantization(0.031, 97, "uint8"), Quantization(0.0172, 130, "uint8")


def test_tied_ranges_copy_what_lies_above_zero():
    tied = UNTIED[0]
    slopes = np.float32([1, -1, 0.3])
    choice = choose_slopes(tied, tied, slopes, float32_kernel, load_target("onnx"))
    assert choice.multiplier[0] == 1 << choice.shift[0]
    assert choice.multiplier[1:3].tolist() == [1 << 23, -(1 << 23)]
    assert choice.exact.all()


def test_many_slopes_are_chosen_in_blocks_as_one_by_one(monkeypatch):
    slopes = numbers(3, 7)
    given = (*UNTIED, slopes, float32_kernel, load_target("onnx"))
    whole = choose_slopes(*given)
    monkeypatch.setattr("qpasses.evidence.prove_slopes.BLOCK", 4)
    parts = choose_slopes(*given)
    assert whole.multiplier.tolist() == parts.multiplier.tolist()
    assert whole.shift.tolist() == parts.shift.tolist()
    assert (
        whole.exact.all() and (np.sign(whole.multiplier[1:]) == np.sign(slopes.ravel())).all()
    )


def test_real_levels_are_rounded_exactly():
    x, y = Quantization(0.3, 100, "uint8"), Quantization(0.6, 0, "uint8")
    slopes = np.float32([0.5, -0.1, 3, 0]).astype(np.float64)
    found = real_levels(x, y, slopes)
    for code in range(256):
        for place, slope in enumerate(slopes.tolist()):
            real = Fraction(x.scale) * (code - 100) / Fraction(y.scale)
            real *= Fraction(slope) if code < 100 else 1
            assert found[code, place] == round(real)


# Faults


@pytest.fixture(scope="module")
def emitted():
    made = net("[act] y = PRelu (x, s)", numbers(4, 3, 2))
    return made, checked(made).model


@pytest.mark.thinned
@pytest.mark.parametrize("name", ["multiplier", "shift", "slope_multiplier", "slope_shift"])
def test_a_changed_multiplier_is_found(emitted, name):
    original, integer = emitted
    changed = ModelProto()
    changed.CopyFrom(integer)
    tensor = next(t for t in changed.graph.initializer if t.name == f"act.{name}")
    values = numpy_helper.to_array(tensor).copy()
    values.reshape(-1)[-1] += 1
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    assert verify(changed, original, samples()).verdict == "failed"


def test_the_proof_counts_what_a_wrong_multiplier_moves(emitted):
    read = read_integer_model(emitted[1], "made")
    (node,) = (each for each in read.graph.nodes if each.op == "IntPRelu")
    wrong = node.inputs[4].values.copy()
    wrong[0, 0, 0] *= 2
    node.inputs[4].values = wrong
    proof = prove_node(node, read.record)
    assert proof.mismatches == 0 and proof.reference_moved > 10
    assert proof.reference_max_lsb > 1


def test_a_record_without_its_slopes_is_damaged(emitted):
    changed = ModelProto()
    changed.CopyFrom(emitted[1])
    (node,) = (each for each in changed.graph.node if each.op_type == "IntPRelu")
    entry = next(e for e in node.metadata_props if e.key == "qpasses.function")
    node.metadata_props.remove(entry)
    with pytest.raises(Exception, match="record of node 'act' is damaged"):
        verify(changed, emitted[0], samples())


# The option


def test_the_form_is_an_option_a_record_and_no_table_to_share(tmp_path):
    feeds = np.concatenate([each["i"] for each in samples()])
    desk = Desk(tmp_path, net("[act] y = LeakyRelu (x)"), feeds)
    assert desk.quantize("--activation-form", "multiplier", "--share-tables", "1").code == 0
    report = read_json(desk.report)
    assert report["configuration"]["activation_form"] == "multiplier"
    assert report["sharing"]["chains"] == 0
    assert report["summary"]["nodes"]["IntPRelu"] == 1
    assert desk.verify().code == 0
    assert desk.quantize().code == 0
    assert "IntPRelu" not in read_json(desk.report)["summary"]["nodes"]
    assert_refused(desk.quantize("--activation-form", "both"), USAGE, "--activation-form")


def test_an_unknown_form_is_named():
    with pytest.raises(UsageError, match=r"activation_form: unknown .* table, multiplier"):
        quantize(net("y = LeakyRelu (x)"), samples(), activation_form="both")


def test_inspect_shows_each_multiplier_beside_its_scale_up_to_a_number(tmp_path):
    made = net("[act] y = PRelu (x, s)", numbers(4, 6, 5), size=(6, 5))
    desk = Desk(tmp_path, made, numbers(6, 4, 6, 5))
    assert desk.quantize().code == 0
    ended = run("inspect", desk.output, "--node", "act")
    assert ended.code == 0
    assert "above zero" in ended.out and "slope 59" in ended.out
    assert "more: --json has all" in ended.out
