"""Checkpoints: what a run has counted so far, in a file, so that it can go on after a stop."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibration.collect import NOTHING, Collected
from calibration.table import Table
from calibration.table_reading import damaged, parsed, read_text
from opsets.errors import DataError

SCHEMA = "qpasses.checkpoint/1"


def fingerprint(parts: Iterable[Any]) -> str:
    """SHA-256 of what must be the same for a run to be gone on with; parts are JSON."""
    found = hashlib.sha256()
    for part in parts:
        found.update(json.dumps(part, sort_keys=True).encode() + b"\n")
    return found.hexdigest()


@dataclass(frozen=True)
class Checkpoint:
    """A file of a run: ``run`` is its fingerprint, ``blank`` its table without tensors."""

    path: Path
    run: str
    blank: Table

    def load(self) -> Collected:
        """What the file holds; nothing if there is none.

        Raises DataError if it is damaged or of another run.
        """
        if not self.path.exists():
            return NOTHING
        where = str(self.path)
        cure = "delete it, or say --restart"
        try:
            entries = parsed(read_text(self.path), where)
        except DataError as error:
            raise DataError(f"{where}: is no checkpoint of qpasses: {cure}") from error
        if not isinstance(entries, dict) or entries.get("schema") != SCHEMA:
            raise DataError(f"{where}: is no checkpoint of qpasses: {cure}")
        if entries.get("run") != self.run:
            raise DataError(
                f"{where}: is the checkpoint of another run (other model, samples or "
                f"options): {cure}"
            )
        try:
            done = [(int(first), int(end)) for first, end in entries["done"]]
            skipped = {str(name): str(why) for name, why in entries["skipped"].items()}
            table = Table.from_json(entries["table"], where)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise damaged(where, f"cannot be gone on with: {cure}") from error
        found = Collected(table.tensors, done, skipped)
        ends = [position for span in done for position in span]
        rising = min(ends, default=0) >= 0 and ends == sorted({*ends})
        if not rising or found.samples != table.samples:
            raise damaged(where, f"does not say which samples it counted: {cure}")
        return found

    def encoded(self, found: Collected) -> bytes:
        """The content of the file for what was found so far."""
        table = Table(
            self.blank.model,
            self.blank.tool,
            found.samples,
            found.tensors,
            self.blank.data,
            tuple(sorted(found.skipped)),
        )
        entries = {
            "schema": SCHEMA,
            "run": self.run,
            "done": found.done,
            "skipped": found.skipped,
            "table": table.as_json(),
        }
        return json.dumps(entries).encode() + b"\n"
