"""The arithmetic of a file's runtimes: as it is derived, and as their kernels run."""

import numpy as np
import pytest

from qpasses.checking.beside.litert_tools import JUDGES
from qpasses.emit.tflite import litert_arithmetic as runtime
from qpasses.emit.tflite.flatbuffer import FileContent, Scales, packed
from qpasses.emit.tflite.litert_ops.native_tables import native_of
from qpasses.emit.tflite.tflite_operations import TfliteOperations, place_of
from qpasses.evidence.thresholds import levels
from tests.support.litert import RUNTIMES, needs_litert
from tests.support.litert_served import Served

pytestmark = needs_litert

SCALES = np.random.default_rng(5).uniform(0.002, 0.9, (6, 3)).astype(np.float32).tolist()
every_scale = pytest.mark.parametrize("scales", SCALES)
CODES = np.arange(-128, 128).astype(np.int8)


@pytest.fixture(params=RUNTIMES)
def by(request):
    return runtime.runtime_of(request.param)


def run(program, given, wanted, by, folder):
    """What the kernels of a runtime make of arrays, each with the value that it is."""
    for place, tensor in enumerate(program.tensors):
        tensor.name = f"t{place}"
    ends = [(f"x{k}", place_of(value)) for k, (value, _) in enumerate(given)]
    out = place_of(wanted)
    file = packed(FileContent(program.tensors, program.operators, ends, [("y", out)], {}))
    (folder / "m.tflite").write_bytes(file)
    process = Served(folder / "m.tflite", JUDGES[by.name][0], folder, keep=False)
    found = process.run({place_of(value): array for value, array in given}, [out])
    return found[out].astype(np.int64)


class Bench:
    """A file in the making, with inputs of codes."""

    def __init__(self, by, folder):
        self.program, self.given, self.by, self.folder = TfliteOperations(), [], by, folder

    def codes(self, array, scale, zero):
        value = self.program.argument(array.shape, "i8")
        self.program.tensor(value).meaning = Scales((scale,), (zero,))
        self.given.append((value, array))
        return value

    def run(self, name, version, inputs, shape, scale, zero, options="", **numbers):
        meaning = Scales((scale,), (zero,))
        made = self.program.operator(
            *(name, version, inputs, shape, "i8", options), meaning=meaning, **numbers
        )
        return run(self.program, self.given, made, self.by, self.folder)


def clipped(found, zero):
    return np.clip(found + zero, -128, 127)


@every_scale
def test_quantize(scales, by, tmp_path):
    bench = Bench(by, tmp_path)
    found = bench.run("QUANTIZE", 2, [bench.codes(CODES, scales[0], 5)], (256,), scales[1], -9)
    pair = by.pair("Quantize", scales[:1], scales[1])
    wanted = clipped(runtime.levels_of(CODES.astype(np.int64) - 5, pair), -9)
    assert np.array_equal(found, wanted)


SIGNS = {"ADD": 1, "SUB": -1}


@every_scale
@pytest.mark.parametrize("name", [*SIGNS, "MUL"])
def test_pairs_of_codes(name, scales, by, tmp_path):
    bench, options = Bench(by, tmp_path), f"{name.title()}Options"
    a, b = np.repeat(CODES, 256), np.tile(CODES, 256)
    sides = [bench.codes(a, scales[0], 3), bench.codes(b, scales[1], -7)]
    y = scales[2]
    found = bench.run(name, 2, sides, a.shape, y, 11, options)
    levels_of = (a.astype(np.int64) - 3, b.astype(np.int64) + 7)
    if name == "MUL":
        wanted = runtime.levels_of(np.multiply(*levels_of), by.pair("IntMul", scales[:2], y))
    else:
        wanted = by.sum_levels(*levels_of, by.of_sum(*scales), SIGNS[name])
    assert np.array_equal(found, clipped(wanted, 11))


@every_scale
@pytest.mark.parametrize("slope", [0.3, -0.17])
def test_leaky_relu(scales, slope, by, tmp_path):
    bench, slope = Bench(by, tmp_path), float(np.float32(slope))
    x = bench.codes(CODES, scales[0], 20)
    ends = ((256,), scales[1], 3, "LeakyReluOptions")
    found = bench.run("LEAKY_RELU", 2, [x], *ends, alpha=slope)
    numbers = by.of_slopes("LeakyRelu", *scales[:2], [1], slope)
    wanted = runtime.slope_levels(CODES.astype(np.int64) - 20, numbers)
    assert np.array_equal(found, clipped(wanted, 3))


@every_scale
def test_slopes_of_channels(scales, by, tmp_path):
    bench, slopes = Bench(by, tmp_path), np.array([-100, -3, 7, 127], np.int8)
    x = bench.codes(np.repeat(CODES, 4).reshape(1, 16, 16, 4), scales[0], 20)
    alpha = bench.program.stored(slopes.reshape(1, 1, 4), Scales((scales[2],), (2,)))
    found = bench.run("PRELU", 1, [x, alpha], (1, 16, 16, 4), scales[1], 3)
    codes = (slopes.astype(np.int64) - 2).tolist()
    numbers = by.of_slopes("PRelu", *scales[:2], codes, scales[2])
    levels_of = np.repeat(CODES, 4).reshape(256, 4).astype(np.int64) - 20
    wanted = runtime.slope_levels(levels_of, numbers)
    assert np.array_equal(found.reshape(256, 4), clipped(wanted, 3))


@every_scale
@pytest.mark.parametrize("axes", [[1, 2], [3], [1]])
def test_means(scales, axes, by, tmp_path):
    bench, shape = Bench(by, tmp_path), (2, 3, 5, 8)
    x = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    value = bench.codes(x, scales[0], 4)
    kept = [1 if k in axes else size for k, size in enumerate(shape)]
    given = [value, bench.program.sizes(axes)]
    found = bench.run("MEAN", 2, given, kept, scales[1], -3, "ReducerOptions", keepDims=True)
    cells = int(np.prod([shape[k] for k in axes]))
    total = (x.astype(np.int64) - 4).sum(axis=tuple(axes), keepdims=True)
    wanted = runtime.levels_of(total, by.of_mean(*scales[:2], cells))
    assert np.array_equal(found, clipped(wanted, -3))


@every_scale
def test_products_of_matrices(scales, by, tmp_path):
    bench, rng = Bench(by, tmp_path), np.random.default_rng(2)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((2, 9, 30), (2, 30, 7)))
    sides = [bench.codes(a, scales[0], 5), bench.codes(b, scales[1], -6)]
    y = scales[2] * 60
    y = float(np.float32(y))
    found = bench.run("BATCH_MATMUL", 4, sides, (2, 9, 7), y, 1, "BatchMatMulOptions")
    acc = (a.astype(np.int64) - 5) @ (b.astype(np.int64) + 6)
    wanted = runtime.levels_of(acc, by.pair("IntMatMul", scales[:2], y))
    assert np.array_equal(found, clipped(wanted, 1))


@every_scale
@pytest.mark.parametrize("several", [False, True])
def test_fully_connected_steps_where_it_is_said(scales, several, by, tmp_path):
    if several and not by.scales_rows:
        pytest.skip("its graphs have one scale of the weights of a Gemm")
    bench, rng = Bench(by, tmp_path), np.random.default_rng(3)
    x = rng.integers(-128, 128, (400, 40)).astype(np.int8)
    w = rng.integers(-127, 128, (6, 40)).astype(np.int8)
    own = (rng.uniform(0.5, 1, 6) * scales[1]).astype(np.float32).tolist()
    own = own if several else own[:1]
    y = float(np.float32(scales[0] * scales[1] * 60))
    given = [
        bench.codes(x, scales[0], 5),
        bench.program.stored(w, Scales(tuple(own), (0,), 0)),
        bench.program.stored(np.arange(6, dtype=np.int32) * 100, None),
    ]
    steps = tuple(float(np.float32(scales[0]) * np.float32(each)) for each in own)
    bench.program.tensor(given[2]).meaning = Scales(steps)
    version = 12 if several else 4
    ends = ((400, 6), y, -4, "FullyConnectedOptions")
    found = bench.run("FULLY_CONNECTED", version, given, *ends)
    acc = (x.astype(np.int64) - 5) @ w.T.astype(np.int64) + np.arange(6) * 100
    if not by.scales_rows:
        pair = by.pair("IntGemm", (scales[0], own[0]), y)
        assert np.array_equal(found, clipped(runtime.levels_of(acc, pair), -4))
        return
    real = [by.scale("IntGemm", (scales[0], each), y) for each in own]
    above = runtime.fully_connected_thresholds(real, levels(-4, -128, 127))
    above = np.broadcast_to(above, (6, 255))
    wanted = -128 + (acc[:, :, None] >= above[None]).sum(axis=2)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("name", ["LOGISTIC", "TANH", "GELU", "EXP", "HARD_SWISH", "RELU"])
def test_operators_that_stand_for_tables_give_them(name, tmp_path):
    by = runtime.runtime_of("litert")
    fixed = {"LOGISTIC": (1 / 256, -128)}
    tried = 0
    for x_scale, y_scale, _ in SCALES:
        x_scale = x_scale / 8 if name == "EXP" else x_scale  # it soon is beyond all codes
        x, y = Scales((x_scale,), (9,)), Scales((y_scale,), (-5,))
        if name in fixed:
            y = Scales(fixed[name][:1], fixed[name][1:])
        bench = Bench(by, tmp_path)
        options = {"GELU": "GeluOptions", "EXP": "ExpOptions"}.get(name, "")
        numbers = {"approximate": False} if name == "GELU" else {}
        version = 1 if name == "HARD_SWISH" else 2
        if name == "HARD_SWISH" and x_scale / 128 > y_scale:
            continue
        value = bench.codes(CODES, x_scale, 9)
        given = (name, version, [value], (256,), y.scale, y.zero, options)
        found = bench.run(*given, **numbers).astype(np.int8)
        native = native_of(found, x, y, by)
        assert native is None or native.name in (name, "RELU", "QUANTIZE")
        tried += native is not None
    assert tried > 1
