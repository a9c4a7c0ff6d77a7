"""The command line: a file per command, each parses, calls the API and prints."""

import gc
import signal
import sys
from threading import current_thread, main_thread
from typing import NoReturn

import click

from opsets.errors import ModelError, QPassesError
from qpasses.cli.analyze import analyze
from qpasses.cli.bench import bench
from qpasses.cli.bisect import bisect
from qpasses.cli.calibrate import calibrate
from qpasses.cli.export import export
from qpasses.cli.inspect import inspect
from qpasses.cli.integerize import integerize
from qpasses.cli.opt import opt
from qpasses.cli.output import Output
from qpasses.cli.parameters import Group
from qpasses.cli.passes import passes
from qpasses.cli.quantize import quantize
from qpasses.cli.targets import targets
from qpasses.cli.verify import verify

_COMMANDS: tuple[click.Command, ...] = (
    *(quantize, verify, analyze, bench, inspect, export, bisect),
    *(integerize, calibrate, targets, passes, opt),
)
"""Those that are used most come first."""


@click.group(
    cls=Group,
    commands=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=(
        "qpasses quantize model.onnx --data samples/ -o model.int8.onnx",
        "qpasses verify model.int8.onnx --against model.onnx --data samples/",
    ),
)
@click.version_option(package_name="qpasses")
def cli() -> None:
    """Float ONNX in, proven integer-only ONNX out."""


class _Terminated(KeyboardInterrupt):
    """SIGTERM: what an interrupt keeps is kept too."""


_RAISED = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: _Terminated}
_sent: list[int] = []
"""The signals that came."""


def _stop(number: int, _frame: object) -> NoReturn:
    _sent.append(number)
    raise _RAISED[signal.Signals(number)]


_YOUNG = 50_000
"""So many new objects are looked through at once for those that only know each other: a graph
makes millions that stay, and Python's own 700 to 2,000 cost a seventh of a run."""


def main() -> None:
    """The entry point: a user's mistake ends in one clear line and its exit code."""
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
    sys.stdout, sys.stderr = Output(sys.stdout), Output(sys.stderr, is_report=False)
    _sent.clear()
    for number in _RAISED if current_thread() is main_thread() else ():
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, _stop)
    try:
        _run()
    except Exception:  # modules of C that are being imported make an ImportError of a signal
        if not _sent:
            raise
        _exit_stopped(_sent[-1])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _exit_stopped(number: int) -> NoReturn:
    click.echo("terminated" if number == signal.SIGTERM else "interrupted", err=True)
    sys.exit(128 + number)


def _run() -> None:
    try:
        cli.main(standalone_mode=False)
    except QPassesError as error:
        click.echo(f"error: {' '.join(str(error).splitlines())}", err=True)
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(error.exit_code)
    except click.ClickException as error:
        click.echo(f"error: {' '.join(error.format_message().split())}", err=True)
        sys.exit(error.exit_code)
    except MemoryError as error:
        click.echo(f"error: out of memory: {error or 'give smaller inputs'}", err=True)
        sys.exit(ModelError.exit_code)
    except click.exceptions.Abort as error:
        is_terminated = isinstance(error.__cause__, _Terminated)
        _exit_stopped(signal.SIGTERM if is_terminated else signal.SIGINT)
