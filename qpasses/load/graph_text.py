"""Graphs to run single passes on: an ONNX model, or a text in ONNX's own syntax."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import onnx
import onnx.inliner
import onnx.parser
import onnx.shape_inference

from opsets.errors import ModelError, UsageError
from opsets.op import DOMAIN
from opsets.ordinary_files import text_of
from opsets.target import Target, load_target
from qpasses.ir.interchange import numbers_as_tensors
from qpasses.ir.shapes import infer_shapes
from qpasses.load.reading import checked_model, read_model

AFTER = "# after\n"
"""What follows this line in a text is what became of the graph: it is not read."""

_TARGET, _RULES = "# target: ", "# rules = "


@dataclass(frozen=True)
class GraphText:
    """A graph in ONNX's text syntax, perhaps with a first line that says whose integers.

    ``# target: NAME`` names a target; ``# rules = {NAME = VALUE}``, in TOML, is the target
    ``exact`` with other rules. Before that nothing may stand.
    """

    text: str
    target_name: str = ""
    rules: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, content: str, path: Path) -> "GraphText":
        """What ``content`` says before ``# after``. Raises ModelError."""
        text = content.partition(AFTER)[0]
        first = text.partition("\n")[0]
        if first.startswith(_TARGET):
            return cls(text, target_name=first.removeprefix(_TARGET).strip())
        if not first.startswith(_RULES):
            return cls(text)
        try:
            rules = tomllib.loads(first.removeprefix("# "))["rules"]
        except tomllib.TOMLDecodeError as error:
            raise ModelError(f"{path}: line 1: {first!r} is not TOML: {error}") from error
        if not isinstance(rules, dict):
            raise ModelError(f"{path}: line 1: rules are a table, as {{tables = false}}")
        if unknown := rules.keys() - {each.name for each in fields(Target)}:
            raise ModelError(f"{path}: line 1: unknown rule {min(unknown)!r}")
        return cls(text, rules=rules)

    def target(self) -> Target | None:
        """That of the first line. Raises UsageError for one that is none."""
        if self.target_name:
            return load_target(self.target_name)
        if not self.rules:
            return None
        return replace(load_target("exact"), name="golden", **self.rules)

    def model(self, path: Path) -> onnx.ModelProto:
        """The parsed and checked graph. Raises ModelError, which says the line."""
        try:
            model = infer_shapes(onnx.parser.parse_model(self.text), inside=False)
        except onnx.parser.ParseError as error:
            raise ModelError(f"{path}: {_where(str(error))}") from error
        except onnx.shape_inference.InferenceError as error:
            raise ModelError(f"{path}: {str(error).strip().splitlines()[0]}") from error
        return checked_model(model, path)


def read_graph_file(path: Path, inside: bool = True) -> tuple[onnx.ModelProto, Target | None]:
    """The graph at ``path`` with its types inferred, and the target that its text names.

    ``inside``: also the types of what bodies compute.
    An ``.onnx`` file is a model, whose functions are inlined, those of integer nodes apart;
    any other file is a text. Raises UsageError or ModelError.
    """
    if path.suffix == ".onnx":
        return typed(read_model(path), inside), None
    try:
        content = text_of(path)
    except UnicodeDecodeError as error:
        raise ModelError(
            f"{path}: is no text: give ONNX's text syntax, or a model that is called .onnx"
        ) from error
    except OSError as error:
        raise UsageError(f"{path}: {str(error.strerror).lower()}") from error
    given = GraphText.of(content, path)
    return typed(given.model(path), inside), given.target()


def typed(model: onnx.ModelProto, inside: bool = True) -> onnx.ModelProto:
    """``model`` without functions, as the passes take it: with the types of its tensors."""
    others = [(each.domain, each.name) for each in model.functions if each.domain != DOMAIN]
    plain = onnx.inliner.inline_selected_functions(model, others) if others else model
    numbers_as_tensors(plain)
    return infer_shapes(plain, inside)


def _where(message: str) -> str:
    """Of what the parser says: line and column, and what it expected."""
    found = re.search(r"line: (\d+) column: (\d+)", message)
    said = message.replace("\\n", "\n").rstrip("'").strip().splitlines()[-1]
    place = f"line {found[1]}, column {found[2]}: " if found else ""
    return f"{place}{said}"
