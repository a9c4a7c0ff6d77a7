"""What the reports of all commands have in common."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import onnx

from calibration import Samples
from calibration.held_weights import serialized_size
from opsets.errors import UsageError
from opsets.native import KERNELS
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.emit.whole_files import Content, write_together
from qpasses.ir.model_nodes import nodes_of
from qpasses.ir.native_sessions import has_kernels
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
        "nodes": sum(1 for _ in nodes_of(source.reference)),
    }
    return {
        "schema": SCHEMA,
        "tool": {"name": "qpasses", "version": tool_version()},
        "command": command,
        "configuration": configuration,
        "model": about,
    }


def size_in(source: Source | None, model: onnx.ModelProto) -> dict[str, int | None]:
    """``size`` of a report: bytes of the model that was given, if it was, and of ``model``."""
    before = None if source is None else serialized_size(source.reference)
    return {"before": before, "after": serialized_size(model)}


def layout_in(model: onnx.ModelProto, record: Record) -> dict[str, int]:
    """``layout`` of a report: nodes whose channels are last, and Transposes that lay out."""
    return {
        "channels_last": sum(bool(entry.layout) for entry in record.nodes.values()),
        "transposes": sum(
            node.op_type == "Transpose"
            and node.name not in record.nodes
            and not record.orders.keys().isdisjoint((*node.input, *node.output))
            for node in nodes_of(model)
        ),
    }


def latency_in(model: onnx.ModelProto) -> dict[str, Any]:
    """``latency`` of a report: what has kernels, and how many nodes run.

    No times: they are a machine's, and of convolutions none were measured.
    """
    functions = {(each.domain, each.name, each.overload): each for each in model.functions}
    kernels, bodies = Counter[str](), Counter[str]()
    run: Counter[str] = Counter(bodies=0, kernels=0)
    for node in nodes_of(model):
        if node.domain != DOMAIN:
            continue
        in_body = _run_in(functions[node.domain, node.op_type, node.overload])
        has_kernel = node.op_type in KERNELS
        (kernels if has_kernel else bodies)[node.op_type] += 1
        run.update(bodies=in_body, kernels=1 if has_kernel else in_body)
    return {
        "kernels": dict(sorted(kernels.items())),
        "bodies": dict(sorted(bodies.items())),
        "nodes_run": dict(run),
        "built": has_kernels(),
    }


def _run_in(body: onnx.FunctionProto) -> int:
    """Nodes that depend on data; onnxruntime folds the others when it loads a model."""
    op = OPS[body.name]
    found = {
        name for formal, name in zip(op.inputs, body.input, strict=True) if formal in op.data
    }
    count = 0
    for node in body.node:
        if not found.isdisjoint(node.input):
            found.update(node.output)
            count += 1
    return count


def described(feeds: Samples | None) -> dict[str, Any]:
    """Where samples come from, and what pictures among them become."""
    if feeds is None:
        return {"source": "none", "preprocessing": None}
    how = feeds.preprocessing
    return {"source": feeds.description, "preprocessing": None if how is None else str(how)}


def write_report(
    path: str | Path | None,
    report: dict[str, Any],
    done: str = "",
    html_file: str | Path | None = None,
    as_html: Callable[[dict[str, Any]], str] = str,
    others: Mapping[Path, Content] = MappingProxyType({}),
) -> None:
    """Write ``report`` as JSON, if a path is given, the page it makes and ``others``, or none.

    Raises UsageError if the disk refuses; it says what is ``done`` all the same.
    """
    files = dict(others)
    if path is not None:
        files[Path(path)] = [(json.dumps(report, indent=2, allow_nan=False) + "\n").encode()]
    if html_file is not None:
        files[Path(html_file)] = [as_html(report).encode()]
    try:
        write_together(files)
    except UsageError as error:
        raise UsageError(f"{error}{done and f'; {done}'}") from error
