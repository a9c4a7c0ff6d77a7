"""The tables of docs/options.md, read off the declared options."""

from qpasses.ir.commands import COMMANDS
from qpasses.ir.declared import SWITCH, TEXTS, Declared, declared
from qpasses.ir.integer_commands import InspectCommand, PreviewOptions
from qpasses.ir.options import HEADINGS
from qpasses.ir.terminal_options import PictureOptions, PrintOptions, TerminalOptions
from tests.bench.markdown import table

HEAD = ["option", "default", "what it does", "commands", "in Python"]


def option_tables() -> str:
    """A table for each heading; commands that share a declaration share its row."""
    lines = []
    for heading in HEADINGS:
        rows: dict[tuple[str, ...], list[str]] = {}
        for path, options in COMMANDS.items():
            for each in declared(options).values():
                if each.option.heading == heading:
                    rows.setdefault(_cells(each, options), []).append(path.split()[-1])
        names = [cells[0] for cells in rows]
        together = sorted(rows, key=lambda cells: names.index(cells[0]))
        made = [[*cells[:3], ", ".join(rows[cells]), cells[3]] for cells in together]
        lines += [f"### {heading}", "", table(HEAD, made)]
    return "\n".join(lines)


def _cells(found: Declared, options: type) -> tuple[str, str, str, str]:
    """Name and values, default, help, and the keyword of the Python function."""
    return (_name(found), _default(found), found.option.help, _keyword(found, options))


def _name(found: Declared) -> str:
    about = found.option
    names = [f"`-{about.short}`"] if about.short else []
    names.append(f"`--{found.flag}`")
    if about.opposite:
        names.append(f"`--no-{found.flag}`")
    values = [str(each) for each in about.choices] or about.metavar.split("|")
    return f"{', '.join(names)} {', '.join(f'`{each}`' for each in values if each)}".strip()


def _default(found: Declared) -> str:
    if found.is_required:
        return "must be given"
    if found.default is None:
        return found.option.unset or "none"
    if found.kind is SWITCH:
        return "on" if found.default else "off"
    return "none" if found.kind is TEXTS else f"`{found.default}`"


def _keyword(found: Declared, options: type) -> str:
    """What says the same in Python, if anything does."""
    if found.name in declared(PictureOptions):
        return "`preprocessing`"
    if found.name == "print_after":
        return "`after`"
    of_terminals = {*declared(TerminalOptions), *declared(PrintOptions)}
    of_preview = options is InspectCommand and found.name not in declared(PreviewOptions)
    is_printing = found.name in of_terminals or of_preview
    return "" if is_printing else f"`{found.name}`"
