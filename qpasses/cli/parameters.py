"""Click's options from the declared ones, and a command whose help shows them by heading."""

from collections.abc import Callable, Sequence
from functools import partial
from math import nan
from pathlib import Path
from textwrap import fill
from typing import Any

import click

from qpasses.cli.config_file import read_config
from qpasses.ir.commands import COMMANDS
from qpasses.ir.declared import (
    FILE,
    FILE_OR_NAME,
    NUMBER,
    SWITCH,
    TEXTS,
    WHOLE,
    Declared,
    declared,
)
from qpasses.ir.options import GENERAL, by_heading


class _Path(click.Path):
    """A path that is not empty, as those of unset variables are."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """As click does."""
        if "\0" in str(value):
            self.fail(f"{value!r} is no path: it has a zero byte", param, ctx)
        if value == "":
            self.fail("the path is empty (an unset variable?)", param, ctx)
        return super().convert(value, param, ctx)


PATH = _Path(path_type=Path)
"""Of arguments: whether something is there, and what, the reader of it says."""


class Parameter(click.Option):
    """An option that knows its declaration."""

    def __init__(self, found: Declared) -> None:
        self.declared = found
        about, flag = found.option, f"--{found.flag}"
        names = [*([f"-{about.short}"] if about.short else []), flag, found.name]
        is_switch = found.kind is SWITCH
        if about.opposite:
            names[-2] = f"{flag}/--no-{found.flag}"
        super().__init__(
            names,
            type=None if is_switch else _type(found),
            is_flag=is_switch,
            multiple=found.kind is TEXTS,
            required=found.is_required,
            show_default=about.unset or True,
            metavar=about.metavar or _metavar(found),
            help=_known(found) + about.help,
            **({} if found.is_required else {"default": found.default}),
            **(_CONFIG if found.name == "config" else {}),
        )


_CONFIG: dict[str, Any] = {"is_eager": True, "expose_value": False, "callback": read_config}
"""It is read first and gives the others their defaults."""


class _Read(click.ParamType[Any]):
    """A value that the declaration tells how to read."""

    def __init__(self, read: Callable[[Any], Any], name: str) -> None:
        self.read, self.name = read, name

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """What was read; a usage error says what is wrong with ``value``."""
        try:
            return self.read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _number(found: Declared, value: Any) -> float:
    try:
        number = float(value)
    except ValueError:
        number = nan
    if not found.fits(number):
        raise ValueError(f"{found.needed} is needed, got {value!r}")
    return number


def _metavar(found: Declared) -> str | None:
    """Choices in any case as they are declared, which click would show in small letters."""
    if _has_many_choices(found):
        return "NAME"
    return f"[{'|'.join(found.option.choices)}]" if found.option.any_case else None


def _known(found: Declared) -> str:
    """Choices that have no room beside the name of the option, in lines of their own."""
    if not _has_many_choices(found):
        return ""
    listed = ", ".join(found.option.choices)
    return "\b\n" + fill(listed, _BESIDE, break_on_hyphens=False) + "\n\n"


def _has_many_choices(found: Declared) -> bool:
    return len(found.option.choices) > _MOST_CHOICES


_MOST_CHOICES = 8
"""So many have room on a line of a help."""

_BESIDE = 44
"""Columns beside the names of options, of 80."""


def _type(found: Declared) -> Any:
    about, kind = found.option, found.kind
    if about.choices:
        return click.Choice(about.choices, case_sensitive=not about.any_case)
    if kind.read is not None:
        return _Read(kind.read, found.flag)
    if kind is WHOLE:
        return click.IntRange(about.least, about.most)
    if kind is NUMBER:
        return _Read(partial(_number, found), "number")
    if kind is FILE:
        return PATH
    return click.Path() if kind is FILE_OR_NAME else click.STRING


class _WithExamples(click.Command):
    """A command whose help begins with ``examples``, as they are typed."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._examples = examples

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, which are not broken, and what the command does."""
        with formatter.section("Examples"):
            for each in self._examples:
                formatter.write(f"{'':{formatter.current_indent}}{each}\n")
        super().format_help_text(ctx, formatter)


class Group(_WithExamples, click.Group):
    """Commands in the order in which they are given."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Not by the alphabet."""
        return list(self.commands)


class Command(_WithExamples):
    """A command whose help lists its options under their headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """By heading; what is not declared, as ``--help``, stands under the last one."""
        shown: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx)
            if record is not None and not isinstance(each, click.Argument):
                shown.setdefault(_heading(each), []).append(record)
        for heading, records in shown.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def _heading(param: click.Parameter) -> str:
    return param.declared.option.heading if isinstance(param, Parameter) else GENERAL


def parameters(path: str) -> list[click.Parameter]:
    """The options of the command ``path``, those of one heading together."""
    listed = by_heading(declared(COMMANDS[path]).values()).values()
    return [Parameter(each) for under_one_heading in listed for each in under_one_heading]
