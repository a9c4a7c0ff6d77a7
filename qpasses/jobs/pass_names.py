"""Passes as options name them."""

from difflib import get_close_matches

from opsets.errors import UsageError
from qpasses.ir.rewriting import Pass
from qpasses.ir.settings import Settings
from qpasses.lowering import INTEGER_IO
from qpasses.pipeline import pass_table, passes_by_name


def pass_called(name: str) -> Pass:
    """The pass of that name. Raises UsageError if it cannot run alone, or there is none."""
    check_pass(name)
    known = passes_by_name()
    if name not in known:
        raise UsageError(f"pass {name!r} needs ranges: it runs in `qpasses quantize` only")
    return known[name]


def check_stop(name: str | None, settings: Settings) -> None:
    """Raise UsageError if ``quantize`` cannot stop behind the pass called ``name``."""
    check_pass(name)
    if name is not None and settings.emit != "integer":
        raise UsageError(f"stop_after {name!r} with emit {settings.emit!r}: leave one away")
    if name in [each.name for each in INTEGER_IO] and not settings.integer_io:
        raise UsageError(f"stop_after {name!r}: that pass runs with integer_io only")


def check_pass(name: str | None) -> None:
    """Raise UsageError if ``name`` is given and no pass is called so."""
    if name is None:
        return
    known = [row[0] for row in pass_table()]
    if name in known:
        return
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"they are {', '.join(known)}"
    raise UsageError(f"there is no pass {name!r}: {hint}")
