"""Ranges: which real numbers the integers of each observed tensor span, and why these."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from calibration import Collected, Engine, Range, Run, Samples, Statistics
from calibration.collect import collect
from calibration.foreign_tables import read_ranges, table_kind
from calibration.rules import Rules
from calibration.table import Table, read_table
from opsets.errors import DataError

_SHOWN = 3
"""So many names are listed where there are more."""


@dataclass(frozen=True)
class Ranges:
    """The range of each observed tensor by name, and the method it comes from.

    ``statistics`` are what they were chosen from, where that is known; ``skipped`` the names
    of bad samples that were left out; ``random``: the samples were made up.
    """

    ranges: Mapping[str, Range]
    methods: Mapping[str, str]
    statistics: Mapping[str, Statistics] = field(default_factory=dict)
    skipped: Sequence[str] = ()
    random: bool = False


@dataclass(frozen=True)
class Given:
    """A calibration table that a user gave: statistics, or the ranges of another tool."""

    path: Path
    kind: str
    table: Table | None = None
    ranges: Mapping[str, Range] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, model: str, version: str) -> "Given":
        """The table at ``path``, made for the model with the SHA-256 ``model`` by ``version``.

        Raises DataError if it is damaged or of another model or version.
        """
        kind = table_kind(path)
        if kind != "qpasses":
            return cls(path, kind, ranges=read_ranges(path)[1])
        table = read_table(path)
        if table.model != model:
            raise DataError(
                f"{path}: was made from another model, or from this one with other weights: "
                "make it again with qpasses calibrate"
            )
        if table.tool != version:
            raise DataError(
                f"{path}: was made by qpasses {table.tool}, this is {version}: make it again "
                "with qpasses calibrate"
            )
        return cls(path, kind, table)

    @property
    def random(self) -> bool:
        """Whether it says that its samples were made up."""
        return self.table is not None and self.table.data["random"] is True

    @property
    def names(self) -> Sequence[str]:
        """The tensors in it."""
        return list(self.ranges if self.table is None else self.table.tensors)

    def of(self, observed: Sequence[str], known: set[str], rules: Rules) -> Ranges:
        """The ranges of the tensors ``observed``; ``known`` are all of the prepared graph.

        Raises DataError for a tensor that is missing or that the graph has not.
        """
        names = self._names_of(known)
        missing = [name for name in observed if name not in names]
        if missing:
            raise DataError(
                f"{self.path}: holds nothing for {_listed(missing)}: calibrate with the "
                "options that quantize is given"
            )
        if self.table is None:
            ranges = {name: self.ranges[names[name]] for name in observed}
            return Ranges(ranges, dict.fromkeys(observed, f"{self.kind} table"))
        statistics = {name: self.table.tensors[name] for name in observed}
        return chosen(rules, statistics, self.table.skipped, self.random, str(self.path))

    def _names_of(self, known: set[str]) -> dict[str, str]:
        """The table's name for each tensor of the graph.

        TPU-MLIR calls tensors ``name_Op`` after the ONNX node that writes them.
        """
        names, strangers = {}, []
        for name in self.names:
            plain = name.rpartition("_")[0] if self.kind == "tpumlir" else ""
            if name in known:
                names[name] = name
            elif plain in known:
                names.setdefault(plain, name)
            else:
                strangers.append(name)
        if strangers and (self.table is not None or len(strangers) == len(self.names)):
            raise DataError(
                f"{self.path}: speaks of {_listed(strangers)}, which the model has not: is it "
                "a table of another model?"
            )
        return names

    def as_json(self) -> dict[str, Any]:
        """What a report says of it."""
        samples = None if self.table is None else self.table.samples
        return {"kind": self.kind, "samples": samples}


@dataclass(frozen=True)
class Calibration:
    """How ranges are found: from a table that was given, or else by a run of ``engine``."""

    engine: Engine = collect
    given: Given | None = None
    skip_bad: bool = False
    workers: int | None = None


HERE = Calibration()
"""A run in this process."""


def find_ranges(
    model: onnx.ModelProto,
    observed: Sequence[str],
    samples: Samples,
    rules: Rules,
    how: Calibration,
    run: Run,
) -> Ranges:
    """The ranges of the tensors ``observed`` of the prepared ``model``."""
    rules.check(observed)
    if how.given is not None:
        ends = [*model.graph.input, *model.graph.output]
        known = {value.name for value in ends} | {
            t for n in model.graph.node for t in n.output
        }
        return how.given.of(observed, known, rules)
    found = how.engine(model, observed, samples, run, Collected())
    return chosen(rules, found.tensors, sorted(found.skipped), samples.random, "the run")


def chosen(
    rules: Rules,
    statistics: Mapping[str, Statistics],
    skipped: Sequence[str],
    random: bool,
    where: str,
) -> Ranges:
    """What ``rules`` choose from ``statistics``, which came from ``where``."""
    try:
        found = rules.choose(statistics)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    ranges = {name: each.range for name, each in found.items()}
    methods = {name: each.method for name, each in found.items()}
    return Ranges(ranges, methods, statistics, skipped, random)


def ranges_as_json(found: Ranges) -> dict[str, Any]:
    """``calibration`` of a report: of each tensor its range, the method, what was seen."""
    return {"tensors": [_entry(found, name) for name in found.ranges]}


def _entry(found: Ranges, name: str) -> dict[str, Any]:
    seen = found.statistics.get(name)
    return {
        "name": name,
        "method": found.methods[name],
        "range": [found.ranges[name].low, found.ranges[name].high],
        "extremes": seen and [seen.low, seen.high],
        "values": seen and seen.count,
        "zeros": seen.zeros if seen and seen.histogram else None,
    }


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    what = "tensor" if len(names) == 1 else f"{len(names)} tensors"
    return f"{what} {shown}" + (" and others" if len(names) > _SHOWN else "")
