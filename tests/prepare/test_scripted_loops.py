"""Loops as scripted PyTorch writes them: cells of nets, heads behind them, and lists."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

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


def rnn(text, outputs="float[T, N, 4] y", **weights):
    """A Loop of a plain cell around BODY, of whatever it gives besides."""
    weights = {"w": numbers(3, 4), "r": numbers(4, 4, seed=1), **weights}
    weights |= {"yes": np.array(True), "zero": np.array(0), "at_0": np.array([0])}
    text = f"net (float[T, N, 3] x, float[N, 4] h0 MORE) => ({outputs}) {{ {text} }}"
    text, _, more = text.partition("WITH")
    text = text.replace("MORE", f", {more.strip(' }')}" if more else "")
    return model(text + ("}" if more else ""), opset=18, **weights)


def cell(given):
    return f"""
        length = Shape (x)
        trips = Gather (length, zero)
        last, y = Loop (trips, yes, h0) <body = step
            (int64 t, bool on, float[R, 4] h)
            => (bool same, float[R, 4] n, float[R, K] o) {{
            x_t = Gather (x, t)
            u = MatMul (x_t, w)
            v = MatMul (h, r)
            s = Add (u, v)
            n = Tanh (s)
            {given}
            same = Identity (on)
        }}>"""


def feed_of(steps, rows, **more):
    found = {"x": numbers(steps, rows, 3, seed=steps), "h0": numbers(rows, 4, seed=rows)}
    return found | more


@pytest.mark.parametrize("rows", [1, 4])
def test_a_mask_of_one_number_for_each_row_keeps_its_rows(rows):
    masked = "m_t = Gather (mask, t)\n m_1 = Unsqueeze (m_t, at_1)\n o = Mul (n, m_1)"
    made = rnn(cell(masked) + "WITH float[T, N] mask", at_1=np.array([1]))
    with_nets(made, feed_of(3, rows, mask=numbers(3, rows, seed=5)))
    samples = [
        {
            "x": 2 * numbers(3, 1, 3, seed=seed),
            "h0": 2 * numbers(1, 4, seed=seed),
            "mask": 2 * numbers(3, 1, seed=seed),
        }
        for seed in range(16)
    ]
    integer = qpasses.quantize(made, samples).model
    feed = feed_of(3, rows, mask=numbers(3, rows, seed=5))
    ours, theirs = (Session(each).run(["y"], feed)[0] for each in (integer, made))
    assert np.abs(ours - theirs).max() < 0.1 * np.abs(theirs).max()


def test_a_head_of_constants_alone_keeps_the_loop():
    assert "Loop" in with_nets(rnn(cell("o = Relu (r)")), feed_of(3, 4))


def test_a_head_of_a_row_that_is_cut_otherwise_keeps_the_loop():
    turned = "x_1 = Reshape (x_t, sizes)\n o = Relu (x_1)"
    given = rnn(cell(turned), "float[T, M, K] y", sizes=np.array([3, -1]))
    assert "Loop" in with_nets(given, feed_of(3, 2))


LISTS = {
    "its length ends the loop": "k = SequenceLength (after)\n same = Less (k, four)",
    "its last is read": "p = SequenceAt (after, zero)\n n = Tanh (p)",
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_a_step_reads_again_stays(name):
    more = LISTS[name]
    end = more if "same" in more else f"{more}\n same = Identity (on)"
    text = f"""
        empty = SequenceEmpty ()
        last, list = Loop (trips, yes, h0, empty) <body = step
            (int64 t, bool on, float[R, 4] h, seq(float[R, 4]) before)
            => (bool same, float[R, 4] n, seq(float[R, 4]) after) {{
            x_t = Gather (x, t)
            u = MatMul (x_t, w)
            v = MatMul (h, r)
            s = Add (u, v)
            after = SequenceInsert (before, s)
            {"n = Tanh (s)" if "n =" not in more else ""}
            {end}
        }}>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (list)
    """
    given = rnn(text, four=np.array(4), trips=np.array(6))
    assert "SequenceInsert" in with_nets(given, feed_of(6, 2))


def test_a_list_of_many_sizes_that_a_branch_alone_joins_stays():
    text = """
        list_none = SequenceEmpty ()
        last, list = Loop (trips, yes, h0, list_none) <body = step
            (int64 t, bool on, float[P, 4] h, seq(float[P, 4]) before)
            => (bool same, float[P, 4] n, seq(float[P, 4]) after) {
            n = Concat <axis = 0> (h, h)
            after = SequenceInsert (before, n)
            same = Identity (on)
        }>
        y = If (p) <
            then_branch = yes_1 () => (float[A, B, 4] o1) {
                o1 = ConcatFromSequence <axis = 0, new_axis = 1> (list)
            },
            else_branch = no_1 () => (float[A, B, 4] o2) {
                q = SequenceAt (list, zero)
                o2 = Unsqueeze (q, at_0)
            }>
        WITH bool p"""
    given = rnn(text, "float[A, B, 4] y", trips=np.array(2))
    given.graph.input.remove(given.graph.input[0])
    feed = {"h0": numbers(2, 4), "p": np.array(False)}
    assert "SequenceInsert" in with_nets(given, feed)


def test_a_state_of_another_rank_at_first_keeps_the_loop():
    made = rnn(cell("o = Identity (n)"))
    del made.graph.input[1].type.tensor_type.shape.dim[:1]
    feed = {"x": numbers(3, 2, 3), "h0": numbers(4, seed=1)}
    assert "Loop" in with_nets(made, feed)


def test_cells_in_float64_stay():
    given = rnn(cell("o = Identity (n)").replace("float[", "double["), "double[T, N, 4] y")
    for value in given.graph.input:
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for tensor in given.graph.initializer[:2]:
        values = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    feed = {name: value.astype(np.float64) for name, value in feed_of(3, 2).items()}
    assert "Loop" in with_nets(given, feed)


def test_a_slice_of_all_from_an_input_to_an_output_is_integer():
    text = """g (float[N, 8] x) => (float[N, 8] y, float[N, 4] z) {
        y = Slice (x, at_0, far) z = MatMul (y, w)
    }"""
    given = model(text, at_0=np.array([0]), far=np.array([2**63 - 1]), w=numbers(8, 4))
    made = qpasses.quantize(given, [{"x": numbers(2, 8, seed=seed)} for seed in range(4)])
    assert made.verdict == "ok"


def test_what_a_node_of_one_step_gives_of_all_steps_is_its_state():
    given = stepping("LSTM")
    (body,) = (
        each.g for node in given.graph.node for each in node.attribute if each.name == "body"
    )
    squeeze = next(node for node in body.node if node.output[0] == "h_new")
    both = helper.make_node("Squeeze", ["a", "at_01"], ["of_all"])
    place = [*body.node].index(squeeze)
    body.node.insert(place, both)
    insert = next(node for node in body.node if node.op_type == "SequenceInsert")
    insert.input[1] = "of_all"
    given.graph.initializer.append(numpy_helper.from_array(np.array([0, 1]), "at_01"))
    assert is_net(with_nets(given, FEEDS["LSTM"]), "LSTM")


def test_halves_in_sequences_are_in_float32():
    given = rnn(
        """
        empty = SequenceEmpty <dtype = 10> ()
        last, list = Loop (trips, yes, h0, empty) <body = step
            (int64 t, bool on, float16[R, 4] h, seq(float16[R, 4]) before)
            => (bool same, float16[R, 4] n, seq(float16[R, 4]) after) {
            x_t = Gather (x, t)
            u = MatMul (x_t, w)
            v = MatMul (h, r)
            s = Add (u, v)
            n = Tanh (s)
            after = SequenceInsert (before, n)
            same = Identity (on)
        }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (list)
        """,
        "float16[T, N, 4] y",
        w=numbers(3, 4).astype(np.float16),
        r=numbers(4, 4, seed=1).astype(np.float16),
        trips=np.array(3),
    )
    for value in given.graph.input:
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    feeds = [
        {name: value.astype(np.float16) for name, value in feed_of(3, 1 + rows).items()}
        for rows in range(3)
    ]
    assert qpasses.quantize(given, feeds).verdict == "ok"


def test_a_sequence_of_constants_is_left_as_it_is():
    text = """g (float[3, 8] x) => (float[3, 4] y) {
        parts = SequenceConstruct (w, w)
        both = ConcatFromSequence <axis = 0, new_axis = 0> (parts)
        cut = Slice (both, at_0, at_8)
        y = MatMul (x, cut)
    }"""
    more = {"at_0": np.array([0]), "at_8": np.array([8])}
    given, feeds = model(text, w=numbers(8, 4), **more), [{"x": numbers(3, 8)}]
    made = qpasses.quantize(given, feeds)
    assert qpasses.verify(made.model, given, feeds).verdict == made.verdict


def test_a_sequence_may_leave_the_model():
    text = """g (float[3, 8] x) => (seq(float[A, B]) y, float[3, 4] z) {
        none = SequenceEmpty ()
        z = MatMul (x, w)
        y = SequenceInsert (none, z)
    }"""
    given, feeds = model(text, w=numbers(8, 4)), [{"x": numbers(3, 8)}]
    made = qpasses.quantize(given, feeds)
    assert qpasses.verify(made.model, given, feeds).verdict == made.verdict


def test_a_scripted_net_is_integer_as_a_whole():
    given = written(part=SELECT, cut=CHUNK, head=HEADS["a product"][0], size=5)
    feeds = [{"x": numbers(2, 4 + seed, 3, seed=seed)} for seed in range(8)]
    made = qpasses.quantize(given, feeds)
    assert (made.verdict, made.report["summary"]["float_nodes"]) == ("ok", [])
    assert qpasses.verify(made.model, given, feeds).verdict == "ok"
