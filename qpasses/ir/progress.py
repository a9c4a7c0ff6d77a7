"""How long work tells those who wait for it where it is."""

from collections.abc import Callable

Advance = Callable[[], None]
Progress = Callable[[str, int], Advance]
"""(what is being done, how many steps) -> a function to call after each step."""


def no_advance() -> None:
    """Show nothing."""


def no_progress(_stage: str, _steps: int) -> Advance:
    """Show nothing."""
    return no_advance
