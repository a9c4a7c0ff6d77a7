"""What a command costs: its time from start to end, and the peak memory of its process."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_LOOK_SECONDS = 0.02
"""So often the peak so far is read: the system itself would count the parent's memory too."""

BYTECODE = Path(tempfile.gettempdir()) / "qpasses-bench-bytecode"
"""Where the commands find what Python compiled, as where they are installed: an environment
may forbid it to be written beside the code, and would compile all at each start."""

_IMPORT_ALL = """
import pkgutil, qpasses
for each in pkgutil.walk_packages(qpasses.__path__, "qpasses."):
    if not each.name.endswith("__main__"):
        __import__(each.name)
"""


@cache
def _environment() -> dict[str, str]:
    """What commands get; from the first call on the bytecode is there."""
    made = {**os.environ, "PYTHONPYCACHEPREFIX": str(BYTECODE)}
    made.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run([sys.executable, "-c", _IMPORT_ALL], check=True, env=made)
    return made


@dataclass(frozen=True)
class Cost:
    """Of one command: ``processor``, the seconds of all its threads."""

    seconds: float
    processor: float
    megabytes: float


def cost_of(*arguments: object) -> Cost:
    """What ``python -m qpasses`` with ``arguments`` costs.

    Raises CalledProcessError if it fails.
    """
    command = [sys.executable, "-m", "qpasses", *map(str, arguments)]
    environment = _environment()
    start, peak = time.perf_counter(), 0
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    status = Path(f"/proc/{child.pid}/status")
    done = 0
    while not done:
        lines = status.read_text("utf-8").splitlines()
        peak = max(
            peak, *(int(row.split()[1]) for row in lines if row.startswith("VmHWM:")), 0
        )
        time.sleep(_LOOK_SECONDS)
        done, code, used = os.wait4(child.pid, os.WNOHANG)
    seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(code)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    return Cost(seconds, used.ru_utime + used.ru_stime, peak / 1024)
