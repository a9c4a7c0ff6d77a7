"""What the integer ops mean: fixed-point arithmetic, targets, and one declaration per op."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opsets.target import Target, load_target, target_names

__all__ = ["Target", "load_target", "target_names"]


def __getattr__(name: str) -> Any:
    """Import targets on first use: the command line must start in a moment."""
    if name in __all__:
        from opsets import target

        return getattr(target, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
