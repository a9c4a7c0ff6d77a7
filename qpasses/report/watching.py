"""How far a command is: bars, or a line for each long stage; and what took how long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from qpasses.ir.commands import no_watch
from qpasses.ir.progress import Advance, no_advance

Watches = tuple[Callable[[str, int], Advance], Callable[[str, Any], None]]
"""What is called when a stage of so many steps begins, and after a pass with its graph."""

_LONG = 1.0
"""So many seconds a stage takes that is worth a line."""


@contextmanager
def progress_bars(console: Console) -> Iterator[Watches]:
    """Callbacks for the pipeline that show what is done now, and nothing of a pass.

    In a terminal by bars that tell the time that is left and go away, else by a line for each
    stage that took a second or more, at its end.
    """
    if console.is_interactive:
        with _bars(console) as bars:
            yield _until_done(lambda stage, steps: _bar(bars, stage, steps)), no_watch
    else:
        yield _until_done(lambda stage, _: _line(console, stage)), no_watch


class _TimeLeft(TimeRemainingColumn):
    """The time that is left, where it is known how many steps there are."""

    def render(self, task: Task) -> Text:
        """As said, nothing of a stage of one step."""
        return Text("") if task.total is None else super().render(task) + " left"


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        _TimeLeft(),
        console=console,
        transient=True,
        disable=console.quiet,
    )


def _bar(bars: Progress, stage: str, steps: int) -> tuple[Advance, Advance]:
    task = bars.add_task(escape(stage), total=steps if steps > 1 else None)
    return lambda: bars.advance(task), lambda: bars.update(task, visible=False)


def _line(console: Console, stage: str) -> tuple[Advance, Advance]:
    start = perf_counter()

    def end() -> None:
        if (took := perf_counter() - start) >= _LONG:
            console.print(f"{escape(stage)}: {took:.1f} s", highlight=False, soft_wrap=True)

    return no_advance, end


def _until_done(
    begin: Callable[[str, int], tuple[Advance, Advance]],
) -> Callable[[str, int], Advance]:
    """Of a function that gives what to call after a step and at the end, a Progress."""

    def start(stage: str, steps: int) -> Advance:
        if not steps:
            return no_advance
        step, end = begin(stage, steps)
        taken = count(1)  # threads may take steps

        def advance() -> None:
            step()
            if next(taken) == steps:
                end()

        return advance

    return start


@contextmanager
def timings(console: Console) -> Iterator[Watches]:
    """Progress and after-pass callbacks that print what each stage and each pass took."""
    last = start = perf_counter()
    running = ""

    def took() -> str:
        nonlocal last
        before, last = last, perf_counter()
        return f"{last - before:8.3f} s"

    def end() -> None:
        if running:
            console.print(f"{took()}  {escape(running)}", highlight=False)

    def begin(stage: str, steps: int) -> Advance:
        nonlocal running
        end()
        running = f"{stage} ({steps} steps)" if steps != 1 else stage
        return no_advance

    def after_pass(name: str, graph: Any) -> None:
        console.print(f"{took()}    {name}: {len(graph.nodes)} nodes", highlight=False)

    yield begin, after_pass
    end()
    console.print(f"{perf_counter() - start:8.3f} s  in all", highlight=False)
