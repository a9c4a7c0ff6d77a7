"""bisect: the node at which a device differs, what it inherits, what explains it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import qpasses
from opsets.errors import DataError, UsageError
from opsets.qpasses_v1 import OPS
from qpasses.checking.bisecting import explained as explaining
from qpasses.checking.bisecting.dumped_arrays import as_stored, fits
from qpasses.checking.bisecting.explained import explained
from qpasses.checking.bisecting.node_sums import arguments_of, sums_of
from qpasses.checking.bisecting.other_rules import Rule, codes_by
from qpasses.ir.graph import constant
from qpasses.ir.record import Quantization
from qpasses.load.integer_model import read_integer_model
from tests.bench.bisecting import located, named, pictures, quantized
from tests.support import small_models
from tests.support.emulated_device import RULES, Device, by_tflite, half_away, save_dump
from tests.support.thoroughness import THOROUGH, slow, thoroughly

QUICK = (
    *("half_to_even", "half_up", "half_down", "down", "toward_zero", "up", "tflite_double"),
    *("tflite_double, multipliers of 31 bits", "half_up, multipliers of 24 bits"),
    *("half_up, multipliers of 16 bits", "half_up, multipliers of 15 bits"),
    *("half_away_in_double, scales in double", "half_up, without the zero point"),
    "half_to_even, the zero point added before rounding",
)


class Case:
    """A shipped model, a few pictures, what a right device makes of them, and a folder."""

    def __init__(self, folder, model, count=3):
        self.folder, self.model = folder, model
        self.read = read_integer_model(model, "digits")
        self.feeds = pictures(count)

    def runs(self, rule=None, **faults):
        device = Device(
            self.read, rule, {f"{n}_quantized": each for n, each in faults.items()}
        )
        return [device.run(feed) for feed in self.feeds]

    def bisect(self, runs, **options):
        save_dump(self.folder, runs)
        return qpasses.bisect(self.model, self.folder, **({"data": self.feeds} | options))


@pytest.fixture(scope="module")
def model():
    return quantized("digits_cnn")


@pytest.fixture
def case(tmp_path, model):
    return Case(tmp_path / "dump", model)


def one_more(codes):
    return np.where(codes < 200, codes + 1, codes).astype(codes.dtype)


def statuses(found, status):
    return [each.name.removesuffix("_quantized") for each in found.of(status)]


# Rules


@pytest.mark.thinned
@pytest.mark.parametrize("rule", [rule if rule in QUICK else slow(rule) for rule in RULES])
def test_the_rule_of_a_device_is_named(rule):
    (found,) = named(16 if THOROUGH else 8, [rule])
    assert found.is_named, found.found.by_op


def test_a_rule_is_told_from_others_where_codes_differ():
    (found,) = named(16, ["half_down"])
    assert found.found.rules == ["half_down"]
    assert {each.op for each in found.found.faults} >= {"IntConv", "IntAveragePool"}


def test_what_no_rule_gives_is_said_with_its_share(case):
    found = case.bisect(case.runs(**{"head/relu": one_more}))
    (fault,) = found.faults
    explanation = fault.explanation
    assert not explanation.rules and not found.rules
    assert explanation.own_share < 1 > explanation.share


def test_the_sums_of_every_op_that_has_them_give_its_codes_by_its_own_rule(case):
    (values, *_) = case.runs()
    seen = set()
    for node in case.read.graph.nodes:
        entry = case.read.record.nodes.get(node.name)
        sums = None if entry is None else sums_of(node, entry, values)
        if sums is not None:
            seen.add(node.op)
            codes = codes_by(Rule(node.attrs["rounding"]), sums)
            np.testing.assert_array_equal(codes, values[node.outputs[0].name].ravel())
    assert seen == {
        *("IntConv", "IntAdd", "IntGemm", "IntAveragePool", "IntGlobalAveragePool")
    }


# Faults


def test_planted_faults_are_located():
    wrong = [each for each in located(100 if THOROUGH else 8) if not each.is_located]
    assert wrong == []


def test_a_node_that_is_given_wrong_numbers_only_inherits_them(case):
    found = case.bisect(case.runs(**{"down/shortcut/pool": one_more}))
    assert statuses(found, "differs") == ["down/shortcut/pool"]
    assert statuses(found, "inherits")[:2] == ["down/shortcut/bn", "down/relu"]
    assert found.verdict == "differs"


def test_every_faulty_node_is_found_not_the_first_alone(case):
    found = case.bisect(case.runs(**{"stem/relu": one_more, "head/relu": one_more}))
    assert statuses(found, "differs") == ["stem/relu", "head/relu"]


def test_what_differs_is_counted(case):
    found = case.bisect(case.runs(**{"stem/relu": one_more}))
    (fault,) = found.faults
    assert (fault.node, fault.op, fault.samples, fault.largest) == (
        "stem/conv",
        "IntConv",
        3,
        1,
    )
    assert fault.differences == {1: fault.differing}
    assert fault.codes == 3 * 16 * 8 * 8


def test_a_wrong_dump_of_right_codes_is_told_from_a_wrong_node(case):
    runs = case.runs()
    for run in runs:
        run["stem/relu_quantized"] = one_more(run["stem/relu_quantized"])
    found = case.bisect(runs)
    assert statuses(found, "differs") == ["stem/relu"]
    (fault,) = found.faults
    assert any("look at how it was dumped" in text for text in fault.remarks)


def test_a_wrong_input_is_found_where_samples_say_what_it_is(case):
    found = case.bisect(case.runs(image=one_more))
    assert [each.node for each in found.faults] == ["image_quantize"]


def test_between_tensors_that_are_there_the_nodes_are_named(case):
    runs = case.runs(**{"residual/second/bn": one_more})
    for run in runs:
        del run["residual/second/bn_quantized"], run["residual/first/relu_quantized"]
    found = case.bisect(runs)
    (fault,) = found.faults
    assert fault.name == "residual/relu_quantized"
    assert fault.nodes == ["residual/first/conv", "residual/second/conv", "residual/add"]
    assert fault.starts == ["stem/relu_quantized"]
    assert statuses(found, "missing") == ["residual/first/relu", "residual/second/bn"]


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda codes: one_more(codes), ""),
        (lambda codes: (codes + 1).astype(codes.dtype), "every code is 1 more"),
        (lambda codes: np.minimum(codes, 30), "as if clamped to 0..30"),
        (lambda codes: codes[:, [1, 0, *range(2, 16)]], "channels are swapped: 0 holds 1"),
        (lambda codes: codes ^ np.uint8([4] * 3 + [0] * 13)[:, None, None], "bit 2 is turned"),
        (lambda codes: codes ^ np.uint8([5] * 3 + [0] * 13)[:, None, None], "0, 1, 2 of 16"),
    ],
)
def test_what_differences_look_like_is_said(case, fault, said):
    found = case.bisect(case.runs(**{"stem/relu": fault}))
    (only,) = found.faults
    assert any(said in text for text in only.remarks) or not said


def test_a_table_with_other_entries_is_explained(tmp_path):
    net = small_models.model("g (float[1, 4] x) => (float[1, 4] y) { y = Sigmoid (x) }")
    feeds = [{"x": small_models.numbers(1, 4, seed=i)} for i in range(4)]
    integer = qpasses.quantize(net, feeds).model
    read = read_integer_model(integer, "g")
    right = [Device(read).run(feed) for feed in feeds]
    tensor = [name for name in right[0] if name != "x_quantized"][-1]
    code = int(right[0]["x_quantized"][0, 0])
    runs = []
    for run in right:
        codes = np.where(run["x_quantized"] == code, run[tensor] - 3, run[tensor])
        runs.append(run | {tensor: codes.astype(np.uint8)})
    found = qpasses.bisect(integer, save_dump(tmp_path / "dump", runs), feeds)
    (fault,) = found.faults
    (entry,) = fault.explanation.table.items()
    assert entry[0] == code
    assert entry[1][0] - entry[1][1] == 3


# How a dump is read


def changed(runs, change):
    return [{name: change(codes) for name, codes in run.items()} for run in runs]


def channels_last(codes):
    return np.moveaxis(codes, 1, -1) if codes.ndim > 2 else codes


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (channels_last, "laid out NHWC"),
        (lambda codes: channels_last(codes).ravel(), "laid out with channels last"),
        (lambda codes: codes.ravel(), "shaped"),
        (lambda codes: codes[0], "shaped"),
        (lambda codes: (codes.astype(np.int16) - 128).astype(np.int8), "128 more as uint8"),
        (lambda codes: codes.view(np.int8), "the bits of int8 read as uint8"),
        (lambda codes: codes.astype(np.int32), "read from int32"),
        (lambda codes: codes.astype(np.float32), "read from float32"),
    ],
)
def test_other_types_and_layouts_are_recognised_and_said(case, change, said):
    found = case.bisect(changed(case.runs(), change))
    assert found.verdict == "equal"
    read = {each.name: each.remarks for each in found.tensors}
    assert any(said in text for text in read["residual/second/bn_quantized"])


def test_uint8_is_read_for_int8(tmp_path):
    case = Case(tmp_path / "dump", quantized("digits_cnn", activation_type="int8"))
    found = case.bisect(
        changed(case.runs(), lambda codes: (codes.astype(np.int16) + 128).astype(np.uint8))
    )
    assert found.verdict == "equal"
    assert found.tensors[1].remarks == ["uint8 whose codes are 128 less as int8"]


def test_a_fault_in_another_layout_is_located(case):
    runs = changed(case.runs(**{"down/relu": one_more}), channels_last)
    found = case.bisect(runs)
    assert statuses(found, "differs") == ["down/relu"]


def test_a_layout_is_recognised_where_all_axes_are_as_long(tmp_path):
    net = small_models.model(
        "g (float[1, 4, 4, 4] x) => (float[1, 4, 4, 4] y) { y = Conv (x, w) }",
        w=small_models.numbers(4, 4, 1, 1),
    )
    feeds = [{"x": small_models.numbers(1, 4, 4, 4, seed=i)} for i in range(3)]
    integer = qpasses.quantize(net, feeds).model
    runs = [Device(read_integer_model(integer, "g")).run(feed) for feed in feeds]
    dump = save_dump(tmp_path / "dump", changed(runs, channels_last))
    found = qpasses.bisect(integer, dump, feeds)
    assert found.verdict == "equal"
    assert all(each.remarks == ["laid out NHWC"] for each in found.tensors)


def test_real_numbers_become_codes_again(case):
    tensors = case.read.record.tensors
    runs = [
        {
            name: ((codes.astype(np.float32) - tensors[name].zero_point) * tensors[name].scale)
            for name, codes in run.items()
        }
        for run in case.runs()
    ]
    found = case.bisect(runs)
    assert found.verdict == "equal"
    assert any("taken back to codes" in text for text in found.tensors[3].remarks)


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda codes: np.full(codes.shape, np.nan, np.float32), "holds NaN or infinity"),
        (lambda codes: codes[:, :-1], "has the shape [1, 15, 8, 8], not [1, 16, 8, 8]"),
        (lambda codes: codes.astype(np.int32) + 1000, "which uint8 does not hold"),
        (lambda codes: codes + np.float32(0.3), "neither codes nor multiples of the scale"),
        (lambda codes: codes.astype(str), "not uint8"),
    ],
)
def test_what_is_no_such_tensor_is_left_out_and_said(case, change, said):
    runs = case.runs()
    for run in runs:
        run["stem/relu_quantized"] = change(run["stem/relu_quantized"])
    found = case.bisect(runs)
    (unread,) = found.of("unread")
    assert said in unread.remarks[0]
    assert found.verdict == "unread"


def test_a_file_that_is_none_is_left_out_and_said(case):
    runs = case.runs()
    save_dump(case.folder, runs)
    (case.folder / "0001" / "stem" / "relu_quantized.npy").write_bytes(b"no array")
    found = qpasses.bisect(case.model, case.folder, case.feeds)
    (unread,) = found.of("unread")
    assert "cannot be read as an array" in unread.remarks[0]


def test_nothing_that_can_be_read_is_an_error(case):
    runs = [{"stem/relu_quantized": np.full(3, np.nan)} for _ in case.feeds]
    with pytest.raises(DataError, match="no tensor of the dump can be read"):
        case.bisect(runs)


@pytest.mark.parametrize(
    "spelt",
    [
        lambda name: name.removesuffix("_quantized"),
        lambda name: name.replace("/", "_"),
        lambda name: name.replace("/", "."),
    ],
)
def test_tensors_are_found_under_other_spellings(case, spelt):
    runs = [{spelt(name): codes for name, codes in run.items()} for run in case.runs()]
    found = case.bisect(runs)
    assert found.verdict == "equal"
    assert statuses(found, "missing") == []


def test_an_archive_for_each_sample_is_a_dump(case):
    case.folder.mkdir()
    for i, run in enumerate(case.runs()):
        np.savez(case.folder / f"{i}.npz", **run)
    found = qpasses.bisect(case.model, case.folder, case.feeds)
    assert (found.verdict, len(found.samples)) == ("equal", 3)


def test_one_archive_is_one_sample(case):
    case.folder.mkdir()
    np.savez(case.folder / "dump.npz", **case.runs()[0])
    found = qpasses.bisect(case.model, case.folder / "dump.npz", case.feeds[:1])
    assert found.verdict == "equal"


def test_unknown_names_are_said(case):
    runs = [run | {"stem/rellu": run["stem/relu_quantized"]} for run in case.runs()]
    found = case.bisect(runs)
    assert "did you mean" in found.remarks[0]
    assert "left out" in found.remarks[0]


def test_two_files_of_one_tensor_are_an_error(case):
    runs = [run | {"stem_relu": run["stem/relu_quantized"]} for run in case.runs()]
    runs = [run | {"stem.relu": run.pop("stem/relu_quantized")} for run in runs]
    with pytest.raises(DataError, match="both are of tensor 'stem/relu_quantized'"):
        case.bisect(runs)


def test_a_file_of_a_tensors_own_name_is_taken_before_others(case):
    runs = [run | {"stem_relu": run["head/relu_quantized"]} for run in case.runs()]
    assert case.bisect(runs).verdict == "equal"


# Samples


def test_without_samples_what_was_dumped_of_inputs_is_taken(case):
    found = case.bisect(case.runs(**{"stem/relu": one_more}), data=None)
    assert statuses(found, "differs") == ["stem/relu"]
    assert "no samples were given" in found.remarks[0]


def test_without_samples_and_inputs_nothing_is_compared(case):
    runs = case.runs()
    for run in runs:
        del run["image_quantized"]
    with pytest.raises(UsageError, match=r"lacks 'image_quantized'.*--data"):
        case.bisect(runs, data=None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda codes: codes[:, :, :-1], r"has the shape \[1, 1, 7, 8\], not \[N, 1, 8, 8\]"),
        (lambda codes: np.full(codes.shape, np.nan), "is float64, not uint8"),
        (lambda codes: codes.astype(np.int16) - 300, "is int16, not uint8"),
        (lambda codes: codes.astype(str), "not uint8"),
    ],
)
def test_without_samples_inputs_have_to_fit(case, change, said):
    runs = [run | {"image_quantized": change(run["image_quantized"])} for run in case.runs()]
    with pytest.raises(DataError, match=f"'image_quantized' .*{said}"):
        case.bisect(runs, data=None)


@pytest.mark.parametrize(
    "change", [channels_last, lambda codes: codes[0], lambda codes: codes.astype(np.int32)]
)
def test_without_samples_inputs_may_lie_otherwise(case, change):
    assert case.bisect(changed(case.runs(), change), data=None).verdict == "equal"


def test_more_samples_in_the_dump_than_there_are_is_an_error(case):
    with pytest.raises(DataError, match="holds 3 samples, the data 1"):
        case.bisect(case.runs(), data=case.feeds[:1])


def test_integer_inputs_are_compared_with_those_of_the_samples(tmp_path):
    model = quantized("digits_cnn", integer_io=True)
    read, feeds = read_integer_model(model, "digits"), pictures(2)
    device = Device(read)
    stored = read.record.tensors["image_quantized"]
    fed = [{"image_quantized": stored.store_all(feed["image"])} for feed in feeds]
    runs = [device.run(feed) for feed in fed]
    found = qpasses.bisect(model, save_dump(tmp_path / "right", runs), feeds)
    assert found.verdict == "equal"
    wrong = [run | {"image_quantized": one_more(run["image_quantized"])} for run in runs]
    found = qpasses.bisect(model, save_dump(tmp_path / "wrong", wrong), feeds)
    assert [(each.name, each.node) for each in found.faults] == [("image_quantized", "")]


# Ops that round more than one number


def all_pairs(node):
    """What a node of two operands reads, [256, 256], and what it gives."""
    data = [tensor for tensor in node.inputs if constant(tensor) is None]
    limits = np.iinfo(data[0].dtype)
    grid = np.meshgrid(*[np.arange(limits.min, limits.max + 1)] * 2, indexing="ij")
    pairs = zip(data, grid, strict=True)
    values = {tensor.name: codes.astype(tensor.dtype) for tensor, codes in pairs}
    return values, OPS[node.op].reference(*arguments_of(node, values), **node.attrs)


def node_of(read, op):
    node = next(each for each in read.graph.nodes if each.op == op)
    return node, read.record.nodes[node.name]


def test_a_sum_as_tflite_computes_it_is_named(case):
    node, entry = node_of(case.read, "IntAdd")
    values, expected = all_pairs(node)
    a, za, b, zb, *_ = arguments_of(node, values)
    (sa,), (sb,), (sy,) = (entry.scales[name] for name in "aby")
    zero = case.read.record.tensors[node.outputs[0].name].zero_point
    found = tflite_sum(a - za.astype(np.int64), b - zb.astype(np.int64), (sa, sb, sy)) + zero
    found = np.clip(found, 0, 255).astype(np.uint8)
    assert (found != expected).any()
    rules = explained(node, entry, [explaining.Case(values, expected, found)]).rules
    assert "tflite_double" in rules


def tflite_sum(a, b, scales):
    """kernels/internal/reference/add.h, one code after the other."""
    sa, sb, sy = scales
    twice = 2 * max(sa, sb)

    def scaled(value, real):
        fraction, exponent = math.frexp(real)
        return by_tflite(value, half_away(Fraction(fraction) * 2**31), exponent)

    found = [
        scaled(scaled(x << 20, sa / twice) + scaled(y << 20, sb / twice), twice / (2**20 * sy))
        for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
    ]
    return np.reshape(found, a.shape)


def test_a_rounding_is_named_where_sums_are_not_known():
    model = quantized("digits_cnn", target="tflite", activation_type="int8")
    node, entry = node_of(read_integer_model(model, "digits"), "IntRescaledAdd")
    values, expected = all_pairs(node)
    assert sums_of(node, entry, values) is None
    attributes = {**node.attrs, "rounding": "half_up"}
    found = OPS[node.op].reference(*arguments_of(node, values), **attributes)
    assert (found != expected).any()
    case = explaining.Case(values, expected, found)
    assert "half_up" in explained(node, entry, [case]).rules


# Anything


@thoroughly(500)
@given(
    dtype=st.sampled_from(
        ["u1", "i1", "<i2", ">i2", "i4", "u8", "f2", "f4", "f8", "?", "c8", "U3"]
    ),
    shape=st.lists(st.integers(0, 4), max_size=5),
    wanted=st.lists(st.integers(0, 4), max_size=5),
    stored=st.sampled_from(["uint8", "int8", "int16"]),
    seed=st.integers(0, 99),
)
def test_any_array_is_read_or_refused_in_words(dtype, shape, wanted, stored, seed):
    rng = np.random.default_rng(seed)
    spread = float(10.0 ** rng.integers(0, 5))
    with np.errstate(invalid="ignore", over="ignore"):
        given_array = np.asarray(rng.standard_normal(shape) * spread).astype(dtype)
    expected = rng.integers(0, 100, wanted).astype(stored)
    meaning = Quantization(0.5, 0, stored)
    for read in (
        lambda: as_stored(given_array, expected, meaning),
        lambda: fits(given_array, wanted, meaning),
    ):
        try:
            found = read()
        except DataError as error:
            assert str(error)
        else:
            assert found.values.dtype == stored
            assert list(found.values.shape) == wanted
