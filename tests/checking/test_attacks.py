"""The two attacks of docs/attacks.md, in short, and what they found before."""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import qpasses
from calibration import Session
from opsets.errors import ModelError
from opsets.fixed_point import LARGEST_SHIFT
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from opsets.target import load_target
from qpasses.ir.interchange import export_graph, import_graph
from qpasses.ir.metadata import read_record
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.prepare.resolve_ceil_mode import ResolveCeilMode
from tests.bench.fuzzing import __main__ as fuzz
from tests.bench.fuzzing import graphs, interpreter
from tests.bench.fuzzing.judge import Seen, judge
from tests.bench.fuzzing.shrinking import shrunk
from tests.bench.mutation import __main__ as mutate
from tests.bench.mutation import campaign
from tests.support.small_models import cnn, convolutions_around, model, numbers, pictures
from tests.support.stage_checks import net
from tests.support.thoroughness import THOROUGH, thoroughly

FEEDS = [{"x": picture[None]} for picture in pictures(4)]


@pytest.fixture(scope="module")
def digits():
    (target,) = campaign.targets(["digits_cnn"])
    return target


def test_no_fault_in_digits_cnn_survives(digits):
    outcomes = [
        campaign.judge(digits, *mutant)
        for target, kind, number in mutate.faults(
            [digits], list(campaign.KINDS), 7, range(240 if THOROUGH else 18)
        )
        if (mutant := target.mutant(kind, 7, number))
    ]
    assert len(outcomes) > 15
    assert [str(each) for each in outcomes if each.result not in campaign.RESULTS[:2]] == []


@pytest.mark.parametrize("kind", campaign.KINDS)
def test_a_fault_is_the_same_each_time_and_changes_something(kind, digits):
    for number in range(5):
        found = [digits.mutant(kind, 3, number) for _ in range(2)]
        if found[0] is not None:
            assert found[0] == found[1]
            assert found[0][0] != digits.made


def test_a_campaign_against_a_blind_verifier_ends_with_1(monkeypatch, capsys, digits):
    class Blind:
        verdict = "ok"

    monkeypatch.setattr(campaign.qpasses, "verify", lambda *_: Blind)
    monkeypatch.setattr("sys.argv", ["mutate", "--model", "digits_cnn", "--count", "3"])
    assert mutate.main() == 1
    printed = capsys.readouterr().out
    assert printed.count("survived: digits_cnn") == 3
    assert "--seed 0 --model digits_cnn --kind 'multiplier' --fault 0" in printed


def test_texts_and_the_order_of_parts_mean_nothing(digits):
    other = onnx.ModelProto()
    other.CopyFrom(digits.made)
    other.doc_string = "mine"
    tensors = list(other.graph.initializer)[::-1]
    del other.graph.initializer[:]
    other.graph.initializer.extend(tensors)
    assert campaign.meaning(other) == digits.content
    assert qpasses.verify(other, digits.original, digits.feeds).verdict == "ok"


FEW = [
    *(2, 6, 10, 12, 18, 19, 20, 24, 26, 27, 33, 34, 37, 38, 39, 43, 44, 46, 55),
    *(60, 62, 64, 71, 72, 74, 75, 81, 89, 97, 100, 105, 117, 122, 124, 125, 136, 139, 148),
    *(151, 161, 166, 178, 182, 184, 192, 194, 195, 198, 207, 209, 211, 212, 215, 227, 238),
]
"""Of 240 graphs those that show all that these show: op types of float and integer graphs,
options with verdicts, kinds of evidence by op, reasons to stay in float."""


def test_random_graphs_pass_every_check():
    seen, failures = Seen(), []
    for number in range(240) if THOROUGH else FEW:
        drawn = graphs.case(11, number)
        failure = drawn and judge(drawn, seen)
        failures += [(number, failure)] if failure else []
    assert failures == []
    assert seen.verdicts["ok"] > 30 and seen.verdicts["incomplete"] > 5
    assert len(seen.float_ops) > 70
    assert len(OPS.keys() & seen.integer_ops.keys()) >= 18  # what stays in float apart


def test_a_chain_of_which_only_the_beginning_is_a_table_passes_every_check():
    assert judge(graphs.case(11, 117)) is None


def test_a_wrong_reference_is_found_and_the_graph_shrunk_to_its_node(monkeypatch):
    right = OPS["Lut"].reference
    wrong = replace(OPS["Lut"], reference=lambda x, table: right(x, table) ^ 1)
    monkeypatch.setattr(interpreter, "OPS", {**OPS, "Lut": wrong})
    made = graphs.Case(
        convolutions_around("Sigmoid"), [{"x": picture[None]} for picture in pictures(2)], {}
    )
    failure = judge(made)
    assert failure.kind == "reference" and "Lut" in failure.detail
    small, failure = shrunk(made, failure)
    assert [node.op_type for node in small.model.graph.node] == ["Sigmoid"]
    assert failure.kind == "reference"


def ops_of(made):
    return {node.op_type for node in made.model.graph.node}


def test_a_failure_is_printed_as_text_with_what_repeats_it(monkeypatch, capsys):
    right = OPS["IntConv"].reference
    wrong = replace(OPS["IntConv"], reference=lambda *a, **k: right(*a, **k) ^ 1)
    monkeypatch.setattr(interpreter, "OPS", {**OPS, "IntConv": wrong})
    cases = ((number, graphs.case(0, number)) for number in range(50))
    with_conv = ((n, made) for n, made in cases if made and "Conv" in ops_of(made))
    number = next(number for number, made in with_conv if judge(made))
    arguments = ["fuzz", "--case", str(number), "--no-shrink", "--kind", "float"]
    monkeypatch.setattr("sys.argv", arguments)
    assert fuzz.main() == 1
    printed = capsys.readouterr().out
    assert "FAILED reference: IntConv" in printed and "= Conv <" in printed
    assert f"python -m tests.bench.fuzzing --seed 0 --case {number} --kind float" in printed


def changed(made, name, change):
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    tensor = next(t for t in copy.graph.initializer if t.name == name)
    values = numpy_helper.to_array(tensor).copy()
    change(values.reshape(-1))
    tensor.CopyFrom(numpy_helper.from_array(values, name))
    return copy


@pytest.mark.parametrize("shift", [2**31 - 1, LARGEST_SHIFT + 1, 0, -1])
def test_a_shift_beyond_those_of_multipliers_is_refused_at_once(shift):
    """2**shift of 2**31 - 1 took memory and time without end."""
    made = qpasses.quantize(cnn(), FEEDS).model
    node = next(n for n in made.graph.node if n.op_type == "IntConv")
    mutant = changed(made, node.input[6], lambda values: values.put(0, shift))
    with pytest.raises(ModelError, match=f"node '{node.name}' shifts by {shift}"):
        qpasses.verify(mutant, cnn(), FEEDS)


@pytest.mark.parametrize("behind", [False, True])
def test_a_second_declaration_of_a_tensor_hides_nothing(behind):
    made = qpasses.quantize(cnn(), FEEDS).model
    parts = made.graph.value_info
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(parts[0])
    copy.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    parts.insert(len(parts) if behind else 0, copy)
    assert qpasses.verify(made, cnn(), FEEDS).verdict == "failed"


@pytest.mark.parametrize(
    "field", ["ir_version", "sparse_initializer", "annotation", "metadata"]
)
def test_what_no_part_of_the_comparison_looks_at_is_compared_as_a_whole(field):
    made = qpasses.quantize(cnn(), FEEDS).model
    if field == "ir_version":
        made.ir_version += 1
    elif field == "sparse_initializer":
        values = onnx.helper.make_tensor("s", 1, [1], [1.0])
        places = onnx.helper.make_tensor("i", 7, [1], [0])
        sparse = onnx.helper.make_sparse_tensor(values, places, [3])
        made.graph.sparse_initializer.append(sparse)
    elif field == "annotation":
        made.graph.quantization_annotation.add(tensor_name=made.graph.node[0].output[0])
    else:
        made.graph.metadata_props.add(key="qpasses.scale", value="1")
    assert qpasses.verify(made, cnn(), FEEDS).verdict == "failed"


def test_other_op_types_in_the_record_than_have_tables_are_a_problem_not_a_crash():
    original = convolutions_around("Sigmoid")
    made = qpasses.quantize(original, FEEDS).model
    entry = next(e for e in made.metadata_props if e.key == "qpasses.configuration")
    entry.value = json.dumps(json.loads(entry.value) | {"op_types_to_quantize": ["Conv"]})
    assert qpasses.verify(made, original, FEEDS).verdict == "failed"


def test_a_model_that_folds_to_constants_is_verified_as_it_was_quantized():
    original = model("g (float[1, 4] x) => (int64[n] y) { y = Shape (x) }")
    feeds = [{"x": numbers(1, 4)}]
    made = qpasses.quantize(original, feeds)
    assert len(made.model.graph.node) == 0
    assert qpasses.verify(made.model, original, feeds).verdict == made.verdict == "incomplete"


def test_windows_of_ceil_mode_that_start_in_the_padding_are_no_trap_for_the_optimizer():
    """onnxruntime folded the Shape in a body by ONNX's rule, its MaxPool kept another."""
    original = model(
        """g (float[1, 2, 4, 8] x) => (float[A, B, C, D] y) {
            p = MaxPool <ceil_mode = 1, kernel_shape = [1, 1], strides = [1, 2]> (x)
            c = Conv <group = 2> (p, w)
            y = Sigmoid (c)
        }""",
        w=numbers(2, 1, 1, 1),
    )
    feeds = [{"x": numbers(1, 2, 4, 8, seed=seed)} for seed in range(3)]
    for options in ({}, {"bodies": "portable"}, {"activation_type": "int8"}):
        made = qpasses.quantize(original, feeds, **options)
        assert made.verdict == "ok"
        assert qpasses.verify(made.model, original, feeds).verdict == "ok"
    assert all(a.name != "ceil_mode" for n in made.model.graph.node for a in n.attribute)


@pytest.mark.thinned
@pytest.mark.parametrize("activation_type", ["uint8", "int8"])
@pytest.mark.parametrize(
    "pool",
    [
        "kernel_shape = [1, 1], strides = [2, 1]",
        "kernel_shape = [1, 3], strides = [2, 2], pads = [0, 1, 0, 0], count_include_pad = 1",
    ],
)
def test_average_pools_whose_last_window_would_start_in_the_padding(pool, activation_type):
    """onnxruntime planned its memory by ONNX's rule, its AveragePool had one window less."""
    original = model(
        f"""g (float[2, 1, 2, 7] x) => (float[A, B, C, D] y, float[E, F, G, H] z) {{
            p = AveragePool <ceil_mode = 1, {pool}> (x)
            y = BatchNormalization (p, s, s, s, s)
            z = Erf (x)
        }}""",
        s=np.ones(1, np.float32),
    )
    feeds = [{"x": numbers(2, 1, 2, 7, seed=seed)} for seed in range(3)]
    made = qpasses.quantize(original, feeds, activation_type=activation_type)
    assert made.verdict == qpasses.verify(made.model, original, feeds).verdict == "ok"


@st.composite
def ceiled_pools(draw):
    """A pool with ceil_mode that onnxruntime takes, and its input."""
    dims, op = draw(st.integers(1, 3)), draw(st.sampled_from(["AveragePool", "MaxPool"]))

    def each(low, high):
        return draw(st.lists(st.integers(low, high), min_size=dims, max_size=dims))

    kernel, strides, gaps, sizes = each(1, 3), each(1, 4), each(1, 3), each(1, 7)
    ends = [min(p, k - 1) for p, k in zip(each(0, 2) + each(0, 2), kernel * 2, strict=True)]
    reach = np.multiply(np.subtract(kernel, 1), gaps) + 1
    assume((sizes + np.reshape(ends, (2, -1)).sum(0) >= reach).all())
    attributes = {"kernel_shape": kernel, "strides": strides, "dilations": gaps, "pads": ends}
    if op == "AveragePool":
        attributes["count_include_pad"] = draw(st.integers(0, 1))
    node = helper.make_node(op, ["x"], ["y"], "pool", ceil_mode=1, **attributes)
    made = net([1, 2, *sizes], "y = Identity (x)")
    made.graph.node[0].CopyFrom(node)
    return made, {"x": numbers(1, 2, *sizes)}


@thoroughly(400)
@given(case=ceiled_pools())
def test_every_window_of_ceil_mode_is_that_of_the_padding(case):
    """And where ceil_mode stays, ONNX's rule for the sizes is that of onnxruntime's kernel."""
    made, feed = case
    graph = import_graph(made)
    ResolveCeilMode().rewrite(graph, graph.nodes[0], Context(Settings(load_target("onnx"))))
    resolved = export_graph(graph.toposort())
    ours, theirs = (Session(m, optimize=False).run(None, feed)[0] for m in (made, resolved))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, strict=True)
    (stated,) = onnx.shape_inference.infer_shapes(resolved).graph.output
    assert [dim.dim_value for dim in stated.type.tensor_type.shape.dim] == [*ours.shape]


def test_nodes_of_the_tool_are_there_to_be_attacked(digits):
    assert sum(node.domain == DOMAIN for node in digits.made.graph.node) > 10


@pytest.mark.parametrize("activation_type", ["uint8", "int8"])
def test_a_resize_of_negative_numbers_alone_is_probed(activation_type):
    """Its zero point is the largest code: the probe lies below it."""
    text = """g (float[1, 1, 2, 2] x) => (float[A, B, C, D] y) {
        y = Resize <mode = "linear"> (x, "", factors)
    }"""
    original = model(text, factors=np.array([1, 1, 2, 2], np.float32))
    feeds = [{"x": -np.abs(numbers(1, 1, 2, 2, seed=seed))} for seed in range(3)]
    made = qpasses.quantize(original, feeds, activation_type=activation_type)
    assert qpasses.verify(made.model, original, feeds).verdict == made.verdict == "ok"


def test_constants_that_are_joined_are_stored_exactly():
    """12 / (24 / 255) is a tie in float32: 24 / 255 there is a little more than 24 / 255."""
    text = """g (float[1, 3] x) => (float[1, 5] y) {
        fixed = Constant <value = float[1, 2] {12.0, -12.0}> ()
        y = Concat <axis = 1> (x, fixed)
    }"""
    original = model(text)
    feeds = [{"x": np.array([[-12, 12, 1]], np.float32)}]
    result = qpasses.quantize(original, feeds)
    assert result.verdict == qpasses.verify(result.model, original, feeds).verdict == "ok"
    (stored,) = [
        numpy_helper.to_array(each)
        for each in result.model.graph.initializer
        if "operand" in each.name
    ]
    y = next(each for each in read_record(result.model)[0].tensors.values())
    assert np.float32(12) / np.float32(y.scale) == 127.5 > 12 / y.scale
    assert stored.tolist() == [[y.zero_point + 127, y.zero_point - 127]]
