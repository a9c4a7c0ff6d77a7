"""Which output is the next value of which input: what ``--states`` says."""

from collections.abc import Sequence

from opsets.errors import UsageError

_OPTION = "states (--states)"


def state_pairs(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Input and output of each text INPUT=OUTPUT.

    Raises UsageError for a text that is none, or an end that stands in two of them.
    """
    pairs = []
    for text in texts:
        start, _, end = text.partition("=")
        if not start or not end:
            raise UsageError(
                f"{_OPTION}: {text!r} is not INPUT=OUTPUT, an input of the model that is a "
                "state and the output that is its next value"
            )
        pairs.append((start, end))
    for what, names in zip(("input", "output"), zip(*pairs, strict=True), strict=False):
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise UsageError(f"{_OPTION}: {what} {twice!r} is given twice")
    return pairs


def checked_states(texts: Sequence[str]) -> Sequence[str]:
    """``texts``, if they name states. Raises UsageError."""
    state_pairs(texts)
    return texts
