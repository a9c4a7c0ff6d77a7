"""verify and the compiled kernels: each node on all codes, and the samples."""

import numpy as np
import pytest

import qpasses
from calibration import Session
from opsets import native
from opsets.either_layout import ATTRIBUTE, layout_of
from opsets.qpasses_v1 import OPS
from qpasses.checking import sample_runs, side_by_side, verification
from qpasses.evidence import compiled_probe
from qpasses.ir.interchange import import_graph
from qpasses.ir.record import NodeRecord, Record
from tests.support.native_runs import drawn
from tests.support.small_models import cnn, model, numbers, pictures
from tests.support.tosa_nodes import model_of_nodes

needs_kernels = pytest.mark.skipif(
    native.library() is None, reason="there was no compiler for kernels"
)

BODY = """
    g (float[2, 12, 16] x) => (float[2, 12, 16] y) {
        n = LayerNormalization (x, g, b)  s = Softmax <axis = -1> (n)  e = Elu (x)
        p = Mul (s, e)  t = Sub (p, x)  m = ReduceMean <keepdims = 1> (t, last)
        y = Add (t, m)
    }
"""


@pytest.fixture(scope="module")
def made():
    weights = {"g": numbers(16), "b": numbers(16), "last": np.array([-1])}
    original = model(BODY, opset=18, **weights)
    feeds = [{"x": each} for each in numbers(4, 2, 12, 16)]
    return qpasses.quantize(original, feeds, accuracy="fast").model, original, feeds


def checks(made):
    return qpasses.verify(*made).report["checks"].get("compiled_kernels")


@needs_kernels
def test_every_node_with_a_kernel_is_run(made):
    found = checks(made)
    ops = [node.op_type for node in made[0].graph.node]
    kernels = [op for op in ops if op in native.KERNELS]
    assert {"IntLayerNorm", "TableSoftmax", "Lut", "IntMul", "IntSub", "IntAdd"} <= {*ops}
    assert found["nodes"] == len(kernels)
    rows = sum(op in ("IntLayerNorm", "TableSoftmax", "IntReduce") for op in kernels)
    assert (found["sampled"], found["exhaustive"]) == (rows, len(kernels) - rows)
    assert found["mismatches"] == found["elements_differing"] == 0
    assert found["elements"] > 65536 * sum(op in ("IntMul", "IntSub", "IntAdd") for op in ops)


@pytest.mark.thinned
@needs_kernels
@pytest.mark.parametrize(
    "options",
    [
        {"activation_scales": "per-channel"},
        {"activation_type": "int8"},
        {"residual_type": "int16"},
        {"target": "tflite"},
        {"target": "bm1684x"},
        {"layout": "nchw"},
    ],
    ids=str,
)
def test_other_forms_are_run_too(options):
    sums = convolutions()
    feeds = [{"x": each} for each in numbers(3, 1, 3, 8, 8)]
    found = qpasses.verify(qpasses.quantize(sums, feeds, **options).model, sums, feeds)
    assert found.verdict == "ok"
    assert found.report["checks"]["compiled_kernels"]["nodes"] > 0


def convolutions():
    text = """g (float[1, 3, 8, 8] x) => (float[1, 4, 8, 8] y) {
        a = Conv <pads = [1, 1, 1, 1]> (x, w)  s = Sigmoid (a)  p = Mul (a, s)
        c = Conv <pads = [1, 1, 1, 1], group = 4> (p, d)  e = Elu (c)  q = Add (p, e)
        f = Conv <pads = [1, 1, 1, 1], group = 4> (q, d)  y = Add (q, f)
    }"""
    return model(text, w=numbers(4, 3, 3, 3), d=numbers(4, 1, 3, 3))


PICTURES = """
    g (float[1, 3, 12, 12] x) => (float[1, 10] y) {
        a = Conv <pads = [1, 1, 1, 1]> (x, w)  p = PRelu (a, slopes)
        m = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (p)
        s = Resize <mode = "linear"> (m, , scales)  t = Add (s, p)
        c = AveragePool
            <kernel_shape = [2, 2], pads = [1, 1, 1, 1], count_include_pad = 1> (t)
        d = Conv (c, v)  e = GlobalAveragePool (d)  f = Flatten (e)  y = LogSoftmax (f)
    }
"""
"""A picture, with all that looks at its places."""


@pytest.mark.thinned
@needs_kernels
@pytest.mark.parametrize("target", ["onnx", "tflite", "bm1684x"])
@pytest.mark.parametrize("layout", ["nchw", "auto"])
def test_kernels_of_pictures_are_run_in_either_layout(target, layout):
    weights = {"w": numbers(6, 3, 3, 3), "v": numbers(10, 6, 3, 3)}
    weights |= {"slopes": numbers(6, 1, 1) / 4, "scales": np.array([1, 1, 2, 2], np.float32)}
    original = model(PICTURES, **weights)
    feeds = [{"x": each} for each in numbers(3, 1, 3, 12, 12)]
    options = {"target": target, "layout": layout, "activation_form": "multiplier"}
    made = qpasses.quantize(original, feeds, **options).model
    kernels = [node.op_type for node in made.graph.node if node.op_type in native.KERNELS]
    found = qpasses.verify(made, original, feeds).report
    assert found["checks"]["compiled_kernels"]["nodes"] == len(kernels)
    assert found["summary"]["problems"] == []
    assert {"IntAveragePool", "IntCountedAveragePool"} & {*kernels}
    assert {"IntPRelu", "IntCodedPRelu"} & {*kernels}


PUBLISHED = """
    g (float[2, 12, 16] x) => (float[2, 12, 16] y) {
        n = LayerNormalization (x, g, b)  s = Softmax <axis = -1> (n)
        e = Gelu (s)  l = LogSoftmax <axis = -1> (e)  y = Add (l, x)
    }
"""


@needs_kernels
@pytest.mark.parametrize(
    ("options", "ops"),
    [
        (
            {"softmax": "shiftmax", "gelu": "shift", "layernorm": "ivit"},
            {"Shiftmax", "ShiftGelu", "ILayerNorm", "IntLogSoftmax"},
        ),
        ({"softmax": "ibert", "gelu": "ibert"}, {"IBertSoftmax", "IBertGelu"}),
    ],
    ids=["ivit", "ibert"],
)
def test_kernels_of_published_algorithms_are_run(options, ops):
    original = model(PUBLISHED, opset=20, g=numbers(16), b=numbers(16))
    feeds = [{"x": each} for each in numbers(4, 2, 12, 16)]
    made = qpasses.quantize(original, feeds, **options).model
    kernels = [node.op_type for node in made.graph.node if node.op_type in native.KERNELS]
    assert ops <= {*kernels}
    found = qpasses.verify(made, original, feeds).report
    assert found["checks"]["compiled_kernels"]["nodes"] == len(kernels)
    assert found["summary"]["problems"] == []


def entry(node, is_laid):
    """A record of channels last, where a picture has them."""
    rank = len(node.inputs[0].shape)
    is_picture = node.attrs.get("dims", rank - 2) <= rank - 2
    layout = layout_of(rank) if is_laid and is_picture else ""
    return NodeRecord(source=[], scales={}, layout=layout)


@pytest.mark.thinned
@needs_kernels
@pytest.mark.parametrize("name", native.KERNELS)
def test_random_nodes_of_every_kernel_are_run(name):
    cases = drawn(name, 4)
    graph = import_graph(model_of_nodes(OPS[name], cases))
    takes_either = ATTRIBUTE in OPS[name].attributes
    for is_laid in {False, takes_either}:
        record = Record(nodes={node.name: entry(node, is_laid) for node in graph.nodes})
        found = compiled_probe.probe_compiled(graph, record, native.library())
        assert found.nodes == len(cases)
        assert found.wrong == {}
        assert found.elements > 0


@needs_kernels
def test_windows_that_only_a_large_picture_has_room_for_are_counted(monkeypatch):
    monkeypatch.setattr(compiled_probe, "_LARGEST", 40)
    original, feeds = cnn(), pictures()
    made = qpasses.quantize(original, feeds, accuracy="fast").model
    probe = qpasses.verify(made, original, feeds).report["checks"]["compiled_kernels"]
    names = [node.op_type for node in made.graph.node if node.op_type in native.KERNELS]
    assert 0 < probe["not_run"] <= names.count("IntConv")
    assert probe["nodes"] + probe["not_run"] == len(names)


class WrongSession(Session):
    """A library whose kernels give something else in one place."""

    def run(self, *arguments):
        found = [np.array(each) for each in super().run(*arguments)]
        found[0].view(np.uint8).reshape(-1)[-1] ^= 1
        return found


@needs_kernels
def test_a_kernel_that_is_wrong_for_one_code_is_found(made, monkeypatch):
    monkeypatch.setattr(compiled_probe, "Session", WrongSession)
    found = qpasses.verify(*made)
    assert found.verdict == "failed"
    assert any("its compiled kernel differs" in each for each in problems(found))


@needs_kernels
def test_kernels_that_differ_on_samples_are_found(made, monkeypatch):
    right = side_by_side.SideBySide.compiled

    def wrong(runs):
        session = right(runs)
        session.__class__ = WrongSession
        return session

    monkeypatch.setattr(side_by_side.SideBySide, "compiled", wrong)
    found = qpasses.verify(*made)
    assert any("compiled kernels give 4 elements" in each for each in problems(found))


def problems(found):
    return found.report["summary"]["problems"]


def test_without_a_library_nothing_is_said_of_it(monkeypatch):
    for module in (verification, side_by_side):
        monkeypatch.setattr(module, "library", lambda: None)
    made = qpasses.quantize(cnn(), pictures()).model
    assert checks((made, cnn(), pictures())) is None


@needs_kernels
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_a_pool_of_other_sizes_than_its_picture_is_a_difference_and_no_crash(layout):
    text = """g (float[2, 3, 8, 8] x) => (float[2, 3, 1, 1] y) {
        c = Conv <pads = [1, 1, 1, 1]> (x, w) y = GlobalAveragePool (c) }"""
    original = model(text, opset=18, w=numbers(3, 3, 3, 3))
    feeds = [{"x": each} for each in numbers(4, 2, 3, 8, 8)]
    forged = qpasses.quantize(original, feeds, accuracy="fast", layout=layout).model
    (pool,) = [n for n in forged.graph.node if n.op_type == "IntGlobalAveragePool"]
    (sizes,) = [each for each in pool.attribute if each.name == "spatial_shape"]
    sizes.ints[1] = 7
    assert qpasses.verify(forged, original, feeds).verdict == "failed"


@needs_kernels
def test_kernels_and_bodies_are_compared_on_as_many_threads(made, monkeypatch):
    """Nodes in float round by how many there are: an LSTM in a Loop did."""
    of_bodies, of_kernels = [], []
    load, session = sample_runs.loaded, side_by_side.Session

    def loaded(*arguments, **options):
        of_bodies.append(options["threads"])
        return load(*arguments, **options)

    def opened(*arguments, **options):
        if "operators" in options:
            of_kernels.append(options.get("threads", 0))
        return session(*arguments, **options)

    monkeypatch.setattr(sample_runs, "cores", lambda: 6)
    monkeypatch.setattr(sample_runs, "loaded", loaded)
    monkeypatch.setattr(side_by_side, "Session", opened)
    qpasses.verify(*made)
    assert (of_bodies, of_kernels) == ([3, 3], [3])
