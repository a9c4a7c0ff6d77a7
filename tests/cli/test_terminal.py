"""What a terminal of 80 columns and 24 lines shows, with and without colors, and a pipe."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import qpasses
from qpasses.report import watching
from qpasses.report.bench_tables import print_latencies
from qpasses.report.calibration_tables import print_calibration
from qpasses.report.terminal import print_how_to_gain, print_report
from qpasses.report.watching import progress_bars
from qpasses.report.wording import fold, some
from tests.support.commands import Desk, run
from tests.support.small_models import cnn, model, numbers, pictures, save

WIDTH, HEIGHT = 80, 24
LONG = "/model/backbone/stage_{}/bottleneck/expansion/pointwise/activation/Output"
CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def shown(print_it, *given, width=WIDTH, is_terminal=True, **options):
    """The lines that a terminal, or a file, of so many columns gets."""
    console = Console(
        file=StringIO(), width=width, force_terminal=is_terminal, color_system=None
    )
    print_it(console, *given, **options)
    lines = CODES.sub("", console.file.getvalue()).splitlines()
    return [line.rstrip() for line in lines]


def deep(parts=30):
    """Convolutions of long names, functions that stay in float, and many outputs."""
    body = "".join(
        f'["{LONG.format(i)}"] "{LONG.format(i)}:0" = Conv (x, w)'
        f'["prod{i}/{LONG.format(i)}"] y{i} = ReduceProd <axes = [1]> ("{LONG.format(i)}:0")'
        for i in range(parts)
    )
    ends = ", ".join(f"float[N, 1, 4, 4] y{i}" for i in range(parts))
    return model(f"g (float[N, 2, 4, 4] x) => ({ends}) {{ {body} }}", w=numbers(3, 2, 1, 1))


@pytest.fixture(scope="module")
def report():
    return qpasses.quantize(deep(), numbers(8, 2, 4, 4)).report


# A screen


def test_a_report_of_many_outputs_and_float_nodes_fits_a_screen(report):
    lines = shown(print_report, report)
    assert len(lines) <= HEIGHT - 4, "\n".join(lines)
    assert max(map(len, lines)) <= WIDTH
    assert "and 27 more outputs that lose less" in lines
    left = " ".join(" ".join(lines).partition("ReduceProd ")[2].split())
    assert left.startswith("prod0//mod...tion/Output, prod1//mod...tion/Output, ")
    assert "and 27 more: ReduceProd has no integer form" in left


def test_everything_fits_eighty_columns_with_verbose_too(report):
    lines = shown(print_report, report, verbose=True)
    assert len(lines) > HEIGHT
    assert max(map(len, lines)) <= WIDTH


def test_a_file_has_names_whole(report):
    text = "\n".join(shown(print_report, report, width=250, is_terminal=False))
    assert LONG.format(2) in text and "..." not in text


def test_names_are_cut_in_the_middle_in_a_terminal(tmp_path):
    table = tmp_path / "t.json"
    made = qpasses.calibrate(deep(3), numbers(8, 2, 4, 4), table)
    lines = shown(print_calibration, made.report)
    assert max(map(len, lines)) <= WIDTH
    assert sum("..." in line and line.endswith("minmax") for line in lines) == 3
    whole = shown(print_calibration, made.report, width=250, is_terminal=False)
    assert sum(line.startswith(f"{LONG.format(2)}:0 ") for line in whole) == 1


def test_latencies_fit_eighty_columns():
    row = {"threads": 16, "median_ms": 12345.678, "low_ms": 1234.5, "high_ms": 2345.6}
    row |= {"graph": "integer, kernels", "least_ms": 1234.5, "ratio": 0.5, "runs": 1000}
    node = {"name": LONG.format(1) * 2, "op": "IntGlobalAveragePool", "milliseconds": 1.0}
    found = {"latencies": [row], "slowest": [node | {"share": 0.5}], "differing": 0}
    samples = {"source": "made up", "preprocessing": None}
    rest = {"samples": samples, "summary": {}, "warnings": []}
    assert max(map(len, shown(print_latencies, {"benchmark": found, **rest}))) <= WIDTH


@pytest.mark.parametrize("most", [*range(3, 30), 200])
def test_a_folded_name_has_both_ends(most):
    name = "block1/conv/output:0"
    folded = fold(name, most)
    assert len(folded) <= most
    if most >= len(name):
        assert folded == name
    else:
        head, tail = folded.split("...")
        assert name.startswith(head) and name.endswith(tail)
        assert len(folded) == most and 0 <= len(tail) - len(head) <= 1


def test_of_names_the_first_are_shown_and_the_others_counted():
    assert some(["a", "b", "c"], 3) == "a, b, c"
    assert some(["a", "b", "c"], 2) == "a, b and 1 more"


# The verdict


def with_accuracy(report, **found):
    """The same report with another accuracy."""
    known = {"word": "fair", "sqnr_db": 12.49, "agreement": None, "output": "y3"} | found
    return report | {"summary": report["summary"] | {"accuracy": known}}


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({}, "accuracy fair (12.4 dB, output 'y3')"),
        ({"word": "fair", "sqnr_db": 19.999}, "accuracy fair (19.9 dB, output 'y3')"),
        ({"word": "poor", "sqnr_db": -3.2}, "accuracy poor (-3.2 dB, output 'y3')"),
        (
            {"word": "fair", "sqnr_db": None, "agreement": 0.9799},
            "accuracy fair (97.9% of labels as in float, output 'y3')",
        ),
        ({"word": "not measured", "sqnr_db": None, "output": None}, "accuracy not measured"),
    ],
)
def test_the_verdict_says_proofs_and_accuracy_apart(report, found, text):
    lines = shown(print_report, with_accuracy(report, **found), width=200)
    assert lines[-1] == f"verdict: proofs ok; {text}"


def test_one_output_needs_no_name(report):
    alone = {"accuracy": {"outputs": report["accuracy"]["outputs"][:1]}}
    assert shown(print_report, with_accuracy(report) | alone)[-1].endswith("fair (12.4 dB)")


def test_failed_proofs_name_their_nodes_and_incomplete_ones_say_why(report):
    nodes = [dict(each) for each in report["evidence"]["nodes"]]
    for each in nodes[:5]:
        each["mismatches"] = 1
    wrong = report["summary"] | {"verdict": "failed"}
    lines = shown(
        print_report, report | {"summary": wrong, "evidence": {"nodes": nodes}}, width=400
    )
    names = ", ".join(each["name"] for each in nodes[:3])
    assert lines[-1].startswith(f"verdict: proofs failed (5 nodes: {names} and 2 more); ")
    because = {"verdict": "incomplete", "because": ["1 LSTM in float", "nothing else"]}
    lines = shown(print_report, report | {"summary": report["summary"] | because}, width=200)
    assert lines[-1].startswith("verdict: proofs incomplete (1 LSTM in float; nothing else); ")


# Bad news


ANALYSIS = {
    "tensors": [
        {"real": name, "kind": "activation", "cost": {"share": share}}
        for name, share in (("stem", 0.414), ("head[0]", 0.12), ("neck", 0.09), ("no", 0.01))
    ],
    "findings": [
        {"text": "keep the stem in int16", "option": "--residual-type int16"},
        {"text": "not the first", "option": "--exact"},
    ],
}


def gained(report, data="samples/", **found):
    made = with_accuracy(report, **found)
    given = "out.onnx", "my model.onnx", data
    return shown(print_how_to_gain, made, *given, width=200)


def test_where_accuracy_is_lost_is_said_with_what_to_try(report):
    assert gained(report | {"analysis": ANALYSIS}) == [
        "costs most: stem (41%), head[0] (12%), neck (9%)",
        "try: --residual-type int16: keep the stem in int16",
    ]
    weights = [{"real": "conv", "kind": "weights", "cost": {"share": 0.9}}]
    some = {"tensors": weights, "left_out": [{}], "findings": []}
    first = gained(report | {"analysis": some})[0]
    assert first == "costs most of 1 tensors that there was time for: conv weights (90%)"


def test_without_an_analysis_the_command_that_makes_it_is_said(report):
    command = "where it is lost: qpasses analyze out.onnx --against 'my model.onnx'"
    assert gained(report) == [f"{command} --data samples/"]
    assert gained(report, data=None) == [command]
    costly = report | {"analysis": ANALYSIS | {"findings": []}}
    assert gained(costly)[1:] == [f"{command} --data samples/"]


@pytest.mark.parametrize("word", ["good", "not measured"])
def test_good_news_need_nothing_else(report, word):
    assert gained(report | {"analysis": ANALYSIS}, word=word) == []


def test_quantize_ends_with_what_costs_most_and_what_to_try(tmp_path):
    rows = np.array([[1e4, -1e4], [1, -1]], np.float32)
    made = model("g (float[N, 2] x) => (float[N, 2] y) { y = MatMul (x, w) }", w=rows.T @ rows)
    desk = Desk(tmp_path, made, numbers(20, 2) * 1e-3 + 1)
    *_, first, before, last = desk.quantize().out.splitlines()
    assert first.startswith("for latency: qpasses bench ")
    assert before.startswith("costs most: x (100%)")
    assert last.startswith("try: --calibration-overrides x=mse: x: its standard deviation ")


# Colors, pipes, quiet


def in_a_terminal(*arguments, **environment):
    """How the command ends and what it writes to a terminal, its codes included."""
    end, terminal = pty.openpty()
    words = [
        sys.executable,
        "-c",
        "from qpasses.cli import main; main()",
        *map(str, arguments),
    ]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal)
    found = b""
    with subprocess.Popen(words, env=os.environ | environment, **streams) as running:
        os.close(terminal)
        with suppress(OSError):  # it has ended
            while part := os.read(end, 1 << 16):
                found += part
    os.close(end)
    return running.returncode, found.decode()


def test_colors_go_with_no_color_and_no_line_is_too_long(tmp_path):
    desk = Desk(tmp_path, cnn(), pictures())
    given = "quantize", desk.model, "--data", desk.data, "-o", desk.output
    plain = {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "80"}
    code, text = in_a_terminal(*given, **plain)
    assert code == 0, text
    assert not re.search(r"\x1b\[[0-9;]*[34][0-7]m", text)
    lines = CODES.sub("", text.replace("\r\n", "\n")).split("\n")
    report = lines[[line.startswith("Against") for line in lines].index(True) :]
    rows = [line.split("\r")[-1] for line in report if not line.startswith(("for", "where"))]
    assert max(len(row.rstrip()) for row in rows) <= WIDTH
    assert any("verdict: proofs ok; accuracy good" in line for line in report)


def test_a_verdict_has_its_color_in_a_terminal(report):
    console = Console(
        file=StringIO(), width=WIDTH, force_terminal=True, color_system="standard"
    )
    print_report(console, report)
    assert "proofs \x1b[32mok" in console.file.getvalue()


# Progress


def test_in_a_terminal_a_stage_has_a_bar_with_the_time_that_is_left():
    console = Console(file=StringIO(), width=WIDTH, force_terminal=True, color_system=None)
    with progress_bars(console) as (progress, _):
        advance = progress("run held-back samples", 3)
        advance()
        unknown = progress("prepare the graph", 1)
        unknown()
    text = console.file.getvalue()
    bars = [line for line in re.split(r"[\r\n]", CODES.sub("", text)) if "left" in line]
    assert any(
        re.search(r"run held-back samples .* 1/3 0:00:00 [-:0]+ left", line) for line in bars
    )
    assert max(map(len, bars)) <= WIDTH


def watched(*, quiet=False, took=0.0, monkeypatch):
    """What no terminal gets of two stages, one of them of ``took`` seconds."""
    clock = iter([0.0, 0.0, took, 0.5])
    monkeypatch.setattr(watching, "perf_counter", lambda: next(clock))
    console = Console(file=StringIO(), width=WIDTH, quiet=quiet)
    with progress_bars(console) as (progress, _):
        long, short = progress("prove nodes", 400), progress("place scales", 1)
        for _ in range(400):
            long()
        short()
        progress("nothing", 0)
    return console.file.getvalue()


def test_without_a_terminal_a_long_stage_has_one_line_at_its_end(monkeypatch):
    assert watched(took=2.34, monkeypatch=monkeypatch) == "prove nodes: 2.3 s\n"


def test_without_a_terminal_nothing_is_said_of_short_stages_or_when_quiet(monkeypatch):
    assert watched(took=0.9, monkeypatch=monkeypatch) == ""
    assert watched(took=99.0, quiet=True, monkeypatch=monkeypatch) == ""


@pytest.mark.thinned
@pytest.mark.parametrize("command", ["quantize", "calibrate", "verify", "bench"])
def test_every_stage_that_begins_ends(tmp_path, monkeypatch, command):
    made = cnn()
    float_model, data = save(tmp_path, "m.onnx", made), save(tmp_path, "d.npy", pictures(32))
    integer, steps, taken = tmp_path / "i.onnx", {}, {}

    def progress(stage, count):
        place = stage, len(steps)
        steps[place], taken[place] = count, 0

        def advance():
            taken[place] += 1

        return advance

    qpasses.quantize(float_model, data, integer)
    if command in ("quantize", "calibrate"):
        getattr(qpasses, command)(float_model, data, tmp_path / "o", progress=progress)
    elif command == "verify":
        qpasses.verify(integer, float_model, data, progress=progress)
    else:
        qpasses.bench(integer, float_model, seconds=0.05, progress=progress)
    assert len(steps) > 1
    assert taken == steps


# Help


PATHS = ["", "quantize", "integerize", "verify", "bench", "calibrate", "calibrate merge"]
PATHS += ["calibrate convert", "export", "inspect", "passes", "opt", "targets", "targets show"]


@pytest.mark.parametrize("path", PATHS)
def test_a_help_begins_with_examples_and_fits_eighty_columns(path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    usage, _, title, *lines = run(*path.split(), "--help").out.splitlines()
    assert usage.startswith("Usage: ") and title == "Examples:"
    examples = lines[: lines.index("")]
    assert 1 <= len(examples) <= 2
    assert all(line.startswith("  qpasses ") for line in examples)
    assert path in examples[0]
    assert max(map(len, lines)) <= WIDTH
