"""Loops as scripted PyTorch writes them: cells of nets, heads behind them, and lists."""

import numpy as np
import pytest
from onnx import numpy_helper

import qpasses
from calibration import Session
from opsets.target import load_target
from qpasses.ir.model_nodes import nodes_of
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.prepare.bodies_apart import with_cells
from tests.support.small_models import model, numbers

GRU = """
    gi = Gemm <transB = 1> (x_t, wi, bi)
    gh = Gemm <transB = 1> (h, wh, bh)
    CUT
    sr = Add (ir, hr)
    r = Sigmoid (sr)
    sz = Add (iz, hz)
    z = Sigmoid (sz)
    rn = Mul (r, hn)
    sn = Add (in, rn)
    n = Tanh (sn)
    minus_z = Neg (z)
    rest = Add (minus_z, one)
    new = Mul (rest, n)
    kept = Mul (z, h)
    h_new = Add (new, kept)
"""
SPLIT = """
    ir, iz, in = Split <axis = 1> (gi, sizes)
    hr, hz, hn = Split <axis = 1> (gh, sizes)
"""
"""``split``."""
CHUNK = "".join(
    f"""
    {g}s = Shape ({g})
    {g}w = Gather <axis = 0> ({g}s, at_1)
    {g}a = Add ({g}w, at_2)
    {g}c = Div ({g}a, at_3)
    {g}e = Mul ({g}c, at_2)
    {g}f = Mul ({g}c, at_3)
    {k}r = Slice ({g}, at_0, {g}c, at_1)
    {k}z = Slice ({g}, {g}c, {g}e, at_1)
    {k}n = Slice ({g}, {g}e, {g}f, at_1)
"""
    for g, k in (("gi", "i"), ("gh", "h"))
)
"""``chunk`` of a tensor whose sizes the exporter did not know."""
SLICES = "".join(
    f"""
    {g}w = Slice ({g}, at_0, far, at_0, at_1)
    {k}r = Slice ({g}w, at_0, at_4, at_1, at_1)
    {k}z = Slice ({g}w, at_4, at_8, at_1, at_1)
    {k}n = Slice ({g}w, at_8, far, at_1, at_1)
"""
    for g, k in (("gi", "i"), ("gh", "h"))
)
"""``gates[:, 4:8]``."""

NET = """scripted (float[N, T, 3] x) => (float[N, T, SIZE] y) {
    sizes_of_x = Shape (x)
    length = Gather (sizes_of_x, first)
    rows = Gather (sizes_of_x, zero)
    rows_1 = Unsqueeze (rows, at_0)
    wanted = Concat <axis = 0> (rows_1, at_4)
    h0 = ConstantOfShape (wanted)
    empty = SequenceEmpty ()
    last, parts = Loop (length, yes, h0, empty) <body = step
        (int64 t, bool more_in, float[R, 4] h, seq(float[R, SIZE]) before)
        => (bool same, float[R, 4] h_new, seq(float[R, SIZE]) after) {
        PART
        CELL
        HEAD
        after = SequenceInsert (before, given)
        same = Identity (more_in)
    }>
    y = ConcatFromSequence <axis = 1, new_axis = NEW> (parts)
}"""
GATHER = "x_t = Gather <axis = 1> (x, t)"
SELECT = "all = Slice (x, at_0, far, at_0, at_1)\n x_t = Gather <axis = 1> (all, t)"
"""``x[:, t]``."""


def constants(**more):
    found = {f"at_{k}": np.array([k]) for k in (0, 1, 2, 3, 4, 8)}
    found |= {"wi": numbers(12, 3), "wh": numbers(12, 4, seed=1), "bi": numbers(12, seed=2)}
    found |= {"one_t": np.array(1), "two_t": np.array(2)}
    found |= {"bh": numbers(12, seed=3), "sizes": np.array([4, 4, 4]), "zero": np.array(0)}
    found |= {"one": np.float32(1), "far": np.array([2**63 - 1]), "yes": np.array(True)}
    return found | {"first": np.array(1)} | more


def written(part=GATHER, cell=GRU, cut=SPLIT, head="given = Identity (h_new)", size=4, new=1):
    text = NET.replace("PART", part).replace("CELL", cell).replace("CUT", cut)
    text = text.replace("HEAD", head).replace("SIZE", str(size)).replace("NEW", str(new))
    values = constants(v=numbers(5, 4, seed=4), c=numbers(5, seed=5), m=numbers(7, 2, seed=6))
    read = {word.strip("(),") for word in text.split()}
    return model(text, opset=17, **{k: v for k, v in values.items() if k in read})


def with_nets(given, feed):
    """``given`` with its nets; its op types, and what both make of ``feed``."""
    made = with_cells(given, feed, Context(Settings(load_target("onnx"))))
    theirs, ours = (Session(each, optimize=False).run(None, feed) for each in (given, made))
    for expected, found in zip(theirs, ours, strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    return [node.op_type for node in nodes_of(made)]


def is_net(ops, op):
    return op in ops and not {"Loop", "SequenceInsert", "ConcatFromSequence"} & {*ops}


FEED = {"x": numbers(2, 6, 3, seed=7)}


@pytest.mark.parametrize("part", [GATHER, SELECT])
@pytest.mark.parametrize("cut", [SPLIT, CHUNK, SLICES])
def test_a_cell_is_the_net_however_its_gates_are_cut(part, cut):
    assert is_net(with_nets(written(part=part, cut=cut), FEED), "GRU")


BACKWARD = {
    "from the length": "last_t = Sub (length, one_t)\n at = Sub (last_t, t)",
    "below zero": "minus_t = Neg (t)\n at = Sub (minus_t, one_t)",
}


@pytest.mark.parametrize("name", BACKWARD)
def test_steps_that_are_read_backward_are_turned(name):
    part = f"{BACKWARD[name]}\n x_t = Gather <axis = 1> (x, at)"
    assert is_net(with_nets(written(part=part), FEED), "GRU")


@pytest.mark.parametrize(
    "part",
    [
        "at = Sub (length, t)\n back = Sub (at, two_t)\n x_t = Gather <axis = 1> (x, back)",
        "twice = Add (t, t)\n at = Sub (twice, length)\n x_t = Gather <axis = 1> (x, at)",
    ],
)
def test_steps_in_another_order_keep_the_loop(part):
    assert "Loop" in with_nets(written(part=part), FEED)


def test_states_that_are_joined_as_rows_are_those_of_all_steps():
    head = "given = Unsqueeze (h_new, at_1)"
    assert is_net(with_nets(written(head=head, new=0), FEED), "GRU")


HEADS = {
    "a product": ("given = Gemm <transB = 1> (h_new, v, c)", 5),
    "several layers": (
        "a = Gemm <transB = 1> (h_new, v, c)\n b = Relu (a)\n d = Add (b, c)\n"
        "given = Softmax <axis = 1> (d)",
        5,
    ),
    "what is read beside": (
        "both = Concat <axis = 1> (h_new, x_t)\n given = MatMul (both, m)",
        2,
    ),
    "the state and what follows": (
        "a = Tanh (h_new)\n b = Mul (a, h_new)\n given = Concat <axis = -1> (b, h_new)",
        8,
    ),
}


@pytest.mark.parametrize("name", HEADS)
def test_what_follows_a_state_row_by_row_follows_all_of_them(name):
    head, size = HEADS[name]
    assert is_net(with_nets(written(head=head, size=size), FEED), "GRU")


@pytest.mark.parametrize(
    "head",
    [
        "given = Identity (r)",  # a gate
        "given = ReduceSum <keepdims = 1> (h_new)",
        "given = Softmax <axis = 0> (h_new)",
        "turned = Transpose (h_new)\n given = MatMul (h_new, turned)",
        "given = Mul (h_new, h)",
    ],
)
def test_what_follows_otherwise_keeps_the_loop(head):
    given = written(head=head)
    del given.graph.output[0].type.tensor_type.shape.dim[:]
    given.graph.output[0].type.tensor_type.ClearField("shape")
    ops = with_nets(given, FEED)
    assert "Loop" in ops
    assert "SequenceInsert" not in ops


NODES = {
    "LSTM": """scripted (float[N, T, 3] x, float[N, 4] h0, float[N, 4] c0)
    => (float[T, N, 4] y, float[N, 4] h_last, float[N, 4] c_last) {
    parts = SplitToSequence <axis = 1, keepdims = 0> BY
    length = SequenceLength (parts)
    empty = SequenceEmpty ()
    h_last, c_last, all = Loop (length, yes, h0, c0, empty) <body = step
        (int64 t, bool more_in, float[R, 4] h, float[R, 4] c, seq(float[R, 4]) before)
        => (bool same, float[R, 4] h_new, float[R, 4] c_new, seq(float[R, 4]) after) {
        x_t = SequenceAt (parts, t)
        x_1 = Unsqueeze (x_t, at_0)
        h_1 = Unsqueeze (h, at_0)
        c_1 = Unsqueeze (c, at_0)
        a, b, d = LSTM <hidden_size = 4 MORE> (x_1, w, r, bias, , h_1, c_1)
        h_new = Squeeze (b, at_0)
        c_new = Squeeze (d, at_0)
        after = SequenceInsert (before, h_new)
        same = Identity (more_in)
    }>
    y = ConcatFromSequence <axis = 0, new_axis = 1> (all)
}""",
    "GRU": """scripted (float[T, N, 3] x, float[1, N, 4] h0)
    => (float[T, N, 4] y, float[1, N, 4] h_last) {
    sizes_of_x = Shape (x)
    length = Gather (sizes_of_x, zero)
    h_last, y = Loop (length, yes, h0) <body = step
        (int64 t, bool more_in, float[1, R, 4] h)
        => (bool same, float[1, R, 4] h_new, float[R, 4] given) {
        x_t = Gather (x, t)
        x_1 = Unsqueeze (x_t, at_0)
        a, h_new = GRU <hidden_size = 4, linear_before_reset = 1 MORE> (x_1, w, r, bias, , h)
        given = Squeeze (h_new, at_0)
        same = Identity (more_in)
    }>
}""",
}


def stepping(op, more="", by="(x)"):
    gates = {"LSTM": 4, "GRU": 3}[op]
    weights = {"w": numbers(1, 4 * gates, 3), "r": numbers(1, 4 * gates, 4, seed=1)}
    weights |= {"bias": numbers(1, 8 * gates, seed=2), "at_0": np.array([0])}
    weights |= {"yes": np.array(True), "zero": np.array(0)}
    text = NODES[op].replace("MORE", more).replace("BY", by)
    return model(text, **{k: v for k, v in weights.items() if f"{k}" in text})


FEEDS = {
    "LSTM": {"x": FEED["x"], "h0": numbers(2, 4, seed=8), "c0": numbers(2, 4, seed=9)},
    "GRU": {"x": numbers(6, 2, 3, seed=7), "h0": numbers(1, 2, 4, seed=8)},
}


@pytest.mark.parametrize("more", ["", ', activations = ["HardSigmoid", "Relu", "Tanh"]'])
@pytest.mark.parametrize("op", NODES)
def test_a_node_of_one_step_in_a_loop_is_that_of_all_steps(op, more):
    more = more if op == "LSTM" else more.replace(', "Tanh"]', "]")
    ops = with_nets(stepping(op, more), FEEDS[op])
    assert is_net(ops, op)
    assert ops.count(op) == 1
    assert "SplitToSequence" not in ops


def test_unbind_as_pytorch_writes_it():
    given = stepping("LSTM", by="(x, by_one)")
    given.graph.initializer.append(numpy_helper.from_array(np.array(1), "by_one"))
    assert is_net(with_nets(given, FEEDS["LSTM"]), "LSTM")


@pytest.mark.parametrize("more", [", clip = 0.5", ", input_forget = 1"])
def test_a_node_of_one_step_that_says_more_stays_in_its_loop(more):
    assert "Loop" in with_nets(stepping("LSTM", more), FEEDS["LSTM"])


def test_a_layer_above_reads_the_list_of_the_layer_below():
    layer = """
    parts_K = SplitToSequence <axis = 0, keepdims = 0> (IN)
    length_K = SequenceLength (parts_K)
    empty_K = SequenceEmpty ()
    h_K, all_K = Loop (length_K, yes, h0, empty_K) <body = step_K
        (int64 t_K, bool more_K, float[R, 4] b_K, seq(float[R, 4]) before_K)
        => (bool same_K, float[R, 4] n_K, seq(float[R, 4]) after_K) {
        x_K = SequenceAt (parts_K, t_K)
        u_K = MatMul (x_K, w)
        v_K = MatMul (b_K, r)
        s_K = Add (u_K, v_K)
        n_K = Tanh (s_K)
        after_K = SequenceInsert (before_K, n_K)
        same_K = Identity (more_K)
    }>
    OUT = ConcatFromSequence <axis = 0, new_axis = 1> (all_K)
    """
    first = layer.replace("K", "1").replace("IN", "x").replace("OUT", "m")
    second = layer.replace("K", "2").replace("IN", "m").replace("OUT", "y")
    text = f"two (float[T, N, 4] x, float[N, 4] h0) => (float[T, N, 4] y) {{{first}{second}}}"
    weights = {"w": numbers(4, 4), "r": numbers(4, 4, seed=1), "yes": np.array(True)}
    feed = {"x": numbers(5, 2, 4, seed=2), "h0": numbers(2, 4, seed=3)}
    ops = with_nets(model(text, **weights), feed)
    assert is_net(ops, "RNN")
    assert ops.count("RNN") == 2


def test_a_scripted_net_is_integer_as_a_whole():
    given = written(part=SELECT, cut=CHUNK, head=HEADS["a product"][0], size=5)
    feeds = [{"x": numbers(2, 4 + seed, 3, seed=seed)} for seed in range(8)]
    made = qpasses.quantize(given, feeds)
    assert (made.verdict, made.report["summary"]["float_nodes"]) == ("ok", [])
    assert qpasses.verify(made.model, given, feeds).verdict == "ok"
