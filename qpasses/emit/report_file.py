"""What the reports of all commands have in common."""

import json
from pathlib import Path
from typing import Any

import onnx

from calibration import Samples
from opsets.errors import UsageError
from qpasses.emit.whole_files import write_whole
from qpasses.ir.record import Record
from qpasses.load.arguments import Source, tool_version

SCHEMA = "qpasses.report/1"


def report_head(
    command: str,
    source: Source | None,
    configuration: dict[str, Any],
) -> dict[str, Any]:
    """The entries that every report begins with; ``source`` is the float model, if given."""
    about = source and {
        "path": str(source.path),
        "sha256": source.sha256,
        "nodes": len(source.reference.graph.node),
    }
    return {
        "schema": SCHEMA,
        "tool": {"name": "qpasses", "version": tool_version()},
        "command": command,
        "configuration": configuration,
        "model": about,
    }


def layout_in(model: onnx.ModelProto, record: Record) -> dict[str, int]:
    """``layout`` of a report: nodes whose channels are last, and Transposes that lay out."""
    return {
        "channels_last": sum(bool(entry.layout) for entry in record.nodes.values()),
        "transposes": sum(
            node.op_type == "Transpose"
            and node.name not in record.nodes
            and not record.orders.keys().isdisjoint((*node.input, *node.output))
            for node in model.graph.node
        ),
    }


def described(feeds: Samples | None) -> dict[str, Any]:
    """Where samples come from, and what pictures among them become."""
    if feeds is None:
        return {"source": "none", "preprocessing": None}
    how = feeds.preprocessing
    return {"source": feeds.description, "preprocessing": None if how is None else str(how)}


def write_report(path: str | Path | None, report: dict[str, Any], done: str = "") -> None:
    """Write ``report`` as JSON, if a path is given.

    Raises UsageError if the disk refuses; it says what is ``done`` all the same.
    """
    if path is None:
        return
    text = json.dumps(report, indent=2, allow_nan=False) + "\n"
    try:
        write_whole(Path(path), text.encode())
    except UsageError as error:
        raise UsageError(f"{error}{done and f'; {done}'}") from error
