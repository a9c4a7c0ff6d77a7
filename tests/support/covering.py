"""Choices that go together, without all their products."""

from itertools import combinations, product


def covering_pairs(*choices):
    """Rows of one value for each choice, in which any two values of two choices meet.

    Where faults come of a value or of two together, these rows find what the whole product
    finds; there are about as many as the two largest choices have products.
    """
    rows, found = [*product(*(range(len(each)) for each in choices))], []
    missing = set().union(*map(_met, rows))
    while missing:
        found.append(max(rows, key=lambda row: len(_met(row) & missing)))
        missing -= _met(found[-1])
    return [tuple(each[at] for each, at in zip(choices, row, strict=True)) for row in found]


def _met(row):
    return {*combinations(enumerate(row), 2)}
