"""Calibration tables: statistics of a model's tensors in a file, equal however it was made."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from reprlib import repr as shown
from typing import Any, Self

from calibration import table_entry
from calibration.preprocessing import Preprocessing
from calibration.statistics import Statistics
from calibration.table_reading import damaged, parsed, read_text
from opsets.errors import DataError, UsageError

SCHEMA = "qpasses.calibration/1"

_FAMILY = SCHEMA.partition("/")[0]
_DATA_KEYS = ("random", "preprocessing")
_MOST_SAMPLES = 2**63 - 1


@dataclass(frozen=True)
class Table:
    """Statistics of tensors of one model over some samples.

    ``model``: the SHA-256 of the float model with its weights. ``tool``: the version of the
    tool that made it. ``samples``: how many were counted. ``data``: what these were, by
    ``random`` and ``preprocessing`` (or None). ``skipped``: the names of bad samples that were
    left out, sorted.
    """

    model: str
    tool: str
    samples: int
    tensors: Mapping[str, Statistics]
    data: Mapping[str, Any]
    skipped: Sequence[str] = ()

    def merged(self, other: "Table") -> "Table":
        """Of the samples of both.

        Raises DataError, which does not know the files, if they do not belong together.
        """
        mine, theirs = self._identity(), other._identity()
        for what, value in mine.items():
            if theirs[what] != value:
                raise DataError(
                    f"{what} differs, {theirs[what]} instead of {value}: only tables of one "
                    "model, one version of the tool and the same kind of samples can be merged"
                )
        if self.tensors.keys() != other.tensors.keys():
            name = min(self.tensors.keys() ^ other.tensors.keys())
            raise DataError(
                f"tensor {name!r} is in one table only: make both with the same options"
            )
        for name, statistics in self.tensors.items():
            if (statistics.histogram is None) != (other.tensors[name].histogram is None):
                raise DataError(
                    f"tensor {name!r} has a histogram in one table only: make both with the "
                    "same options"
                )
        return replace(
            self,
            samples=self.samples + other.samples,
            tensors={
                name: statistics.merged(other.tensors[name])
                for name, statistics in self.tensors.items()
            },
            skipped=tuple(sorted([*self.skipped, *other.skipped])),
        )

    def _identity(self) -> dict[str, str]:
        """What tables that can be merged have in common, beside their tensors."""
        return {
            "the SHA-256 of the float model": self.model,
            "the version of the tool": self.tool,
            "what the samples were": json.dumps(dict(self.data), sort_keys=True),
        }

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON has it, the tensors sorted by name."""
        return {
            "schema": SCHEMA,
            "model": self.model,
            "tool": self.tool,
            "samples": self.samples,
            "data": dict(self.data),
            "skipped": list(self.skipped),
            "tensors": {
                name: table_entry.as_json(self.tensors[name]) for name in sorted(self.tensors)
            },
        }

    @classmethod
    def from_json(cls, entries: Any, where: str) -> Self:
        """What ``as_json`` gave, of a file that ``where`` names; DataError for all else."""
        _check_schema(entries, where)
        names = ["schema", *(field.name for field in fields(cls))]
        found = table_entry.fields(entries, names, where)
        samples = table_entry.whole(found, "samples", 1, _MOST_SAMPLES, where)
        return cls(
            _digest(found["model"], where),
            _tool(found["tool"], where),
            samples,
            _tensors(found["tensors"], samples, where),
            _data(found["data"], f"{where}: data"),
            _skipped(found["skipped"], where),
        )

    def encoded(self) -> bytes:
        """The JSON text of a file, a line for each tensor; equal tables have equal bytes."""
        entries = replace(self, tensors={}).as_json()
        del entries["tensors"]
        head = [
            f"{json.dumps(key)}: {json.dumps(value, sort_keys=True)}"
            for key, value in entries.items()
        ]
        lines = [
            f"{json.dumps(name)}: {json.dumps(table_entry.as_json(self.tensors[name]))}"
            for name in sorted(self.tensors)
        ]
        listed = "{\n" + ",\n".join(lines) + "\n}"
        return ("{\n" + ",\n".join([*head, f'"tensors": {listed}']) + "\n}\n").encode()


def read_table(path: Path) -> Table:
    """The table in a file that ``encoded`` gave; DataError if it is anything else.

    White space, the order of names and the spelling of numbers may have changed on the way.
    """
    return Table.from_json(parsed(read_text(path), str(path)), str(path))


def _check_schema(entries: Any, where: str) -> None:
    schema = entries.get("schema") if isinstance(entries, dict) else None
    if schema == SCHEMA:
        return
    if isinstance(schema, str) and schema.partition("/")[0] == _FAMILY:
        raise DataError(
            f"{where}: has the format {schema!r}, this version reads {SCHEMA!r}: was it made "
            "by a newer qpasses? Then update, or make the table again"
        )
    raise DataError(f'{where}: is no calibration table of qpasses ("schema": "{SCHEMA}")')


def _digest(value: Any, where: str) -> str:
    if isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef"):
        return value
    raise damaged(where, f"'model' must be a SHA-256 in hexadecimal, not {shown(value)}")


def _tool(value: Any, where: str) -> str:
    if isinstance(value, str) and value:
        return value
    raise damaged(where, f"'tool' must be a version, not {shown(value)}")


def _tensors(entries: Any, samples: int, where: str) -> dict[str, Statistics]:
    if not isinstance(entries, dict):
        raise damaged(where, f"'tensors' must be a JSON object, not {shown(entries)}")
    found = {}
    for name in sorted(entries):
        place = f"{where}: tensor {name!r}"
        found[name] = table_entry.from_json(entries[name], place)
        if found[name].samples > samples:
            more = f"{found[name].samples} samples, the table {samples}"
            raise damaged(place, f"has {more}")
    return found


def _data(entries: Any, where: str) -> dict[str, Any]:
    """What the samples were; a preprocessing is tried, and kept as it was spelled."""
    found = table_entry.fields(entries, _DATA_KEYS, where)
    if not isinstance(found["random"], bool):
        raise damaged(where, f"'random' must be true or false, not {shown(found['random'])}")
    steps = found["preprocessing"]
    if steps is None:
        return found
    if not isinstance(steps, dict):
        raise damaged(where, f"'preprocessing' must be an object or null, not {shown(steps)}")
    try:
        Preprocessing.from_json(steps)
    except (UsageError, OverflowError) as error:
        raise damaged(where, f"'preprocessing': {error}") from error
    return found


def _skipped(entries: Any, where: str) -> tuple[str, ...]:
    if not isinstance(entries, list) or not all(isinstance(name, str) for name in entries):
        raise damaged(where, f"'skipped' must be names of samples, not {shown(entries)}")
    if entries != sorted(entries):
        raise damaged(where, "'skipped' is not sorted")
    return tuple(entries)
