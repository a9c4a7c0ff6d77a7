"""The checker of integer graphs: what it shares with the passes, and what it finds."""

import ast
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import qpasses
from opsets import weights
from opsets.errors import QPassesError
from opsets.fixed_point import saturating_multiplier
from opsets.op import DOMAIN
from opsets.real_scales import RealScales
from qpasses import quantize
from qpasses.checking.arithmetic import all_nearest, nearest, shifted
from qpasses.checking.rules import RULES
from qpasses.checking.translation import check
from qpasses.evidence.prove import PROOFS
from qpasses.ir.rewriting import Context
from qpasses.load.integer_model import read_integer_model
from qpasses.lowering import (
    integerize_chain,
    integerize_clamp,
    integerize_conv,
    integerize_moving,
    integerize_rescaling,
    integerize_resize,
    requantized,
)
from qpasses.place import stored_weights
from qpasses.prepare.canonical import prepare
from tests.support.fault_finding import Floats, one_off
from tests.support.small_models import cnn, model, nodes_as_onnx, numbers, pictures
from tests.support.stage_checks import net, networks, random_feeds, seeds
from tests.support.thoroughness import thoroughly

ROOT = Path(qpasses.__file__).parent

SHARED = {"qpasses.ir", "qpasses.load", "qpasses.evidence", "qpasses.emit"}
"""Rooms that verification may use: data types, reading, proofs, how bodies are swapped."""

PREPARE = {"qpasses.prepare.canonical"}
"""The stage before the rewriting, which is shared: what it imports is not looked at."""

NAMES = {
    "qpasses.ir.stages": {"LOOKUPS", "RECURRENT", "SLOPED", "TABULATED"},
    "qpasses.evidence.prove_pairs": {
        *("add_inputs", "all_pairs", "fast_overload", "kernel_agrees", "real_sum")
    },
    "qpasses.evidence.prove_products": {"mul_inputs", "real_product"},
}
"""What its rules may take of modules that passes use too."""


def imports_of(module):
    """The modules of the package that a module imports, with the names it takes of each."""
    path = ROOT.parent / Path(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("qpasses"):
            yield node.module, {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            yield from ((a.name, {"*"}) for a in node.names if a.name.startswith("qpasses"))


VERIFY = [
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "checking").rglob("*.py")
]
CHECKING = [*(name for name in VERIFY if ".rules" in name), "qpasses.checking.translation"]


def test_verification_shares_no_code_with_what_it_judges():
    waiting, seen = [*VERIFY], set()
    while waiting:
        module = waiting.pop()
        for imported, _ in imports_of(module) if module not in PREPARE else ():
            if imported not in seen:
                seen.add(imported)
                waiting.append(imported)
    rooms = {".".join(name.split(".")[:2]) for name in seen - PREPARE}
    assert rooms - {"qpasses.checking"} == SHARED
    assert seen >= PREPARE


@pytest.mark.parametrize("module", CHECKING)
def test_of_modules_that_choose_the_checker_takes_what_judges(module):
    for imported, names in imports_of(module):
        assert names <= NAMES.get(imported, names), imported


def test_every_op_has_a_rule():
    assert RULES.keys() == PROOFS.keys()


@given(
    st.fractions(min_value=0, max_value=2**20, max_denominator=2**70),
    st.sampled_from([1, 2, 8, 16, 24, 31]),
)
@thoroughly(500)
def test_the_nearest_multiplier_is_that_of_the_opset(scale, bits):
    for each in (scale, scale / 2**40, Fraction(2) ** (scale.denominator % 90 - 70)):
        assert nearest(each, bits) == saturating_multiplier(each, bits)


@given(
    st.lists(st.floats(2.0**-90, 2.0**30), max_size=8),
    st.fractions(min_value=0, max_value=2**9, max_denominator=2**40),
    st.sampled_from([2, 8, 16, 24, 31]),
)
@example([(2 * n + 1) * 2.0**-25 for n in (2**23, 2**23 + 1, 2**24 - 1)], Fraction(1), 24)
@example([2.0**-61, 2.0**-62, 1 - 2.0**-30, 1 + 2.0**-50, 2.0**22, 2.0**21], Fraction(1), 24)
@example([1.0, 2.0**-60], Fraction(1, 10**400), 24)
@thoroughly(300)
def test_the_nearest_multipliers_of_all_channels_are_those_of_each(numbers, factor, bits):
    scales = RealScales(factor, numbers)
    assert [*zip(*all_nearest(scales, bits), strict=True)] == [
        nearest(scale, bits) for scale in scales
    ]


@given(st.integers(-(2**40), 2**40), st.integers(0, 30))
@thoroughly(300)
def test_shifts_round_as_fractions_do(value, shift):
    exact, values = Fraction(value, 1 << shift), np.array([value])
    assert shifted(values, shift, "half_to_even")[0] == round(exact)
    assert shifted(values, shift, "half_up")[0] == (exact + Fraction(1, 2)).__floor__()
    away = (abs(exact) + Fraction(1, 2)).__floor__()
    assert shifted(values, shift, "half_away")[0] == (away if value >= 0 else -away)


def checked(integer, original, feed):
    return Floats.of(integer, original, feed).check(integer)


@given(networks(), seeds)
@thoroughly(40)
def test_random_networks_are_what_they_are_made_from(made, seed):
    made = onnx.shape_inference.infer_shapes(made)
    feeds = random_feeds(made, seed)
    integer = quantize(made, [feeds]).model
    assert checked(integer, made, feeds).differences == []


BODIES = {
    "resized": 'c = Conv (x, w) y = Resize <mode = "linear"> (c, , factors)',
    "chain": "c = Conv (x, w) s = Sigmoid (c) m = Mul (c, s) y = Mul (m, columns)",
    "slopes": "c = Conv (x, w) y = PRelu (c, columns)",
    "pairs": "c = Conv (x, w) d = Conv (x, v) m = Mul (c, d) y = Sub (m, d)",
    "divided": """c = Conv (x, w) d = Conv (x, v) p = Abs (d) q = Sqrt (p) e = Add (q, half)
        y = Div (c, e)""",
    "moved": 'c = Conv (x, w) r = Relu (c) y = Pad <mode = "constant"> (r, grow, half)',
    "joined": "c = Conv (x, w) y = Concat <axis = 1> (c, x)",
    "reduced": "c = Conv (x, w) y = ReduceSum <keepdims = 0> (c, last)",
    "pooled": "c = Conv (x, w) p = AveragePool <kernel_shape = [2, 2]> (c) y = Relu (p)",
    "gaps": "s = Softmax (x) y = AveragePool <kernel_shape = [2, 2], dilations = [2, 2]> (s)",
    "counted": """c = Conv (x, w)
        y = AveragePool <kernel_shape = [2, 2], pads = [0, 1, 1, 0]> (c)""",
    "cut off": """c = Conv (x, w)
        y = AveragePool <kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1> (c)""",
    "turned": "c = ConvTranspose <strides = [2, 2]> (x, w) y = Relu (c)",
    "rows": "c = MatMul (x, matrix) d = Add (row, c) y = Relu (d)",
    "stacks": "c = Conv (x, w) t = Transpose <perm = [0, 1, 3, 2]> (c) y = MatMul (c, t)",
    "repeated": "c = Conv (x, w) y = Resize (c, , whole)",
    "clipped": "c = Conv (x, w) m = MaxPool <kernel_shape = [2, 2]> (c) y = Clip (m, , half)",
    "counted places": """c = Conv (x, w) a = ArgMax <axis = 1> (c) p = Cast <to = 1> (a)
        g = Greater (c, columns) k = Cast <to = 1> (g) m = Mul (c, k) y = Add (m, p)""",
    "places": "c = Conv (x, w) a = ArgMax <axis = 1> (c) y = Cast <to = 1> (a)",
    "biased": "y = Conv (x, w, ones)",
    "asked": "c = Conv (x, w) g = Greater (c, columns) y = Where (g, c, half)",
    "float": "c = Conv (x, w) s = Softmax (c) y = Conv (s, v)",
    "cells": """c = Conv (x, w) s = Squeeze (c, ahead)
        l = LSTM <hidden_size = 3> (s, lw, lr, lb, , , , holes) y = Squeeze (l, behind)""",
    "plain cells": """c = Conv (x, w) s = Squeeze (c, ahead)
        l = LSTM <hidden_size = 3> (s, lw, lr, lb) y = Squeeze (l, behind)""",
    "gates": """c = Conv (x, w) s = Squeeze (c, ahead) y, h =
        GRU <hidden_size = 3, linear_before_reset = 1> (s, gw, gr, gb)""",
    "states": """c = Conv (x, w) s = Squeeze (c, ahead)
        g = GRU <hidden_size = 3> (s, gw, gr, gb, , start) t = Squeeze (g, behind)
        y = RNN <hidden_size = 3, direction = "reverse"> (t, rw, rr)""",
}
CONSTANTS = {
    **{"w": numbers(2, 2, 3, 3), "v": numbers(2, 2, 3, 3, seed=1), "matrix": numbers(6, 6)},
    **{"row": numbers(6), "columns": numbers(2, 1, 1), "half": np.float32(0.5)},
    "factors": np.array([1, 1, 2, 1.5], np.float32),
    "whole": np.array([1, 1, 2, 3], np.float32),
    "grow": np.array([0, 0, 0, 1, 0, 0, 1, 0]),
    **{"last": np.array([-1]), "ones": np.ones(2, np.float32)},
    **{"ahead": np.array([0]), "behind": np.array([1]), "start": numbers(1, 6, 3) / 4},
    **{"lw": numbers(1, 12, 6), "lr": numbers(1, 12, 3, seed=1), "lb": numbers(1, 24)},
    **{"gw": numbers(1, 9, 6), "gr": numbers(1, 9, 3, seed=1), "gb": numbers(1, 18)},
    **{"rw": numbers(1, 3, 3), "rr": numbers(1, 3, 3, seed=1), "holes": numbers(1, 9)},
}
SETTINGS = {
    "default": {},
    "exact": {"exact": True},
    "few codes": {"activation_bits": 5, "narrow_range": True},
    "int8": {"activation_type": "int8", "symmetric": True, "per_channel": False},
    "edges": {"integer_io": True},
    "slopes": {"activation_form": "multiplier"},
    "sums": {"weight_rounding": "sum-preserving"},
    "chosen": {"weight_rounding": "second-order"},
    "corrected": {"bias_correction": "in-sequence"},
    "sizes": {"input_shape": ["1,2,6,6"]},
    "words": {"tensor_types": [".*=int16"]},
    "words of tosa": {"target": "tosa", "tensor_types": [".*=int16"]},
    "litert": {"target": "litert"},
    "words of tflm": {"target": "tflm", "tensor_types": [".*=int16"]},
    "words of litert": {"target": "litert", "tensor_types": [".*=int16"]},
}


def small(body):
    padded = BODIES[body].replace("Conv (", "Conv <pads = [1, 1, 1, 1]> (")
    return onnx.shape_inference.infer_shapes(net([1, 2, 6, 6], padded, **CONSTANTS))


@pytest.mark.thinned
@pytest.mark.parametrize("options", SETTINGS)
@pytest.mark.parametrize("body", BODIES)
def test_every_op_is_what_it_is_made_from_and_no_number_of_it_may_change(body, options):
    original = small(body)
    feeds = random_feeds(original, 1)
    made = quantize(original, [feeds], **SETTINGS[options]).model
    floats = Floats.of(made, original, feeds)
    assert floats.check(made).differences == []
    read = {name for node in made.graph.node for name in node.input}
    for tensor in made.graph.initializer:
        if tensor.name in read:
            assert floats.differences(one_off(made, tensor.name)), tensor.name
    assert floats.check(made).differences == []


def found_in(integer, original, feeds):
    """The differences; a refusal counts as one."""
    try:
        return checked(integer, original, feeds).differences
    except QPassesError as error:
        return [str(error)]


def twice(result):
    return lambda *args, **options: 2 * result(*args, **options)


def next_code(clamp):
    def changed(*args):
        low, high = clamp(*args)
        return low + 1, high

    return changed


def without(geometry, name, value):
    return lambda *args: geometry(*args) | {name: value}


def first_entry_changed(tabulate):
    def changed(*args):
        table = tabulate(*args)
        values = table[0] if isinstance(table, tuple) else table
        values.reshape(-1)[0] ^= 1
        return table

    return changed


def other_multiplier(choose):
    def changed(*args):
        found = choose(*args)
        found.multiplier[0] += 1
        return found

    return changed


FAULTY_PASSES = {
    "conv geometry": ("pairs", integerize_conv, "_geometry", ("pads", [0, 0, 2, 2])),
    "weight scales": ("biased", stored_weights, "BIAS_LIMIT", 1000),
    "weight limit": ("pairs", weights, "LARGEST", 126),
    "clamp": ("pooled", requantized, "clamp", next_code),
    "clip": ("clipped", integerize_clamp, "clamp", next_code),
    "add clamp": ("rows", requantized, "clamp", next_code),
    "multiplier": ("pooled", requantized, "choose_multipliers", other_multiplier),
    "table": ("chain", integerize_chain, "tabulate", first_entry_changed),
    "rescaling": ("joined", integerize_rescaling, "rescaling_table", first_entry_changed),
    "fill": ("moved", integerize_moving, "_fill", twice),
    "taps": ("resized", integerize_resize, "COORDINATES", None),
}


@pytest.mark.thinned
@pytest.mark.parametrize("fault", FAULTY_PASSES)
def test_a_fault_in_a_pass_is_found(fault, monkeypatch):
    body, module, name, how = FAULTY_PASSES[fault]
    original = small(body)
    feeds = random_feeds(original, 1)
    if fault == "taps":
        from qpasses.lowering.numbers import interpolation

        monkeypatch.setitem(
            interpolation.COORDINATES, "half_pixel", interpolation.COORDINATES["asymmetric"]
        )
    else:
        correct = getattr(module, name)
        wrong = without(correct, *how) if isinstance(how, tuple) else how
        monkeypatch.setattr(module, name, wrong(correct) if fault not in FIXED else wrong)
    made = quantize(original, [feeds], bodies="portable", target=TARGET).model
    assert checked(made, original, feeds).differences


FIXED = ("conv geometry", "weight scales", "weight limit")
TARGET = "onnx"


def residual():
    text = """g (float[N, 2, 8, 8] x) => (float[N, 2, 8, 8] y) {
        [one] a = Conv <pads = [1, 1, 1, 1]> (x, w)
        [two] b = Conv <pads = [1, 1, 1, 1]> (a, v)
        [pool] p = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (b)
        [sum] s = Add (p, a)
        [three] y = Conv <pads = [1, 1, 1, 1]> (s, u)
    }"""
    weights = {name: numbers(2, 2, 3, 3, seed=i) for i, name in enumerate("wvu")}
    return model(text, **weights)


@pytest.fixture(scope="module")
def emitted():
    original = residual()
    feeds = {"x": numbers(1, 2, 8, 8)}
    return original, quantize(original, [feeds]).model, feeds


def node_of(made, name):
    return next(node for node in made.graph.node if node.name == name)


def rewire(made):
    three, two = node_of(made, "three"), node_of(made, "two")
    three.input[0] = two.output[0]


def drop(made):
    total, two = node_of(made, "sum"), node_of(made, "two")
    total.input[0] = two.output[0]


def swap(made):
    node = node_of(made, "sum")
    node.input[0], node.input[2] = node.input[2], node.input[0]


def swap_all(made):
    node = node_of(made, "sum")
    order = [2, 3, 0, 1, 5, 4, *range(6, len(node.input))]
    node.input[:] = [node.input[i] for i in order]


def claim(made):
    entry = next(e for e in node_of(made, "two").metadata_props if "source" in e.key)
    entry.value = '["one"]'


def claim_nothing(made):
    entry = next(e for e in node_of(made, "two").metadata_props if "source" in e.key)
    entry.value = "[]"


def change_window(made):
    attribute = next(a for a in node_of(made, "pool").attribute if a.name == "kernel_shape")
    attribute.ints[:] = [1, 1]


def change_op(made):
    node_of(made, "pool").op_type = "AveragePool"


def change_size(made):
    value = made.graph.value_info[0]
    value.type.tensor_type.shape.dim[1].dim_value = 7


def forget_size(made):
    made.graph.value_info[0].type.tensor_type.ClearField("shape")


def add_node(made):
    extra = helper.make_node("Neg", ["y"], ["extra"], name="extra")
    made.graph.node.append(extra)


MUTATIONS = [
    *(rewire, drop, swap, swap_all, claim, claim_nothing, change_window, change_op),
    *(change_size, forget_size),
]


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_a_graph_of_another_structure_is_found(mutate, emitted):
    original, made, feeds = emitted
    changed = onnx.ModelProto()
    changed.CopyFrom(made)
    mutate(changed)
    assert checked(made, original, feeds).differences == []
    assert found_in(changed, original, feeds)


def test_the_coverage_counts_every_node_once(emitted):
    original, made, feeds = emitted
    rules = checked(made, original, feeds).coverage
    assert sum(each["nodes"] for each in rules) == len(nodes_as_onnx(made))
    convolutions = next(each for each in rules if each["rule"] == "IntConv")
    assert convolutions == {"rule": "IntConv", "nodes": 3, "macs": 3 * 8 * 8 * 2 * 2 * 9}


def test_names_of_constants_and_files_do_not_matter(emitted, tmp_path):
    original, made, feeds = emitted
    renamed = onnx.ModelProto()
    renamed.CopyFrom(made)
    names = {t.name: f"constant_{i}" for i, t in enumerate(renamed.graph.initializer)}
    for tensor in renamed.graph.initializer:
        tensor.name = names[tensor.name]
    for node in renamed.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    (tmp_path / "elsewhere").mkdir()
    for position, each in enumerate((made, renamed)):
        path = tmp_path / "elsewhere" / f"{position}.onnx"
        onnx.save(each, path, save_as_external_data=True, location=f"{position}.bin")
        assert qpasses.verify(path, original, [feeds]).verdict == "ok"


def test_without_float_model_or_data_the_verdict_is_incomplete(emitted):
    original, made, feeds = emitted
    alone = qpasses.verify(made)
    assert alone.verdict == "incomplete" and alone.report["model"] is None
    assert len(alone.report["summary"]["because"]) == 2
    compared = qpasses.verify(made, original)
    assert compared.verdict == "incomplete"
    assert compared.report["summary"]["because"] == ["not run on samples (--data)"]
    assert qpasses.verify(made, original, [feeds]).verdict == "ok"
    with pytest.raises(qpasses.UsageError, match="--against"):
        qpasses.verify(made, data=[feeds])


def test_without_data_a_changed_weight_is_found_all_the_same(emitted):
    original, made, _ = emitted
    changed = onnx.ModelProto()
    changed.CopyFrom(made)
    tensor = next(t for t in changed.graph.initializer if "weight_int8" in t.name)
    values = numpy_helper.to_array(tensor).copy()
    values.reshape(-1)[3] ^= 1
    tensor.raw_data = values.tobytes()
    found = qpasses.verify(changed, original)
    assert found.verdict == "failed"
    assert any("'one' (IntConv): w" in each for each in found.report["summary"]["problems"])


def test_a_node_that_nothing_reads_is_found(emitted):
    original, made, feeds = emitted
    changed = onnx.ModelProto()
    changed.CopyFrom(made)
    add_node(changed)
    problems = qpasses.verify(changed, original, [feeds]).report["summary"]["problems"]
    assert any("'extra'" in each for each in problems)


def test_a_node_that_the_user_excluded_must_be_float():
    original = cnn()
    feeds = [{"x": picture[None]} for picture in pictures(3)]
    made = quantize(original, feeds).model
    read = read_integer_model(made, "m")
    context = Context(read.settings)
    real = prepare(original, feeds[0], context)
    name = next(node.name for node in real.nodes if node.op == "Conv")
    found = check(read.graph, read.record, read.settings, read.about, real, {name})
    assert any("excluded" in each for each in found.differences)


def test_a_node_of_a_strange_domain_is_one_line(emitted):
    original, made, feeds = emitted
    changed = onnx.ModelProto()
    changed.CopyFrom(made)
    changed.opset_import.append(helper.make_opsetid("elsewhere", 1))
    node = node_of(changed, "pool")
    node.domain = "elsewhere"
    assert any("'pool'" in each for each in found_in(changed, original, feeds))
    assert node.domain != DOMAIN


def change_entry(node, key, value):
    entry = next(e for e in node.metadata_props if e.key == f"qpasses.{key}")
    entry.value = value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("source", "[3]"), ("source", '["one", "two"]'), ("bounds", "[1.0, null]")],
        *[("bounds", "[{}, null]"), ("macs", "7"), ("cells", "2"), ("scales", "{}")],
    ],
)
def test_a_record_that_was_edited_is_one_line(key, value, emitted):
    original, made, feeds = emitted
    changed = onnx.ModelProto()
    changed.CopyFrom(made)
    change_entry(node_of(changed, "two"), key, value)
    found = found_in(changed, original, feeds)
    assert found and not any("\n" in each for each in found)


@pytest.mark.parametrize("sizes", ["[1]", '{"x": [-1, 2, 8, 8]}', '{"x": 3}', "{}"])
@pytest.mark.parametrize("with_data", [True, False])
def test_recorded_sizes_that_cannot_be_are_refused(sizes, with_data, emitted):
    original, made, feeds = emitted
    changed = onnx.ModelProto()
    changed.CopyFrom(made)
    entry = next(e for e in changed.metadata_props if e.key == "qpasses.sizes")
    entry.value = sizes
    try:
        assert (
            qpasses.verify(changed, original, [feeds] if with_data else None).verdict
            == "failed"
        )
    except qpasses.VerificationError as error:
        assert "sizes" in str(error)


@pytest.mark.parametrize("sizes", ['{"x": [1, 2]}', '{"x": [1, 2, 9, 8]}'])
def test_recorded_sizes_of_another_input_are_found(sizes, emitted):
    original, made, feeds = emitted
    changed = onnx.ModelProto()
    changed.CopyFrom(made)
    next(e for e in changed.metadata_props if e.key == "qpasses.sizes").value = sizes
    assert any("sizes" in each for each in found_in(changed, original, feeds))


def test_a_body_that_the_file_lacks_is_found_without_running_it(emitted):
    original, made, _ = emitted
    for name in ("one", "pool"):
        changed = onnx.ModelProto()
        changed.CopyFrom(made)
        node_of(changed, name).overload += "x"
        try:
            assert qpasses.verify(changed, original).verdict == "failed"
        except qpasses.ModelError as error:
            assert "body" in str(error)


def test_the_probe_of_a_resize_can_look_at_any_zero_point():
    original = small("resized")
    feeds = [{"x": -np.abs(random_feeds(original, seed)["x"])} for seed in range(3)]
    text = 'y = Resize <mode = "linear"> (x, , factors)'
    made = onnx.shape_inference.infer_shapes(net([1, 2, 6, 6], text, **CONSTANTS))
    integer = quantize(made, feeds).model
    assert qpasses.verify(integer, made, feeds).verdict == "ok"
