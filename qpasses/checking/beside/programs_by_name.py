"""The programs that run a model beside onnxruntime, by the names that users give them."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from qpasses.checking.beside.litert_check import check_litert
from qpasses.checking.beside.litert_tools import check_installed
from qpasses.checking.beside.other_programs import OtherCheck, check_with, runner_of
from qpasses.emit.tosa.profile import Profile
from qpasses.ir.choices import OtherProgram

Check = Callable[..., OtherCheck]
"""Takes what ``check_with`` takes behind the runner."""


def checks_of(names: Iterable[OtherProgram], profile: Profile) -> Mapping[str, Check]:
    """By key in a report. Raises UsageError for a name that is none, or not installed."""
    found = dict[str, Check]()
    for name in names:
        if name in ("litert", "tflm"):
            check_installed(name)
            found[name] = partial(check_litert, runtime=name)
            continue
        runner = runner_of(name, profile)
        found[runner.key] = partial(check_with, runner, profile=profile)
    return found
