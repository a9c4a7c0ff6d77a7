"""Rescaling: moving nodes whose tensors have different scales move what is stored anew."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import Range
from qpasses import QPassesError, calibrate, quantize, verify
from qpasses.place.alignment.tpu_mlir_rules import spread
from tests.support.small_models import model, numbers, recorded
from tests.support.stage_checks import (
    CONSTANTS,
    check,
    check_tied_tensors,
    net,
    networks,
    random_feeds,
    seeds,
    stages,
)
from tests.support.thoroughness import thoroughly


def in_turn(widths):
    """Ranges of these widths, one tensor after the other."""

    def aligning(_graph, chosen, _ranges):
        return {
            name: Range(-widths[i % len(widths)], widths[(i + 1) % len(widths)])
            for i, name in enumerate(chosen.tensors)
        }

    return aligning


def ops(found):
    return [node.op_type for node in found.integer.graph.node]


@thoroughly(60)
@given(
    made=networks(),
    seed=seeds,
    widths=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    kind=st.sampled_from(["uint8", "int8"]),
)
def test_whatever_ranges_tensors_have_the_integer_graph_is_proved(made, seed, widths, kind):
    found = stages(made, random_feeds(made, seed), in_turn(widths), activation_type=kind)
    check_tied_tensors(found)
    check(found, random_feeds(made, seed + 1))


@thoroughly(40)
@given(made=networks(), seed=seeds)
def test_ranges_spread_by_the_rules_of_tpu_mlir_are_made_legal(made, seed):
    def aligning(graph, _chosen, ranges):
        return spread(graph, ranges)

    found = stages(made, random_feeds(made, seed), aligning)
    check_tied_tensors(found)
    check(found, random_feeds(made, seed + 1))


def placed(body, outputs, **ranges):
    made = net([1, 2, 4, 4], body, outputs=outputs, **CONSTANTS)
    given_ranges = {name: Range(*each) for name, each in ranges.items()}
    return stages(made, random_feeds(made, 0), lambda *_: given_ranges)


def test_an_input_is_stored_anew_as_what_is_written():
    body = "a = Conv (x, w3) c = MaxPool <kernel_shape = [2, 2]> (a) y = Conv (c, w)"
    found = placed(body, "float[] y", x=(-1, 1), a=(-4, 4), c=(-2, 2), y=(-1, 1))
    assert ops(found)[1:-1] == ["IntConv", "Lut", "MaxPool", "IntConv"]
    assert (
        found.context.record.tensors["a_rescaled"]
        == found.context.record.tensors["c_quantized"]
    )


def test_results_that_differ_are_stored_anew_behind_the_node():
    body = "a = Conv (x, w3) y, z = Split <axis = 2, num_outputs = 2> (a)"
    found = placed(body, "float[] y, float[] z", x=(-1, 1), a=(-4, 4), y=(-2, 2), z=(-4, 4))
    assert ops(found).count("Lut") == 1
    assert (
        found.context.record.tensors["y_rescaled"]
        == found.context.record.tensors["a_quantized"]
    )


def test_nodes_that_read_a_tensor_at_one_scale_share_its_table():
    body = """a = Conv (x, w3) b = Conv (x, w3) y = Concat <axis = 2> (a, b, a)
        z = MaxPool <kernel_shape = [1, 1]> (a) v = Conv (a, w)"""
    wide = (-4, 4)
    found = placed(
        body,
        "float[] y, float[] z, float[] v",
        **{"x": (-1, 1), "a": (-1, 1), "b": wide, "y": wide, "z": wide, "v": (-1, 1)},
    )
    assert ops(found).count("Lut") == 1
    concat = next(n for n in found.integer.graph.node if n.op_type == "Concat")
    assert list(concat.input) == ["a_rescaled", "b_quantized", "a_rescaled"]
    assert found.context.record.tensors["a_quantized"].scale == pytest.approx(2 / 255)


def test_what_a_float_node_gives_is_stored_anew_too():
    body = "s = Softmax (x) t = Concat <axis = 2> (s, x) y = Conv (t, w)"
    found = placed(body, "float[] y", x=(-4, 4), s=(0, 1), t=(-4, 4), y=(-1, 1))
    assert ops(found).count("Lut") == 1
    assert "s_rescaled" in found.context.record.tensors


EYE = np.eye(2, dtype=np.float32)[:, :, None, None]

JOINED = """
g (float[N, 2, 4, 4] x) => (float[N, 2, 4, 4] s, float[N, 2, 4, 4] y) {
    a = Conv (x, w)
    s = Sigmoid (a)
    v = Conv (a, w)
    z = Conv (x, large)
    c = Concat <axis = 1> (a, z)
    y = Conv (c, both)
}"""


def joined():
    weights = {"w": EYE, "large": 40 * EYE, "both": np.concatenate([EYE, EYE], axis=1)}
    return model(JOINED, **weights)


def samples():
    return [{"x": numbers(2, 2, 4, 4, seed=seed)} for seed in range(4)]


@pytest.mark.thinned
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"integer_io": True},
        {"symmetric": True, "activation_type": "int8"},
        {"activation_bits": 5},
        {"table_ranges": "function"},
        {"share_tables": 1.0},
    ],
)
@pytest.mark.parametrize("alignment", ["qpasses", "tpu-mlir"])
def test_a_graph_with_tables_at_its_joins_is_verified(alignment, options):
    made = joined()
    result = quantize(made, samples(), alignment=alignment, **options)
    assert "a_rescaled" in recorded(result.model)
    assert result.verdict == verify(result.model, made, samples()).verdict == "ok"
    again = quantize(made, samples(), alignment=alignment, **options)
    assert result.model.SerializeToString(deterministic=True) == (
        again.model.SerializeToString(deterministic=True)
    )


@pytest.mark.thinned
@pytest.mark.parametrize("alignment", ["qpasses", "tpu-mlir"])
@pytest.mark.parametrize("histograms", [True, False])
def test_a_table_gives_the_model_that_a_run_gives(alignment, histograms):
    made = joined()
    table = calibrate(made, samples(), alignment=alignment, histograms=histograms).table
    models = [
        quantize(made, data, calibration_table=given_table, alignment=alignment).model
        for data, given_table in ((samples(), None), (None, table))
    ]
    assert recorded(models[0]) == recorded(models[1])


def test_a_table_that_lacks_what_the_rules_of_tpu_mlir_need_is_refused():
    body = "a = Conv (x, w3) b = Transpose <perm = [0, 1, 3, 2]> (a) y = Relu (b)"
    made = net([1, 2, 4, 4], body, outputs="float[1, 2, 4, 4] y", **CONSTANTS)
    feeds = [random_feeds(made, seed) for seed in range(2)]
    table = calibrate(made, feeds).table
    with pytest.raises(QPassesError, match="calibrate with the options"):
        quantize(made, feeds, calibration_table=table, alignment="tpu-mlir")


def test_verify_catches_a_table_at_a_join_that_was_changed():
    made = joined()
    result = quantize(made, samples())
    node = next(n for n in result.model.graph.node if n.output[0] == "a_rescaled")
    table = next(t for t in result.model.graph.initializer if t.name == node.input[1])
    entries = np.frombuffer(table.raw_data, np.uint8).copy()
    entries[100] += 1
    table.raw_data = entries.tobytes()
    assert verify(result.model, made, samples()).verdict == "failed"
