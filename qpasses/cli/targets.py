"""qpasses targets: the targets that ship, and the rules of one."""

import click

from qpasses.cli.parameters import Command, Group
from qpasses.cli.running import console


@click.group(
    cls=Group,
    invoke_without_command=True,
    examples=("qpasses targets", "qpasses targets show tflite"),
)
@click.pass_context
def targets(context: click.Context) -> None:
    """List the targets that ship with qpasses; `targets show` explains one."""
    if context.invoked_subcommand is not None:
        return
    from opsets.realised import unrealised
    from opsets.target import load_target, target_names
    from qpasses.report.target_tables import print_targets

    shipped = [load_target(name) for name in target_names()]
    print_targets(console(), [(target, unrealised(target)) for target in shipped])


@targets.command(cls=Command, examples=("qpasses targets show tflite",))
@click.argument("target", metavar="NAME|FILE.toml")
def show(target: str) -> None:
    """Explain the rules of a target, shipped or your own, with their formulas."""
    from opsets.realised import unrealised
    from opsets.target import load_target
    from qpasses.report.target_tables import print_target

    rules = load_target(target)
    print_target(console(), rules, unrealised(rules))
