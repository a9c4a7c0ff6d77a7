"""Kinds of arguments in Python: what a function takes, and the error for anything else."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from opsets.errors import UsageError

_LONGEST = 60
"""Characters of a value that a message shows."""


def check_kind(name: str, value: Any, annotation: str) -> None:
    """Raise UsageError, naming the argument, unless ``value`` is what ``annotation`` says.

    Looked at are paths, models, tables and targets, and what is called. Types are compared by
    their names: nothing heavy is imported for that.
    """
    if annotation.startswith("Callable"):
        words = ["Callable"]
    else:
        words = [each.strip() for each in annotation.split("|")]
    if not all(word in _KINDS for word in words):
        return
    if not any(_KINDS[word][1](value) for word in words):
        listed = [_KINDS[word][0] for word in words if _KINDS[word][0]]
        raise UsageError(f"{name}: {' or '.join(listed)} is needed, got {shown(value)}")


def check_path(name: str, value: Any) -> None:
    """Raise UsageError, naming the argument, for what is neither a path nor None."""
    check_kind(name, value, "str | Path | None")


def shown(value: Any) -> str:
    """``value`` as a message shows it: in one short line, or its type alone."""
    text = repr(value)
    is_short = len(text) <= _LONGEST and "\n" not in text
    return text if is_short else f"something of type {type(value).__name__}"


def _is_called(kind: str) -> Callable[[Any], bool]:
    return lambda value: any(each.__name__ == kind for each in type(value).__mro__)


_KINDS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("a path", lambda value: isinstance(value, str)),
    "Path": ("", lambda value: isinstance(value, os.PathLike)),
    "None": ("", lambda value: value is None),
    "onnx.ModelProto": ("an onnx.ModelProto", _is_called("ModelProto")),
    "Table": ("a Table", _is_called("Table")),
    "Callable": ("what can be called", callable),
}
"""By word of an annotation, how messages say it, and whether a value is that."""
