"""What verify finds in a file besides its numbers, and beside float arithmetic."""

import json

import onnx
import pytest
from onnx import helper, numpy_helper

import qpasses
from qpasses.checking import side_by_side, verification
from qpasses.ir.metadata import PREFIX
from tests.checking.test_checking import BODIES, CONSTANTS, SETTINGS, random_feeds, small
from tests.support.fault_finding import Floats, one_off
from tests.support.small_models import (
    cnn,
    convolutions_around,
    model,
    nodes_as_onnx,
    numbers,
    pictures,
)

FEEDS = [{"x": picture[None]} for picture in pictures(4)]


@pytest.fixture(scope="module")
def made():
    return qpasses.quantize(cnn(), FEEDS).model


@pytest.fixture(scope="module")
def tables():
    original = convolutions_around("Sigmoid")
    return original, qpasses.quantize(original, FEEDS).model


def problems(model, original=None, **options):
    report = qpasses.verify(model, original or cnn(), FEEDS, **options).report
    assert (report["summary"]["verdict"] == "failed") == bool(report["summary"]["problems"])
    return report["summary"]["problems"]


def copied(model):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def idle_constant(model):
    model.graph.initializer.append(numpy_helper.from_array(numbers(3), "idle"))


def idle_node(model):
    name = model.graph.node[-2].output[0]
    model.graph.node.append(helper.make_node("Identity", [name], ["idle"], name="idle"))


def idle_declaration(model):
    model.graph.value_info.append(helper.make_tensor_value_info("idle", 1, [1]))


def second_constant(model):
    model.graph.initializer.append(model.graph.initializer[0])


def second_node(model):
    model.graph.node.append(model.graph.node[0])


def second_entry(model):
    node = next(n for n in model.graph.node if n.op_type == "IntConv")
    node.metadata_props.append(node.metadata_props[0])


def unknown_entry(model):
    model.metadata_props.add(key=f"{PREFIX}colour", value='"red"')


def other_domain(model):
    model.opset_import.append(helper.make_opsetid("elsewhere", 1))


def other_opset(model):
    next(o for o in model.opset_import if not o.domain).version -= 1


def other_version(model):
    next(o for o in model.opset_import if o.domain == "com.microsoft").version += 1


def idle_function(model):
    copy = model.functions.add()
    copy.CopyFrom(model.functions[0])
    copy.overload = "another"


def training(model):
    model.training_info.add()


ODD = {
    idle_constant: "nothing reads it",
    idle_node: "nothing reads what it writes",
    idle_declaration: "nothing writes it",
    second_constant: "2 times",
    second_node: "2 times",
    second_entry: "2 times",
    unknown_entry: "'colour'",
    other_domain: "'elsewhere' is imported and not used",
    other_opset: "should be version",
    other_version: "'com.microsoft' should be version 1",
    idle_function: "'another' is missing or not declared",
    training: "training_info",
}


@pytest.mark.thinned
@pytest.mark.parametrize("change", ODD, ids=lambda change: change.__name__)
def test_an_odd_part_of_a_file_is_found_and_named(change, made):
    model = copied(made)
    change(model)
    try:
        found = problems(model)
    except qpasses.QPassesError as error:
        found = [str(error)]
    if change not in (second_constant, second_node, other_opset):  # refused by ONNX itself
        assert any(ODD[change] in each.replace(":another", ":'another'") for each in found)
    assert found


def test_what_others_write_into_a_file_is_theirs(made):
    model = copied(made)
    model.metadata_props.add(key="author", value="me")
    model.graph.node[0].metadata_props.add(key="colour", value="red")
    model.graph.doc_string = model.graph.node[0].doc_string = "mine"
    assert problems(model) == []


# Bodies


def test_what_a_function_calls_its_values_is_its_own_affair(made):
    model = copied(made)
    for node in (node for function in model.functions for node in function.node):
        for values in (node.input, node.output):
            values[:] = [value and f"{value}_of_another_version" for value in values]
    for function in model.functions:
        for values in (function.input, function.output):
            values[:] = [f"{value}_of_another_version" for value in values]
    assert problems(model) == []


def test_a_body_that_reads_its_values_in_another_order_is_found(made):
    model = copied(made)
    function = next(f for f in model.functions if f.name == "IntConv")
    function.input[0], function.input[1] = function.input[1], function.input[0]
    assert any("is not the declared body" in each for each in problems(model))


def entry_of(node, key):
    return next(e for e in node.metadata_props if e.key == PREFIX + key)


def lookup(model):
    return next(node for node in model.graph.node if node.op_type == "Lut")


def change_costs(model, change):
    copy = copied(model)
    entry = entry_of(lookup(copy), "costs")
    costs = json.loads(entry.value)
    change(costs)
    entry.value = json.dumps(costs, sort_keys=True)
    return copy


def test_a_body_that_is_right_but_slower_than_the_proved_one_is_found(made):
    model = copied(made)
    node = next(n for n in model.graph.node if n.op_type == "IntConv")
    function = next(f for f in model.functions if f.name == "IntConv")
    portable = qpasses.quantize(cnn(), FEEDS, bodies="portable", layout="nhwc").model
    model.functions.remove(function)
    model.functions.append(next(f for f in portable.functions if f.name == "IntConv"))
    node.overload = model.functions[-1].overload
    for other in model.graph.node:
        if other.op_type == "IntConv":
            other.overload = node.overload
    (first, *_) = problems(model)
    assert "its body is" in first and "expected 'onnxruntime'" in first


def test_the_cheapest_body_of_a_table_is_that_of_its_recorded_costs(tables):
    original, model = tables
    body = lookup(model).overload
    assert problems(model, original) == []

    def dearer(costs):
        costs[max(filter(body.startswith, costs), key=len)] = 10**9

    assert any("its body is" in e for e in problems(change_costs(model, dearer), original))


@pytest.mark.parametrize(
    ("cost", "said"), [(None, "its record denies it"), (-1, "cost"), (1.5, "cost")]
)
def test_costs_that_cannot_be_are_found(cost, said, tables):
    original, model = tables
    changed = change_costs(model, lambda costs: costs.update(dict.fromkeys(costs, cost)))
    assert any(said in each for each in problems(changed, original))


def test_costs_of_other_bodies_than_there_are_are_found(tables):
    original, model = tables
    changed = change_costs(model, lambda costs: costs.update(another=3))
    assert any("not those of its bodies" in each for each in problems(changed, original))


def test_settings_that_want_other_bodies_are_found(made):
    model = copied(made)
    entry = next(e for e in model.metadata_props if e.key == f"{PREFIX}configuration")
    entry.value = json.dumps(json.loads(entry.value) | {"bodies": "portable"})
    assert any("its body is" in each for each in problems(model))


# This machine


def test_kernels_that_saturate_fail_the_nodes_that_multiply_by_them(made, monkeypatch):
    monkeypatch.setattr(verification, "probe_saturation", lambda: 7)
    found = qpasses.verify(made, cnn(), FEEDS)
    convolutions = {n.name for n in made.graph.node if n.op_type in ("IntConv", "IntGemm")}
    said = {each.split("'")[1] for each in found.report["summary"]["problems"]}
    assert found.verdict == "failed" and said == convolutions
    assert any("saturate" in each for each in found.report["warnings"])
    assert found.report["checks"]["kernel_probe"]["saturated"] == 7


def test_small_weights_do_not_saturate(monkeypatch):
    monkeypatch.setattr(verification, "probe_saturation", lambda: 7)
    made = qpasses.quantize(cnn(), FEEDS).model
    for tensor in made.graph.initializer:
        if "weight_int8" in tensor.name:
            values = numpy_helper.to_array(tensor) // 2
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    assert not any("saturate" in each for each in problems(made))


# Float arithmetic


UNLIKE_FLOAT = ("litert", "words of litert", "words of tflm", "words of tosa")
"""Coefficients of ten bits, multipliers of 15, tensors stored anew: interpreters judge."""


OVER_STEPS = {"cells", "gates", "plain cells", "states"}
"""Recurrent nets feed on what they lost: nothing bounds that over several steps."""


@pytest.mark.thinned
@pytest.mark.parametrize("options", [each for each in SETTINGS if each not in UNLIKE_FLOAT])
@pytest.mark.parametrize("body", BODIES)
def test_every_stored_tensor_is_what_float_arithmetic_makes_of_the_codes(body, options):
    original = small(body)
    feeds = [random_feeds(original, seed) for seed in range(3)]
    result = qpasses.quantize(original, feeds, **SETTINGS[options])
    made = result.model
    found = qpasses.verify(made, original, feeds).report["checks"]["qdq"]
    nodes = nodes_as_onnx(made)
    written = {name for node in nodes for name in node.output}
    read = {name for node in nodes for name in node.input}  # all but last states nobody wants
    inner = [each for each in made.graph.value_info if each.name in written & read]
    stored = [each for each in inner if each.metadata_props]
    anew = body == "joined"  # one tensor is stored at a second scale, for the Concat
    assert found["tensors"] >= len(stored) - anew > 0 or options == "edges"
    if body not in OVER_STEPS:
        assert found["max_lsb"] <= 1
        told = max(each.reference_moved / max(each.domain, 1) for each in result.evidence)
        assert found["codes_differing"] <= found["codes"] * (0.01 + told)


def test_a_chain_with_two_ends_is_compared_from_its_beginning():
    original = model(
        """g (float[1, 2, 6, 6] x) => (float[1, 2, 6, 6] y, float[1, 2, 5, 5] z) {
            c = Conv <pads = [1, 1, 1, 1]> (x, w)
            p = PRelu (c, columns)
            s = Clip (p, "", half)
            y = Softsign (s)
            z = MaxPool <kernel_shape = [2, 2]> (s)
        }""",
        **{name: CONSTANTS[name] for name in ("w", "columns", "half")},
    )
    feeds = [random_feeds(original, seed) for seed in range(3)]
    made = qpasses.quantize(original, feeds, layout="nchw").model
    tables = [node for node in made.graph.node if node.op_type == "LutPerChannel"]
    assert len(tables) == 2 and tables[0].input[0] == tables[1].input[0]
    found = qpasses.verify(made, original, feeds)
    assert found.verdict == "ok" and found.report["checks"]["qdq"]["max_lsb"] <= 1


def test_a_tensor_far_from_float_arithmetic_is_a_problem(made, monkeypatch):
    """Were a rule as wrong as the pass, float arithmetic would not be."""
    exact = verification.Simulation.compare

    def shifted(self, feed, codes, sample):
        kept = {name: value for name, value in codes.items() if value.dtype.kind == "f"}
        moved = {name: value ^ 4 for name, value in codes.items() if name not in kept}
        exact(self, feed, {**kept, **moved}, sample)

    monkeypatch.setattr(verification.Simulation, "compare", shifted)
    assert any("differs from float arithmetic by" in each for each in problems(made))


def test_without_samples_nothing_runs_but_the_model_is_loaded(made):
    checks = qpasses.verify(made, cnn()).report["checks"]
    assert "qdq" not in checks and "bodies" not in checks
    assert checks["runtime"]["ir_version"] == made.ir_version


def test_a_model_that_onnxruntime_does_not_load_is_one_line(made, monkeypatch):
    def refuse(*_):
        raise qpasses.ModelError("onnxruntime cannot load the model: version 99")

    monkeypatch.setattr(side_by_side, "Session", refuse)
    assert problems(made) == ["onnxruntime cannot load the model: version 99"]


# Edges


def test_edges_that_are_float_though_integers_were_asked_for_are_found(made):
    changed = copied(made)
    entry = next(e for e in changed.metadata_props if e.key == f"{PREFIX}configuration")
    entry.value = json.dumps(json.loads(entry.value) | {"integer_io": True})
    found = problems(changed)
    for edge in ("input 'x'", "output 'y'"):
        assert f"{edge} is float, unlike the recorded settings" in found


def test_an_output_that_is_constant_is_that_of_the_float_model():
    original = model(
        "g (float[N, 2, 4, 4] x) => (float[N, 2, 2, 2] y, float[3] k) "
        "{ y = Conv (x, w) k = Identity (c) }",
        w=numbers(2, 2, 3, 3),
        c=numbers(3),
    )
    feeds = [{"x": numbers(1, 2, 4, 4, seed=seed)} for seed in range(2)]
    made = qpasses.quantize(original, feeds).model
    floats = Floats.of(made, original, feeds[0])
    assert floats.check(made).differences == []
    (name,) = [each.name for each in made.graph.initializer if each.dims == [3]]
    assert "is not the constant" in floats.differences(one_off(made, name))[0]


def test_outputs_in_another_order_are_found():
    original = model(
        "g (float[N, 2, 4, 4] x) => (float[N, 2, 2, 2] y, float[N, 2, 2, 2] z) "
        "{ y = Conv (x, w) z = Conv (x, v) }",
        w=numbers(2, 2, 3, 3),
        v=numbers(2, 2, 3, 3, seed=1),
    )
    feeds = [{"x": numbers(1, 2, 4, 4, seed=seed)} for seed in range(2)]
    made = qpasses.quantize(original, feeds).model
    turned = copied(made)
    turned.graph.output.append(turned.graph.output[0])
    del turned.graph.output[0]
    found = Floats.of(made, original, feeds[0]).differences(turned)
    assert "output 'z' is 'z', not 'y'" in found
