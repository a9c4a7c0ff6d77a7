"""Single faults in an emitted graph: verify names the node, whatever the fault."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from calibration import Session, input_specs, open_samples
from opsets.errors import ModelError
from opsets.op import DOMAIN
from qpasses import quantize
from qpasses.checking.accuracy import compare
from qpasses.checking.reference import reference_runs
from qpasses.checking.verification import verify_integer
from qpasses.ir.progress import no_progress
from qpasses.load.arguments import given_source
from qpasses.load.integer_model import read_integer_model
from qpasses.load.reading import read_model
from tests.support.commands import run
from tests.support.small_models import model, numbers, pictures, save

DIGITS = Path(__file__).parents[2] / "models" / "digits_cnn"


@pytest.fixture(scope="module")
def original():
    return read_model(DIGITS / "digits_cnn.onnx")


@pytest.fixture(scope="module")
def samples(original):
    return open_samples(DIGITS / "calibration.npz", input_specs(original), 3)


@pytest.fixture(scope="module")
def emitted():
    return quantize(DIGITS / "digits_cnn.onnx", DIGITS / "calibration.npz").model


def problems(model, original, samples):
    read = read_integer_model(model, "the model")
    return verify_integer(read, given_source(original), samples, no_progress).problems


def copy_of(model):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def change_input(model, node_name, index, change):
    """Give ``node_name`` an initializer of its own at ``index``, changed by ``change``."""
    node = next(node for node in model.graph.node if node.name == node_name)
    given = next(t for t in model.graph.initializer if t.name == node.input[index])
    values = numpy_helper.to_array(given).copy()
    change(values.reshape(-1))
    node.input[index] = f"{given.name}.changed"
    model.graph.initializer.append(numpy_helper.from_array(values, node.input[index]))


def add_one(values):
    values[0] += 1


def test_an_untouched_graph_has_no_problems(emitted, original, samples):
    assert problems(emitted, original, samples) == []


FAULTS = {
    "multiplier": ("residual/first/conv", 5),
    "shift": ("residual/first/conv", 6),
    "weight": ("down/depthwise/conv", 2),
    "bias": ("head/conv", 4),
    "input zero point": ("residual/first/conv", 1),
    "output zero point": ("residual/second/conv", 7),
    "lower clamp": ("head/conv", 8),
    "gemm multiplier": ("logits", 5),
    "add multiplier": ("residual/add", 4),
    "add shift": ("down/add", 6),
    "pool multiplier": ("head/mean", 2),
    "input scale": ("image_quantize", 1),
    "output zero point of the graph": ("logits_dequantize", 2),
}


@pytest.mark.thinned
@pytest.mark.parametrize("fault", FAULTS)
def test_one_changed_constant_is_found_and_its_node_named(fault, emitted, original, samples):
    node, index = FAULTS[fault]
    model = copy_of(emitted)
    change_input(model, node, index, add_one)
    assert any(repr(node) in problem for problem in problems(model, original, samples))


def test_a_changed_attribute_is_found(emitted, original, samples):
    model = copy_of(emitted)
    node = next(n for n in model.graph.node if n.name == "stem/conv")
    next(a for a in node.attribute if a.name == "dilations").ints[:] = [2, 2]
    next(a for a in node.attribute if a.name == "pads").ints[:] = [2, 2, 2, 2]
    assert any("'stem/conv'" in problem for problem in problems(model, original, samples))


def test_swapped_operands_are_found(emitted, original, samples):
    model = copy_of(emitted)
    node = next(n for n in model.graph.node if n.name == "residual/add")
    node.input[0], node.input[2] = node.input[2], node.input[0]
    assert any("'residual/add'" in problem for problem in problems(model, original, samples))


def test_a_changed_body_is_found(emitted, original, samples):
    model = copy_of(emitted)
    function = next(f for f in model.functions if f.name == "IntConv")
    half = next(n for n in function.node if n.output[0] == "half")
    half.attribute[0].t.CopyFrom(numpy_helper.from_array(np.float32(0.25)))
    assert any("IntConv" in problem for problem in problems(model, original, samples))


def test_a_changed_record_is_found(emitted, original, samples):
    model = copy_of(emitted)
    node = next(n for n in model.graph.node if n.domain == DOMAIN and n.op_type == "IntConv")
    entry = next(e for e in node.metadata_props if e.key == "qpasses.scales")
    entry.value = entry.value.replace('"w": [0.', '"w": [1.')
    assert any(repr(node.name) in problem for problem in problems(model, original, samples))


def test_another_float_model_is_refused(emitted, original, samples):
    other = copy_of(original)
    weight = next(t for t in other.graph.initializer if "stem/conv" in t.name)
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * 1.5, weight.name))
    found = problems(emitted, other, samples)
    assert any("another float model" in problem for problem in found)
    assert any("'stem/conv'" in problem for problem in found)


def test_one_changed_table_entry_ends_with_1_and_the_node_is_named(tmp_path):
    text = """g (float[N, 1, 8, 8] x) => (float[N, 4, 8, 8] c, float[N, 4, 8, 8] y) {
        [conv] c = Conv <pads = [1, 1, 1, 1]> (x, w)
        [rectified] y = Relu (c)
    }"""
    made, data = model(text, w=numbers(4, 1, 3, 3)), save(tmp_path, "d.npy", pictures())
    integer = copy_of(quantize(made, data).model)
    (lookup,) = [node for node in integer.graph.node if node.op_type == "Lut"]
    arguments = ["verify", tmp_path / "i.onnx", "--against", save(tmp_path, "m.onnx", made)]
    arguments += ["--data", data]
    save(tmp_path, "i.onnx", integer)
    assert run(*arguments).code == 0
    change_input(integer, lookup.name, 1, add_one)
    save(tmp_path, "i.onnx", integer)
    ended = run(*arguments)
    assert ended.code == 1
    assert f"node {lookup.name!r} (Lut): table" in ended.out


@pytest.mark.parametrize("what", ["inputs", "outputs"])
def test_what_the_metadata_say_of_the_edges_is_compared(what, original, samples):
    model = quantize(original, [{"image": pictures(1)}] * 3, integer_io=True).model
    entry = next(e for e in model.metadata_props if e.key == f"qpasses.{what}")
    entry.value = entry.value.replace('"scale": 0', '"scale": 1')
    assert any(what in problem for problem in problems(model, original, samples))


def test_another_version_of_the_ops_is_refused(emitted):
    model = copy_of(emitted)
    next(each for each in model.opset_import if each.domain == DOMAIN).version = 2
    with pytest.raises(ModelError, match="version 2 of domain qpasses"):
        read_integer_model(model, "m.onnx")


def test_nan_of_a_float_tail_is_the_same_in_both_bodies():
    """A stored zero stands for small numbers too, of which the tail makes infinity."""
    made = model(
        """g (float[N, 2, 8, 8] x) => (float[N, 2, 8, 8] y) {
            c = Conv (x, w)
            [tail] r = Reciprocal (c)
            [end] y = Sub (r, r)
        }""",
        w=numbers(2, 2, 1, 1),
    )
    feeds = [{"x": numbers(1, 2, 8, 8, seed=seed)} for seed in range(3)]
    for feed in feeds:
        feed["x"][..., 0, 0] = 1e-6
    result = quantize(made, feeds, nodes_to_exclude=["tail", "end"])
    stored = [Session(result.model).run(None, feed)[0] for feed in feeds]
    assert np.isnan(stored).any()
    assert problems(result.model, made, open_samples(feeds, input_specs(made), 3)) == []


def test_a_sample_that_one_of_two_models_cannot_run_is_named():
    any_batch = model("g (float[N, 3] x) => (float[N, 3] y) { y = Relu (x) }")
    of_three = "g (float[N, 3] x) => (float[N, 3] y) { z = Reshape (x, shape) y = Relu (z) }"
    fixed = model(of_three, shape=np.array([3, 3]))
    made_up = open_samples("random:1", input_specs(any_batch))
    with pytest.raises(
        ModelError, match=r"cannot run the model on random\[0\] \(x \[1, 3\]\)"
    ):
        compare(["y"], reference_runs(given_source(any_batch), made_up), Session(fixed))
