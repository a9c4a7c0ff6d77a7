"""Targets as tables in a terminal: all of them, and the rules of one with their formulas."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from opsets.forms import ADD_FORMS, GEMM_FORMS, MEAN_FORMS, POOL_FORMS, SLOPE_FORMS
from opsets.lstm_forms import LSTM_FORMS, NEAREST
from opsets.multipliers import MULTIPLIERS
from opsets.realised import has_wide_tables, takes_words
from opsets.rounding import ROUNDING_RULES
from opsets.scales import SCALES
from opsets.target import Target
from opsets.weights import WEIGHTS

Row = tuple[str, str, str]
"""A rule, what the target says, and what that means."""

_WORDS: Mapping[str, Mapping[str | bool, str]] = {
    "activations": {
        "asymmetric": "real = (stored - zero_point) * scale, any zero point",
        "symmetric": "real = (stored - middle) * scale, the middle of the type as zero point",
    },
    "activation_scales": {
        "per_channel": "activations may have a scale for each channel",
        "per_tensor": "one scale for a whole activation",
    },
    "non_negative": {
        "as_others": "activations whose minimum is not negative are stored as the others",
        "unsigned": "activations whose minimum is not negative are stored unsigned",
    },
    "conv_weights": {
        "per_channel": "a weight scale for each output channel of Conv",
        "per_tensor": "one weight scale for a Conv",
    },
    "matmul_weights": {
        "per_channel": "a weight scale for each column of Gemm and MatMul",
        "per_tensor": "one weight scale for a Gemm or MatMul",
    },
    "tables": {
        True: "functions of one tensor may be tables of 256 entries",
        False: "no tables: functions of one tensor are computed",
    },
    "softmax": {
        "table": "Softmax: two tables of exponentials, and a division",
        "shiftmax": "Softmax: I-ViT's Shiftmax, exponentials by shifts, of 16 bits",
        "shiftmax8": "Softmax: I-ViT's Shiftmax, exponentials by shifts, of 8 bits",
        "ibert": "Softmax: I-BERT's, exponentials by a polynomial",
        "gemmlowp": "Softmax: TFLite's fixed point by gemmlowp, results in steps of 1 / 256",
    },
    "gelu": {
        "table": "GELU is a table",
        "shift": "GELU: I-ViT's ShiftGELU, a sigmoid of exponentials by shifts",
        "ibert": "GELU: I-BERT's, the error function by a polynomial",
    },
    "layernorm": {
        "exact": "LayerNorm: exact mean and variance, an integer square root",
        "ivit": "LayerNorm: I-ViT's, a rounded mean and ten of Newton's steps, 31 bits",
        "ivit_short": "LayerNorm: I-ViT's, multipliers so short that double holds products",
    },
    "resize": {
        "exact": "linear Resize: coefficients are exact fractions, requantized once",
        "ten_bits": "linear Resize: TFLite's places and coefficients of 10 bits, ties away; "
        "input and output of one scale",
    },
    "sigmoid_range": {
        "calibrated": "results of Sigmoid have the range that samples give",
        "unit": "results of Sigmoid have steps of 1 / 256 from the least code on",
    },
    "hard_swish": {
        "table": "HardSwish is a table as other functions are",
        "int16": "HardSwish is a table of TFLite's int16 arithmetic",
    },
    "table_functions": {
        "runtime": "tables hold what onnxruntime makes, in double what onnx's evaluator makes",
        "legalized": "tables hold functions in double, rounded once; GELU step by step",
        "tflite": "tables hold functions in double, rounded once; GELU, Sigmoid step by step",
    },
    "table_quotient": {
        "divided": "results are divided by the scale of the table's output",
        "inverse": "results are multiplied by the inverse of that scale, rounded itself",
    },
    "table_rounding": {
        "half_to_even": "levels in tables are the nearest, ties to even",
        "half_up": "levels in tables are the nearest, ties up",
        "half_away": "levels in tables are the nearest, ties away from zero",
        "toward_zero": "levels in tables are truncated",
    },
    "rescaling": {
        "real": "a tensor stored anew at another scale takes the nearest code",
        "requantized": "a tensor stored anew at another scale is requantized by s_x / s_y and "
        "the elementwise multiplier",
    },
    "alignment": {
        "qpasses": "tensors share a range where an op, or a table saved, wants it",
        "tpu-mlir": "ranges spread as TPU-MLIR does it for this chip; --alignment says else",
    },
    "fast_kernels": {
        True: "multipliers are chosen so that onnxruntime's int8 kernels compute them exactly",
        False: "multipliers are those of the rule; bodies the first that give their levels",
    },
}


def print_targets(console: Console, targets: Sequence[tuple[Target, Sequence[str]]]) -> None:
    """A line for each target; graphs are made where there is no rule that no pass follows."""
    table = Table(box=None, pad_edge=False)
    for column in ("target", "multipliers", "rounding", "Add", "graphs", "what it is"):
        table.add_column(column)
    for target, unfollowed in targets:
        made = "not yet" if unfollowed else "yes"
        multipliers = f"{target.multiplier}, {target.multiplier_bits} bits"
        table.add_row(
            target.name, multipliers, target.rounding, target.add, made, target.description
        )
    console.print(table)


def print_target(console: Console, target: Target, unfollowed: Sequence[str]) -> None:
    """Every rule of ``target`` with its formula; ``unfollowed`` are those no pass follows."""
    console.print(escape(f"{target.name}: {target.description}"), highlight=False)
    console.print("value = accumulator * multiplier / 2**shift", highlight=False)
    table = Table(box=None, pad_edge=False)
    for column in ("rule", "here", "which means"):
        table.add_column(column, overflow="fold")
    for row in _rows(target):
        table.add_row(*map(escape, row))
    console.print(table)
    graphs = "are made for it"
    if unfollowed:
        graphs = f"cannot be made for it yet, no pass follows {', '.join(unfollowed)}"
    console.print(escape(f"graphs {graphs}"), highlight=False)


def _rows(target: Target) -> Iterator[Row]:
    yield _multiplier("multiplier", target.multiplier, target.multiplier_bits)
    shifts = f"{target.min_shift} to {target.max_shift}"
    yield "shift", shifts, "total right shifts, negative to the left"
    held = f"scales of activations are held, and tables computed, in {target.scale_type}"
    yield "scale_type", target.scale_type, held
    scale = SCALES[target.scales]
    yield "scales", target.scales, f"{scale.formula} ({scale.source})"
    rule = ROUNDING_RULES[target.rounding]
    yield "rounding", target.rounding, f"{rule.formula} ({rule.source})"
    if target.elementwise is not None and target.elementwise_bits is not None:
        yield _multiplier("elementwise", target.elementwise, target.elementwise_bits)
    yield "add", target.add, f"Add and Sub: {ADD_FORMS[target.add].formula}"
    yield from _of_words(target)
    product = "(a - a_zero) * (b - b_zero), requantized by s_a * s_b / s_y"
    yield "mul", "product", f"Mul: {product}"
    pool, mean = POOL_FORMS[target.average_pool], MEAN_FORMS[target.mean]
    yield "average_pool", target.average_pool, f"AveragePool: {pool.formula}"
    yield "mean", target.mean, f"ReduceMean: {mean.formula}"
    slopes = SLOPE_FORMS[target.slopes]
    yield "slopes", target.slopes, f"LeakyRelu and PRelu: {slopes.formula}"
    gemm = GEMM_FORMS[target.gemm]
    yield (
        "gemm",
        target.gemm,
        f"Gemm and MatMul with constants: {gemm.formula} ({gemm.source})",
    )
    yield "lstm", target.lstm, f"LSTM: {_lstm(target)}"
    weights = WEIGHTS[target.weights]
    yield "weights", target.weights, f"{weights.formula} ({weights.source})"
    yield "accumulator", f"{target.accumulator_bits} bits", "sums of products"
    for name, words in _WORDS.items():
        yield _worded(name, getattr(target, name), words)


def _lstm(target: Target) -> str:
    if target.lstm == NEAREST:
        return "tables of 65,536 entries, the nearest to their functions; weights as MatMul"
    form = LSTM_FORMS[target.lstm]
    return f"{form.formula}; one weight scale for each gate ({form.source})"


_ENDS = {
    "any": "nodes read and write tensors of 8 and of 16 bits as they come",
    "alike": "what a node reads and writes has 8 bits or 16; others are stored anew before it",
}


def _of_words(target: Target) -> Iterator[Row]:
    """What is computed with 16 bits."""
    shown, meaning = "none", "sums of products with 16 bits: there are none"
    if target.word_multiplier is not None:
        rule = MULTIPLIERS[target.word_multiplier]
        shown = f"{target.word_multiplier}, {target.word_multiplier_bits} bits"
        meaning = f"sums of products that read 16 bits: {rule.formula} ({rule.source})"
    elif takes_words(target):
        shown = "as multiplier"
        meaning = "sums of products with 16 bits: of so few bits that products are exact"
    yield "word_multiplier", shown, meaning
    shown, meaning = "as rounding", "sums of products that read 16 bits"
    if target.word_rounding is not None:
        once = ROUNDING_RULES[target.word_rounding]
        shown, meaning = target.word_rounding, f"{meaning}: {once.formula}"
    yield "word_rounding", shown, meaning
    yield "word_ends", target.word_ends, _ENDS[target.word_ends]
    shown = "yes" if has_wide_tables(target) else "no"
    yield "word_tables", shown, "functions of 16 bits are looked up"
    form = target.add_form(has_words=True)
    kind = "as add" if target.word_add is None else form
    yield "word_add", kind, f"Add and Sub with 16 bits: {ADD_FORMS[form].formula}"
    shown = ", ".join(target.byte_ops) or "none"
    yield "byte_ops", shown, "ops that take 8 bits, whatever other ops have"


def _multiplier(name: str, rule: str, bits: int) -> Row:
    found, where = MULTIPLIERS[rule], "Add, Mul, pools and slopes: "
    meaning = f"{found.formula} ({found.source})"
    return name, f"{rule}, {bits} bits", (where if name == "elementwise" else "") + meaning


def _worded(name: str, value: str | bool, words: Mapping[str | bool, str]) -> Row:
    shown = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
    return name, shown, words[value]
