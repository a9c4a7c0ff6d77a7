"""What the integer ops mean: fixed-point arithmetic, targets, and one declaration per op."""

from opsets.target import Target, load_target, target_names

__all__ = ["Target", "load_target", "target_names"]
