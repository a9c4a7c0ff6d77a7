"""Sizes that are computed from sizes, as exporters write them where the batch is free."""

import numpy as np
import pytest

import qpasses
from tests.support.small_models import model, numbers, pictures, session

HEAD = "net (float[N, 1, 8, 8] x) => (float[N, 3] y)"
HALVES = """
    {0}_all = Shape ({1})
    {0}_channels = Gather ({0}_all, one)
    {0}_half = Div ({0}_channels, two)
    {0}_ends = Unsqueeze ({0}_half, none)
    {0}_first = Slice ({1}, none, {0}_ends, axis)
    {0}_other = Slice ({1}, {0}_ends, last, axis)
    {0}_turned = Conv <pads = [1, 1, 1, 1]> ({0}_other, v)
    {0} = Concat <axis = 1> ({0}_first, {0}_turned)
"""
SHUFFLED = """
    {0}_sizes = Shape ({1})
    {0}_n = Gather ({0}_sizes, none)
    {0}_c = Gather ({0}_sizes, axis)
    {0}_plane = Slice ({0}_sizes, axes, four, none)
    {0}_halves = Div ({0}_c, two)
    {0}_apart = Concat <axis = 0> ({0}_n, pair, {0}_halves, {0}_plane)
    {0}_groups = Reshape ({1}, {0}_apart)
    {0}_swapped = Transpose <perm = [0, 2, 1, 3, 4]> ({0}_groups)
    {0}_joined = Concat <axis = 0> ({0}_n, {0}_c, {0}_plane)
    {0} = Reshape ({0}_swapped, {0}_joined)
"""
TAIL = "m = GlobalAveragePool ({0}) f = Flatten (m) y = Gemm (f, u)"
PADDED = """
    zeros = ConstantOfShape <value = int64[1] {0}> (count)
    pads = Concat <axis = 0> (ones, zeros)
    sides = Reshape (pads, rows)
    ring = Reshape (sides, flat)
    p = Pad <mode = "reflect"> (a, ring)
    [norm] i = InstanceNormalization (p, gamma, beta)
"""
BODIES = {
    "channels that are shuffled": HALVES.format("h", "a")
    + SHUFFLED.format("s", "h")
    + HALVES.format("g", "s")
    + SHUFFLED.format("t", "g")
    + TAIL.format("t"),
    "computed pads": PADDED + TAIL.format("i"),
}
CONSTANTS = {
    **{"one": np.int64(1), "two": np.int64(2), "none": np.int64([0]), "axis": np.int64([1])},
    **{"last": np.int64([1 << 40]), "axes": np.int64([2]), "four": np.int64([4])},
    **{"pair": np.int64([2]), "count": np.int64([4]), "ones": np.int64([0, 0, 1, 1])},
    **{"rows": np.int64([2, 4]), "flat": np.int64([-1])},
    **{"gamma": numbers(4), "beta": numbers(4, seed=1)},
    **{"w": numbers(4, 1, 3, 3), "v": numbers(2, 2, 3, 3), "u": numbers(4, 3)},
}


@pytest.mark.parametrize("name", BODIES)
def test_what_depends_on_them_is_integer_for_any_batch(name):
    body = f"a = Conv <pads = [1, 1, 1, 1]> (x, w) {BODIES[name]}"
    used = {key: value for key, value in CONSTANTS.items() if key in body}
    made = model(f"{HEAD} {{ {body} }}", opset=17, **used)
    feeds = [{"x": picture[None]} for picture in pictures(4)]
    result = qpasses.quantize(made, feeds)
    assert (result.verdict, result.report["summary"]["float_nodes"]) == ("ok", [])
    assert qpasses.verify(result.model, made, feeds).verdict == "ok"
    running, whole = session(result.model), {"x": pictures(4)}
    each = np.concatenate([running.run(None, feed)[0] for feed in feeds])
    assert np.array_equal(running.run(None, whole)[0], each)
