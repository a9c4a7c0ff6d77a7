"""Each op that has a form as TOSA: nodes in the reference model, integers of the reference."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from onnx import TensorProto
from onnx.helper import tensor_dtype_to_np_dtype

from calibration import Session
from opsets.fixed_point import ROUNDINGS
from opsets.qpasses_v1 import OPS
from opsets.rounding import LAST_STEP
from qpasses.emit.tosa.lowerings import LOWERINGS
from qpasses.emit.tosa.profile import PRO_INT_8K
from tests.support.op_cases import CASES, Case
from tests.support.op_edges import WIDER, anything, edges_of
from tests.support.standard_nodes import STANDARD, moved_first, side_by_side, standard_model
from tests.support.thoroughness import THOROUGH, exactly
from tests.support.tosa_nodes import (
    Running,
    emitted_program,
    expected,
    needs_tools,
    refusal,
    refusal_of,
    run_nodes,
)

LOWERED = [name for name in OPS if name in LOWERINGS]
every_lowered_op = pytest.mark.parametrize("name", LOWERED)

NODES = {
    **dict.fromkeys(("ILayerNorm", "IntLayerNorm", "IntLogSoftmax"), 15),
    **dict.fromkeys(("IBertSoftmax", "IntRescaledAdd", "IntRescaledSub"), 30),
    **dict.fromkeys(("GemmlowpSoftmax", "ShiftGelu", "Shiftmax"), 30),
    **dict.fromkeys(("TableSoftmax", "TableSoftmax16"), 30),
}
"""Random ones for `make thorough`, of other ops 45: these have long programs."""

FEW = 4
"""Random ones for `make test`, beside all edges."""

REFUSED_EDGES = {
    ("IntCountedAveragePool", "three dimensions"): "an average over three dimensions",
    ("IntLayerNorm", "words, radicands of more than 62 bits"): "a variance of more than 62",
    **{
        ("IntCountedAveragePool", f"three dimensions, {ends}"): "an average over three dim"
        for ends in WIDER
    },
    **{
        ("IntCast", f"{of}, {kind}"): "TOSA has integers up to 32 bits"
        for of in ("uint16", "uint32")
        for kind in ("whole", "ties")
    },
    **{
        ("IntMaxPool", f"dilated, {codes}"): "its windows have no gaps"
        for codes in ("in order", "any", "lowest")
    },
}
"""What is refused of ``edges_of``, by op and kind, and a part of the message."""


@pytest.fixture(autouse=True)
def large_caches_of_memory(monkeypatch):
    """tosa-opt allocates and frees nearly all its time: with them it takes half as long."""
    tunables = "glibc.malloc.tcache_max=65536:glibc.malloc.tcache_count=2000"
    monkeypatch.setenv("GLIBC_TUNABLES", tunables)


def shifts_to_the_left(_inputs, attributes):
    return attributes["rounding"] in LAST_STEP


def has_words(inputs, _attributes):
    return np.int16 in (inputs["x_zero"].dtype, inputs["y_zero"].dtype)


def is_over_volumes(_inputs, attributes):
    return len(attributes["kernel_shape"]) == 3


def has_gaps(_inputs, attributes):
    return max(attributes["dilations"]) > 1


def leaves_rows_behind_pads(_inputs, attributes):
    return any(attributes.get("pads", [])) and max(attributes.get("strides", [1])) > 1


def has_no_exponential_of_zero(inputs, _attributes):
    return inputs["denominators"][0] < 1


def has_long_squares(inputs, attributes):
    return attributes["cells"] << 16 * inputs["x"].itemsize >= 1 << 30


def reads_words(inputs, _attributes):
    return inputs["x"].dtype == np.int16


def multiplies_words(inputs, _attributes):
    return np.int16 in (inputs["a"].dtype, inputs["b"].dtype)


def sums_beyond_31_bits(inputs, attributes):
    longest = inputs["x"].shape[attributes["axis"]]
    return int(inputs["denominators"].max()) * longest >= 1 << 31


def has_types_that_tosa_lacks(_inputs, attributes):
    return attributes["of"] in ("uint16", "uint32")


WINDOWED = "IntConv", "IntConvPerChannel", "IntAveragePool", "IntCountedAveragePool"
WRAPS = "its sums wrap as they are shifted to the left"
REFUSED_AT_RANDOM = [
    ("tensor 'x_0' is uint", ["IntCast"], has_types_that_tosa_lacks),
    (WRAPS, OPS, shifts_to_the_left),
    ("its sums of 16-bit integers leave int32", ["IntMatMul"], multiplies_words),
    ("its sums of 16-bit integers leave int32", ["IntConv", "IntGemm"], reads_words),
    ("it multiplies 16-bit integers with a zero point", ["IntMatMul"], multiplies_words),
    ("max_pool2d gives no positions, and", ["IntMaxPool"], has_gaps),
    ("an average over three dimensions", ["IntCountedAveragePool"], is_over_volumes),
    ("its windows read padding alone", WINDOWED, leaves_rows_behind_pads),
    ("a sum of exponentials that is neg", ["TableSoftmax"], sums_beyond_31_bits),
    ("a sum of exponentials that is no", ["IntLogSoftmax"], has_no_exponential_of_zero),
    ("a variance of more than 62 bits", ["IntLayerNorm"], has_words),
    ("rows whose squares have more than 30 bits", ["ILayerNorm"], has_long_squares),
]
"""A part of the message, the ops, and what holds for each node that is refused so."""


def at_an_end(op, case):
    """The node on the lowest code or the highest, all over."""
    inputs = [*case.inputs]
    for place, (name, x) in enumerate(zip(op.inputs, inputs, strict=True)):
        if name in op.data and x.dtype != np.bool_:
            limits = np.iinfo(x.dtype)
            inputs[place] = np.full_like(x, limits.min if x.size % 2 else limits.max)
    return Case(inputs, case.attributes)


def drawn(name):
    """Random nodes; TOSA has no tensors without elements."""
    found = []

    @exactly(NODES.get(name, 45) if THOROUGH else FEW)
    @given(CASES[name])
    def draw(case):
        assume(all(np.size(array) for array in case.inputs))
        found.append(case)

    draw()
    return found


def is_known(name, case, reason):
    inputs = dict(zip(OPS[name].inputs, case.inputs, strict=True))
    return any(
        reason.startswith(part) and name in ops and holds(inputs, case.attributes)
        for part, ops, holds in REFUSED_AT_RANDOM
    )


def compare(name, cases, folder, profile=PRO_INT_8K):
    """All of them in one program: no integer differs."""
    elements = 0
    for label, found, exact in run_nodes(OPS[name], cases, folder, profile):
        assert np.array_equal(found, exact), (label, cases[label], found, exact)
        elements += exact.size
    assert elements >= len(cases)


@pytest.mark.thinned
@needs_tools
@every_lowered_op
def test_nodes_give_the_integers_of_the_reference(name, tmp_path):
    op, taken = OPS[name], {}
    for place, case in enumerate(drawn(name)):
        if reason := refusal(op, case):
            assert is_known(name, case, reason), (reason, case)
            continue
        taken[f"random {place}"] = case
        if place % 3 == 0:
            taken[f"random {place}, at an end"] = at_an_end(op, case)
    for label, case in edges_of(name).items():
        part = REFUSED_EDGES.get((name, label[-1]))
        if part is None:
            taken[label] = case
        else:
            assert part in refusal(op, case), label
    compare(name, taken, tmp_path)


NEVER_NEGATIVE = "TableSoftmax", "TableSoftmax16", "Shiftmax", "IBertSoftmax"


def can_differ(name, rounding, other):
    """Whether nodes that round so must show that they do not round as the other."""
    alike = [{"half_up", "half_away"}, {*LAST_STEP}] if name in NEVER_NEGATIVE else []
    if "half_to_even_in_double" in (rounding, other) or {rounding, other} in alike:
        return False  # products that are exact in double
    return rounding in LAST_STEP or other in ROUNDINGS


@pytest.mark.parametrize("name", [name for name in LOWERED if OPS[name].roundings])
def test_the_edges_tell_each_rounding_from_the_others(name):
    op, missing = OPS[name], set(permutations(OPS[name].roundings, 2))
    missing = {pair for pair in missing if can_differ(name, *pair)}
    for (_, rounding, _), case in edges_of(name).items():
        exact = expected(op, case)
        left = [other for each, other in missing if each == rounding]
        for other in left if "bias_rests" not in case.attributes else ():
            if case.attributes.get("mean") == 1 and other in LAST_STEP:
                continue  # divides once
            changed = Case(case.inputs, {**case.attributes, "rounding": other})
            if (expected(op, changed) != exact).any():
                missing.discard((rounding, other))
    assert not missing


# ONNX's own ops


REFUSED_STANDARD = {
    ("MaxPool", "dilated"): "its windows have no gaps",
    ("MaxPool", "with positions"): "max_pool2d gives no positions",
    ("ScatterElements", "the larger"): "it takes the largest or the smallest",
    ("ScatterND", "the smaller"): "it takes the largest or the smallest",
    ("Slice", "nothing"): "it takes nothing of an axis",
    ("TopK", "too many"): "the 300 largest of 300",
}
"""What is refused of ``STANDARD``, and a part of the message."""


def stored_at_random(made):
    """Anything for each input of a model."""
    rng = np.random.default_rng(0)
    for value in made.graph.input:
        kind = value.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        if kind.elem_type == TensorProto.BOOL:
            yield value.name, rng.random(shape) < 0.5
        else:
            yield value.name, anything(rng, shape, tensor_dtype_to_np_dtype(kind.elem_type))


@pytest.mark.thinned
@needs_tools
@pytest.mark.parametrize("moved", [False, True], ids=["as they are", "behind a Transpose"])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_standard_ops_give_the_integers_of_onnxruntime(dtype, moved, tmp_path):
    taken = {}
    for op, kinds in STANDARD.items():
        for kind in kinds:
            made = standard_model(op, kind, dtype)
            made = moved_first(made) if moved else made
            part, reason = REFUSED_STANDARD.get((op, kind), ""), refusal_of(made)
            assert part in reason and bool(part) == bool(reason), (op, kind, reason)
            if not reason:
                taken[f"{op}, {kind}"] = made
    whole = side_by_side(taken)
    feed = dict(stored_at_random(whole))
    found = Running(emitted_program(whole), tmp_path).run(feed)
    session = Session(whole, optimize=False)
    theirs = session.run(session.outputs, feed)
    labels = {node.output[0]: node.name for node in whole.graph.node}
    wrong = [
        labels.get(name, name)
        for name, ours, exact in zip(session.outputs, found, theirs, strict=True)
        if not np.array_equal(ours, exact)
    ]
    assert not wrong


def test_every_op_with_a_form_is_run_here():
    assert {*LOWERED, *STANDARD} == LOWERINGS.keys()


# Numbers that are always 0, or too large; tensors of nothing


def u8(*numbers):
    return [np.array(each, np.uint8) for each in numbers]


def i32(*numbers):
    return [np.array(each, np.int32) for each in numbers]


PAIR = [
    np.arange(6, dtype=np.uint8).reshape(2, 3),
    *u8(0),
    np.arange(3, dtype=np.uint8),
    *u8(0),
]
ENDS, EVEN = u8(100, 0, 255), {"rounding": "half_to_even"}
KERNEL = [np.ones((1, 2, 1, 1), np.int8), np.zeros((), np.int8)]
BORDERS = {
    "IntRescaledAdd": Case([*PAIR, *i32(0, 0, 31, 1 << 30, 31, 1 << 30, 30), *ENDS], EVEN),
    "IntReduce": Case(
        [PAIR[0], *u8(10), *i32(0, 22), *ENDS],
        {"axes": [-1], "keepdims": 1, "mean": 1, **EVEN},
    ),
    "Shiftmax": Case(
        [PAIR[0], *i32(0, 22), *ENDS],
        {"axis": -1, "x0": -16, "fraction_bits": 15, "output_bits": 8, **EVEN},
    ),
    "IBertSoftmax": Case(
        [PAIR[0], *i32(263, 40, 1 << 23, 31), *ENDS],
        {
            **{"axis": -1, "x0": -1, "b": 1, "c": 1, "fraction_bits": 30},
            **{"output_bits": 8, "rounding": "tflite_double"},
        },
    ),
    "ShiftGelu": Case(  # exponentials that add up to more than 31 bits
        [*u8([0, 0, 255], 255), *i32(1 << 23, 31), *ENDS],
        {"axis": -1, "x0": -242, "fraction_bits": 23, "output_bits": 8, **EVEN},
    ),
    "TableSoftmax": Case(  # one code alone
        [PAIR[0], np.arange(256, dtype=np.int32), np.arange(256), *u8(100, 7, 7)],
        {"axis": -1, "published": 0, **EVEN},
    ),
    "IntLayerNorm": Case(  # squares of words that add up to more than 31 bits
        [
            np.where(np.arange(1280).reshape(2, 640) % 2, 32767, -32768).astype(np.int16),
            np.int16(0),
            np.full(640, 1 << 22, np.int32),
            np.zeros(640, np.int64),
            np.int32(38),
            np.int64(1000),
            *ENDS,
        ],
        {"axis": -1, "cells": 640, "centered": 1, "root_bits": 4, "factor_bits": 52}
        | {"norm_bits": 20, **EVEN},
    ),
    "IntConv": Case(
        [np.zeros((1, 2, 1, 1), np.uint8), *u8(0), *KERNEL, *i32([0], [0], [2]), *ENDS],
        {"bias_rests": [1000], **EVEN},
    ),
}


@needs_tools
@pytest.mark.parametrize("name", BORDERS)
def test_a_node_at_a_border_of_its_numbers_gives_the_integers_of_the_reference(name, tmp_path):
    compare(name, {"it": BORDERS[name]}, tmp_path)


def test_an_average_whose_sums_wrap_is_refused():
    inputs = [np.full((1, 1, 1), 13, np.uint8), *u8(255), *i32([2], [1]), *ENDS]
    attributes = {"channels": 1, "spatial_shape": [1], "rounding": "ruy"}
    assert refusal(OPS["IntGlobalAveragePool"], Case(inputs, attributes)) == WRAPS


def test_a_tensor_without_elements_is_refused():
    table = np.arange(256, dtype=np.uint8)
    assert refusal(OPS["Lut"], Case([np.zeros((0, 3), np.uint8), table], {}))
