"""Ranges: which real numbers the integers of each observed tensor span, and why these."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx

from calibration import Collected, Engine, Preprocessing, Range, Run, Samples, Statistics
from calibration.collect import collect
from calibration.foreign_tables import read_ranges, table_kind
from calibration.methods.moments import moments
from calibration.rules import Rules
from calibration.table import Table, read_table
from opsets.errors import DataError, UsageError
from opsets.target import Target
from qpasses.ir.model_nodes import nested_graphs

FUNCTION = "function"
"""In place of a method: the extremes of a function over the codes of its input."""

MASKED = "masked"
"""In place of a method: that of scores, and room below them for those that a mask drops."""

STEPS = "steps"
"""In place of a method: a little more than it says, so that steps of a function are met."""

UNIT = "unit"
"""In place of a method: from 0 to 255 / 256, as the kernel of the target has it."""

WHOLE_STEPS = "whole"
"""In place of a method: a little wider, so that whole numbers are multiples of a code."""

EMPTY = "empty"
"""In place of a method: no sample gave the tensor a value."""

_SHOWN = 3
"""So many names are listed where there are more."""


@dataclass(frozen=True)
class Ranges:
    """The range of each observed tensor by name, and the method it comes from.

    ``statistics`` are what they were chosen from, where that is known; ``skipped`` the names
    of bad samples that were left out, and why, where that is known; ``random``: the samples
    were made up.
    """

    ranges: Mapping[str, Range]
    methods: Mapping[str, str]
    statistics: Mapping[str, Statistics] = field(default_factory=dict)
    skipped: Mapping[str, str | None] = field(default_factory=dict)
    random: bool = False

    def only(self, names: Collection[str]) -> "Ranges":
        """Of the tensors ``names``, as far as they are known."""
        kept = {name: real for name, real in self.ranges.items() if name in names}
        return replace(self, ranges=kept, methods={name: self.methods[name] for name in kept})

    def with_those(self, others: "Ranges") -> "Ranges":
        """These, and those of ``others`` from the same samples."""
        return replace(
            others,
            ranges={**self.ranges, **others.ranges},
            methods={**self.methods, **others.methods},
            statistics={**self.statistics, **others.statistics},
        )

    @property
    def of_functions(self) -> list[str]:
        """The tensors whose range is that of a function over the codes of its input."""
        return [name for name, method in self.methods.items() if method == FUNCTION]


@dataclass(frozen=True)
class Given:
    """A calibration table that a user gave: statistics, or the ranges of another tool."""

    path: Path
    kind: str
    table: Table | None = None
    ranges: Mapping[str, Range] = field(default_factory=dict)

    @classmethod
    def read(
        cls, given: str | Path | Table, model: str, version: str, target: Target
    ) -> "Given":
        """``given``, or what is in that file; made for the model with the SHA-256 ``model``.

        Ranges of TPU-MLIR follow from thresholds alone where ``target`` wants symmetric codes.
        Raises DataError if it is damaged, or of another model or another ``version``.
        """
        path = Path("<Table>") if isinstance(given, Table) else Path(given)
        kind = "qpasses" if isinstance(given, Table) else table_kind(path)
        if kind != "qpasses":
            symmetric = target.activations == "symmetric"
            return cls(path, kind, ranges=read_ranges(path, symmetric)[1])
        table = given if isinstance(given, Table) else read_table(path)
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
    def preprocessing(self) -> Preprocessing | None:
        """What pictures became when it was made, if it was made with pictures."""
        steps = None if self.table is None else self.table.data["preprocessing"]
        return None if steps is None else Preprocessing.from_json(steps)

    def check_preprocessing(self, used: Preprocessing | None) -> None:
        """Raise UsageError if pictures are made into something else than for this table."""
        mine = self.preprocessing
        if used is not None and mine is not None and used != mine:
            raise UsageError(
                f"{self.path}: was made from pictures as {mine}, these become {used}: leave "
                "--preprocess and its parts away to do the same"
            )

    @property
    def names(self) -> Sequence[str]:
        """The tensors in it."""
        return list(self.ranges if self.table is None else self.table.tensors)

    def of(
        self,
        observed: Sequence[str],
        known: set[str],
        rules: Rules,
        stand_ins: Mapping[str, str],
    ) -> Ranges:
        """The ranges of the tensors ``observed``; ``known`` are all of the prepared graph.

        A table of another tool speaks of the model as it was: ``stand_ins`` says by which
        tensor of that the values of one that was made since are held too.
        Raises DataError for a tensor that is missing or that the graph has not, UsageError
        for a rule that ranges of another tool cannot follow.
        """
        names, given = self._names_of(known), self._overrides(observed, rules)
        if self.table is None:
            held = {made: first for made, first in stand_ins.items() if first in names}
            names = {made: names[first] for made, first in held.items()} | names
        known = {*names, *given}
        missing = [name for name in observed if name not in known]
        if missing:
            raise DataError(
                f"{self.path}: holds nothing for {_listed(missing)}: calibrate with the "
                "options that quantize is given"
            )
        if self.table is None:
            read = {name: self.ranges[names[name]] for name in observed if name not in given}
            methods = {
                **dict.fromkeys(read, f"{self.kind} table"),
                **dict.fromkeys(given, "given"),
            }
            return Ranges({name: {**read, **given}[name] for name in observed}, methods)
        statistics = {name: self.table.tensors[name] for name in observed}
        skipped = dict.fromkeys(self.table.skipped)
        return chosen(rules, statistics, skipped, self.random, str(self.path))

    def _overrides(self, observed: Sequence[str], rules: Rules) -> dict[str, Range]:
        """The ranges that ``rules`` give themselves, where this table holds but ranges."""
        if self.table is not None:
            return {}
        used = {name: rules.override(name) for name in observed}
        named = [o.text for o in used.values() if o is not None and o.range is None]
        if rules.method != "minmax" or named:
            what = f"override {named[0]!r}" if named else f"method {rules.method!r}"
            raise UsageError(
                f"{self.path}: holds ranges, not what {what} chooses from: leave it away, or "
                "take a table of qpasses calibrate"
            )
        return {n: o.range for n, o in used.items() if o is not None and o.range is not None}

    def _names_of(self, known: set[str]) -> dict[str, str]:
        """The table's name for each tensor of the graph.

        TPU-MLIR calls tensors ``name_Op`` after the ONNX node that writes them.
        """
        names: dict[str, str] = {}
        strangers = []
        for name in self.names:
            plain, _, op = name.rpartition("_") if self.kind == "tpumlir" else ("", "", "")
            tensor = plain if name not in known and op[:1].isupper() else name
            if tensor not in known:
                strangers.append(name)
            elif tensor in names and self.kind == "tpumlir":
                raise DataError(
                    f"{self.path}: tensor {tensor!r} occurs twice, as {names[tensor]!r} and "
                    f"as {name!r}: leave one of them away"
                )
            else:
                names[tensor] = name
        if strangers and (self.table is not None or len(strangers) == len(self.names)):
            raise DataError(
                f"{self.path}: speaks of {_listed(strangers)}, which the model has not: is it "
                "a table of another model?"
            )
        return names

    @property
    def samples(self) -> int | None:
        """How many were counted in it, where that is known."""
        return None if self.table is None else self.table.samples

    def as_json(self) -> dict[str, Any]:
        """What a report says of it."""
        return {"kind": self.kind, "samples": self.samples}


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
    stand_ins: Mapping[str, str],
) -> Ranges:
    """The ranges of the tensors ``observed`` of the prepared ``model``; see ``Given.of``."""
    rules.check(observed)
    if how.given is not None:
        ends = [*model.graph.input, *model.graph.output]
        known = {value.name for value in ends} | {
            t for n in model.graph.node for t in n.output
        }
        return how.given.of(observed, known | _inside(model), rules, stand_ins)
    found = how.engine(model, observed, samples, run, Collected())
    skipped = dict(sorted(found.skipped.items()))
    ranges = chosen(rules, found.tensors, skipped, samples.random, "the run")
    return _with_empty(ranges, observed, rules)


def _inside(model: onnx.ModelProto) -> set[str]:
    """The tensors that bodies of ``model`` are given, or write."""
    found = set[str]()
    for graph in nested_graphs(model.graph):
        found.update(value.name for value in graph.input)
        found.update(name for node in graph.node for name in node.output)
    return found


def _with_empty(found: Ranges, observed: Sequence[str], rules: Rules) -> Ranges:
    """``found``, in the order of ``observed``; a tensor without values asks for no range."""
    own = {name: rules.override(name) for name in observed if name not in found.ranges}
    given = {name: o.range for name, o in own.items() if o is not None and o.range is not None}
    ranges = {**dict.fromkeys(own, Range(0.0, 0.0)), **given, **found.ranges}
    methods = {
        **dict.fromkeys(own, EMPTY),
        **dict.fromkeys(given, "given"),
        **found.methods,
    }
    return replace(
        found,
        ranges={name: ranges[name] for name in observed},
        methods={name: methods[name] for name in observed},
    )


def chosen(
    rules: Rules,
    statistics: Mapping[str, Statistics],
    skipped: Mapping[str, str | None],
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


def skipped_as_json(skipped: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """``samples.skipped`` of a report: the names of bad samples, and why, where known."""
    return [{"name": name, "reason": why} for name, why in sorted(skipped.items())]


def _entry(found: Ranges, name: str) -> dict[str, Any]:
    seen = found.statistics.get(name)
    shape = moments(seen) if seen and seen.histogram else None
    return {
        "name": name,
        "method": found.methods[name],
        "range": [found.ranges[name].low, found.ranges[name].high],
        "extremes": seen and [seen.low, seen.high],
        "values": seen and seen.count,
        "zeros": seen.zeros if seen and seen.histogram else None,
        "mean": shape and shape.mean,
        "std": shape and shape.std,
    }


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    what = "tensor" if len(names) == 1 else f"{len(names)} tensors"
    return f"{what} {shown}" + (" and others" if len(names) > _SHOWN else "")
