"""What runs TFLite files, for tests of many: a process of each resolver takes one by one."""

import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

from qpasses.checking.beside import litert_check
from qpasses.checking.beside.litert_child import Litert, Micro, _answer
from qpasses.checking.beside.litert_tools import LitertProcess

_children = {}


def _child(resolver):
    """The process, and the file of what it says: another one where the last one ended."""
    if resolver not in _children or _children[resolver][0].poll() is not None:
        said = tempfile.NamedTemporaryFile()  # noqa: SIM115 (as long as the process)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.litert_served", resolver],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
        _children[resolver] = process, said
    return _children[resolver]


class Served(LitertProcess):
    """A file in the process of its resolver, until that takes another one."""

    def __init__(self, model, resolver, folder, *, keep):
        self._title = resolver
        self._given, self._made = (folder / f"{resolver}.{n}.npz" for n in ("given", "made"))
        self._process, said = _child(resolver)
        self._said = Path(said.name)
        self._process.stdin.write(f"load\t{model}\t{int(keep)}\n")
        self._process.stdin.flush()
        self._wait("does not load the file")

    def close(self):
        """Nothing: the next file takes its place."""


def judge_alone():
    """What patches check_litert to leave optimized kernels out, and to start no process."""
    return patch.multiple(litert_check, LitertProcess=Served, OTHERS={})


def main(resolver):
    """Answer until nothing is asked any more."""
    program = None
    for line in sys.stdin:
        match line.rstrip("\n").split("\t"):
            case "load", model, keep:
                program = None  # before there is another one
                program = (
                    Micro(model)
                    if resolver == "TFLM"
                    else Litert(model, resolver, keep=keep == "1")
                )
                print(flush=True)
            case given, made:
                print(_answer(program, given, made), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
