"""--config FILE.toml: the options of a command from a file, under the same names."""

import tomllib
from pathlib import Path
from typing import Any

import click

from opsets.errors import UsageError
from opsets.ordinary_files import text_of
from qpasses.ir.commands import COMMANDS
from qpasses.ir.declared import Declared, declared

CONFIG = "qpasses.config"
"""Under this key a command's context holds the path of its configuration file."""


def read_config(ctx: click.Context, _param: click.Parameter, path: Path | None) -> None:
    """Let the entries of a TOML file stand for options that are not given."""
    if path is None:
        return
    found = [getattr(each, "declared", None) for each in ctx.command.params]
    known = {
        each.flag.replace("-", "_"): each
        for each in found
        if isinstance(each, Declared) and each.name != "config"
    }
    defaults: dict[str, Any] = {}
    for key, value in _entries(ctx, path).items():
        option = known.get(key.replace("-", "_"))
        if option is None:
            options = ", ".join(each.flag for _, each in sorted(known.items()))
            raise UsageError(f"--config {path}: unknown entry {key!r} (known: {options})")
        if option.name in defaults:
            raise UsageError(f"--config {path}: {key} stands there twice")
        _check(option, value, f"--config {path}: {key} = {value!r}")
        defaults[option.name] = value
    ctx.default_map = defaults
    ctx.meta[CONFIG] = path


def _entries(ctx: click.Context, path: Path) -> dict[str, Any]:
    """What stands in the file for any command, and in the table of this one."""
    try:
        entries = tomllib.loads(text_of(path))
    except OSError as error:
        reason = str(error.strerror).lower()
        raise UsageError(f"--config {path}: cannot be read: {reason}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"--config {path}: cannot be read as TOML: {error}") from error
    names = (ctx.info_name, None if ctx.parent is None else ctx.parent.info_name)
    for command, options in COMMANDS.items():
        if "config" in declared(options) and isinstance(entries.get(command), dict):
            table = entries.pop(command)
            entries |= table if command in names else {}
    return entries


def _check(option: Declared, value: Any, where: str) -> None:
    """Raise UsageError for a value of the wrong type; click checks the rest, as of a text."""
    if not option.kind.fits(value):
        raise UsageError(f"{where}: {option.kind.needed.lower()} is needed")
