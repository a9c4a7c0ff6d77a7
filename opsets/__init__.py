"""What the integer ops mean: fixed-point arithmetic, targets, and one declaration per op."""
