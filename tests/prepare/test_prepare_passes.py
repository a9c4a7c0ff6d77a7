"""Passes of PREPARE: float graphs compute the same before and after."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from opsets.target import load_target
from qpasses.ir.interchange import import_graph, prepared_model
from qpasses.ir.rewriting import Context, run_passes
from qpasses.ir.settings import Settings
from qpasses.ir.shapes import infer_shapes
from qpasses.lowering.integerize_conv import IntegerizeConv
from qpasses.prepare import PREPARE
from qpasses.prepare.canonicalize_gemm import CanonicalizeGemm
from qpasses.prepare.fold_add_into_conv import FoldAddIntoConv
from qpasses.prepare.fold_batch_normalization import FoldBatchNormalization
from qpasses.prepare.remove_identity import RemoveIdentity
from qpasses.prepare.resolve_auto_pad import ResolveAutoPad
from qpasses.prepare.sum_to_add import SumToAdd
from tests.support.small_models import numbers
from tests.support.stage_checks import (
    flags,
    net,
    normalization,
    run,
    seeds,
    small,
)
from tests.support.thoroughness import thoroughly


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


def test_batch_normalization_behind_scaled_gemm_or_matmul_is_a_product_and_a_sum():
    constants = {"w": numbers(3, 3), **normalization(3, 0)}
    for product in ("Gemm <alpha = 2.0>", "Gemm <transA = 1>", "MatMul"):
        text = f"c = {product} (x, w) y = BatchNormalization (c, gamma, beta, mean, var)"
        left = ops_after(FoldBatchNormalization(), net([3, 3], text, **constants))
        rest = [] if "transA" in product else ["Mul", "Add"]
        assert left == [product.split()[0], *rest]


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
    assert reason.startswith("Conv sums so many products that int32 could overflow: those")
