"""Everything that decides how a tensor is stored: ranges, ties, scales, Q/DQ nodes."""
