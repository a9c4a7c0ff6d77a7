"""Output and errors that are closed, cut short or full: what is printed decides nothing."""

import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO


class Output:
    """``stream``, until it takes nothing more; then what is written is dropped.

    Results are files, and exit codes say what became of them: a reader that has seen enough,
    as ``head`` has, or a full disk behind a pipe changes neither.
    """

    def __init__(self, stream: TextIO | None, *, is_report: bool = True) -> None:
        self._stream: TextIO = stream or _nowhere()
        self._is_report = is_report  # what cannot be said of errors cannot be said at all
        if isinstance(stream, TextIOWrapper):  # a name it cannot show is no reason to stop
            stream.reconfigure(errors="replace")

    def write(self, text: str) -> int:
        """Write if possible; how many characters were taken over."""
        try:
            self._stream.write(text)
        except OSError as error:
            self._drop(error)
        return len(text)

    def flush(self) -> None:
        """Write what is held back, if possible."""
        try:
            self._stream.flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        """Let what is held back go nowhere too, at the latest when Python ends."""
        if self._is_report and not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"warning: the report cannot be printed: {error.strerror}\n")
        nowhere = _nowhere()
        os.dup2(nowhere.fileno(), self._stream.fileno())
        self._stream = nowhere

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")
