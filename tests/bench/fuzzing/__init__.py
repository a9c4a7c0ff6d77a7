"""Random legal float graphs: what the toolkit makes of them is checked on exact integers."""
