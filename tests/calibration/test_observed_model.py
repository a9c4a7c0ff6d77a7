"""A model whose tensors are observed: they hold the very values of a plain run."""

import errno
import gc
import json
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import Run, Session, collect, input_specs, open_samples
from calibration.accumulator import Accumulator
from calibration.collect import collect_part
from calibration.counting import NumpyCounter, Values, fastest_counter
from calibration.histogram import Histogram
from calibration.joined import joined
from calibration.observed_model import CountingModel, ShownModel, observed_model
from calibration.statistics import Statistics
from opsets.errors import ModelError, UsageError
from qpasses.load import reading as load
from tests.support import zoo_models
from tests.support.small_models import (
    cnn,
    cnn_weights,
    convolutions_around,
    model,
    numbers,
    pictures,
)
from tests.support.stage_checks import networks, random_feeds, seeds
from tests.support.thoroughness import thoroughly

IN_C = not isinstance(fastest_counter(), NumpyCounter)
COUNTERS = [NumpyCounter(), *([fastest_counter()] if IN_C else [])]
needs_c = pytest.mark.skipif(
    not IN_C, reason="the C library is not built: no compiler was there at installation"
)
either_way = pytest.mark.parametrize("counter", COUNTERS, ids=["shown", "counted"][: 1 + IN_C])


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where temporary folders are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def written(made):
    """All float tensors that nodes of the main graph write."""
    typed = onnx.shape_inference.infer_shapes(made)
    types = {v.name: v.type.tensor_type for v in [*typed.graph.value_info, *made.graph.output]}
    names = [name for node in made.graph.node for name in node.output if name]
    return [n for n in names if n not in types or types[n].elem_type == onnx.TensorProto.FLOAT]


def exposed(made, tensors):
    """A session of the whole model with ``tensors`` as its outputs."""
    whole = onnx.ModelProto()
    whole.CopyFrom(made)
    known = {value.name: value for value in [*made.graph.value_info, *made.graph.output]}
    del whole.graph.output[:]
    whole.graph.output.extend(known.get(t, onnx.ValueInfoProto(name=t)) for t in tensors)
    return Session(whole, threads=1)


def sorted_bits(array):
    """All values in an order that is theirs alone: -0.0 and 0.0 count as one."""
    return np.sort(np.asarray(array, np.float32).ravel() + np.float32(0)).tobytes()


def observed(made, tensors, counter):
    """Tallies hold ``tensors`` in their order."""
    rows = {name: row for row, name in enumerate(tensors)}
    return observed_model(made, tensors, counter, rows)


def counted(tensors, counter, take):
    """The statistics of a sample that ``take`` gives an accumulator; that it is not finite."""
    into = Accumulator(tensors, {}, counter, tensors)
    take(into)
    try:
        into.end_sample()
    except FloatingPointError as error:
        return str(error)
    return into.statistics()


def observations(model, feeds, counter):
    """The statistics of each feed."""
    return [
        counted(model.tensors, counter, lambda into, feed=feed: model.observe(feed, into))
        for feed in feeds
    ]


def expected(made, tensors, feeds):
    """Those of a plain run of the whole model, counted by numpy."""
    session, found = exposed(made, tensors), []
    for feed in feeds:
        run = [np.ascontiguousarray(array, np.float32) for array in session.run(tensors, feed)]
        values = [*map(Values.of, run)]
        found.append(
            counted(tensors, NumpyCounter(), lambda into, v=values: into.take(tensors, v))
        )
    return found


def check_counted(made, feeds, tensors):
    """What is counted is what is there."""
    for counter in COUNTERS:
        with observed(made, tensors, counter) as model:
            found = observations(model, feeds, counter)
        assert found == expected(made, tensors, feeds)


def check_shown(made, feeds, tensors):
    """The values are those of a plain run, bit by bit, in any order."""
    session = exposed(made, tensors)
    with ShownModel(made, tensors) as shown:
        for feed in feeds:
            for each, array in zip(shown.run(feed), session.run(tensors, feed), strict=True):
                assert sorted_bits(each.array()) == sorted_bits(array)


@pytest.fixture(
    scope="module", params=["shown", pytest.param("counted", marks=needs_c)], name="check"
)
def _check(request):
    """Whether tensors (None: all) hold the values of a plain run, shown or counted."""

    def check(made, feeds, tensors=None):
        tensors = written(made) if tensors is None else tensors
        (check_shown if request.param == "shown" else check_counted)(made, feeds, tensors)

    return check


# Convolutions


CHANNELS = [1, 3, 4, 5, 8, 12, 16, 20, 24, 32, 36, 48, 64]

BLOCKS = """
blocks (float[N, C, H, W] x) => (float[] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w0, b0)
    r = Relu (a)
    c = Conv <pads = [1, 1, 1, 1]> (r, w1)
    s = Add (c, r)
    t = Relu (s)
    d = Conv <pads = [1, 1, 1, 1], group = GROUPS> (t, wd)
    p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (d)
    j = Concat <axis = 1> (p, p)
    y = GlobalAveragePool (j)
}"""


def blocks(channels):
    return model(
        BLOCKS.replace("GROUPS", str(channels)),
        w0=numbers(channels, 3, 3, 3),
        b0=numbers(channels),
        w1=numbers(channels, channels, 3, 3),
        wd=numbers(channels, 1, 3, 3),
    )


@pytest.mark.thinned
@pytest.mark.parametrize("channels", CHANNELS)
def test_convolutions_of_any_number_of_channels(check, channels):
    feeds = [{"x": numbers(1, 3, 8, 8)}, {"x": numbers(2, 3, 5, 7)}]
    check(blocks(channels), feeds)
    check(blocks(channels), feeds, ["a", "t", "y"])
    check(blocks(channels), feeds, ["c"])


@pytest.mark.parametrize("name", ["a", "r", "c", "s", "t", "d", "p", "j", "y"])
@pytest.mark.parametrize("channels", [12, 16])
def test_one_tensor_alone(check, channels, name):
    check(blocks(channels), [{"x": numbers(1, 3, 8, 8)}], [name])


@pytest.mark.parametrize(
    "operator", ["Relu", "Sigmoid", "LeakyRelu", "Identity", "Dropout", "Exp"]
)
def test_what_is_fused_or_removed_is_seen_if_it_is_wanted(check, operator):
    made = convolutions_around(operator)
    feeds = [{"x": pictures(2)}]
    check(made, feeds)
    for name in ("a", "m", "y"):
        check(made, feeds, [name])


def test_shapes_may_change_from_sample_to_sample(check):
    made = blocks(16)
    shapes = [(1, 8, 8), (3, 8, 8), (1, 20, 2), (2, 9, 33), (1, 8, 8), (1, 64, 64)]
    check(made, [{"x": numbers(n, 3, h, w)} for n, h, w in shapes])


@pytest.mark.parametrize("opset", [9, 11, 13, 15, 17, 19, 21, 22])
def test_opsets_of_all_ages(check, opset):
    made = cnn(opset=opset)
    check(made, [{"x": pictures(3)}])
    check(made, [{"x": pictures(1)}], ["a", "p", "f"])


# Graphs of every kind


@thoroughly(12)
@given(networks(), seeds, st.randoms(use_true_random=False))
def test_random_networks(check, made, seed, random):
    feeds = [random_feeds(made, seed), random_feeds(made, seed + 1)]
    check(made, feeds)
    names = written(made)
    check(made, feeds, random.sample(names, random.randint(1, len(names))))


GRAPHS = {
    "tensors read in the branches of an If": """
        g (float[2, 3] x) => (float[] y) {
            a = Relu (x)
            b = Mul (x, two)
            total = ReduceSum <keepdims = 0> (a)
            much = Greater (total, two)
            c = If (much) <
                then_branch = then_graph () => (float[] t) { t = Add (a, b) },
                else_branch = else_graph () => (float[] e) { n = Neg (b) e = Mul (n, a) }
            >
            y = Sub (c, a)
        }""",
    "a branch that gives a tensor from outside": """
        g (float[2, 3] x) => (float[] y) {
            a = Relu (x)
            b = Mul (x, two)
            total = ReduceSum <keepdims = 0> (a)
            much = Greater (total, two)
            y = If (much) <
                then_branch = then_graph () => (float[] t) { t = Identity (b) },
                else_branch = else_graph () => (float[] e) { e = Exp (b) }
            >
        }""",
    "a name that a branch gives a tensor of its own": """
        g (float[2, 3] x) => (float[] y) {
            a = Relu (x)
            much = Greater (one, two)
            y = If (much) <
                then_branch = then_graph () => (float[] t) { t = Exp (a) },
                else_branch = else_graph () => (float[] e) { e = Neg (a) }
            >
            z = Add (y, a)
            w = Mul (z, z)
        }""",
    "a Loop over a tensor from outside": """
        g (float[2, 3] x) => (float[] y, float[] scanned) {
            a = Relu (x)
            b = Mul (x, two)
            y, scanned = Loop (times, yes, a) <
                body = body (int64 i, bool go, float[2, 3] s)
                    => (bool on, float[2, 3] next, float[2, 3] out)
                {
                    on = Identity (go)
                    next = Add (s, b)
                    out = Mul (next, a)
                }
            >
        }""",
    "constants that are folded": """
        g (float[2, 3] x) => (float[] y) {
            k = Add (one, two)
            l = Mul (k, k)
            a = Mul (x, l)
            i = Identity (a)
            y = Identity (i)
        }""",
    "outputs that others read": """
        g (float[2, 3] x) => (float[] a, float[] y, float[] b) {
            a = Relu (x)
            b = Add (a, two)
            y = Mul (b, a)
        }""",
    "a tensor that nothing reads": """
        g (float[2, 3] x) => (float[] y) {
            a = Relu (x)
            b = Exp (x)
            y = Neg (a)
        }""",
    "the same computed twice": """
        g (float[2, 3] x) => (float[] y) {
            a = Relu (x)
            b = Relu (x)
            c = Exp (a)
            d = Exp (b)
            y = Add (c, d)
        }""",
    "integers and shapes between": """
        g (float[2, 3] x) => (float[] y) {
            s = Shape (x)
            i = Gather (s, at)
            f = Cast <to = 1> (i)
            a = Mul (x, f)
            r = Reshape (a, flat)
            t = Transpose (r)
            u = Unsqueeze (t, at)
            y = Squeeze (u, at)
        }""",
    "outputs left out and optional ones": """
        g (float[2, 3] x) => (float[] y) {
            v, i = TopK (x, at)
            p, q = Split <axis = 1> (x, sizes)
            c = Clip (p, , two)
            y = Concat <axis = 1> (v, c)
        }""",
    "a matrix product that is fused": """
        g (float[2, 3] x) => (float[] y) {
            m = MatMul (x, matrix)
            a = Add (m, row)
            n = Erf (a)
            o = Add (n, one)
            y = Mul (a, o)
        }""",
    "one node alone": "g (float[2, 3] x) => (float[] y) { y = Relu (x) }",
}

CONSTANTS = {
    "one": np.float32(1),
    "two": np.float32(2),
    "times": np.int64(3),
    "yes": np.bool_(True),
    "at": np.array([1], np.int64),
    "flat": np.array([3, 2], np.int64),
    "sizes": np.array([1, 2], np.int64),
    "matrix": numbers(3, 4),
    "row": numbers(4),
}


@pytest.mark.thinned
@pytest.mark.parametrize("graph", GRAPHS)
def test_graphs_of_every_kind(check, graph):
    made = model(GRAPHS[graph])
    used = {name for node in made.graph.node for name in _reads(node)}
    for name in sorted(used & CONSTANTS.keys()):
        made.graph.initializer.append(onnx.numpy_helper.from_array(CONSTANTS[name], name))
    feeds = [{"x": numbers(2, 3, seed=seed) * scale} for seed in (0, 1) for scale in (1, -9)]
    check(made, feeds)
    for name in written(made):
        check(made, feeds, [name])


def _reads(node):
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _reads(inner)


def test_an_initializer_that_is_an_input_too_is_a_constant(check):
    made = cnn()
    made.graph.input.append(onnx.helper.make_tensor_value_info("b1", 1, [4]))
    check(made, [{"x": pictures(2)}])


@pytest.mark.parametrize("kind", ["float16", "double"])
def test_tensors_of_other_float_types_may_be_between(check, kind):
    made = model(
        f"""g ({kind}[2, 3] x) => ({kind}[] z) {{
            a = Cast <to = 1> (x)
            b = Exp (a)
            c = Cast <to = {getattr(onnx.TensorProto, kind.upper())}> (b)
            d = Sqrt (c)
            e = Cast <to = 1> (d)
            y = Relu (e)
            z = Neg (d)
        }}"""
    )
    feeds = [{"x": numbers(2, 3, seed=seed).astype(np.dtype(kind))} for seed in (0, 1)]
    for tensors in (["a", "b", "e", "y"], ["b"], ["y"], ["b", "e"]):
        check(made, feeds, tensors)


def test_what_is_not_finite_is_seen_too(check):
    made = model("g (float[N] x) => (float[] y) { a = Exp (x) b = Neg (a) y = Log (b) }")
    check(made, [{"x": numbers(5)}, {"x": np.full(5, 100, np.float32)}], ["a", "b"])
    check(made, [{"x": numbers(5)}], ["y"])


def test_a_tensor_may_be_empty_in_some_samples(check):
    made = cnn()
    check(made, [{"x": pictures(2)}, {"x": pictures(0)}, {"x": pictures(1)}], ["a", "r"])


def test_a_tensor_may_be_empty_in_all_samples(check):
    made = model(
        "g (float[N, 4] x) => (float[] y) { a = Slice (x, four, four, one) y = Relu (x) }",
        one=np.array([1], np.int64),
        four=np.array([4], np.int64),
    )
    check(made, [{"x": numbers(2, 4)}, {"x": numbers(0, 4)}], ["a", "y"])


# Running


@either_way
def test_threads_may_run_one_model_at_once(counter):
    made, count = blocks(24), 40
    feeds = [{"x": numbers(1, 3, 8 + i % 3, 8, seed=i)} for i in range(count)]
    names = written(made)
    with observed(made, names, counter) as model, ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda feed: observations(model, [feed], counter)[0], feeds)
        assert list(found) == expected(made, names, feeds)


@either_way
def test_accumulators_may_be_of_other_tensors_too_and_of_several_samples(counter):
    made, names = cnn(), ["y", "other", "a", "r"]
    rows = {name: row for row, name in enumerate(names)}
    into = Accumulator(names, {}, counter, names)
    with observed_model(made, ["a", "y"], counter, rows) as model:
        for batch in (2, 3):
            into.begin(batch)
            model.observe({"x": pictures(batch, seed=batch)}, into)
            into.end_sample()
    found = into.statistics()
    feeds = [{"x": sample[None]} for batch in (2, 3) for sample in pictures(batch, seed=batch)]
    apart = expected(made, ["a", "y"], feeds)
    assert found.keys() == {"a", "y"}
    for name in found:
        assert found[name] == reduce(Statistics.merged, [each[name] for each in apart])


@either_way
def test_without_tensors_nothing_runs(counter, temporary):
    with observed(cnn(), [], counter) as model:
        assert observations(model, [{"x": pictures(1)}], counter) == [{}]
        assert observations(model, [{}], counter) == [{}]
    with ShownModel(cnn(), []) as shown:
        assert shown.run({"x": pictures(1)}) == []


@either_way
def test_many_models_may_be_open_at_once(counter):
    made, feeds = cnn(), [{"x": pictures(2)}]
    opened = [observed(made, ["a", "y"], counter) for _ in range(5)]
    found = [observations(each, feeds, counter) for each in opened]
    for each in opened:
        each.__exit__(None, None, None)
    assert found == [expected(made, ["a", "y"], feeds)] * 5


@either_way
def test_an_array_may_lie_in_memory_in_any_way(counter):
    feed = np.asfortranarray(pictures(4))[::2]
    with observed(cnn(), ["a", "y"], counter) as model:
        found = observations(model, [{"x": feed}], counter)
    assert found == expected(cnn(), ["a", "y"], [{"x": feed.copy()}])


def test_shown_values_live_as_long_as_they_are_held():
    with ShownModel(cnn(), ["a"]) as shown:
        held = [shown.run({"x": pictures(2, seed=seed)})[0] for seed in range(20)]
        single = [
            shown.run({"x": pictures(2, seed=seed)})[0].array().copy() for seed in range(20)
        ]
    gc.collect()
    for one, other in zip(held, single, strict=True):
        np.testing.assert_array_equal(one.array(), other)


@either_way
def test_a_model_may_have_operators_of_the_domain_of_the_counter(counter):
    made = model(
        """g (float[2, 3] x) => (float[] y) {
            a = Relu (x)
            b = qpasses.Observe (a)
            y = Neg (b)
        }""",
        domains=["qpasses"],
        functions="""<opset_import: ["" : 17], domain: "qpasses">
            Observe (x) => (y) { y = Add (x, x) }""",
    )
    feeds = [{"x": numbers(2, 3)}]
    with observed(made, ["a", "b", "y"], counter) as seen:
        assert observations(seen, feeds, counter) == expected(made, ["a", "b", "y"], feeds)


# The order of nodes


@pytest.fixture
def executed(tmp_path, monkeypatch):
    """The graph that the last session loaded from a file, and what runs, once it is asked."""
    sessions, load_session = [], ort.InferenceSession

    def profiled(source, options, **rest):
        options.enable_profiling = True
        options.profile_file_prefix = str(tmp_path / "profile")
        is_file = isinstance(source, str)
        loaded = onnx.load(source, load_external_data=False) if is_file else None
        sessions.append((loaded, load_session(source, options, **rest)))
        return sessions[-1][1]

    def found():
        loaded, session = sessions[-1]
        events = json.loads(Path(session.end_profiling()).read_text())
        kernels = [e["args"] for e in events if e["name"].endswith("_kernel_time")]
        return loaded.graph, [args["op_name"] for args in kernels]

    monkeypatch.setattr(ort, "InferenceSession", profiled)
    return found


ORDERED = {
    "convolutions": (lambda: blocks(16), (1, 3, 8, 8)),
    "blocks that need padding": (lambda: blocks(12), (1, 3, 8, 8)),
    "a fork": (
        lambda: model(
            """g (float[2, 3] x) => (float[] y) {
                a = Relu (x) b = Exp (x) c = Sigmoid (x)
                d = Neg (a) e = Abs (b) f = Sqrt (c)
                g = Add (d, e) y = Mul (g, f)
            }"""
        ),
        (2, 3),
    ),
}


@needs_c
@pytest.mark.parametrize("case", ORDERED)
def test_each_tensor_is_counted_as_soon_as_it_is_written(case, executed):
    make, shape = ORDERED[case]
    made, feeds = make(), [{"x": numbers(*shape)}]
    names = written(made)
    with observed(made, names, fastest_counter()) as model:
        observations(model, feeds, fastest_counter())
        graph, operators = executed()
    assert operators == [node.op_type for node in graph.node]
    assert operators.count("Observe") == len(names)
    before = None
    for node in graph.node:
        if node.op_type != "Observe":
            before = node
        else:
            assert node.input[0] in before.output


@needs_c
def test_only_that_all_is_counted_is_an_output(executed):
    with observed(cnn(), ["a", "r", "y"], fastest_counter()) as model:
        observations(model, [{"x": pictures(1)}], fastest_counter())
        graph, _ = executed()
    assert len(graph.output) == 1
    assert graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.INT64


def test_what_counts_follows_from_the_counter():
    rows = {"a": 0}
    with observed_model(cnn(), ["a"], NumpyCounter(), rows) as model:
        assert type(model) is ShownModel
    if IN_C:
        with observed_model(cnn(), ["a"], fastest_counter(), rows) as model:
            assert type(model) is CountingModel


# The temporary folder


@either_way
def test_the_temporary_folder_is_removed(counter, temporary):
    made, feeds = blocks(64), [{"x": numbers(1, 3, 8, 8)}]
    with observed(made, ["a", "t"], counter) as model:
        if os.name == "posix":
            assert list(temporary.iterdir()) == []  # at once: a killed run leaves nothing
        found = observations(model, feeds, counter)
    assert list(temporary.iterdir()) == []
    assert found == expected(made, ["a", "t"], feeds)


@either_way
def test_the_temporary_folder_is_removed_at_the_end_where_it_is_in_use(
    counter, temporary, monkeypatch
):
    monkeypatch.setattr("calibration.observed_model.os", SimpleNamespace(name="nt"))
    with observed(cnn(), ["a"], counter) as model:
        observations(model, [{"x": pictures(1)}], counter)
        [folder] = temporary.iterdir()
        assert (folder / "observed.onnx").is_file()
    assert list(temporary.iterdir()) == []


@either_way
def test_the_temporary_folder_is_removed_on_errors_too(counter, temporary):
    broken = model("g (float[2] x) => (float[] a) { a = Unknown (x) }")
    with pytest.raises(ModelError, match="onnxruntime cannot load the model"):
        observed(broken, ["a"], counter)
    gc.collect()
    assert list(temporary.iterdir()) == []
    with (
        pytest.raises(ModelError, match=r"cannot run the model on it \("),
        observed(cnn(), ["a"], counter) as seen,
    ):
        into = Accumulator(["a"], {}, counter, ["a"])
        seen.observe({"x": numbers(1, 2, 8, 8)}, into, "it")
    assert list(temporary.iterdir()) == []
    with pytest.raises(ZeroDivisionError), observed(cnn(), ["a"], counter):
        assert 1 / 0
    assert list(temporary.iterdir()) == []
    samples = open_samples([numbers(2)], input_specs(broken))
    with pytest.raises(ModelError):
        collect(broken, ["a"], samples)
    assert list(temporary.iterdir()) == []


@either_way
def test_a_full_disk_is_named_with_a_way_out_and_nothing_is_left(
    counter, temporary, monkeypatch
):
    write = Path.write_bytes

    def full(path, content):
        if path.name == "observed.onnx":
            write(path, content[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError) as refusal:
        observed(cnn(), ["a"], counter)
    message = str(refusal.value)
    assert message.startswith(str(temporary))
    assert "temporary files cannot be written: No space left" in message
    assert message.endswith("(TMPDIR names another place)")
    assert list(temporary.iterdir()) == []


def test_weights_are_left_as_they_were(check):
    made = cnn(**cnn_weights(3))
    before = made.SerializeToString(deterministic=True)
    check(made, [{"x": pictures(1)}])
    assert made.SerializeToString(deterministic=True) == before


# Real networks


ZOO = sorted(path.stem for path in zoo_models.path("none").parent.glob("*.onnx"))
OPEN = {"g2pm_bilstm": 7, "nsnet2_gru": 50, "ppocr_v2_cls": 48, "super_resolution_x3": 40}
"""Networks that leave sizes open, and what these are here."""


def made_up_samples(name, made):
    fixed = onnx.ModelProto()
    fixed.CopyFrom(made)
    for value in fixed.graph.input:
        for at, dim in enumerate(value.type.tensor_type.shape.dim):
            if name in OPEN and not dim.dim_value:
                dim.dim_value = OPEN[name] if at else 1
    return open_samples("random:2", input_specs(fixed))


@pytest.mark.thinned
@pytest.mark.parametrize("name", zoo_models.networks(ZOO or ["none"]))
def test_statistics_of_a_real_network_are_those_of_a_plain_run(name):
    made = load.read_model(zoo_models.path(name))
    names = written(made)
    names = [n for n in names if n not in joined(made, names)]  # what is run to be looked at
    samples = made_up_samples(name, made)
    found = collect_part(made, names, samples, Run(histograms=True, workers=1)).tensors
    session = exposed(made, names)
    runs = [session.run(names, feed) for _, feed in samples]
    for k, tensor in enumerate(names):
        values = np.concatenate([np.ravel(run[k]) for run in runs]).astype(np.float32)
        if values.size == 0:
            assert tensor not in found
            continue
        seen = found[tensor]
        assert (seen.low, seen.high) == (values.min(), values.max()), tensor
        assert (seen.count, seen.zeros) == (values.size, (values == 0).sum()), tensor
        assert seen.histogram == Histogram.of(values), tensor
