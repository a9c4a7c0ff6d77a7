"""Bodies spliced among the nodes around them, and cut again."""

import numpy as np
import onnx
import pytest

from opsets.errors import ModelError
from qpasses.ir.cutting import cut
from qpasses.ir.flow import FLOW
from qpasses.ir.homes import regions
from qpasses.ir.interchange import export_graph, import_graph
from qpasses.ir.shapes import infer_shapes
from qpasses.ir.splicing import spliced
from tests.support.bodies_nets import CASES, body_feeds, body_net, voice_feeds, voice_net
from tests.support.small_models import model, session


def outputs_of(made, feed):
    return session(made, optimize=False).run(None, feed)


def same_outputs(made, other, feed):
    pairs = zip(outputs_of(made, feed), outputs_of(other, feed), strict=True)
    return all(np.array_equal(one, two) for one, two in pairs)


@pytest.mark.parametrize("name", CASES)
def test_what_is_spliced_and_cut_computes_the_same(name):
    original = body_net(name)
    flat = spliced(original)
    assert not any(each.op_type in ("If", "Loop", "Scan") for each in flat.graph.node)
    made = cut(flat)
    onnx.checker.check_model(made)
    assert all(same_outputs(original, made, feed) for feed in body_feeds(name))


@pytest.mark.parametrize("name", CASES)
def test_what_was_cut_is_spliced_and_cut_as_it_was(name):
    made = cut(spliced(cut(spliced(body_net(name)))))
    assert cut(spliced(made)) == made


def test_a_graph_of_a_whole_detector_computes_the_same():
    original = voice_net()
    made = export_graph(import_graph(infer_shapes(original)))
    assert all(same_outputs(original, made, feed) for feed in voice_feeds(2))


def test_a_model_without_bodies_is_left_alone():
    plain = model("g (float[2] x) => (float[2] y) { y = Abs (x) }")
    assert spliced(plain) is plain and cut(plain) is plain


def branched(body, other="b = Neg (h)", **constants):
    return model(
        f"""g (float[2] x, bool c) => (float[2] y) {{
            [out] h = Abs (x)
            [if] y = If (c) <
                then_branch = yes () => (float[2] a) {{ {body} }},
                else_branch = no () => (float[2] b) {{ {other} }}
            >
        }}""",
        **constants,
    )


def places(flat):
    return {name: [label for _, label in home] for name, home in regions(flat).items()}


def test_a_node_that_one_branch_alone_reads_stands_there():
    found = places(spliced(branched("a = Relu (h)", "b = Neg (x)")))
    assert (found["h"], found["a"], found["b"], found["y"]) == (
        ["then"],
        ["then"],
        ["else"],
        [],
    )


def test_a_node_that_both_branches_read_stands_outside():
    found = places(spliced(branched("a = Relu (h)")))
    assert (found["h"], found["a"]) == ([], ["then"])


LOOP = """g (float[2] x, int64 n) => (float[2] y) {
    h = Abs (x)
    [loop] y = Loop (n, "", x) <body = turn
        (int64 i, bool on, float[2] s) => (bool off, float[2] t)
        { off = Identity (on) k = Neg (h) t = Add (s, k) }>
}"""


def test_what_depends_on_no_iteration_stands_outside_of_a_loop():
    found = places(spliced(model(LOOP)))
    assert (found["h"], found["k"], found["t"]) == ([], [], ["body"])


def test_branches_that_use_the_same_names_are_told_apart():
    original = branched("k = Neg (h) a = Relu (k)", "k = Relu (h) b = Neg (k)")
    flat = spliced(original)
    written = [name for node in flat.graph.node for name in node.output]
    assert len({*written}) == len(written)
    names = [each.name for each in flat.graph.node]
    assert {"if/then/Neg", "if/then/Relu", "if/else/Relu", "if/else/Neg"} <= {*names}
    for choice in (True, False):
        feed = {"x": np.float32([1, -2]), "c": np.array(choice)}
        assert same_outputs(original, cut(flat), feed)


def test_what_nothing_in_a_body_reads_is_left_out():
    flat = spliced(branched("k = Neg (h) m = Exp (k) a = Relu (h)"))
    assert not {"k", "m"} & {name for node in flat.graph.node for name in node.output}


DRAWS = LOOP.replace("k = Neg (h)", "k = RandomNormalLike (h)")
IN_SCAN = """g (float[3, 2] x, float[2] z, bool c) => (float[2] y) {
    [scan] y = Scan (z, x) <num_scan_inputs = 1,
        body = turn (float[2] s, float[2] e) => (float[2] t) {
        [inner] t = If (c) <
            then_branch = yes () => (float[2] a) { a = Add (s, e) },
            else_branch = no () => (float[2] b) { b = Sub (s, e) }
        >
    }>
}"""


def test_a_body_that_draws_is_left_as_it_is():
    assert spliced(model(DRAWS)) == model(DRAWS)


def test_a_branch_inside_of_a_scan_is_left_as_it_is():
    flat = spliced(model(IN_SCAN))
    ops = [each.op_type for each in flat.graph.node]
    assert ops.count("If") == 1 and "Scan" not in ops
    feed = {"x": np.ones((3, 2), np.float32), "z": np.zeros(2, np.float32)}
    for choice in (True, False):
        assert same_outputs(model(IN_SCAN), cut(flat), {**feed, "c": np.array(choice)})


def test_a_body_that_reads_what_follows_from_it_is_refused():
    flat = spliced(branched("a = Relu (h)"))
    (joined,) = (each for each in flat.graph.node if each.domain == FLOW)
    again = onnx.helper.make_node("Exp", ["y"], ["later"], "later")
    flat.graph.node.append(again)
    joined.input[1] = "later"
    with pytest.raises(ModelError, match="follows from it"):
        cut(flat)


def test_sizes_of_a_state_are_those_that_it_has_at_first():
    text = LOOP.replace("float[2] s", "float[j] s").replace("float[2] t", "float[l] t")
    (loop,) = (n for n in infer_shapes(model(text)).graph.node if n.op_type == "Loop")
    body = loop.attribute[0].g
    sizes = [[d.dim_value for d in v.type.tensor_type.shape.dim] for v in body.input[2:]]
    assert sizes == [[2]]


def test_sizes_of_a_state_that_grows_are_not():
    text = LOOP.replace("t = Add (s, k)", "t = Concat <axis = 0> (s, k)")
    text = text.replace("float[2] s", "float[j] s").replace("float[2] t", "float[l] t")
    text = text.replace("(float[2] y)", "(float[m] y)")
    (loop,) = (n for n in infer_shapes(model(text)).graph.node if n.op_type == "Loop")
    (state,) = loop.attribute[0].g.input[2:]
    assert [d.dim_value for d in state.type.tensor_type.shape.dim] == [0]


def test_a_state_that_nothing_reads_in_the_end_is_kept():
    text = LOOP.replace("(float[2] y)", "(float[k, 2] z)").replace("y = Loop", "y, z = Loop")
    text = text.replace("(bool off, float[2] t)", "(bool off, float[2] t, float[2] u)")
    text = text.replace("t = Add (s, k)", "t = Add (s, k) u = Relu (s)")
    original = model(text)
    made = export_graph(import_graph(infer_shapes(original)))
    feed = {"x": np.float32([1, -2]), "n": np.array(3)}
    assert same_outputs(original, made, feed)


SAME_NAMES = """g (float[3, 2] x) => (float[3, 2] y, float[3, 2] z) {
    y = Scan (x) <num_scan_inputs = 1, body = one (float[2] d) => (float[2] f) {
        q = Neg (d)
        f = Abs (q)
    }>
    z = Scan (x) <num_scan_inputs = 1, body = two (float[2] d) => (float[2] f) {
        q = Exp (d)
        m = ReduceMax <keepdims = 0> (q)
        c = Greater (m, m)
        f = If (c) <
            then_branch = yes () => (float[2] a) { a = Abs (q) },
            else_branch = no () => (float[2] b) { q_2 = Log (q) b = Sub (q, q_2) }
        >
    }>
}"""


def test_no_name_is_given_that_a_body_that_stays_has():
    flat = spliced(model(SAME_NAMES))
    (stays,) = [each for each in flat.graph.node if each.op_type == "If"]
    named = {name for node in flat.graph.node for name in node.output}
    assert "q_2" not in named
    assert "q_2" in {
        name for each in stays.attribute for n in each.g.node for name in n.output
    }
    feed = {"x": np.float32([[1, 2], [3, 4], [5, 6]])}
    assert same_outputs(model(SAME_NAMES), cut(flat), feed)


@pytest.mark.parametrize("end", ["input", "output"])
def test_a_constant_that_is_an_end_of_the_model_stays_outside(end):
    original = branched("k = Add (h, w) a = Relu (k)", w=np.float32([1, 2]))
    value = onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [2])
    getattr(original.graph, end).append(value)
    made = cut(spliced(original))
    assert [each.name for each in made.graph.initializer] == ["w"]
    onnx.checker.check_model(made)
    feed = {"x": np.float32([1, -2]), "c": np.array(True)}
    assert same_outputs(original, made, feed)


def test_the_width_of_a_state_is_known_where_its_rows_are_called_otherwise():
    flat = spliced(
        infer_shapes(
            model(
                """g (float[n, 3, 4] x) => (float[a, 4] y) {
        sizes = Shape <end = 1> (x)
        both = Concat <axis = 0> (sizes, four)
        start = ConstantOfShape (both)
        y = Loop (three, "", start) <body = turn
            (int64 i, bool on, float[p, q] s) => (bool off, float[r, t] e) {
            off = Identity (on) k = Gather <axis = 1> (x, i) m = MatMul (s, w) e = Add (m, k)
        }>
    }""",
                four=np.array([4]),
                three=np.int64(3),
                w=np.eye(4, dtype=np.float32),
            )
        )
    )
    shapes = {
        each.name: [dim.dim_value for dim in each.type.tensor_type.shape.dim]
        for each in flat.graph.value_info
    }
    assert shapes["s"] == shapes["m"] == shapes["e"] == [0, 4]


@pytest.mark.parametrize("is_computed", [False, True])
def test_what_a_body_is_given_has_no_name_that_is_taken(is_computed):
    text = LOOP.replace("off = Identity (on)", "off = Identity (go)")
    if is_computed:
        original = model(text.replace("h = Abs", "go = Not (no) h = Abs"), no=np.array(False))
    else:
        original = model(text, go=np.array(True))
    flat, taken = spliced(original), "loop/body/given_0"
    for each in [*flat.graph.node, *flat.graph.initializer]:
        if isinstance(each, onnx.TensorProto):
            each.name = taken if each.name == "go" else each.name
        else:
            each.input[:] = [taken if name == "go" else name for name in each.input]
            each.output[:] = [taken if name == "go" else name for name in each.output]
    made = cut(flat)
    onnx.checker.check_model(made)
    assert same_outputs(original, made, {"x": np.float32([1, -2]), "n": np.array(3)})
