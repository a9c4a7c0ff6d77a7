"""Tensor types: which tensors a user wants in 16 bits, and which in 8."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from opsets.errors import UsageError

WORD, BYTE = "int16", "int8"
"""16 bits, or as other activations are stored."""


@dataclass(frozen=True)
class TensorType:
    """``REGEX=TYPE``: how tensors are stored whose whole name matches."""

    text: str
    pattern: re.Pattern[str]
    type: str

    @classmethod
    def parsed(cls, text: str) -> "TensorType":
        """What ``text`` says; UsageError if it is nothing of the kind."""
        where = f"tensor_types (--tensor-types) {text!r}"
        names, separator, type_name = text.rpartition("=")
        if not separator or not names:
            raise UsageError(f"{where}: write REGEX={WORD} or REGEX={BYTE}")
        if type_name not in (WORD, BYTE):
            raise UsageError(
                f"{where}: {type_name!r} is no type of tensors: {WORD}, or {BYTE} for 8 bits, "
                "which --activation-type says more of"
            )
        try:
            return cls(text, re.compile(names), type_name)
        except re.error as error:
            raise UsageError(
                f"{where}: {names!r} is no regular expression: {error}"
            ) from error


def asks_for_words(texts: Iterable[str]) -> bool:
    """Whether any of the rules ``texts`` is of 16 bits."""
    return any(TensorType.parsed(text).type == WORD for text in texts)


def types_of(texts: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """By name the type that the first rule says that matches; nothing of other names.

    Raises UsageError for a rule that matches none of ``names``.
    """
    rules = [TensorType.parsed(text) for text in texts]
    found: dict[str, str] = {}
    for rule in rules:
        matching = [name for name in names if rule.pattern.fullmatch(name)]
        if not matching:
            near = get_close_matches(rule.pattern.pattern, names, 1)
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise UsageError(
                f"tensor_types (--tensor-types) {rule.text!r} matches no tensor that is "
                f"stored{hint}"
            )
        found = dict.fromkeys(matching, rule.type) | found
    return found
