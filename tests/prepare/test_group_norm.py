"""GroupNormalization and what PyTorch writes for it: one rounding, proved and verified."""

from functools import cache

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import qpasses
from calibration import Session
from opsets.target import load_target
from qpasses.ir.interchange import prepared_model
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.prepare.canonical import prepare
from tests.support.small_models import model, numbers, save

SIZES = [(), (7,), (3, 4), (1, 5), (2, 3, 2)]
"""Of positions: none, of a signal, of pictures, of a volume."""


def net(opset, spatial=(3, 4), groups=2, factors=None):
    """A GroupNormalization of six channels between two ops that are on integers."""
    shape = ", ".join(map(str, ["N", 6, *spatial]))
    count = factors or (6 if opset >= 21 else groups)
    text = f"""g (float[{shape}] x) => (float[{shape}] y) {{
        a = Mul (x, two)
        [norm] n = GroupNormalization <num_groups = {groups}, epsilon = 0.01> (a, gamma, beta)
        y = Relu (n)
    }}"""
    constants = {"gamma": numbers(count) + 1, "beta": numbers(count, seed=1)}
    return model(text, opset=opset, ir_version=10, two=np.float32(2), **constants)


def written_out(opset, spatial=(3, 4), groups=2, folded=False):
    """The same as PyTorch's exporter writes it; ``folded``: sizes are constants."""
    shape = ", ".join(map(str, ["N", 6, *spatial]))
    back = "sizes" if folded else "read"
    text = f"""g (float[{shape}] x) => (float[{shape}] y) {{
        a = Mul (x, two)
        read = Shape (a)
        r = Reshape (a, split)
        [norm] i = InstanceNormalization <epsilon = 0.01> (r, one, none)
        j = Reshape (i, {back})
        k = Mul (j, gamma)
        n = Add (k, beta)
        y = Relu (n)
    }}"""
    ones = [1] * len(spatial)
    constants = {
        "two": np.float32(2),
        "split": np.array([0, groups, -1]),
        "sizes": np.array([-1, 6, *spatial]),
        "one": np.ones(groups, np.float32),
        "none": np.zeros(groups, np.float32),
        "gamma": (numbers(6) + 1).reshape(6, *ones),
        "beta": numbers(6, seed=1).reshape(6, *ones),
    }
    return model(text, opset=opset, **constants)


def feeds(spatial=(3, 4), count=4):
    return [{"x": numbers(2, 6, *spatial, seed=seed)} for seed in range(count)]


def checked(made, spatial, path, **options):
    """The result of quantizing, which is one norm between moves, verified and near."""
    samples, file = feeds(spatial), save(path, "net.onnx", made)
    result = qpasses.quantize(file, samples, **options)
    assert result.verdict == "ok" and result.report["summary"]["integer_only"]
    (proof,) = [each for each in result.evidence if each.op == "IntLayerNorm"]
    assert (proof.name, proof.kind, proof.mismatches) == ("norm", "bounded", 0)
    assert proof.bound < 1e-2
    ops = [node.op_type for node in result.model.graph.node]
    assert not {"LutPerChannel", "IntAdd", "IntMul"} & set(ops) and ops.count("Lut") == 1
    assert qpasses.verify(result.model, file, samples[:2]).verdict == "ok"
    sessions = Session(result.model), Session(made)
    for feed in samples:
        (ours,), (theirs,) = (each.run(None, feed) for each in sessions)
        assert np.abs(ours - theirs).max() < 0.05 * np.abs(theirs).max()
    return result


@pytest.mark.thinned
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("spatial", SIZES)
def test_groups_are_rows(spatial, opset, groups):
    made = net(opset, spatial, groups)
    graph = prepare(made, feeds(spatial)[0], Context(Settings(load_target("onnx"))))
    assert [node.op for node in graph.nodes if node.name == "norm"] == ["LayerNormalization"]
    ours, theirs = Session(prepared_model(graph)), Session(made)
    for feed in feeds(spatial):
        (found,), (expected,) = ours.run(None, feed), theirs.run(None, feed)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


EVERY_PAIR = [
    ([(7,), (3, 4), (2, 3, 2)][(i + j) % 3], opset, groups)
    for i, opset in enumerate([18, 20, 21, 23])
    for j, groups in enumerate([1, 3, 6])
]
"""Of a size and an opset, an opset and groups, groups and a size."""


@pytest.mark.thinned
@pytest.mark.parametrize(("spatial", "opset", "groups"), EVERY_PAIR)
def test_it_is_integer_with_one_rounding(spatial, opset, groups, tmp_path):
    checked(net(opset, spatial, groups), spatial, tmp_path)


@pytest.mark.thinned
@pytest.mark.parametrize(
    "options",
    [
        {"bodies": "portable"},
        {"activation_type": "int8"},
        {"target": "tflite"},
        {"target": "exact"},
    ],
)
@pytest.mark.parametrize("make", [net, written_out])
def test_it_is_integer_with_any_options(make, options, tmp_path):
    checked(make(21), (3, 4), tmp_path, **options)


@cache
def of_one_op(spatial):
    return qpasses.quantize(net(21, spatial), feeds(spatial))


@pytest.mark.thinned
@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("opset", [11, 13, 17, 18, 21])
@pytest.mark.parametrize("spatial", [(7,), (3, 4), (2, 3, 2)])
def test_as_pytorch_writes_it_it_is_the_same(spatial, opset, folded, tmp_path):
    ours = checked(written_out(opset, spatial, folded=folded), spatial, tmp_path)
    theirs = of_one_op(spatial)
    for name in ("multiplier", "bias", "shift", "epsilon"):
        first, second = (
            next(i for i in made.model.graph.initializer if i.name == f"norm.{name}")
            for made in (ours, theirs)
        )
        found, expected = map(numpy_helper.to_array, (first, second))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.thinned
@pytest.mark.parametrize("name", ["multiplier", "bias", "shift", "epsilon"])
@pytest.mark.parametrize("make", [net, written_out])
def test_no_number_may_change(make, name):
    made = make(21)
    changed = onnx.ModelProto.FromString(
        qpasses.quantize(made, feeds()).model.SerializeToString()
    )
    old = next(each for each in changed.graph.initializer if each.name == f"norm.{name}")
    array = numpy_helper.to_array(old).copy()
    array.flat[-1] -= 1
    old.CopyFrom(numpy_helper.from_array(array, old.name))
    assert qpasses.verify(changed, made, feeds(count=2)).verdict == "failed"


@pytest.mark.parametrize("axes", [(1, 3, 1, 1), (2, 3, 1, 1), (2, 1, 1, 1), (2, 3, 3, 4)])
def test_factors_of_other_shapes_than_the_record_says_are_found(axes):
    made = net(21)
    changed = qpasses.quantize(made, feeds()).model
    for name in ("multiplier", "bias"):
        old = next(each for each in changed.graph.initializer if each.name == f"norm.{name}")
        array = numpy_helper.to_array(old)
        other = np.broadcast_to(array, (2, 3, 3, 4))[tuple(slice(n) for n in axes)]
        same = other.shape == array.shape
        old.CopyFrom(numpy_helper.from_array(np.array(other), old.name))
    try:
        verdict = qpasses.verify(changed, made, feeds(count=2)).verdict
    except qpasses.QPassesError:
        verdict = "failed"
    assert verdict == ("ok" if same else "failed")


def test_a_part_that_is_read_elsewhere_keeps_its_factors_apart():
    made = written_out(21)
    made.graph.output.append(onnx.helper.make_tensor_value_info("j", 1, ["N", 6, 3, 4]))
    result = qpasses.quantize(made, feeds())
    assert result.verdict == "ok"
    assert "LutPerChannel" in [node.op_type for node in result.model.graph.node]
    assert qpasses.verify(result.model, made, feeds(count=2)).verdict == "ok"


def test_an_excluded_factor_stays():
    made = written_out(21)
    made.graph.node[-2].name = "kept"
    result = qpasses.quantize(made, feeds(), nodes_to_exclude=["kept"])
    assert "Add" in [node.op_type for node in result.model.graph.node]
    assert qpasses.verify(result.model, made, feeds(count=2)).verdict == "ok"
