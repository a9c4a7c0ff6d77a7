"""A model taken apart: each tensor holds the very values of a plain run of the whole model."""

import gc
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
import zoo_models
from hypothesis import given
from hypothesis import strategies as st
from small_models import cnn, cnn_weights, convolutions_around, model, numbers, pictures
from stage_checks import networks, random_feeds, seeds, thoroughly

from calibration import Run, Session, collect, input_specs, observed_model, open_samples
from calibration.collect import collect_part
from calibration.histogram import Histogram
from calibration.joined import joined
from calibration.observed_model import ObservedModel
from opsets.errors import ModelError
from qpasses import load

SIZES = [1, 1 << 12, 1 << 40]

every_size = pytest.mark.parametrize("size", SIZES, ids=["each node", "some", "one"])


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


def plain(made, tensors, feeds):
    """The sorted values of each tensor for each feed, in a run of the whole model."""
    session = exposed(made, tensors)
    return [
        {n: sorted_bits(a) for n, a in zip(tensors, session.run(tensors, feed), strict=True)}
        for feed in feeds
    ]


def sorted_bits(array):
    """All values in an order that is theirs alone: -0.0 and 0.0 count as one."""
    return np.sort(np.asarray(array, np.float32).ravel() + np.float32(0)).tobytes()


def looked_at(observed, feed):
    """The sorted values of each tensor, each seen once."""
    found = {}

    def take(names, values):
        assert len(names) == len(values) > 0
        for name, each in zip(names, values, strict=True):
            assert name not in found
            found[name] = sorted_bits(each.array() if each.size else [])

    observed.run(feed, take)
    return found


def check(made, feeds, tensors=None, sizes=SIZES):
    """In segments of any size, ``tensors`` (None: all) hold the values of a plain run."""
    tensors = written(made) if tensors is None else tensors
    expected = plain(made, tensors, feeds)
    for size in sizes:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(observed_model, "SEGMENT_BYTES", size)
            with ObservedModel(made, tensors) as observed:
                for feed, values in zip(feeds, expected, strict=True):
                    assert looked_at(observed, feed) == values


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


@pytest.mark.parametrize("channels", CHANNELS)
def test_convolutions_of_any_number_of_channels(channels):
    feeds = [{"x": numbers(1, 3, 8, 8)}, {"x": numbers(2, 3, 5, 7)}]
    check(blocks(channels), feeds)
    check(blocks(channels), feeds, ["a", "t", "y"])
    check(blocks(channels), feeds, ["c"])


@pytest.mark.parametrize("name", ["a", "r", "c", "s", "t", "d", "p", "j", "y"])
@pytest.mark.parametrize("channels", [12, 16])
def test_one_tensor_alone(channels, name):
    check(blocks(channels), [{"x": numbers(1, 3, 8, 8)}], [name])


@pytest.mark.parametrize(
    "operator", ["Relu", "Sigmoid", "LeakyRelu", "Identity", "Dropout", "Exp"]
)
def test_what_is_fused_or_removed_is_seen_if_it_is_wanted(operator):
    made = convolutions_around(operator)
    feeds = [{"x": pictures(2)}]
    check(made, feeds)
    for name in ("a", "m", "y"):
        check(made, feeds, [name])


def test_shapes_may_change_from_sample_to_sample():
    made = blocks(16)
    shapes = [(1, 8, 8), (3, 8, 8), (1, 20, 2), (2, 9, 33), (1, 8, 8), (1, 64, 64)]
    check(made, [{"x": numbers(n, 3, h, w)} for n, h, w in shapes])


@pytest.mark.parametrize("opset", [9, 11, 13, 15, 17, 19, 21, 22])
def test_opsets_of_all_ages(opset):
    made = cnn(opset=opset)
    check(made, [{"x": pictures(3)}])
    check(made, [{"x": pictures(1)}], ["a", "p", "f"])


# Graphs of every kind


@thoroughly(12)
@given(networks(), seeds, st.randoms(use_true_random=False))
def test_random_networks(made, seed, random):
    feeds = [random_feeds(made, seed), random_feeds(made, seed + 1)]
    names = written(made)
    check(made, feeds, names, [1])
    check(made, feeds, random.sample(names, random.randint(1, len(names))), [1, 1 << 40])


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


@pytest.mark.parametrize("graph", GRAPHS)
def test_graphs_of_every_kind(graph):
    made = model(GRAPHS[graph])
    used = {name for node in made.graph.node for name in _reads(node)}
    for name in sorted(used & CONSTANTS.keys()):
        made.graph.initializer.append(onnx.numpy_helper.from_array(CONSTANTS[name], name))
    feeds = [{"x": numbers(2, 3, seed=seed) * scale} for seed in (0, 1) for scale in (1, -9)]
    check(made, feeds)
    for name in written(made):
        check(made, feeds, [name], [1])


def _reads(node):
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _reads(inner)


def test_an_initializer_that_is_an_input_too_is_a_constant():
    made = cnn()
    made.graph.input.append(onnx.helper.make_tensor_value_info("b1", 1, [4]))
    check(made, [{"x": pictures(2)}])


def test_values_of_other_float_types_are_seen_as_float32():
    made = model("g (float16[2, 3] x) => (float16[] y) { a = Relu (x) y = Neg (a) }")
    feeds = [{"x": numbers(2, 3).astype(np.float16)}]
    check(made, feeds, ["a", "y"])


def test_a_tensor_may_be_empty_in_some_samples():
    made = cnn()
    check(made, [{"x": pictures(2)}, {"x": pictures(0)}, {"x": pictures(1)}], ["a", "r"])


# Running


def test_threads_may_run_one_model_at_once():
    made, count = blocks(24), 40
    feeds = [{"x": numbers(1, 3, 8 + i % 3, 8, seed=i)} for i in range(count)]
    names = written(made)
    expected = plain(made, names, feeds)
    with ObservedModel(made, names) as observed, ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda feed: looked_at(observed, feed), feeds)) == expected


def test_without_tensors_nothing_runs():
    with ObservedModel(cnn(), []) as observed:
        assert looked_at(observed, {"x": pictures(1)}) == {}


def test_many_models_may_be_open_at_once():
    made = cnn()
    opened = [ObservedModel(made, ["a", "y"]) for _ in range(5)]
    found = [looked_at(each, {"x": pictures(2)}) for each in opened]
    for each in opened:
        each.__exit__(None, None, None)
    assert all(values == found[0] for values in found)


# The temporary folder


@every_size
def test_the_temporary_folder_is_removed(temporary, monkeypatch, size):
    monkeypatch.setattr(observed_model, "SEGMENT_BYTES", size)
    with ObservedModel(blocks(64), ["a", "t"]) as observed:
        assert list(temporary.iterdir()) == []  # at once: a killed run leaves nothing
        looked_at(observed, {"x": numbers(1, 3, 8, 8)})
    assert list(temporary.iterdir()) == []


def test_the_temporary_folder_is_removed_on_errors_too(temporary):
    broken = model("g (float[2] x) => (float[] a) { a = Unknown (x) }")
    with pytest.raises(ModelError, match="onnxruntime cannot load the model"):
        ObservedModel(broken, ["a"])
    gc.collect()
    assert list(temporary.iterdir()) == []
    with (
        pytest.raises(ModelError, match="cannot run"),
        ObservedModel(cnn(), ["a"]) as observed,
    ):
        looked_at(observed, {"x": numbers(1, 2, 8, 8)})
    assert list(temporary.iterdir()) == []
    with pytest.raises(ZeroDivisionError), ObservedModel(cnn(), ["a"]) as observed:
        observed.run({"x": pictures(1)}, lambda names, values: 1 / 0)
    assert list(temporary.iterdir()) == []
    samples = open_samples([numbers(2)], input_specs(broken))
    with pytest.raises(ModelError):
        collect(broken, ["a"], samples)
    assert list(temporary.iterdir()) == []


def test_weights_are_left_as_they_were():
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


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=zoo_models.NEEDS_ZOO) for n in ZOO or ["none"]]
)
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
