"""What all stages speak of: graph, record, settings, patterns, the contract of a pass."""
