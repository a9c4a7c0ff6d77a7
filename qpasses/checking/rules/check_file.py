"""What a file holds besides its graph: versions, doubled or idle parts, metadata, fields."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import onnx

from opsets.op import DOMAIN, VERSION
from qpasses.ir.cutting import cut
from qpasses.ir.flow import FLOW
from qpasses.ir.metadata import PREFIX
from qpasses.ir.model_nodes import nested_graphs
from qpasses.ir.runtime import IR_VERSION
from qpasses.ir.splicing import spliced

ABOUT = frozenset(
    {
        *("float_sha256", "version", "configuration"),
        *("raised_weight_scales", "declined", "float_macs", "sizes", "inputs", "kept"),
        *("orders", "outputs", "states"),
    }
)
"""What a model says of itself, without the prefix."""

TEXTS = ("doc_string", "producer_name", "producer_version")
"""What a model says to people."""

_FIELDS = {
    "ModelProto": {
        "ir_version",
        "opset_import",
        "graph",
        "metadata_props",
        "functions",
        *TEXTS,
    },
    "GraphProto": {
        *("node", "initializer", "input", "output", "value_info"),
        *("name", "doc_string", "metadata_props"),
    },
    "NodeProto": {
        *("input", "output", "op_type", "domain", "overload", "attribute"),
        *("name", "doc_string", "metadata_props"),
    },
}
"""By kind of part, the fields that are compared, or say nothing."""


def unlike_file(model: onnx.ModelProto, opset: int) -> Iterator[str]:
    """What is wrong with ``model``, whose float graph is of ``opset``, as a file."""
    flat = spliced(model)
    if flat is not model and cut(flat) != model:
        yield "the bodies of its nodes are not written as this tool writes them"
    model = flat
    yield from _versions(model, opset)
    yield from _fields(model)
    yield from _doubled(model)
    yield from _metadata(model)
    yield from _idle(model)
    yield from _missing_functions(model)


def _versions(model: onnx.ModelProto, opset: int) -> Iterator[str]:
    if model.ir_version != IR_VERSION:
        yield f"the IR version is {model.ir_version}, expected {IR_VERSION}"
    found = [(each.domain, each.version) for each in model.opset_import]
    used = {node.domain for graph in nested_graphs(model.graph) for node in graph.node}
    for domain, version in {"": opset, "com.microsoft": 1, DOMAIN: VERSION}.items():
        if found.count((domain, version)) != 1:
            yield f"operator set {domain or 'ai.onnx'!r} should be version {version}"
    for domain in sorted({domain for domain, _ in found} - used):
        if domain not in ("", "com.microsoft", DOMAIN):
            yield f"operator set {domain!r} is imported and not used"


def _fields(model: onnx.ModelProto) -> Iterator[str]:
    graphs = list(nested_graphs(model.graph))
    for part in (model, *graphs, *(node for graph in graphs for node in graph.node)):
        kind = part.DESCRIPTOR.name
        for field, _ in part.ListFields():
            if field.name not in _FIELDS[kind]:
                called = f" of node {part.name!r}" if kind == "NodeProto" else ""
                yield f"{kind}{called} has {field.name}, which nothing compares"


def _doubled(model: onnx.ModelProto) -> Iterator[str]:
    """Parts of one name: one would hide the other."""
    graph = model.graph
    parts = {
        "tensor": _names([*graph.input, *graph.output, *graph.value_info]),
        "constant": _names([*graph.input, *graph.initializer]),
        "node": _names(graph.node),
        "operator set": [each.domain or "ai.onnx" for each in model.opset_import],
        "function": [f"{f.domain}.{f.name}:{f.overload}" for f in model.functions],
    }
    for kind, names in parts.items():
        for name, count in Counter(names).items():
            if count > 1 and not (kind == "tensor" and _passes_through(graph, name, count)):
                yield f"{kind} {name!r} is declared {count} times"
    yield from _hidden(graph, set())


def _hidden(graph: onnx.GraphProto, outside: set[str]) -> Iterator[str]:
    """Names of a graph around a branch to which the branch gives another meaning."""
    own = {*_names(graph.input), *_names(graph.initializer)}
    own |= {name for node in graph.node for name in node.output if name}
    for name in sorted(own & outside):
        yield f"tensor {name!r} is hidden by another inside of a branch"
    for node in graph.node:
        for attribute in node.attribute:
            for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _hidden(body, outside | own)


def _passes_through(graph: onnx.GraphProto, name: str, count: int) -> bool:
    """Whether an input is an output too, which declares it twice."""
    return count == 2 and all(name in _names(ends) for ends in (graph.input, graph.output))


def _names(parts: Iterable[Any]) -> list[str]:
    return [part.name for part in parts if part.name]


def _metadata(model: onnx.ModelProto) -> Iterator[str]:
    graph = model.graph
    ours = [entry.key.removeprefix(PREFIX) for entry in _ours(model)]
    for key in sorted(set(ours) - ABOUT):
        yield f"the model's metadata have {key!r}, which nothing compares"
    for key in sorted(ABOUT - {"float_macs", "kept", "orders", "states"} - set(ours)):
        yield f"the model's metadata lack {key!r}"
    if any(_ours(graph)):
        yield "the graph has metadata of the tool, which the model should have"
    parts = list(_parts(graph))
    inner = [
        each
        for nested in nested_graphs(graph)
        if nested is not graph
        for each in _parts(nested)
    ]
    for part in inner:
        if any(_ours(part)):
            yield f"{part.name!r} inside of a branch has metadata of the tool"
    for part in (model, *parts):
        for key, count in Counter(entry.key for entry in _ours(part)).items():
            if count > 1:
                called = "the model" if part is model else repr(part.name)
                yield f"the metadata of {called} have {key!r} {count} times"


def _parts(graph: onnx.GraphProto) -> Iterator[Any]:
    for kind in ("node", "value_info", "input", "output", "initializer"):
        yield from getattr(graph, kind)


def _ours(part: Any) -> Iterator[Any]:
    return (entry for entry in part.metadata_props if entry.key.startswith(PREFIX))


def _idle(model: onnx.ModelProto) -> Iterator[str]:
    """What nothing reads; states of iterations are of use all the same."""
    graphs = list(nested_graphs(model.graph))
    read = {name for graph in graphs for node in graph.node for name in node.input}
    read |= {value.name for graph in graphs for value in graph.output}
    for node in (each for each in model.graph.node if each.domain != FLOW):
        if not read & set(filter(None, node.output)):
            yield f"node {node.name!r} ({node.op_type}): nothing reads what it writes"
    for tensor in (tensor for graph in graphs for tensor in graph.initializer):
        if tensor.name not in read:
            yield f"constant {tensor.name!r}: nothing reads it"
    known = {name for node in model.graph.node for name in node.output}
    known |= {value.name for value in (*model.graph.input, *model.graph.initializer)}
    for value in (*model.graph.value_info, *model.graph.output):
        if value.name not in known:
            yield f"tensor {value.name!r} is declared, and nothing writes it"


def _missing_functions(model: onnx.ModelProto) -> Iterator[str]:
    functions = {(each.domain, each.name, each.overload) for each in model.functions}
    for node in (node for graph in nested_graphs(model.graph) for node in graph.node):
        called = node.domain, node.op_type, node.overload
        if called not in functions and (node.overload or node.domain == DOMAIN):
            yield (
                f"node {node.name!r} ({node.op_type}) calls a function that is not in the file"
            )
