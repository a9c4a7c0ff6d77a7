"""Small graphs through the stages, and what is checked of each: for the tests of passes."""

from dataclasses import dataclass

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from calibration import Range, Session, collect, input_specs, open_samples
from opsets.target import load_target
from qpasses.emit.integer import emit_integer
from qpasses.emit.provenance import Provenance
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.prove import prove
from qpasses.ir.interchange import prepared_model
from qpasses.ir.moving import MOVING
from qpasses.ir.order import tidy
from qpasses.ir.rewriting import Context, run_passes
from qpasses.ir.runtime import IR_VERSION, OPSET
from qpasses.ir.settings import Settings
from qpasses.lowering import INTEGERIZE
from qpasses.place.alignment import align
from qpasses.place.placement import place
from qpasses.place.planning import plan
from qpasses.prepare.canonical import prepare
from tests.support.small_models import model, numbers

NEAR_A_TIE = 1e-6
"""So close to a tie, in LSB, float64 cannot tell which way real arithmetic rounds."""

NEAR_A_TIE_OF_FLOAT32 = 2.0**-6
"""Nor float32, in which tables are computed, of 32,768 steps."""

seeds = st.integers(0, 999)
small = st.integers(1, 3)
flags = st.booleans()


def net(shape, body, /, *, outputs="float[] y", **weights):
    """The model of ``body``, in ONNX's text, from x of ``shape``."""
    text = f"g (float[{', '.join(map(str, shape))}] x) => ({outputs}) {{ {body} }}"
    return model(text, opset=OPSET, ir_version=IR_VERSION, **weights)


def float32(*values):
    return np.array(values, np.float32)


def int64(*values):
    return np.array(values, np.int64)


def run(made, feeds, wanted=None):
    return Session(made, optimize=False, threads=1).run(wanted, feeds)


def normalization(channels, seed):
    gamma, beta, mean, var = numbers(4, channels, seed=seed)
    return {"gamma": gamma, "beta": beta, "mean": mean, "var": np.abs(var) + np.float32(0.1)}


@dataclass
class Stages:
    """A float model placed and integerized, with what was recorded on the way."""

    placed: onnx.ModelProto
    integer: onnx.ModelProto
    context: Context
    evidence: dict[str, NodeEvidence]
    ranges: dict[str, Range]


def stages(made, feeds, aligning=align, **options):
    """The stages of the pipeline, calibrated on ``feeds``; ``options`` are settings.

    ``aligning`` makes of the graph, its plan and the range of each tensor those to store.
    """
    context = Context(Settings(load_target("onnx"), **options))
    graph = prepare(made, feeds, context)
    chosen = plan(graph, context)
    samples = open_samples([feeds], input_specs(made))
    found = collect(prepared_model(graph), list(chosen.tensors), samples).tensors
    ranges = {name: seen.range for name, seen in found.items()}
    place(graph, chosen, aligning(graph, chosen, ranges), context)
    tidy(graph)
    placed = prepared_model(graph)
    run_passes(INTEGERIZE, graph, context)
    evidence = {each.name: each for each in prove(graph, context.record)}
    integer = emit_integer(graph, context.record, Provenance("", "", {}))
    return Stages(placed, integer, context, evidence, ranges)


def stored_integers(found, made, feeds):
    """The stored tensors that the integer graph writes, by name, as ``made`` computes them."""
    written = {name for node in found.integer.graph.node for name in node.output}
    names = [name for name in found.context.record.tensors if name in written]
    known = {value.name: value for value in made.graph.value_info}
    seen = onnx.ModelProto()
    seen.CopyFrom(made)
    seen.graph.output.extend(known[name] for name in names)
    return dict(zip(names, run(seen, feeds, names), strict=True)) if names else {}


def check_against_real_arithmetic(found, feeds):
    """Each stored tensor of the integer graph, from the stored tensors before it.

    The Q/DQ graph is computed in float64, but goes on from the integers that were stored: so
    every node is judged by itself, and may be off by no more than its evidence counts.
    """
    integers = stored_integers(found, found.integer, feeds)
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in found.placed.graph.initializer}
    values, allowed = {**constants, **feeds}, lsb_allowed(found)
    nodes = found.integer.graph.node
    tables = {node.output[0] for node in nodes if node.op_type.startswith("Lut")}
    for node in found.placed.graph.node:
        inputs = {name: values[name] for name in node.input if name}
        if node.op_type == "DequantizeLinear":
            values[node.output[0]] = dequantize(node, *inputs.values())
        elif node.op_type == "QuantizeLinear":
            name, (real, scale, zero) = node.output[0], inputs.values()
            values[name] = integers[name]
            if np.shape(real) != integers[name].shape:  # of MaxPool in 1D it drops pads
                raise ValueError(f"onnx's evaluator gives {name} another shape")
            if name in allowed:
                level = real / np.float64(scale) + zero
                is_wide_table = zero.dtype == np.int16 and name in tables
                near = NEAR_A_TIE_OF_FLOAT32 if is_wide_table else NEAR_A_TIE
                sure = np.abs(level - np.floor(level) - 0.5) > near
                limits = np.iinfo(zero.dtype)
                gap = np.abs(np.clip(np.rint(level), limits.min, limits.max) - integers[name])
                assert gap.max() <= max(1, allowed[name]), name  # lines are 4 off at most
                assert gap[sure].max(initial=0) <= allowed[name], name
        else:
            results = ReferenceEvaluator(node).run(
                None, {k: widened(v) for k, v in inputs.items()}
            )
            values |= zip(node.output, results, strict=True)


def lsb_allowed(found):
    """By stored tensor that an integer node writes: how far from real arithmetic it may be."""
    return {
        node.output[0]: found.evidence[node.name].reference_max_lsb
        for node in found.integer.graph.node
        if node.name in found.evidence
    }


def dequantize(node, stored, scale, zero):
    if scale.ndim:
        column = np.ones(stored.ndim, int)
        column[onnx.helper.get_node_attr_value(node, "axis")] = -1
        scale, zero = scale.reshape(column), zero.reshape(column)
    return (stored.astype(np.float64) - zero) * scale.astype(np.float64)


def widened(values):
    return values.astype(np.float64) if values.dtype == np.float32 else values


def check(found, feeds):
    assert [each.name for each in found.evidence.values() if not each.proved] == []
    assert all(each.reference_max_lsb <= 1 for each in found.evidence.values())
    check_against_real_arithmetic(found, feeds)


def random_feeds(made, seed):
    return {
        value.name: numbers(
            *[d.dim_value for d in value.type.tensor_type.shape.dim], seed=seed
        )
        for value in made.graph.input
    }


def check_single_op(made, seed, ops, **options):
    """Only ``ops`` on integers, each stored tensor at most 1 LSB from onnxruntime's floats."""
    found = stages(made, random_feeds(made, seed), **options)
    left = [node.op_type for node in found.integer.graph.node]
    assert [op for op in left if op not in ("QuantizeLinear", "DequantizeLinear")] == ops
    others = random_feeds(made, seed + 1)
    check(found, others)
    integers = stored_integers(found, found.integer, others)
    for name, expected in stored_integers(found, found.placed, others).items():
        assert np.abs(integers[name].astype(int) - expected).max() <= 1, name


BOUNDS = {"low": np.float32(-0.5), "high": np.float32(0.75)}


STEPS = [
    *["{t} = Conv <pads = [1, 1, 1, 1]> ({a}, w3)", "{t} = Conv <group = 2> ({a}, w1)"],
    *["{t} = Add ({a}, {b})", "{t} = Add ({a}, {b})", "{t} = Add (row, {a})"],
    *["{t} = MatMul ({a}, matrix)", "{t} = MatMul ({a}, {b})", "{t} = MatMul (stack, {a})"],
    "{t}_g = GlobalAveragePool ({a}) {t} = Add ({b}, {t}_g)",
    "{t}_p = Pad ({a}, grow) {t} = AveragePool <kernel_shape = [2, 1]> ({t}_p)",
    *["{t} = Relu ({a})", "{t} = Relu ({a})", "{t} = Clip ({a}, low, high)"],
    "{t} = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> ({a})",
    "{t}_p = Pad ({a}, grow, high) {t} = Slice ({t}_p, zero, four, axis)",
    "{t}_c = Concat <axis = 2> ({a}, {b}) {t} = Slice ({t}_c, zero, four, axis)",
    *["{t} = Transpose <perm = [0, 1, 3, 2]> ({a})", "{t} = Reshape ({a}, shape)"],
    "{t} = Softmax ({a})",
]
"""Steps of a network, from a (and b) to t, all of the shape [1, 2, 4, 4]."""

CONSTANTS = {
    **{"w3": numbers(2, 2, 3, 3), "w1": numbers(2, 1, 1, 1), "matrix": numbers(4, 4)},
    "stack": numbers(2, 4, 4),
    **{"row": numbers(4), "grow": int64(0, 0, 0, 0, 0, 0, 1, 0), "shape": int64(0, 0, -1, 4)},
    **{
        "zero": int64(0),
        "four": int64(4),
        "axis": int64(2),
        "w": numbers(1, 2, 1, 1),
        **BOUNDS,
    },
}


@st.composite
def networks(draw):
    """Random steps between random tensors; the last leaves, and others may."""
    names, lines, outputs = ["x"], [], []
    for position in range(draw(st.integers(1, 7))):
        sources = st.sampled_from(names[-3:])
        step, target = draw(st.sampled_from(STEPS)), f"t{position}"
        lines.append(step.format(t=target, a=draw(sources), b=draw(sources)))
        names.append(target)
        outputs += [f"float[] {target}"] if draw(st.integers(0, 3)) == 0 else []
    body = " ".join([*lines, f"y = Conv ({names[-1]}, w)"])
    return net([1, 2, 4, 4], body, outputs=", ".join([*outputs, "float[] y"]), **CONSTANTS)


def check_tied_tensors(found):
    """What a moving node reads and writes in the Q/DQ graph has one quantization."""
    placed, meaning = found.placed.graph.node, found.context.record.tensors
    stored = {n.output[0]: n.input[0] for n in placed if n.op_type == "DequantizeLinear"}
    after = {n.input[0]: n.output[0] for n in placed if n.op_type == "QuantizeLinear"}
    for node in placed:
        if node.op_type in MOVING and node.input[0] in stored:
            around = {stored[name] for name in node.input if name in stored}
            assert len({meaning[name] for name in {*around, after[node.output[0]]}}) == 1
