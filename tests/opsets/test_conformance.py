"""Targets against what other integer systems computed: every record, one test."""

import numpy as np
import pytest

from opsets.fixed_point import saturate
from opsets.forms import ADD_FORMS, Slopes, sloped
from opsets.multipliers import MULTIPLIERS
from opsets.rounding import doubling_high_multiply, requantize, right_shift
from tests.support.conformance import FOLDER, ends, float32, groups, needs_vectors
from tests.support.tflite_records import (
    TARGETS,
    of_add,
    of_average_pool,
    of_dense,
    of_gemm,
    of_leaky_relu,
    of_mean,
    of_mul,
    of_pad,
    of_prelu,
    of_relu,
    of_relu6,
    of_rescale,
    of_softmax,
    of_sub,
    pooled,
    quantized,
    softmaxed,
    stored,
    table_of,
)

pytestmark = needs_vectors

LITERT = {"ref": "litert", "opt": "ruy", "xnnpack": "float32"}
REFERENCE_KERNELS = LITERT | {"opt": "litert"}

OUT_OF_SCOPE = {
    # file, group, and op or column -> why
    "c_ops softmax out": "says in words what scale and zero point it has",
    "c_ops logistic": "a fixed-point pipeline of its own; Sigmoid here is a table",
    "c_ops tanh": "a fixed-point pipeline of its own; Tanh here is a table",
    "c_ops hard_swish": "no records",
    "c_requantize requantize_int64_acc_reduced_multiplier cmsis": "its doubled intermediate "
    "wraps in int32, which TFLite Micro's does not",
    "c_requantize xnn_qu8 rndnu16": "rounds to 16 bits in between",
    "tflite_add cases opt": "a vector kernel: one result of 600 differs from the reference",
    "tflite_leaky_relu cases xnnpack": "a form of its own: multipliers of 8 bits",
    "tflite_quantize_requant cases int8 xnnpack": "a conversion of its own",
    "ivit_shiftmax": "no such op here yet",
    "ivit_shiftgelu": "no such op here yet",
    "ivit_layernorm": "no such op here yet",
    "ibert_poly": "no such op here yet",
    "ort_qlinear cases QuantizeLinear": "takes floats",
    "ort_qlinear cases QLinearSigmoid": "a Lut here, filled by running it: not our values",
    "ort_qlinear cases QLinearSoftmax": "computed in float32",
}
"""The one list of what is not compared, and why."""

BY_OPS = {
    "tosa_ops cases table",
    "ort_qlinear cases QLinearAdd",
    "ort_qlinear cases QLinearAveragePool",
    "yehangyang_lut cases",
    "yehangyang_softmax cases",
}
"""Compared as ops with their bodies, in test_conformance_ops.py."""


# What a record's columns are, and how a target computes them


def q31(pair):
    """[multiplier, TFLite's exponent] as multiplier and total right shift."""
    return pair[0], 31 - pair[1]


def of_accumulators(record, target):
    acc, scale = np.array(record["acc"]), float(float32(record["scale_f32_hex"]))
    return saturate(target.requantize(acc, *target.scale_to_multiplier(scale)), 0, -128, 127)


def of_levels(record, target):
    scale = float(float32(record["scale_f32_hex"]))
    level = target.requantize(record["x"], *target.scale_to_multiplier(scale))
    return saturate(level, 0, -128, 127)


def of_c_levels(record, target):
    pair = target.scale_to_multiplier(record["real"])
    assert pair == q31((record["multiplier"], record["shift_tflite"]))
    return target.requantize(record["x"], *pair)


def of_uint8_levels(record, target):
    scale = float(float32(record["scale_f32_hex"]))
    level = target.requantize(record["x"], *target.scale_to_multiplier(scale))
    return saturate(level, record["zp"], 0, 255)


def of_47_bits(record, target):
    m, shift = record["cmsis_reduced_multiplier"], 15 - record["shift"]
    return target.requantize(record["x"], m, shift)


def multiplier_of(record, target):
    multiplier, shift = target.scale_to_multiplier(float.fromhex(record["real_hex"]))
    return [multiplier, 31 - shift]


def of_c_add(record, target):
    form = ADD_FORMS[target.add]
    numbers = form.numbers(*(record[scale] for scale in ("s1", "s2", "so")), target)
    assert numbers == [q31(record[name]) for name in ("q1", "q2", "qo")]
    a, b = np.array(record["a"]) - record["z1"], np.array(record["b"]) - record["z2"]
    return stored(form.levels(a, b, numbers, target.rounding, 1), {"zp": record["zo"]})


def of_c_leaky_relu(record, target):
    """The kernel alone: who wrote the record derived the multipliers it gave it in double."""
    given = [q31(record[name]) for name in ("mult_identity", "mult_alpha")]
    numbers = Slopes(given[0], given[1:], [1])
    x = np.arange(-128, 128) - record["in_zp"]
    return stored(sloped(x, numbers, target.rounding), {"zp": record["out_zp"]})


def of_c_softmax(record, _target):
    return np.concatenate([softmaxed(row, record["in_scale"]) for row in record["x"]])


def of_c_average_pool(record, target):
    pads = [record["pad"]] * 4
    return pooled(np.array(record["x"]), record["kernel"], record["stride"], pads, target)


def of_tosa_average_pool(record, target):
    top, bottom, left, right = record["pad"]
    level = np.array(record["x"]) - record["in_zp"]
    pads = [top, left, bottom, right]
    found = pooled(level, record["kernel"], record["stride"], pads, target)
    return stored(found, {"zp": record["out_zp"]})


def of_tosa_rescale(record, target):
    x = np.array(record["x"]) - record["in_zp"]
    level = target.requantize(x, record["multiplier"], record["shift"])
    return saturate(level, record["out_zp"], *ends(record["out_dtype"]))


def of_tosa_right_shift(record, _target):
    return right_shift(record["x"], record["shift"], "half_up" if record["round"] else "down")


def of_tosa_mul(record, target):
    product_of = np.array(record["a"]) * np.array(record["b"])
    return target.requantize(product_of, 1, record["shift"])


TPU_MLIR_RULES = {  # rule, bits, and whether the second number is TFLite's exponent
    "get_scale_and_shift_32": ("get_scale_and_shift", 31, None),
    "get_scale_and_shift_8": ("get_scale_and_shift", 7, None),
    "get_scale_and_shift_positive_8": ("get_scale_and_shift_positive", 7, None),
    "QuantizeMultiplier": ("quantize_multiplier_single", 31, 1),
    "RShiftMult_127": ("rshift_and_multiplier", 7, None),
    "QDM": ("rshift_and_multiplier_qdm", 31, -1),
}


def of_tpu_mlir_scale(column):
    name, bits, sign = TPU_MLIR_RULES[column]

    def derived(record, target):
        rule = MULTIPLIERS[name]
        multiplier, shift = rule.derive(record["scale"], bits, rule.shifts[1])
        if column == "get_scale_and_shift_32":
            assert target.scale_to_multiplier(record["scale"]) == (multiplier, shift)
        if column == "get_scale_and_shift_8":
            assert target.elementwise_multiplier(record["scale"]) == (multiplier, shift)
        return [multiplier, shift if sign is None else sign * (31 - shift)]

    return derived


TPU_MLIR_MODES = {
    "HalfAwayFromZero": "half_away",
    "HalfUp": "half_up",
    "HalfDown": "half_down",
    "HalfToEven": "half_to_even",
    "TowardsZero": "toward_zero",
    "Up": "up",
    "Down": "down",
}


def of_right_shift_round(record, _target):
    values = [value for value, _ in record["in_out"]]
    shifted = right_shift(values, record["shift"], TPU_MLIR_MODES[record["mode"]])
    return np.stack([values, shifted], 1)


def of_quantized_multiplier(rounding):
    return lambda record, _target: requantize(
        record["x"], *q31((record["multiplier"], record["shift"])), rounding
    )


def of_multiplier_shift(record, target):
    return target.requantize(record["x"], record["multiplier"], record["rshift"])


def of_quant_act(record, target, identity=False):
    limit = 1 << (record["bits"] - 1)
    z, pre, other = (
        float(float32(record[f"{name}scale_f32_hex"])) for name in ("z_", "pre_", "identity_")
    )
    pairs = [target.scale_to_multiplier(each / z) for each in (pre, other)]
    assert pairs == [(record["m"], record["e"]), (record["m1"], record["e1"])]
    level = target.requantize(record["acc"], *pairs[0])
    if identity:
        operands = np.array(record["acc"]), np.array(record["identity"])
        numbers = ADD_FORMS[target.add].numbers(pre, other, z, target)
        level = ADD_FORMS[target.add].levels(*operands, numbers, target.rounding, 1)
    return saturate(level, 0, -limit, limit - 1)


def of_residual(record, target):
    return of_quant_act(record, target, identity=True)


def of_ort_conv(record, target):
    x, w, y = (float32(record[f"{name}_scale_hex"][0]) for name in "xwy")
    pair = target.scale_to_multiplier(float(x * w / y))
    return saturate(
        target.requantize(record["acc"], *pair), record["y_zp"], *ends(record["dtype"])
    )


def of_doubling_high_multiply(record, _target):
    return doubling_high_multiply(*record[:2])


def of_power_of_two(record, _target):
    return right_shift(*record[:2], "half_away")


# Of a scale as it is, float32's product decides ties that integers do not see: 15 of 570 here.
# For graphs of target onnx multipliers are searched with which both agree.
MATRIX = {
    "tflm_double": "tflm",
    "tflm_single": "tflite-single",
    "cmsis_double": "tflm",
    "cmsis_single": "tflite-single",
    "tosa_single_round": "tosa",
    "tosa_double_round": "tflm",
    "tosa_inexact_round": "float32",
    "xnn_fp32": "float32",
    "xnn_rndnu": "rndnu",
    "litert_conv_ref": "litert",
    "litert_conv_opt": "ruy",
    "litert_conv_xnnpack": "float32",
    "ort_qlinearconv": "float32",
}
TFLM = {"tflm_double": "tflm", "tflm_single": "tflite-single"}
ROUNDING_MODES = {
    "SINGLE_ROUND": "tosa",
    "DOUBLE_ROUND": "tflm",
    "INEXACT_ROUND": "float32",
}

KINDS = {
    # file, group and op -> column: (target, how it computes the column)
    "requantize_matrix cases": {c: (t, of_accumulators) for c, t in MATRIX.items()},
    "c_requantize requantize": {c: (t, of_c_levels) for c, t in TFLM.items()}
    | {"xnn_fp32_s8_zp0": ("float32", of_levels), "xnn_rndnu_s8_zp0": ("rndnu", of_levels)},
    "c_requantize quantize_multiplier": {
        "double_round_build": ("tflm", multiplier_of),
        "single_round_build": ("tflite-single", multiplier_of),
    },
    "c_requantize srdhm": {2: ("tflm", of_doubling_high_multiply)},
    "c_requantize rdpot": {2: ("tflm", of_power_of_two)},
    "c_requantize requantize_int64_acc_reduced_multiplier": {
        "tflm": ("tflite-single", of_47_bits)
    },
    "c_requantize xnn_qu8": {
        "fp32": ("float32", of_uint8_levels),
        "rndnu": ("rndnu", of_uint8_levels),
    },
    "c_ops leaky_relu": {c: (t, of_c_leaky_relu) for c, t in TFLM.items()},
    "c_ops add": {c: (t, of_c_add) for c, t in TFLM.items()},
    "c_ops softmax": {c: (t, of_c_softmax) for c, t in TFLM.items()},
    "tflite_softmax_int8 cases": dict.fromkeys(LITERT, ("litert", of_softmax)),
    "c_ops avgpool": {"cmsis": ("tflm", of_c_average_pool)},
    "tflite_add cases": {"ref": ("litert", of_add), "xnnpack": ("vaddsub", of_add)},
    "tflite_sub cases": {
        "ref": ("litert", of_sub),
        "opt": ("litert", of_sub),
        "xnnpack": ("vaddsub", of_sub),
    },
    "tflite_mul cases": {c: (t, of_mul) for c, t in REFERENCE_KERNELS.items()},
    "tflite_average_pool_2d cases": dict.fromkeys(LITERT, ("litert", of_average_pool)),
    "tflite_leaky_relu cases": {
        "ref": ("litert", of_leaky_relu),
        "opt": ("litert", of_leaky_relu),
    },
    "tflite_prelu cases": dict.fromkeys(LITERT, ("litert", of_prelu)),
    "tflite_mean cases [1, 2]": {c: (t, of_mean) for c, t in LITERT.items()},
    "tflite_mean cases [3]": {c: (t, of_mean) for c, t in REFERENCE_KERNELS.items()},
    "tflite_quantize_requant cases int8": {
        "ref": ("litert", of_rescale),
        "opt": ("ruy", of_rescale),
    },
    "tflite_quantize_requant cases uint8": dict.fromkeys(LITERT, ("litert", of_rescale)),
    "tflite_quantize_requant cases int16": dict.fromkeys(LITERT, ("litert", of_rescale)),
    "tflite_pad cases": dict.fromkeys(LITERT, ("litert", of_pad)),
    "tflite_quantize_float cases": {
        "ref": ("litert", quantized("half_away")),
        "opt": ("litert", quantized("half_to_even", by_inverse=True)),
        "xnnpack": ("litert", quantized("half_to_even", by_inverse=True)),
    },
    "tflite_gelu cases": dict.fromkeys(LITERT, ("litert", table_of("y = Gelu (x)"))),
    "tflite_hard_swish cases": dict.fromkeys(
        LITERT, ("litert", table_of("y = HardSwish (x)"))
    ),
    "tflite_logistic cases": dict.fromkeys(LITERT, ("litert", table_of("y = Sigmoid (x)"))),
    "tflite_tanh cases": dict.fromkeys(LITERT, ("litert", table_of("y = Tanh (x)"))),
    "tflite_relu cases": dict.fromkeys(LITERT, ("litert", of_relu)),
    "tflite_relu6 cases": dict.fromkeys(LITERT, ("litert", of_relu6)),
    "tflite_requantize_conv2d_per_channel cases": {
        c: (t, of_dense) for c, t in LITERT.items()
    },
    "tflite_requantize_fully_connected cases": {
        "ref": ("litert", of_gemm),
        "opt": ("ruy", of_dense),
        "xnnpack": ("float32", of_dense),
    },
    **{
        f"tosa_rescale cases {mode}": {"y": (target, of_tosa_rescale)}
        for mode, target in ROUNDING_MODES.items()
    },
    "tosa_ops cases arithmetic_right_shift": {"y": ("tosa", of_tosa_right_shift)},
    "tosa_ops cases mul": {"y": ("tosa", of_tosa_mul)},
    "tosa_ops cases avg_pool2d": {"y": ("tosa", of_tosa_average_pool)},
    "tpumlir scale_to_multiplier": {
        column: ("bm1684x", of_tpu_mlir_scale(column)) for column in TPU_MLIR_RULES
    },
    "tpumlir RightShiftRound": {"in_out": ("bm1684x", of_right_shift_round)},
    "tpumlir MultiplyByQuantizedMultiplier": {
        "half_away": ("tflm", of_quantized_multiplier("tflite_double")),
        "half_up": ("ruy", of_quantized_multiplier("ruy")),
    },
    "tpumlir MultiplierShift_HalfUp": {"y": ("bm1684x", of_multiplier_shift)},
    "ivit_quantact ": {
        "out": ("ivit", of_quant_act),
        "out_with_identity": ("ivit", of_residual),
    },
    "ort_qlinear cases QLinearConv_requant": {"ort": ("onnx", of_ort_conv)},
}


def kind_of(name, key, record):
    """File, group, and what tells records of a group apart that are computed differently."""
    kinds = {
        "tosa_rescale": lambda: record["rounding_mode"],
        "tosa_ops": lambda: record["op"],
        "ort_qlinear": lambda: record["op"],
        "tflite_mean": lambda: record["params"]["axes"],
        "tflite_quantize_requant": lambda: record["tensors"][0]["dtype"],
    }
    return f"{name} {key} {kinds[name]()}" if name in kinds else f"{name} {key}"


def columns(record):
    """What the systems computed, by column."""
    if isinstance(record, list):
        return dict(enumerate(record))
    if "expected_all" in record:
        return dict.fromkeys(record["modes"], record["expected_all"])
    if "expected" in record:
        return record["expected"]
    return record["out"] if isinstance(record.get("out"), dict) else record


def every_record():
    for path in sorted(FOLDER.glob("*.json")):
        for key, records in groups(path.stem).items():
            for index, record in enumerate(records):
                yield kind_of(path.stem, key, record), index, record


def compared():
    for kind, index, record in every_record():
        found = columns(record)
        for column, (target, compute) in KINDS.get(kind, {}).items():
            if column in found:
                name = f"{kind.replace(' ', '-')}-{index}-{column}-by-{target}"
                values = record, TARGETS[target], compute, found[column]
                yield pytest.param(*values, id=name)


@pytest.mark.parametrize(("record", "target", "compute", "theirs"), list(compared()))
def test_a_target_computes_what_the_system_computed(record, target, compute, theirs):
    np.testing.assert_array_equal(compute(record, target), theirs)


GIVEN = {
    # keys of records that are no column: what was put in, and copies of what came out
    *(
        "scale",
        "scale_f32_hex",
        "real",
        "real_hex",
        "multiplier",
        "shift",
        "rshift",
        "x",
        "zp",
    ),
    *("shift_tflite", "cmsis_reduced_multiplier", "alpha", "in_scale", "in_zp", "out_scale"),
    *(
        "out_zp",
        "mult_identity",
        "mult_alpha",
        "s1",
        "z1",
        "s2",
        "z2",
        "so",
        "zo",
        "left_shift",
    ),
    *(
        "q1",
        "q2",
        "qo",
        "a",
        "b",
        "cmsis_same",
        "rc",
        "kernel",
        "stride",
        "pad",
        "dtype",
        "op",
    ),
    *("count_include_pad", "rounding_mode", "scale32", "in_dtype", "out_dtype", "per_channel"),
    *("round", "mode", "bits", "pre_scale_f32_hex", "z_scale_f32_hex", "m", "e", "acc", "m1"),
    *("beta", "input_multiplier", "input_left_shift", "diff_min"),
    *("identity", "identity_scale_f32_hex", "e1", "wdtype", "x_scale_hex", "w_scale_hex"),
    *("y_scale_hex", "y_zp", 0, 1),
}
ANOTHERS = {"onnx_ref"}  # onnx's evaluator adds the zero point before it rounds


def left_out(kind, column):
    """Whether the list says so, of a file, a group, a kind or a column of it."""
    words = [*kind.split(" "), str(column)]
    return any(" ".join(words[:end]) in OUT_OF_SCOPE for end in range(1, len(words) + 1))


def test_every_column_of_every_record_is_compared_or_left_out_for_a_reason():
    missing, known = set(), {**dict.fromkeys(BY_OPS), **KINDS}
    for kind, _, record in every_record():
        found = columns(record).keys() - GIVEN - ANOTHERS
        wanted = found - KINDS.get(kind, {}).keys() if kind not in BY_OPS else set()
        missing |= {(kind, each) for each in wanted if not left_out(kind, each)}
    assert missing == set()
    assert known.keys() <= {kind for kind, _, _ in every_record()}


def test_every_shipped_target_is_compared_but_exact_which_no_system_is():
    used = {target for kind in KINDS.values() for target, _ in kind.values()}
    assert used == TARGETS.keys() - {"exact"}


def test_nothing_is_left_out_that_is_compared():
    for kind, found in KINDS.items():
        assert not any(left_out(kind, column) for column in found)
