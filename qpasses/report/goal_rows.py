"""What was asked of outputs, and what they reached on the samples that judged."""

from collections.abc import Iterable, Mapping
from math import floor
from typing import Any

from qpasses.report.wording import counted


def goal_rows(widths: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Of ``widths`` of a report each goal, and what came of it."""
    held = "held-back sample" if widths["held_back"] else "sample"
    where = f"on {counted(widths['samples'], held)}"
    if (wanted := widths["min_sqnr_db"]) is not None:
        reached = widths["reached_db"]
        text = "no signal" if reached is None else f"{_cut(reached)} dB"
        yield f"min-sqnr {wanted:g} dB", f"{text} {where}: {_met(reached, wanted)}"
    if metric := widths["metric"]:
        said = "met" if metric["met"] else "not met"
        yield (
            f"max-drop {metric['name']}={metric['max_drop']:g}",
            f"{metric['float']:.6g} in float, {metric['integer']:.6g} in integers, a drop of "
            f"{metric['drop']:.3g} {where}: {said}",
        )


def _met(reached: float | None, wanted: float) -> str:
    return "met" if reached is not None and reached >= wanted else "not met"


def _cut(decibels: float) -> str:
    """Not rounded: what is less than was asked looks like less."""
    return f"{floor(100 * decibels) / 100:.2f}"
