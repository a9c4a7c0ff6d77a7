"""Functions of users, named as MODULE:FUNCTION where they are no objects of Python."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from opsets.argument_kinds import shown
from opsets.errors import UsageError


def given_function(given: Any, option: str) -> Callable[..., Any]:
    """It, or what a text names; modules are looked for in the folder one is in too.

    Raises UsageError, naming ``option``.
    """
    function: Callable[..., Any] = given
    if callable(given):
        return function
    module, colon, name = given.partition(":") if isinstance(given, str) else ("", "", "")
    if not (module and colon and name):
        raise UsageError(f"{option}: MODULE:FUNCTION is needed, got {shown(given)}")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        function = found
    except Exception as error:  # whatever a user's module raises
        raise UsageError(
            f"{option} {given}: {type(error).__name__}: {error} (modules are looked for in "
            f"{here} and where Python has its own)"
        ) from error
    finally:
        if here in sys.path:  # unless that module took it out
            sys.path.remove(here)
    if not callable(function):
        raise UsageError(f"{option} {given}: {shown(function)} cannot be called")
    return function
