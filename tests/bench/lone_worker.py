"""A process that does one job after another, and is replaced when it hangs or dies."""

from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self, TypeVar

Result = TypeVar("Result")


class HungError(Exception):
    """The job took longer than it may."""


class DiedError(Exception):
    """The process died of a signal, whose number it says."""


class LoneWorker:
    """Does jobs, each in at most so many seconds; a context that ends the process.

    Functions, arguments and results are pickled. What a function raises is no result: it ends
    the process, and the run.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._context = get_context("spawn")  # threads of onnxruntime do not survive a fork
        self._begin()

    def _begin(self) -> None:
        self._pipe, theirs = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()  # else the end of the process would not end the pipe
        assert self._pipe.recv() is None  # the time of a job begins when all is imported

    @property
    def pid(self) -> int | None:
        """Of the process as it is now."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> int:
        """How the process ended."""
        self._process.kill()
        self._process.join()
        self._pipe.close()
        assert self._process.exitcode is not None
        return self._process.exitcode

    def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """What ``function`` gives; raises HungError or DiedError, with a new process."""
        self._pipe.send((function, arguments))
        try:
            if not self._pipe.poll(self._seconds):
                self._end()
                self._begin()
                raise HungError(f"longer than {self._seconds:g} s")
            result: Result = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            code = self._end()
            self._begin()
            if code >= 0:
                raise RuntimeError(f"{function.__name__} failed, see above") from None
            raise DiedError(f"signal {-code}") from None
        return result


def _serve(pipe: Connection) -> None:
    """What runs in the process."""
    pipe.send(None)
    while True:
        function, arguments = pipe.recv()
        pipe.send(function(*arguments))
