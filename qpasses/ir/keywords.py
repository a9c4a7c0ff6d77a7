"""Functions whose arguments are the fields of a dataclass: declared there, and only there."""

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from textwrap import wrap
from typing import Any, ParamSpec, TypeVar

from qpasses.ir.declared import declared
from qpasses.ir.options import by_heading

Given = TypeVar("Given")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


def takes(
    options: Callable[Arguments, Given],
) -> Callable[[Callable[[Given], Result]], Callable[Arguments, Result]]:
    """Decorate a function of one ``options`` object: it takes the fields as arguments instead.

    Names, types and defaults are those of the dataclass ``options``, for mypy and editors as
    for ``help``; an unknown keyword is a TypeError that names the nearest known one.
    """

    def decorate(run: Callable[[Given], Result]) -> Callable[Arguments, Result]:
        fields = inspect.signature(options)
        made = inspect.signature(run)

        @wraps(run)
        def call(*args: Arguments.args, **keywords: Arguments.kwargs) -> Result:
            _check(run.__name__, fields, args, keywords)
            return run(options(*args, **keywords))

        shown = fields.replace(return_annotation=made.return_annotation)
        call.__signature__ = shown  # type: ignore[attr-defined]
        call.__doc__ = f"{inspect.getdoc(run)}\n{_explained(options)}"
        return call

    return decorate


def _check(
    name: str, fields: inspect.Signature, args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> None:
    for each in keywords:
        if each not in fields.parameters:
            near = get_close_matches(each, fields.parameters, 1)
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{name}() has no argument {each!r}{hint}")
    try:
        fields.bind(*args, **keywords)
    except TypeError as error:
        raise TypeError(f"{name}(): {error}") from None


def _explained(options: Any) -> str:
    """What ``help`` shows below the docstring: the options by heading, as the command line."""
    lines = []
    for heading, found in by_heading(declared(options).values()).items():
        lines += ["", heading]
        for each in found:
            unset = f" Default: {each.option.unset}." if each.option.unset else ""
            text = f"{each.name}: {each.option.help}{unset}"
            lines += wrap(text, 92, initial_indent="  ", subsequent_indent="    ")
    return "\n".join(lines)
