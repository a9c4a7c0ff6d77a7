"""Attack verify: random single faults in emitted models, every one of which must be caught.

`make mutate` runs it; docs/attacks.md says what is attacked. Exit code 1 with survivors.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from time import perf_counter

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.bench.mutation.campaign import (
    APART,
    BODIES,
    BUILT,
    CHANNELS,
    FORGED,
    KINDS,
    MODELS,
    QUANTIZED,
    RECURRENT,
    RESULTS,
    ROUNDED,
    WHOLE,
    WORDS,
    Outcome,
    Target,
    judge,
    targets,
)

EVERY = (
    *(*MODELS, *ROUNDED, CHANNELS, APART, BODIES, RECURRENT, WHOLE, WORDS),
    *(*QUANTIZED, *BUILT),
)


def faults(
    attacked: list[Target], kinds: list[str], seed: int, numbers: range
) -> Iterator[tuple[Target, str, int]]:
    """Model, kind and number of each fault: the pairs take turns."""
    pairs = [
        (target, kind)
        for kind in kinds
        for target in attacked
        if target.mutant(kind, seed, 0) is not None
    ]
    for number in numbers:
        yield (*pairs[number % len(pairs)], number)


def command(target: Target, kind: str, seed: int, number: int) -> str:
    """What repeats one fault."""
    return (
        f"python -m tests.bench.mutation --seed {seed} --model {target.name} "
        f"--kind '{kind}' --fault {number}"
    )


def table(outcomes: list[Outcome]) -> Table:
    """Kind by result."""
    counts = Counter((each.fault.kind, each.result) for each in outcomes)
    rows = Table("fault", "tried", *RESULTS)
    for kind in dict.fromkeys(each.fault.kind for each in outcomes):
        found = [counts[kind, result] for result in RESULTS]
        rows.add_row(kind, *map(str, [sum(found), *found]))
    found = [sum(each.result == result for each in outcomes) for result in RESULTS]
    rows.add_section()
    rows.add_row("all", *map(str, [sum(found), *found]))
    return rows


def main() -> int:
    """Run the campaign; 1 if anything survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", action="append", choices=EVERY)
    parser.add_argument("--kind", action="append", choices=[*KINDS, *FORGED])
    parser.add_argument("--fault", type=int, help="this one alone")
    given = parser.parse_args()
    console = Console(width=120)
    attacked, kinds = targets(given.model or ()), given.kind or [*KINDS, *FORGED]
    numbers = (
        range(given.count) if given.fault is None else range(given.fault, given.fault + 1)
    )
    missing = {*(given.model or EVERY)} - {each.name for each in attacked}
    console.print(f"seed {given.seed}; not here: {', '.join(sorted(missing)) or 'none'}")
    outcomes, start = [], perf_counter()
    planned = list(faults(attacked, kinds, given.seed, numbers))
    for target, kind, number in track(planned, "faults", console=console):
        found = target.mutant(kind, given.seed, number)
        if found is None:
            continue
        outcomes.append(judge(target, *found))
        if outcomes[-1].result in RESULTS[2:] or given.fault is not None:
            last = outcomes[-1]
            console.print(
                f"{last.result}: {target.name}: {last.fault}: {last.said}", markup=False
            )
            console.print(f"  {command(target, kind, given.seed, number)}", markup=False)
    console.print(table(outcomes))
    seconds = perf_counter() - start
    each = seconds / max(len(outcomes), 1)
    console.print(f"{len(outcomes)} faults in {seconds:.0f} s, {each:.2f} s each")
    return int(any(each.result in RESULTS[2:] for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
