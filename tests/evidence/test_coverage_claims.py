"""What a report claims of coverage: no work is left in float under an `ok`."""

import numpy as np
import onnx
import pytest

from opsets.errors import UsageError
from qpasses import quantize, verify
from tests.support.small_models import cnn, model, numbers, pictures, save


def report_of(folder, made, feeds, **options):
    for index, feed in enumerate(feeds):
        (folder / "samples").mkdir(exist_ok=True)
        np.savez(folder / "samples" / f"{index}.npz", **feed)
    path = save(folder, "float.onnx", made)
    return quantize(path, folder / "samples", folder / "integer.onnx", **options), path


def test_a_recurrent_layer_left_in_float_is_not_ok(tmp_path):
    text = """g (float[3, 1, 4] x) => (float[3, 1, 1, 2] y) {
        a = MatMul (x, m) y, h, c = LSTM <hidden_size = 2> (a, w, r)
    }"""
    weights = {"m": numbers(4, 5), "w": numbers(1, 8, 5), "r": numbers(1, 8, 2)}
    feeds = [{"x": numbers(3, 1, 4)}] * 3
    result, _ = report_of(tmp_path, model(text, **weights), feeds, target="tosa")
    assert result.verdict == "incomplete"
    assert not result.report["summary"]["integer_only"]


def test_a_convolution_inside_a_branch_that_no_sample_takes_is_not_ok(tmp_path):
    text = """g (float[1, 3, 4, 4] x, bool q) => (float[1, 3, 4, 4] y) {
        a = Conv (x, w)
        y = If (q) <
            then_branch = t () => (float[1, 3, 4, 4] b) { b = Conv (a, w) },
            else_branch = e () => (float[1, 3, 4, 4] c) { c = Conv (a, w) }
        >
    }"""
    feeds = [{"x": numbers(1, 3, 4, 4), "q": np.array(False)}] * 3
    result, _ = report_of(tmp_path, model(text, w=numbers(3, 3, 1, 1)), feeds)
    assert result.verdict == "incomplete"


@pytest.mark.parametrize("rounding", ["half_up", "half_away"])
def test_verify_accepts_nodes_whose_body_is_rightly_not_the_first(tmp_path, rounding):
    target = tmp_path / "t.toml"
    target.write_text(
        f'name = "t"\ndescription = "d"\nmultiplier_bits = 8\nrounding = "{rounding}"\n'
    )
    text = """g (float[N, 1, 8, 8] x) => (float[N, 2, 6, 6] y) {
        a = Conv (x, w) y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (a)
    }"""
    float_path, samples = (
        save(tmp_path, "m.onnx", model(text, w=numbers(2, 1, 3, 3))),
        save(tmp_path, "d.npy", pictures(60)),
    )
    made = quantize(float_path, samples, tmp_path / "i.onnx", target=target)
    assert [each.body for each in made.evidence] == [
        f"onnxruntime_double_{rounding}",
        f"portable_{rounding}",
    ]
    assert verify(tmp_path / "i.onnx", float_path, samples).verdict == "ok"


def test_verify_takes_no_count_from_the_metadata(tmp_path):
    text = """g (float[N, 3, 4, 4] x) => (float[N, 3, 28, 28] y) {
        a = Conv (x, w) s = Sigmoid (a) y = ConvTranspose <strides = [9, 9]> (s, w)
    }"""
    feeds = [{"x": numbers(1, 3, 4, 4)}] * 3
    result, path = report_of(tmp_path, model(text, w=numbers(3, 3, 1, 1)), feeds)
    forged = result.model
    node = next(n for n in forged.graph.node if n.op_type == "IntConv")
    next(e for e in node.metadata_props if e.key == "qpasses.macs").value = "1000000"
    onnx.save(forged, tmp_path / "integer.onnx")
    found = verify(tmp_path / "integer.onnx", path, tmp_path / "samples")
    assert found.verdict == "failed"
    assert not found.report["summary"]["integer_only"]


def test_global_pools_of_two_ranks_run_in_portable_bodies(tmp_path):
    text = """g (float[1, 4, 6, 2] x) => (float[1, 4, 1, 1] y, float[1, 4, 1] z) {
        y = GlobalAveragePool (x) f = Reshape (x, flat) z = GlobalAveragePool (f)
    }"""
    made = model(text, flat=np.array([1, 4, 12], np.int64))
    _, path = report_of(tmp_path, made, [{"x": numbers(1, 4, 6, 2)}] * 3)
    found = verify(tmp_path / "integer.onnx", path, tmp_path / "samples")
    assert found.verdict == "ok"


def test_a_mean_over_all_positions_is_an_integer_pool(tmp_path):
    text = """g (float[N, 3, 4, 4] x) => (float[N, 3] y) {
        a = Conv (x, w) y = ReduceMean <keepdims = 0> (a, axes)
    }"""
    weights = {"w": numbers(3, 3, 1, 1), "axes": np.array([2, 3], np.int64)}
    made = model(text, opset=18, **weights)
    result, _ = report_of(tmp_path, made, [{"x": numbers(1, 3, 4, 4)}] * 3)
    assert result.verdict == "ok"


def test_a_pad_of_minus_infinity_before_a_max_pool_costs_no_range(tmp_path):
    text = """g (float[N, 3, 4, 4] x) => (float[N, 3, 2, 2] y) {
        a = Conv (x, w) p = Pad (a, grow, least)
        y = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (p)
    }"""
    grow = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)
    made = model(text, w=numbers(3, 3, 1, 1), grow=grow, least=np.float32(-np.inf))
    result, _ = report_of(tmp_path, made, [{"x": numbers(1, 3, 4, 4)}] * 3)
    assert result.verdict == "ok"
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 35


@pytest.mark.parametrize("clamp", ["Relu (c)", "Clip (c, low)"])
def test_an_activation_that_is_only_moved_on_is_integer(tmp_path, clamp):
    text = f"""g (float[N, 3, 4, 4] x) => (float[N, 6, 2, 2] y) {{
        a = Conv (x, w) c = Concat <axis = 1> (a, x) r = {clamp}
        m = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
        y = Transpose <perm = [0, 1, 3, 2]> (m)
    }}"""
    made = model(text, w=numbers(3, 3, 1, 1), low=np.float32(-0.5))
    result, _ = report_of(tmp_path, made, [{"x": numbers(1, 3, 4, 4)}] * 3)
    assert result.verdict == "ok"
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 35


@pytest.mark.parametrize(
    "body",
    [
        "c = Conv (x, w) a = Add (c, k) y = BatchNormalization (a, one, one, one, one)",
        "a = BatchNormalization (x, one, one, one, one) y = Conv (a, w)",
    ],
)
def test_a_bias_before_a_batch_normalization_is_folded_too(tmp_path, body):
    text = f"g (float[N, 3, 4, 4] x) => (float[N, 3, 4, 4] y) {{ {body} }}"
    weights = {"w": numbers(3, 3, 1, 1), "k": numbers(3, 1, 1), "one": np.ones(3, np.float32)}
    result, _ = report_of(tmp_path, model(text, **weights), [{"x": numbers(1, 3, 4, 4)}] * 3)
    assert result.verdict == "ok"
    assert "IntAdd" not in result.report["summary"]["nodes"]


def test_unknown_bodies_are_refused_from_python_too(tmp_path):
    float_path, samples = save(tmp_path, "m.onnx", cnn()), save(tmp_path, "d.npy", pictures(4))
    with pytest.raises(UsageError, match="'fastest'"):
        quantize(float_path, samples, bodies="fastest")


def test_samples_external_weights_and_targets_are_never_overwritten(tmp_path):
    made = cnn()
    path = tmp_path / "m.onnx"
    onnx.save(made, path, save_as_external_data=True, location="m.bin", size_threshold=0)
    (tmp_path / "samples").mkdir()
    np.save(tmp_path / "samples" / "0.npy", pictures(1))
    target = tmp_path / "t.toml"
    target.write_text(
        'name = "t"\ndescription = "d"\nmultiplier_bits = 24\nrounding = "half_to_even"\n'
    )
    for victim in (tmp_path / "m.bin", tmp_path / "samples" / "0.npy", target):
        before = victim.read_bytes()
        with pytest.raises(UsageError, match="choose another name"):
            quantize(path, tmp_path / "samples", victim, target=target)
        assert victim.read_bytes() == before


def test_a_moving_node_left_in_float_between_integers_is_calibrated(tmp_path):
    text = """g (float[1, 3, 4, 4] x) => (float[1, 3, 2, 2] y) {
        a = Conv (x, w)
        [pool] b = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (a)
        y = Conv (b, w)
    }"""
    made = model(text, w=numbers(3, 3, 1, 1))
    feeds = [{"x": numbers(1, 3, 4, 4, seed=seed)} for seed in range(3)]
    result = quantize(made, feeds, nodes_to_exclude=["pool"])
    assert [node["name"] for node in result.report["summary"]["float_nodes"]] == ["pool"]
    assert verify(result.model, made, feeds).verdict == result.verdict == "incomplete"


@pytest.mark.thinned
@pytest.mark.parametrize("opset", [13, 18, 21, 22])
def test_int8_activations_load_at_every_opset_with_moving_nodes_in_float(opset):
    text = """g (float[1, 3, 4, 4] x) => (float[1, 3, 4, 4, 1] y, float[1, 48] z) {
        a = Conv (x, w)
        [wider] y = Unsqueeze (a, axis)
        [flat] z = Flatten (a)
    }"""
    made = model(text, opset=opset, ir_version=8, w=numbers(3, 3, 1, 1), axis=np.array([4]))
    feeds = [{"x": numbers(1, 3, 4, 4, seed=seed)} for seed in range(3)]
    result = quantize(made, feeds, activation_type="int8", nodes_to_exclude=["wider", "flat"])
    assert verify(result.model, made, feeds).report["summary"]["problems"] == []


@pytest.mark.thinned
@pytest.mark.parametrize("emit", ["integer", "qdq"])
@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("excluded", [[], ["pool"]])
def test_a_dilated_pool_between_integers_still_loads(emit, counted, dilation, excluded):
    text = f"""g (float[1, 3, 8, 8] x) => (float[1, 3, H, W] y) {{
        a = Conv (x, w)
        [pool] b = AveragePool <kernel_shape = [2, 2], dilations = [{dilation}, {dilation}],
                                pads = [1, 1, 1, 1], count_include_pad = {counted}> (a)
        y = Conv (b, w)
    }}"""
    made = model(text, opset=19, ir_version=9, w=numbers(3, 3, 1, 1))
    feeds = [{"x": numbers(1, 3, 8, 8, seed=seed)} for seed in range(3)]
    result = quantize(made, feeds, emit=emit, nodes_to_exclude=excluded)
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 30
    if emit == "integer":
        expected = "incomplete" if excluded else "ok"
        assert verify(result.model, made, feeds).verdict == result.verdict == expected
