"""Passes keep results: PREPARE on float graphs, place and INTEGERIZE on stored integers."""

from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator
from small_models import model, numbers

from calibration import Range, Session, collect
from opsets.target import load_target
from qpasses.alignment import align
from qpasses.emit.integer import emit_integer
from qpasses.emit.provenance import Provenance
from qpasses.evidence.certificate import NodeEvidence
from qpasses.evidence.prove import prove
from qpasses.graph import import_graph, is_graph_output, tidy
from qpasses.passes import INTEGERIZE, PREPARE
from qpasses.passes.base import Context, run_passes
from qpasses.passes.canonicalize_gemm import CanonicalizeGemm
from qpasses.passes.fold_add_into_conv import FoldAddIntoConv
from qpasses.passes.fold_batch_normalization import FoldBatchNormalization
from qpasses.passes.integerize_conv import IntegerizeConv
from qpasses.passes.remove_identity import RemoveIdentity
from qpasses.passes.resolve_auto_pad import ResolveAutoPad
from qpasses.passes.sum_to_add import SumToAdd
from qpasses.placement import place
from qpasses.planning import plan
from qpasses.prepare import prepare, prepared_model
from qpasses.runtime import IR_VERSION, OPSET
from qpasses.settings import Settings
from qpasses.shapes import infer_shapes
from qpasses.stages import CLAMPING, MOVING

NEAR_A_TIE = 1e-6
"""So close to a tie, in LSB, float64 cannot tell which way real arithmetic rounds."""

seeds = st.integers(0, 999)
small = st.integers(1, 3)
flags = st.booleans()


def thoroughly(examples):
    return settings(deadline=None, derandomize=True, database=None, max_examples=examples)


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


# PREPARE: float graphs compute the same before and after


def ops_after(each, made, seed=0):
    """The op types that the pass leaves, which keeps results, as all of PREPARE does."""
    inputs = made.graph.input
    shapes = {x.name: [d.dim_value for d in x.type.tensor_type.shape.dim] for x in inputs}
    feeds = {name: numbers(*shape, seed=seed + 1) for name, shape in shapes.items()}
    expected, left = run(made, feeds), []
    for passes in ([each], PREPARE):
        graph = import_graph(infer_shapes(made))
        run_passes(passes, graph, Context(Settings(load_target("onnx"))))
        left.append([node.op for node in graph.nodes])
        for before, after in zip(expected, run(prepared_model(graph), feeds), strict=True):
            assert (after.shape, after.dtype) == (before.shape, before.dtype)
            assert np.abs(after - before).max() <= 1e-5 * np.abs(before).max()
    return left[0]


def normalization(channels, seed):
    gamma, beta, mean, var = numbers(4, channels, seed=seed)
    return {"gamma": gamma, "beta": beta, "mean": mean, "var": np.abs(var) + np.float32(0.1)}


@thoroughly(40)
@given(seed=seeds, spatial=small, groups=small, bias=flags, epsilon=st.sampled_from([0, 0.5]))
def test_batch_normalization_folds_into_conv(seed, spatial, groups, bias, epsilon):
    channels, kernel = 2 * groups, [2] * spatial
    weights = {"w": numbers(channels, 2, *kernel, seed=seed)}
    weights |= {"b": numbers(channels, seed=seed)} if bias else {}
    made = net(
        [2, channels, *[4] * spatial],
        f"""c = Conv <group = {groups}> (x, {", ".join(weights)})
        y = BatchNormalization <epsilon = {epsilon:.1f}> (c, gamma, beta, mean, var)""",
        **weights,
        **normalization(channels, seed),
    )
    assert ops_after(FoldBatchNormalization(), made, seed) == ["Conv"]


@thoroughly(40)
@given(
    seed=seeds,
    bias=st.sampled_from([None, [3], [1, 3], [1], [], [1, 1], [3, 1], [3, 3]]),
    transposed=flags,
)
def test_batch_normalization_folds_into_a_gemm_with_a_bias_per_column(bias, seed, transposed):
    weights = {"w": numbers(3, 3, seed=seed)}
    weights |= {} if bias is None else {"b": numbers(*bias, seed=seed)}
    made = net(
        [3, 3],
        f"""c = Gemm <transB = {int(transposed)}> (x, {", ".join(weights)})
        y = BatchNormalization (c, gamma, beta, mean, var)""",
        **weights,
        **normalization(3, seed),
    )
    left = ops_after(FoldBatchNormalization(), made, seed)
    assert (left == ["Gemm"]) == (bias in (None, [3], [1, 3]))


@thoroughly(20)
@given(seed=seeds, spatial=small, read_twice=flags)
def test_batch_normalization_alone_becomes_a_depthwise_conv(seed, spatial, read_twice):
    made = net(
        [2, 3, *[4] * spatial],
        """c = Conv (x, w)
        y = BatchNormalization (INPUT, gamma, beta, mean, var)
        z = Abs (c)""".replace("INPUT", "c" if read_twice else "x"),
        outputs="float[] y, float[] z",
        w=numbers(3, 3, *[1] * spatial, seed=seed),
        **normalization(3, seed),
    )
    assert sorted(ops_after(FoldBatchNormalization(), made, seed)) == ["Abs", "Conv", "Conv"]


def test_batch_normalization_behind_scaled_gemm_or_matmul_stays():
    constants = {"w": numbers(3, 3), **normalization(3, 0)}
    for product in ("Gemm <alpha = 2.0>", "Gemm <transA = 1>", "MatMul"):
        text = f"c = {product} (x, w) y = BatchNormalization (c, gamma, beta, mean, var)"
        left = ops_after(FoldBatchNormalization(), net([3, 3], text, **constants))
        assert ("BatchNormalization" in left) == ("transA" not in product)


@thoroughly(30)
@given(
    shapes=st.lists(st.sampled_from([(), (3,), (2, 1), (2, 3), (4, 1, 3)]), max_size=3),
    first=st.booleans(),
)
def test_a_sum_becomes_adds(shapes, first):
    constants = {f"k{i}": numbers(*shape, seed=i) for i, shape in enumerate(shapes)}
    terms = ["x", *constants] if first else [*constants, "x"]
    left = ops_after(SumToAdd(), net([2, 3], f"y = Sum ({', '.join(terms)})", **constants))
    assert left == (["Add"] * len(shapes) or ["Identity"])


@thoroughly(40)
@given(
    nodes=st.lists(
        st.tuples(st.sampled_from(["Identity", "Dropout", "Relu"]), st.integers(0, 9), flags),
        min_size=1,
        max_size=6,
    )
)
@example(nodes=[("Identity", 0, True)])
@example(nodes=[("Relu", 0, True), ("Identity", 1, True), ("Identity", 1, True)])
@example(nodes=[("Relu", 0, False), ("Identity", 1, True), ("Dropout", 2, True)])
def test_identities_go_but_outputs_keep_their_names(nodes):
    names, lines, outputs = ["x"], [], ["float[] last"]
    for position, (op, source, leaves) in enumerate(nodes):
        lines.append(f"t{position} = {op} ({names[source % len(names)]})")
        names.append(f"t{position}")
        outputs += [f"float[] t{position}"] if leaves else []
    made = net([4], f"{' '.join(lines)} last = Neg ({names[-1]})", outputs=", ".join(outputs))
    left = ops_after(RemoveIdentity(), made)
    inner = len(nodes) - len(outputs) + 1
    assert sum(op in ("Identity", "Dropout") for op in left) <= len(nodes) - inner


@thoroughly(40)
@given(
    seed=seeds,
    leading=st.sampled_from([[2], [1, 2], [2, 1, 2]]),
    bias=st.sampled_from([None, [], [1], [3], [1, 3], [2, 1], [2, 3], [1, 1, 3]]),
    bias_first=flags,
)
def test_a_matrix_product_and_its_bias_become_a_gemm(seed, leading, bias, bias_first):
    made = net(
        [*leading, 4],
        "y = MatMul (x, w)"
        if bias is None
        else f"p = MatMul (x, w) y = Add ({'b, p' if bias_first else 'p, b'})",
        w=numbers(4, 3, seed=seed),
        **({} if bias is None else {"b": numbers(*bias, seed=seed)}),
    )
    left = ops_after(CanonicalizeGemm(), made, seed)
    assert ("Gemm" in left) == (len(leading) == 1)
    row = bias in ([], [1], [3], [1, 3])
    assert ("Add" in left) == (bias is not None and not (row and len(leading) == 1))


@thoroughly(60)
@given(
    seed=seeds,
    transposed=flags,
    alpha=st.sampled_from([1.0, 0.25, -3.0, 0.0]),
    beta=st.sampled_from([1.0, 0.25, -3.0, 0.0]),
    bias=st.sampled_from([None, [], [1], [3], [1, 3], [1, 1], [2, 1], [2, 3]]),
)
def test_the_factors_of_a_gemm_go_into_its_constants(seed, transposed, alpha, beta, bias):
    assume(alpha != 0 or (bias is not None and beta != 0))
    weights = {"w": numbers(*([3, 4] if transposed else [4, 3]), seed=seed)}
    weights |= {} if bias is None else {"b": numbers(*bias, seed=seed)}
    made = net(
        [2, 4],
        f"y = Gemm <alpha = {alpha}, beta = {beta}, transB = {int(transposed)}>"
        f" (x, {', '.join(weights)})",
        **weights,
    )
    assert ops_after(CanonicalizeGemm(), made, seed) == ["Gemm"]


sizes = st.lists(
    st.tuples(st.integers(1, 9), st.integers(1, 4), small), min_size=1, max_size=3
)


@thoroughly(150)
@given(
    op=st.sampled_from(["Conv", "MaxPool", "AveragePool"]),
    mode=st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"]),
    sizes=sizes,
    dilation=st.integers(1, 2),
    ceil=st.integers(0, 1),
    counted=st.integers(0, 1),
)
def test_auto_pad_is_what_its_pads_say(op, mode, sizes, dilation, ceil, counted):
    size, kernel, strides = (list(each) for each in zip(*sizes, strict=True))
    dilation = dilation if mode == "VALID" else 1  # onnxruntime refuses the others, and
    # pools whose windows leave gaps
    reach = [(k - 1) * dilation + 1 for k in kernel]
    assume(mode != "VALID" or all(n >= r for n, r in zip(size, reach, strict=True)))
    assume(op == "Conv" or all(k >= s for k, s in zip(kernel, strides, strict=True)))
    attributes = f'auto_pad = "{mode}", strides = {strides}, kernel_shape = {kernel}'
    attributes += f", dilations = {[dilation] * len(sizes)}"
    attributes += {
        "Conv": "",
        "MaxPool": f", ceil_mode = {ceil}",
        "AveragePool": f", ceil_mode = {ceil}, count_include_pad = {counted}",
    }[op]
    weights = {"w": numbers(2, 2, *kernel)} if op == "Conv" else {}
    made = net(
        [1, 2, *size], f"y = {op} <{attributes}> ({', '.join(['x', *weights])})", **weights
    )
    graph = import_graph(infer_shapes(made))
    run_passes([ResolveAutoPad()], graph, Context(Settings(load_target("onnx"))))
    assert "auto_pad" not in graph.nodes[0].attrs
    assert ops_after(ResolveAutoPad(), made) == [op]


@pytest.mark.parametrize(
    ("shape", "folds"),
    [
        *[([], True), ([1], True), ([3, 1, 1], True), ([1, 3, 1, 1], True), ([1] * 4, True)],
        *[([3], False), ([3, 1], False), ([2, 1, 3, 1], False), ([3, 3, 3], False)],
        *[([1, 3, 1, 3], False), ([2, 1, 1, 1], False), ([1, 1, 3, 1, 1], False)],
    ],
)
@thoroughly(10)
@given(seed=seeds, bias=flags, constant_first=flags, shared=flags)
def test_a_constant_per_channel_joins_the_bias(
    shape, folds, seed, bias, constant_first, shared
):
    weights = {"w": numbers(3, 3, 1, 1, seed=seed)}
    weights |= {"b": numbers(3, seed=seed)} if bias else {}
    made = net(
        [2, 3, 3, 3],
        f"""c = Conv (x, {", ".join(weights)})
        y = Add ({"k, c" if constant_first else "c, k"})
        z = Abs ({"c" if shared else "x"})""",
        outputs="float[] y, float[] z",
        **weights,
        k=numbers(*shape, seed=seed),
    )
    assert ("Add" in ops_after(FoldAddIntoConv(), made, seed)) != (folds and not shared)


def test_weights_that_could_overflow_by_their_number_are_declined():
    graph = import_graph(net([1, 34_000, 1], "y = Conv (x, w)", w=np.ones((1, 34_000, 1))))
    context = Context(Settings(load_target("onnx")))
    run_passes([IntegerizeConv()], graph, context)
    (reason,) = context.record.declined.values()
    assert reason == "Conv sums so many products that int32 could overflow"


# place and INTEGERIZE: Q/DQ graphs compute the same on stored integers


@dataclass
class Stages:
    """A float model placed and integerized, with what was recorded on the way."""

    placed: onnx.ModelProto
    integer: onnx.ModelProto
    context: Context
    evidence: dict[str, NodeEvidence]
    ranges: dict[str, Range]


def stages(made, feeds):
    """The stages of the pipeline, calibrated on ``feeds``."""
    context = Context(Settings(load_target("onnx")))
    graph = prepare(made, feeds, context)
    chosen = plan(graph, context)
    ranges = collect(prepared_model(graph), list(chosen.tensors), [("feeds", feeds)])
    place(graph, chosen, align(graph, chosen, ranges), context)
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
    for node in found.placed.graph.node:
        inputs = {name: values[name] for name in node.input if name}
        if node.op_type == "DequantizeLinear":
            values[node.output[0]] = dequantize(node, *inputs.values())
        elif node.op_type == "QuantizeLinear":
            name, (real, scale, zero) = node.output[0], inputs.values()
            values[name] = integers[name]
            if name in allowed:
                level = real / np.float64(scale) + zero
                sure = np.abs(level - np.floor(level) - 0.5) > NEAR_A_TIE
                limits = np.iinfo(zero.dtype)
                gap = np.abs(np.clip(np.rint(level), limits.min, limits.max) - integers[name])
                assert gap.max() <= 1 and gap[sure].max(initial=0) <= allowed[name], name
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


def check_single_op(made, seed, ops):
    """Only ``ops`` on integers, each stored tensor at most 1 LSB from onnxruntime's floats."""
    found = stages(made, random_feeds(made, seed))
    left = [node.op_type for node in found.integer.graph.node]
    assert [op for op in left if op not in ("QuantizeLinear", "DequantizeLinear")] == ops
    others = random_feeds(made, seed + 1)
    check(found, others)
    integers = stored_integers(found, found.integer, others)
    for name, expected in stored_integers(found, found.placed, others).items():
        assert np.abs(integers[name].astype(int) - expected).max() <= 1, name


activation = st.sampled_from(
    [
        "y = Relu (c)",
        "y = Clip (c, low, high)",
        "r = Relu (c) y = Clip (r, , high)",
        "y = Clip (c)",
    ]
)
BOUNDS = {"low": np.float32(-0.5), "high": np.float32(0.75)}


@thoroughly(40)
@given(
    seed=seeds,
    spatial=small,
    groups=small,
    bias=flags,
    pad=st.integers(0, 2),
    stride=small,
    dilation=st.integers(1, 2),
    then=activation,
)
def test_conv(seed, spatial, groups, bias, pad, stride, dilation, then):
    weights = {"w": numbers(2 * groups, 2, *[2] * spatial, seed=seed)}
    weights |= {"b": numbers(2 * groups, seed=seed)} if bias else {}
    made = net(
        [2, 2 * groups, *[5] * spatial],
        f"""c = Conv <dilations = {[dilation] * spatial}, strides = {[stride] * spatial},
            group = {groups}, pads = {[pad, 0] * spatial}> (x, {", ".join(weights)})
        {then}""",
        **weights,
        **BOUNDS,
    )
    check_single_op(made, seed, ["IntConv"])


@thoroughly(40)
@given(
    seed=seeds,
    leading=st.sampled_from([[2], [1, 3], [2, 1, 2]]),
    inner=st.sampled_from([1, 4, 60]),
    bias=flags,
    then=activation,
)
def test_matrix_product(seed, leading, inner, bias, then):
    product = "p = MatMul (x, w) c = Add (p, b)" if bias else "c = MatMul (x, w)"
    constants = {"w": numbers(inner, 3, seed=seed), "b": numbers(3, seed=seed), **BOUNDS}
    made = net([*leading, inner], f"{product} {then}", **constants)
    check_single_op(made, seed, ["IntGemm"])


@thoroughly(20)
@given(
    seed=seeds,
    shapes=st.sampled_from([[(2, 3), (2, 3)], [(3,), (2, 3)], [(2, 1), (3,)], [(), (2, 3)]]),
    constant=flags,
    scale=st.sampled_from([1e-3, 1, 77]),
    then=activation,
)
def test_add(seed, shapes, constant, scale, then):
    first, second = shapes
    tensor = f"float{list(second)} z" if second else "float z"
    text = f"g (float{list(first)} x{'' if constant else ', ' + tensor}) => (float[] y)"
    made = model(
        f"{text} {{ s = Add (x, {'k' if constant else 'z'}) {then.replace('(c', '(s')} }}",
        opset=OPSET,
        ir_version=IR_VERSION,
        k=numbers(*second, seed=seed) * np.float32(scale),
        **BOUNDS,
    )
    check_single_op(made, seed, ["IntAdd"])


@thoroughly(10)
@given(seed=seeds)
def test_a_tensor_added_to_itself(seed):
    check_single_op(net([2, 3], "y = Add (x, x)"), seed, ["IntAdd"])


@thoroughly(40)
@given(
    seed=seeds,
    spatial=small,
    kernel=small,
    stride=small,
    pad=flags,
    whole=flags,
    then=activation,
)
def test_average_pool(seed, spatial, kernel, stride, pad, whole, then):
    pads = [int(pad and kernel > 1)] * spatial + [0] * spatial
    window = f"""AveragePool <count_include_pad = 1, kernel_shape = {[kernel] * spatial},
        pads = {pads}, strides = {[stride] * spatial}> (x)"""
    made = net(
        [2, 3, *[4] * spatial],
        f"c = {'GlobalAveragePool (x)' if whole else window} {then}",
        **BOUNDS,
    )
    check_single_op(made, seed, ["IntGlobalAveragePool" if whole else "IntAveragePool"])


MOVES = {
    "MaxPool <kernel_shape = [2, 3], pads = [1, 1, 0, 1], strides = [2, 1]> (x)": "MaxPool",
    "MaxPool <ceil_mode = 1, kernel_shape = [2, 2], strides = [3, 3]> (x)": "MaxPool",
    "Relu (x)": "Clip",
    "Clip (x, low)": "Clip",
    "Clip (x, , high)": "Clip",
    "Pad (x, ends)": "Pad",
    "Pad (x, ends, high)": "Pad",
    'Pad <mode = "reflect"> (x, ends)': "Pad",
    'Pad <mode = "edge"> (x, two_ends, , axis)': "Pad",
    "Slice (x, one, last, axis)": "Slice",
    "Concat <axis = 1> (x, x)": "Concat",
    "Transpose <perm = [0, 1, 3, 2]> (x)": "Transpose",
    "Reshape (x, shape)": "Reshape",
}
INDICES = {
    "ends": int64(0, 0, 1, 1, 0, 0, 1, 2),
    "two_ends": int64(1, 2),
    "axis": int64(2),
    "one": int64(1),
    "last": int64(-1),
    "shape": int64(0, 0, -1, 2),
}


@pytest.mark.parametrize("move", MOVES)
@thoroughly(5)
@given(seed=seeds)
def test_what_moves_in_front_of_a_conv(move, seed):
    made = net(
        [1, 2, 4, 4],
        f"m = {move} y = Conv (m, w)",
        w=numbers(3, 4 if "Concat" in move else 2, 1, 1, seed=seed),
        **INDICES,
        **BOUNDS,
    )
    check_single_op(made, seed, [MOVES[move], "IntConv"])


@thoroughly(5)
@given(seed=seeds)
def test_flatten_squeeze_and_unsqueeze_in_front_of_a_gemm(seed):
    made = net(
        [2, 3, 1, 2],
        "s = Squeeze (x, axis) u = Unsqueeze (s, axis) f = Flatten (u) y = Gemm (f, w)",
        axis=int64(2),
        w=numbers(6, 4, seed=seed),
    )
    check_single_op(made, seed, ["Squeeze", "Unsqueeze", "Flatten", "IntGemm"])


STEPS = [
    *["{t} = Conv <pads = [1, 1, 1, 1]> ({a}, w3)", "{t} = Conv <group = 2> ({a}, w1)"],
    *["{t} = Add ({a}, {b})", "{t} = Add ({a}, {b})", "{t} = Add (row, {a})"],
    *["{t} = MatMul ({a}, matrix)", "{t}_g = GlobalAveragePool ({a}) {t} = Add ({b}, {t}_g)"],
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


@thoroughly(100)
@given(made=networks(), seed=seeds)
def test_each_node_of_a_network_is_off_by_no_more_than_its_evidence_counts(made, seed):
    found = stages(made, random_feeds(made, seed))
    check(found, random_feeds(made, seed + 1))
    check_tied_tensors(found)


def check_tied_tensors(found):
    """What a moving node reads and writes in the Q/DQ graph has one quantization."""
    placed, meaning = found.placed.graph.node, found.context.record.tensors
    stored = {n.output[0]: n.input[0] for n in placed if n.op_type == "DequantizeLinear"}
    after = {n.input[0]: n.output[0] for n in placed if n.op_type == "QuantizeLinear"}
    for node in placed:
        if node.op_type in MOVING and node.input[0] in stored:
            around = {stored[name] for name in node.input if name in stored}
            assert len({meaning[name] for name in {*around, after[node.output[0]]}}) == 1


# align: tied tensors share a range


def aligned(graph, ranges):
    """The plan of a float graph, and the range of each of its tensors."""
    chosen = plan(graph, Context(Settings(load_target("onnx"))))
    given_ranges = ranges(chosen.tensors)
    return chosen, given_ranges, align(graph, chosen, given_ranges)


def ends(body, outputs="float[] y", **ranges):
    """Where the aligned ranges of the tensors end, by name."""
    graph = import_graph(infer_shapes(net([1, 2, 4, 4], body, outputs=outputs, **CONSTANTS)))
    found = aligned(graph, lambda _: {name: Range(*each) for name, each in ranges.items()})[2]
    return {name: (each.low, each.high) for name, each in found.items()}


NARROW = (
    "c = Conv (x, w3) p = MaxPool <kernel_shape = [1, 1]> (c) r = Relu (p) y = Conv (r, w)"
)
RANGES = {"x": (-1, 1), "c": (-5, 10), "p": (-4, 9), "r": (0, 9), "y": (-3, 3), "z": (-7, 8)}


def test_a_relu_behind_a_max_pool_narrows_both():
    kept = {"x": (-1, 1), "y": (-3, 3)}
    assert ends(NARROW, **RANGES) == {"c": (0, 9), "p": (0, 9), "r": (0, 9), **kept}


@pytest.mark.parametrize("reader", ["z = Conv (c, w)", "z = Softmax (c)"])
def test_a_tensor_keeps_the_range_that_other_nodes_read(reader):
    found = ends(f"{NARROW} {reader}", "float[] y, float[] z", **RANGES)
    assert (found["c"], found["p"], found["r"]) == ((-5, 10), (-5, 10), (0, 9))


def test_an_output_keeps_its_range_and_the_relu_behind_it_has_its_own():
    found = ends(NARROW, "float[] y, float[] p", **RANGES)
    assert (found["c"], found["p"], found["r"]) == ((-4, 9), (-4, 9), (0, 9))


def test_a_relu_that_uses_most_of_a_shared_range_shares_it():
    ranges = RANGES | {"c": (-1, 10), "p": (-1, 10)}
    found = ends(NARROW, "float[] y, float[] p", **ranges)
    assert {name: found[name] for name in "cpr"} == dict.fromkeys("cpr", (-1, 10))


def test_the_inputs_of_a_concat_share_its_range():
    body = "a = Conv (x, w3) b = Conv (x, w3) c = Concat <axis = 3> (a, b) y = Conv (c, w)"
    found = ends(body, x=(-1, 1), a=(-9, 9), b=(-3, 1), c=(-3, 2), y=(0, 1))
    assert {name: found[name] for name in "abc"} == dict.fromkeys("abc", (-3, 2))


def test_what_a_node_absorbs_an_activation_from_carries_no_scale():
    ranges = {"x": (-1, 1), "t": (0, 0.75), "y": (0, 1)}
    body = "c = Conv (x, w3) r = Relu (c) t = Clip (r, low, high) y = Conv (t, w)"
    assert ends(body, **ranges) == ranges


@thoroughly(100)
@given(made=networks(), data=st.data())
def test_groups_share_a_range_that_holds_what_is_computed_on(made, data):
    def drawn(names):
        both = st.tuples(st.integers(-9, 0), st.integers(0, 9))
        return {name: Range(*data.draw(both)) for name in names}

    graph = import_graph(infer_shapes(made))
    chosen, before, after = aligned(graph, drawn)
    only_moves_on = {
        name: tensor.outputs
        and not is_graph_output(graph, tensor)
        and all(reader.op in MOVING | CLAMPING for reader in tensor.outputs)
        for name, tensor in chosen.tensors.items()
    }
    for node in graph.nodes:
        reads = [t.name for t in node.inputs if t.name in after]
        if node.op in MOVING and reads and node.outputs[0].name in after:
            assert {after[name] for name in reads} == {after[node.outputs[0].name]}
    for name, moves_on in only_moves_on.items():
        if not moves_on:
            assert after[name].union(before[name]) == after[name]


# traps: float graphs in which a pass can go wrong

TRAP_CONSTANTS = {
    **CONSTANTS,
    **{
        "rows": int64(4, 8),
        "m": numbers(8, 4),
        "column": numbers(4, 1),
        "full": numbers(4, 4),
    },
    **{"k": numbers(1, 2, 2, 2), "down": np.float32(-2), "least": np.float32(-3e38)},
    **{"infinite": float32(-np.inf, 0), **normalization(4, 0)},
    **{"x_scale": np.float32(3), "uint8_255": np.uint8(100), "fc.weight": numbers(4, 4)},
}


TRAPS = [
    "y = Conv (x, w3) z = Relu (y) => float[] y, float[] z",
    "y = Conv (x, w3) z = Identity (x) => float[] y, float[] z",
    "a = Conv (x, w3) b = Neg (a) y = Add (a, b)",
    "a = Pad (x, grow, least) b = MaxPool <kernel_shape = [2, 1]> (a) y = Conv (b, w)",
    # a tensor of the integer part that only a declined moving node reads
    "a = Conv (x, w3) b = Concat <axis = 0> (a, k) y = Conv (b, w)",
    "l = ReduceMin <keepdims = 0> (x) a = Conv (x, w3) b = Clip (a, l) y = Conv (b, w)",
    "a = Conv (x, w3) b, i = MaxPool <kernel_shape = [1, 1]> (a) y = Conv (b, w) z = Neg (i)"
    " => float[] y, int64[] z",
    # a second output that nothing reads, but that leaves
    "a = Conv (x, w3) y, i = MaxPool <kernel_shape = [1, 1]> (a) => float[] y, int64[] i",
    "a = Conv (x, w3) y, i = Dropout (a) => float[] y, bool[] i",
    # names that the toolkit would give
    "y = Conv (x, w3) z = Mul (x, x_scale) => float[] y, float[] z",
    "x_quantized = Conv (x, w3) y = Conv (x_quantized, w)",
    "[x_quantize] y = Conv (x, w3)",
    "a = Conv (x, w3) y = Clip (a, low) b = Cast <to = 2> (x) z = Max (b, uint8_255)"
    " => float[] y, uint8[] z",
    'f = Flatten <axis = 3> (x) [fc] y = Gemm <transB = 1> (f, "fc.weight")'
    ' z = MatMul (f, "fc.weight") => float[] y, float[] z',
    "a = Sum (x, x, x, x) b = Sum (a, x, a, x) y = Conv (b, w)",
    # biases of a Gemm that are no row
    "f = Reshape (x, rows) y = Gemm (f, m, full)",
    "f = Reshape (x, rows) y = Gemm (f, m, column)",
    "f = Reshape (x, rows) a = Gemm (f, m, full)"
    " y = BatchNormalization (a, gamma, beta, mean, var)",
    "f = Reshape (x, rows) a = Gemm (f, m, column)"
    " y = BatchNormalization (a, gamma, beta, mean, var)",
    # bounds that exclude each other: the last upper one wins
    "a = Conv (x, w3) r = Relu (a) y = Clip (r, down, low)",
    "a = Conv (x, w3) y = Clip (a, high, low)",
    "a = Conv (x, w3, infinite) y = Relu (a)",
    'a = Conv (x, w3) y = Pad <mode = "edge"> (a, grow, high)',
]


def trapped(text):
    body, _, outputs = text.partition(" => ")
    return net([1, 2, 4, 4], body, outputs=outputs or "float[] y", **TRAP_CONSTANTS)


@pytest.mark.parametrize("text", TRAPS)
def test_results_stay_close_to_float(text):
    made = trapped(text)
    feeds = random_feeds(made, 0)
    found = stages(made, feeds)
    check(found, feeds)
    results = (run(each, feeds) for each in (made, found.placed, found.integer))
    for real, placed, integer in zip(*results, strict=True):
        for other in (placed, integer):
            assert np.abs(other.astype(float) - real).max() <= 0.05 * np.abs(real).max()


def test_onnxruntime_runs_the_traps():
    for made in map(trapped, TRAPS):
        run(made, random_feeds(made, 0))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("double", "p = MatMul (x, m) y = Add (p, row)"),
        ("double", "y = Gemm <transB = 1> (x, m)"),
        ("double", "a = Unsqueeze (x, axis) y = BatchNormalization (a, row, row, row, row)"),
        ("int32", "y = MatMul (x, m)"),
    ],
)
def test_prepare_keeps_the_type_of_a_graph(kind, body):
    text = f"g ({kind}[2, 2] x) => ({kind}[] y) {{ {body} }}"
    dtype = {"double": np.float64, "int32": np.int32}[kind]
    weights = {"m": np.ones((2, 2), dtype), "row": np.ones(2, dtype), "axis": int64(2)}
    made = model(text, opset=OPSET, ir_version=IR_VERSION, **weights)
    graph = import_graph(infer_shapes(made))
    run_passes(PREPARE, graph, Context(Settings(load_target("onnx"))))
    run(prepared_model(graph), {"x": np.ones((2, 2), dtype)})


def test_dropout_in_training_mode_is_declined():
    text = "a = Abs (x) y = Dropout (a, half, true)"
    made = net([4], text, half=np.float32(0.5), true=np.array(True))
    graph, context = import_graph(infer_shapes(made)), Context(Settings(load_target("onnx")))
    run_passes([RemoveIdentity()], graph, context)
    assert [node.op for node in graph.nodes] == ["Abs", "Dropout"] and context.record.declined


def test_a_sum_of_one_leaves_no_node():
    made = net([1, 2, 4, 4], "a = Conv (x, w3) b = Sum (a) y = Conv (b, w)", **CONSTANTS)
    graph = prepare(made, random_feeds(made, 0), Context(Settings(load_target("onnx"))))
    assert [node.op for node in graph.nodes] == ["Conv", "Conv"]


def test_shape_arithmetic_is_not_reported_as_declined():
    body = "s = Shape (x) t = Add (s, zero) u = Concat <axis = 0> (t, four) y = Expand (x, u)"
    graph = import_graph(infer_shapes(net([1, 2, 4, 4], body, **CONSTANTS)))
    context = Context(Settings(load_target("onnx")))
    run_passes(INTEGERIZE, graph, context)
    assert context.record.declined == {}


def test_place_makes_a_valid_model():
    made = net([1, 2, 4, 4], "y = Conv (x, w3)", outputs="float[1, 2, 2, 2] y", **CONSTANTS)
    context = Context(Settings(load_target("onnx")))
    graph = prepare(made, None, context)
    chosen = plan(graph, context)
    place(graph, chosen, dict.fromkeys(chosen.tensors, Range(-1, 1)), context)
    onnx.checker.check_model(prepared_model(graph), full_check=True)


# Q/DQ graphs from elsewhere: declined, or computed the same

STORED = {
    **{"scale": np.float32(0.02), "zero": np.uint8(128), "signed": np.int8(0)},
    **{"w": numbers(2, 2).round().astype(np.int8) * 30, "two": float32(0.01, 0.1)},
    **{"w4": (numbers(2, 2, 1, 1) * 50).astype(np.int8), "no_zero": np.zeros(2, np.int8)},
    **{"row": numbers(1, 2), "column": numbers(2, 1), "matrix": numbers(2, 2)},
    **{"grow": int64(0, 1, 1, 0), "fill": np.uint8(7), "half": np.float32(0.5)},
}
FOREIGN = [
    "f = DequantizeLinear <axis = 1> (w, two, no_zero) c = MatMul (r, f)",
    "f = DequantizeLinear <axis = 0> (w, two, no_zero) c = MatMul (r, f)",
    "f = DequantizeLinear (w, scale, signed) c = Gemm (r, f, row)",
    "f = DequantizeLinear (w, scale, signed) c = Gemm (r, f, column)",
    "f = DequantizeLinear (w, scale, signed) c = Gemm (r, f, matrix)",
    "f = DequantizeLinear (fill, scale, zero) c = Pad (r, grow, f)",
    "f = DequantizeLinear (fill, scale, zero) c = Clip (r, f)",
    "f = Relu (r) c = Clip (f, , half)",
]


@pytest.mark.parametrize("body", FOREIGN)
def test_graphs_from_elsewhere_compute_the_same(body):
    text = f"""g (uint8[2, 2] x) => (uint8[] y) {{
        r = DequantizeLinear (x, scale, zero) {body} y = QuantizeLinear (c, scale, zero)
    }}"""
    made = model(text, opset=OPSET, ir_version=IR_VERSION, **STORED)
    feeds = {"x": np.array([[0, 100], [140, 255]], np.uint8)}
    graph, context = import_graph(infer_shapes(made)), Context(Settings(load_target("onnx")))
    run_passes(INTEGERIZE, graph, context)
    integer = emit_integer(graph, context.record, Provenance("", "", {}))
    (expected,), (found,) = run(made, feeds), run(integer, feeds)
    assert np.abs(expected.astype(int) - found).max() <= 1
