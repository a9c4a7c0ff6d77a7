"""Biases that samples correct: in sequence, recorded, verified, and undone where they lose."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import qpasses
from opsets.errors import UsageError
from qpasses import integerize, verify
from qpasses.ir.metadata import PREFIX, read_record
from qpasses.ir.record import MOST_CORRECTED
from qpasses.recover import correct_biases
from tests.support.fault_finding import one_off
from tests.support.stage_checks import net, run

IN_SEQUENCE = {"bias_correction": "in-sequence"}
AUTO = {"bias_correction": "auto"}

BODY = """
    [first] a = Conv <pads = [1, 1, 1, 1]> (x, k, c)
    [relu] b = Relu (a)
    [depthwise] d = Conv <group = 6> (b, e, f)
    [flat] g = Flatten (d)
    [gemm] h = Gemm (g, m, n)
    [tanh] t = Tanh (h)
    [product] p = MatMul (t, s)
    [row] y = Add (r, p)
"""
MATRICES = ["first", "depthwise", "gemm", "product"]


def quantize(*args, **options):
    """Without what accuracy is by default, but for the ``options``."""
    return qpasses.quantize(*args, **{"accuracy": "fast"} | options)


def weights():
    """Those of few codes each: what is lost of them does not cancel out."""
    rng = np.random.default_rng(3)
    shapes = {
        **{"k": (6, 4, 3, 3), "c": (6,), "e": (6, 1, 3, 3), "f": (6,)},
        **{"m": (96, 8), "n": (8,), "s": (8, 5), "r": (5,)},
    }
    found = {n: rng.normal(0.02, 0.02, s).astype(np.float32) for n, s in shapes.items()}
    for name in "kems":
        found[name].flat[0] = 2
    return found


def feeds(count, seed=7):
    rng = np.random.default_rng(seed)
    return [{"x": rng.uniform(0.5, 3, (1, 4, 6, 6)).astype(np.float32)} for _ in range(count)]


@pytest.fixture(scope="module")
def model():
    return net([1, 4, 6, 6], BODY, **weights())


@pytest.fixture(scope="module")
def made(model):
    return quantize(model, feeds(32), **IN_SEQUENCE)


def noise(integer, model, samples):
    return sum(
        float(np.square(run(integer, each)[0] - run(model, each)[0]).sum()) for each in samples
    )


def corrections(integer):
    """By source, where there are any."""
    nodes = read_record(integer)[0].nodes.values()
    return {n.source[0]: list(n.correction) for n in nodes if n.correction}


# What they gain


def test_corrected_biases_are_verified_and_lose_less(model, made):
    plain = quantize(model, feeds(32)).model
    found = verify(made.model, model, feeds(4))
    assert made.verdict == found.verdict == "ok"
    assert all(each.proved for each in made.evidence)
    assert noise(made.model, model, feeds(30, 1)) < noise(plain, model, feeds(30, 1)) / 2
    assert corrections(plain) == {}
    assert found.report["checks"]["float_graph"]["corrected_biases"] == len(
        corrections(made.model)
    )
    assert {*corrections(made.model)} <= {*MATRICES}
    said = made.report["bias_correction"]
    assert (said["asked"], said["chosen"]) == ("in-sequence", "in-sequence")
    assert said["nodes"] == len(corrections(made.model)) > 1


def test_the_same_samples_correct_the_same(model, made):
    again = quantize(model, feeds(32), **IN_SEQUENCE).model
    assert again.SerializeToString() == made.model.SerializeToString()


def shown(model, names):
    """``model`` with tensors as its outputs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.output[:]
    copy.graph.output.extend(helper.make_tensor_value_info(n, 1, None) for n in names)
    return copy


def channel_means(model, tensor, samples):
    """By numpy: [samples, channels]."""
    whole = shown(model, [tensor])
    values = [run(whole, each)[0].astype(np.float64) for each in samples]
    return np.array([v.mean(axis=(0, *range(2, v.ndim))) for v in values])


def expected_move(off):
    """What the definition gives, channel by channel."""
    found = []
    for channel in off.T:
        choosing, agreeing = channel[::2], channel[1::2]
        mean = choosing.mean()
        kept = max(0, 1 - choosing.var(ddof=1) / (len(choosing) * mean**2))
        better = agreeing**2 - (agreeing - mean * kept) ** 2
        sure = better.mean() > 2 * better.std(ddof=1) / np.sqrt(len(better))
        found.append(mean * kept if sure else 0.0)
    return np.array(found)


def test_each_node_is_corrected_as_it_is_behind_corrected_ones(model):
    """Q/DQ models, the biases of one corrected here, by runs of the whole for each."""
    samples = feeds(32)
    ours = quantize(model, samples, emit="qdq", **IN_SEQUENCE).model
    theirs = quantize(model, samples, emit="qdq").model
    sums = ["a", "d", "h", "y"]
    constants = {tensor.name: tensor for tensor in theirs.graph.initializer}
    wanted = {tensor.name: numpy_helper.to_array(tensor) for tensor in ours.graph.initializer}
    moved = 0
    for matrix, tensor in zip(MATRICES, sums, strict=True):
        stored, scale = (
            next(n for n in constants if n.startswith(f"{matrix}.bias_{what}"))
            for what in ("quantized", "scale")
        )
        name = sum_of(theirs, stored)
        off = channel_means(model, tensor, samples) - channel_means(theirs, name, samples)
        step = numpy_helper.to_array(constants[scale]).astype(np.float64)
        steps = np.trunc(expected_move(off) / step).astype(np.int64)
        codes = numpy_helper.to_array(constants[stored])
        assert np.abs(wanted[stored] - (codes + steps)).max() <= 1  # of float32 sums
        moved += np.count_nonzero(steps)
        made = numpy_helper.from_array(wanted[stored], stored)
        constants[stored].CopyFrom(made)
    assert moved > 8


def sum_of(model, stored):
    """The tensor that a stored bias is added to."""
    (real,) = [n.output[0] for n in model.graph.node if stored in n.input]
    (added,) = [n.output[0] for n in model.graph.node if real in n.input]
    return added


def test_channels_that_samples_do_not_agree_on_stay_as_they_are(model):
    """Of noise around zero nothing is taken out."""
    rng = np.random.default_rng(0)
    off = rng.standard_normal((32, 400))
    assert np.count_nonzero(expected_move(off)) < 20


# Where they are


FORMS = {
    "scales of channels": {"activation_scales": "per-channel"},
    "chosen weights": {"weight_rounding": "second-order"},
    "kept sums": {"weight_rounding": "sum-preserving"},
    "int8": {"activation_type": "int8"},
    "weights with one scale": {"per_channel": False},
    "portable": {"bodies": "portable"},
    "exact": {"exact": True},
    "tflite": {"target": "tflite"},
    "tosa": {"target": "tosa"},
    "some left in float": {"nodes_to_exclude": ["gemm"]},
    "a residual stream of 16 bits": {"residual_type": "int16"},
}


@pytest.mark.thinned
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_node_is_corrected_and_verified(model, form):
    found = quantize(model, feeds(32), **FORMS[form], **IN_SEQUENCE)
    assert corrections(found.model)
    checked = verify(found.model, model, feeds(2))
    assert checked.report["summary"]["problems"] == []
    wanted = "incomplete" if "float" in form else "ok"
    assert (checked.verdict, found.verdict) == (wanted, wanted)


def test_nodes_without_a_bias_have_none():
    plain = net([1, 4, 6, 6], "y = Conv (x, k)", k=weights()["k"])
    said = quantize(plain, feeds(32), **IN_SEQUENCE).report["bias_correction"]
    assert (said["chosen"], said["reason"]) == ("none", "no products have a bias")


def test_qdq_models_have_corrected_biases_and_keep_them(model, made):
    """What a quantized model stores is not corrected any more."""
    qdq = quantize(model, feeds(32), emit="qdq", **IN_SEQUENCE).model
    ours = {t.raw_data for t in made.model.graph.initializer if "bias_int32" in t.name}
    assert ours <= {t.raw_data for t in qdq.graph.initializer}
    kept = integerize(qdq, feeds(32), **IN_SEQUENCE)
    assert ours <= {t.raw_data for t in kept.model.graph.initializer}
    assert corrections(kept.model) == {}
    assert verify(kept.model, qdq, feeds(2)).verdict == "ok"


# What verify finds


def problems(integer, model):
    found = verify(integer, model, feeds(1))
    assert found.verdict == "failed"
    return [each for each in found.report["summary"]["problems"] if each.startswith("node")]


def changed(model, change=None, **configuration):
    """A copy whose nodes say other corrections."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in copy.graph.node if change else ():
        for entry in [*node.metadata_props]:
            if entry.key == PREFIX + "correction":
                entry.value = json.dumps(change(json.loads(entry.value)))
    for entry in copy.metadata_props if configuration else ():
        if entry.key == PREFIX + "configuration":
            entry.value = json.dumps(json.loads(entry.value) | configuration)
    return copy


def test_a_changed_bias_is_found_and_so_is_a_changed_correction(model, made):
    names = [t.name for t in made.model.graph.initializer if "bias_int32" in t.name]
    for name in names:
        (problem,) = problems(one_off(made.model, name), model)
        assert "bias" in problem
    count = len(corrections(made.model))
    for change in (
        lambda steps: [steps[0] + 1, *steps[1:]],
        lambda steps: steps[:-1],
        lambda steps: [-step for step in steps],
        lambda steps: [0 for _ in steps],
    ):
        assert len(problems(changed(made.model, change), model)) == count


def test_what_nobody_asked_for_is_found(model, made):
    forged = changed(made.model, bias_correction="none")
    found = problems(forged, model)
    assert len(found) == len(corrections(made.model))
    assert all("a correction of biases that nobody asked for" in each for each in found)


def test_a_correction_of_too_much_is_found_even_if_the_bias_has_it(model, made):
    forged = onnx.ModelProto()
    forged.CopyFrom(made.model)
    node = next(n for n in forged.graph.node if corrections_of(n))
    scales = json.loads(entry_of(node, "scales").value)
    steps = corrections_of(node)
    too_many = int((MOST_CORRECTED + 1) * scales["y"][0] / scales["x"][0] / scales["w"][0])
    name = next(each for each in node.input if "bias_int32" in each)
    (tensor,) = [t for t in forged.graph.initializer if t.name == name]
    codes = numpy_helper.to_array(tensor).copy()
    codes[0] += too_many - steps[0]
    tensor.CopyFrom(numpy_helper.from_array(codes, name))
    entry_of(node, "correction").value = json.dumps([too_many, *steps[1:]])
    assert any("by more than 16 steps of y" in each for each in problems(forged, model))


def entry_of(node, key):
    return next((e for e in node.metadata_props if e.key == PREFIX + key), None)


def corrections_of(node):
    entry = entry_of(node, "correction")
    return json.loads(entry.value) if entry else None


# Held-back samples say whether


def test_a_correction_that_held_back_samples_gain_by_is_kept(model):
    found = quantize(model, feeds(64), **AUTO)
    said = found.report["bias_correction"]
    assert (said["asked"], said["chosen"], said["held_back"]) == ("auto", "in-sequence", 16)
    assert said["sqnr_db"]["with"] > said["sqnr_db"]["without"]
    assert corrections(found.model)
    assert verify(found.model, model, feeds(2)).verdict == "ok"


def test_one_that_they_lose_by_is_undone(model, monkeypatch):
    steps = correct_biases._steps
    monkeypatch.setattr(correct_biases, "_steps", lambda off, bias: -steps(off, bias))
    found = quantize(model, feeds(64), **AUTO)
    said = found.report["bias_correction"]
    assert (said["chosen"], said["nodes"]) == ("none", 0)
    assert said["sqnr_db"]["with"] < said["sqnr_db"]["without"]
    plain = quantize(model, feeds(64)).model
    ours, theirs = (
        {t.name: t.raw_data for t in each.graph.initializer} for each in (found.model, plain)
    )
    assert ours == theirs
    assert verify(found.model, model, feeds(2)).verdict == "ok"


def test_samples_that_judge_choose_nothing(model, monkeypatch):
    used = []
    expect = correct_biases.means_of

    def noted(graph, homes, samples, progress):
        used.extend(samples.names)
        return expect(graph, homes, samples, progress)

    monkeypatch.setattr(correct_biases, "means_of", noted)
    quantize(model, feeds(32), **AUTO)
    assert len(used) == 24
    assert not {f"data[{k}]" for k in range(0, 32, 4)} & {*used}


@pytest.mark.parametrize(
    ("count", "reason"),
    [
        (1, "too few different samples to hold any back: give more"),
        (8, "fewer than 8 samples are left for it: give more"),
    ],
)
def test_too_few_samples_correct_nothing(model, count, reason):
    found = quantize(model, feeds(count), **AUTO)
    said = found.report["bias_correction"]
    assert (said["chosen"], said["reason"]) == ("none", reason)
    assert verify(found.model, model, feeds(2)).verdict == "ok"


def test_samples_that_are_all_alike_correct_nothing_by_auto(model):
    said = quantize(model, feeds(1) * 32, **AUTO).report["bias_correction"]
    assert (said["chosen"], said["reason"]) == ("none", "there is nothing to judge by")


def test_what_takes_long_has_to_be_asked_for(model, monkeypatch):
    monkeypatch.setattr(correct_biases, "NUMBERS", 1000)
    said = quantize(model, feeds(64), **AUTO).report["bias_correction"]
    assert (said["chosen"], said["sqnr_db"]) == ("none", {})
    assert said["reason"] == "a graph of this size takes long: ask for in-sequence"
    said = quantize(model, feeds(64), **IN_SEQUENCE).report["bias_correction"]
    assert said["chosen"] == "in-sequence"


def test_large_weights_have_to_be_asked_for(model, monkeypatch):
    monkeypatch.setattr(correct_biases, "MOST_WEIGHTS", 1000)
    said = quantize(model, feeds(64), **AUTO).report["bias_correction"]
    assert (said["chosen"], said["sqnr_db"]) == ("none", {})
    assert said["reason"] == "weights of this size take much memory: ask for in-sequence"


def test_without_samples_there_is_nothing_to_correct_by(model, tmp_path):
    table = tmp_path / "model.table"
    qpasses.calibrate(model, feeds(3), table)
    with pytest.raises(UsageError, match=r"bias_correction 'in-sequence'.*give --data"):
        quantize(model, calibration_table=table, **IN_SEQUENCE)


def test_a_channel_that_is_never_off_or_always_zero_is_left():
    still = net(
        [1, 4, 6, 6],
        "y = Conv (x, k, c)",
        k=np.zeros((3, 4, 1, 1), np.float32),
        c=np.float32([0, 0, 1]),
    )
    found = quantize(still, feeds(32), **IN_SEQUENCE)
    assert found.verdict == "ok"
    assert verify(found.model, still, feeds(2)).verdict == "ok"
