"""Which integers a node gets: multipliers, shifts, tables, coefficients."""
