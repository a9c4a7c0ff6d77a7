"""Attack the toolkit with random legal float graphs; docs/attacks.md says what is checked.

`make fuzz N=500` runs it. Exit code 1 with a failure, which is shrunk and printed.
"""

import argparse
import sys
from collections import Counter
from time import perf_counter

import numpy as np
import onnx
from rich.console import Console
from rich.progress import track

from tests.bench.fuzzing.bodies import body_case
from tests.bench.fuzzing.graphs import Case, case
from tests.bench.fuzzing.judge import Failure, Seen
from tests.bench.fuzzing.judge_any import judge_any
from tests.bench.fuzzing.judge_tflite import tflite_case
from tests.bench.fuzzing.quantized import quantized_case
from tests.bench.fuzzing.shrinking import shrunk
from tests.bench.fuzzing.single_ops import single_op
from tests.support.op_loops import PLAIN

KINDS = ("both", "float", "quantized", "tflite", "bodies")
"""Of both, every third graph is quantized already, every tenth has branches or loops."""

LARGE = 64
"""Constants of more elements are printed by their ONNX text alone."""


def show(console: Console, made: Case, failure: Failure, command: str) -> None:
    """A failing case as ONNX text, with its samples and what repeats it."""
    console.print(f"FAILED {failure.kind}: {failure.detail}", markup=False)
    console.print(onnx.printer.to_text(made.model), markup=False, highlight=False)
    with np.printoptions(threshold=LARGE):
        for name, value in made.feeds[0].items():
            console.print(f"{name} = {value!r}", markup=False, highlight=False)
    console.print(f"options {dict(made.options)}\n  {command}", markup=False)


def drawn(kind: str, seed: int, number: int) -> Case | None:
    """Case ``number`` of ``seed``, of one of ``KINDS``."""
    if kind == "tflite":
        return tflite_case(seed, number)
    if kind == "bodies" or (kind == "both" and number % 10 == 9):
        return body_case(seed, number)
    is_quantized = kind == "quantized" or (kind == "both" and number % 3 == 2)
    return (quantized_case if is_quantized else case)(seed, number)


def counts(console: Console, title: str, found: Counter[str]) -> None:
    """One line: how often each was met."""
    listed = ", ".join(f"{count} {name}" for name, count in sorted(found.items()))
    console.print(f"{title}: {listed or 'none'}", markup=False, highlight=False)


def main() -> int:
    """Run the cases; 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, default="both")
    parser.add_argument("--case", type=int, help="this one alone")
    parser.add_argument("--first", type=int, default=0, help="begin with this case")
    parser.add_argument("--no-shrink", action="store_true")
    given = parser.parse_args()
    console, seen, start = Console(width=120), Seen(), perf_counter()
    first, count = (given.first, given.count) if given.case is None else (given.case, 1)
    failures: Counter[str] = Counter()
    if given.case is None:
        for name in track(PLAIN, "ops", console=console):
            if failure := single_op(name, given.seed, examples=count // 10 + 1):
                failures[failure.kind] += 1
                console.print(f"FAILED {failure.kind}: {failure.detail}", markup=False)
    judged = 0
    for number in track(range(first, first + count), "graphs", console=console):
        made = drawn(given.kind, given.seed, number)
        if made is None:
            continue
        judged += 1
        failure = judge_any(made, seen)
        if failure is None:
            continue
        failures[failure.kind] += 1
        if failures[failure.kind] == 1 and not given.no_shrink:
            made, failure = shrunk(made, failure)
        kind = "quantized" if made.is_quantized else "float"
        kind = "tflite" if made.is_exported else kind
        kind = "bodies" if made.has_bodies else kind
        command = (
            f"python -m tests.bench.fuzzing --seed {given.seed} --case {number} --kind {kind}"
        )
        if failures[failure.kind] == 1:
            show(console, made, failure, command)
        else:
            console.print(f"FAILED again {failure.kind}: {command}", markup=False)
    counts(console, "float ops", seen.float_ops)
    counts(console, "integer graphs", seen.integer_ops)
    counts(console, "verdicts", seen.verdicts)
    counts(console, "refused samples", seen.refusals)
    counts(console, "beside real arithmetic", seen.compared)
    counts(console, "not judged in float64 by onnx's evaluator", seen.not_evaluated)
    counts(console, "failures", failures)
    seconds = perf_counter() - start
    console.print(
        f"seed {given.seed}: {judged} graphs (of {count} drawn, the others are not finite or "
        f"do not run) in {seconds:.0f} s"
    )
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
