"""Faults in the metadata: what a model says of its nodes, tensors and edges."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from qpasses.ir.metadata import PREFIX, read_record
from qpasses.ir.record import Quantization
from qpasses.ir.stages import RECURRENT
from tests.bench.mutation.fault import Fault, Model, one_of

ORIGIN = {"float_sha256", "version", "configuration"}
"""Digests are not attacked; the settings are, by ``change_setting``."""

SETTINGS: dict[str, list[Any]] = {
    "activation_type": ["uint8", "int8"],
    "activation_bits": [8, 7, 4],
    "narrow_range": [False, True],
    "weight_type": ["int8", "uint8"],
    "weight_rounding": ["nearest", "sum-preserving", "second-order"],
    "bias_correction": ["none"],
    "activation_scales": ["per-tensor"],
    "per_channel": [True, False],
    "symmetric": [False, True],
    "integer_io": [False, True],
    "emit": ["integer", "qdq", "standard"],
    "bodies": ["onnxruntime", "portable"],
    "nodes_to_exclude": [[], [".*"]],
    "op_types_to_quantize": [[], ["Conv"]],
    "tensor_types": [[], [".*=int8"]],
}
"""Recorded settings that say how the graph follows from the scales, and values of theirs.

Other ``activation_scales`` say where scales come from, as a method of calibration does:
samples may leave every tensor one of its own. So they may round weights in any way, by auto,
and correct no bias. Which tensors rules name is not attacked: that some have 16 bits is.
"""


def change_record(model: Model, rng: np.random.Generator) -> Fault | None:
    """One entry of the metadata of a node, a tensor or the model changes or goes."""
    ours = [
        (place, owner, entry)
        for place, owner in _owners(model)
        for entry in owner
        if entry.key.startswith(PREFIX) and entry.key.removeprefix(PREFIX) not in ORIGIN
    ]
    found = one_of(ours, rng)
    if found is None:
        return None
    place, owner, entry = found
    key, old = entry.key, entry.value
    if rng.random() < 0.1:
        owner.remove(entry)
        return Fault("record", place, key, old, "none")
    entry.value = json.dumps(_altered(json.loads(old), rng), sort_keys=True)
    return Fault("record", place, key, old, entry.value)


def change_setting(model: Model, rng: np.random.Generator) -> Fault | None:
    """One recorded setting is another."""
    entry = next(e for e in model.metadata_props if e.key == f"{PREFIX}configuration")
    settings = json.loads(entry.value)
    others = {name: [v for v in SETTINGS[name] if v != settings[name]] for name in SETTINGS}
    owners = [*model.graph.value_info, *model.graph.node]
    said = {entry.key for owner in owners for entry in owner.metadata_props}
    for setting, key in _TRACES.items():
        if PREFIX + key not in said:
            del others[setting]  # nothing follows from it
    others["weight_rounding"] = [
        value for value in others.get("weight_rounding", []) if _rounded(model) != {value}
    ]
    types = {each.dtype for each in read_record(model)[0].tensors.values()}
    has_states = any(node.op_type in RECURRENT for node in model.graph.node)
    if "int16" not in types or (has_states and not settings["tensor_types"]):
        del others["tensor_types"]  # states have 16 bits whatever is asked for
    if types == {"int16"}:
        others["activation_type"] = []  # of 8 bits there is nothing
    if not _has_zero_points_between(model):
        del others["symmetric"]  # likewise
    name = one_of(sorted(name for name, values in others.items() if values), rng)
    if name is None:
        return None
    old = settings[name]
    settings[name] = one_of(others[name], rng)
    entry.value = json.dumps(settings, sort_keys=True)
    return Fault("setting", "the model", name, str(old), str(settings[name]))


def _rounded(model: Model) -> set[str]:
    """How the weights of all nodes are rounded: asked for, it would have been the same."""
    said = {node.weights for node in read_record(model)[0].nodes.values() if node.weights}
    return {each if each in ("nearest", "sum-preserving") else "second-order" for each in said}


def _has_zero_points_between(model: Model) -> bool:
    """Whether a tensor that is stored as settings say has none that symmetric ones may have.

    Those may have the middle of the codes and the lowest, others of the zoo's have any.
    """
    record = read_record(model)[0]
    found = [each for name, each in record.tensors.items() if name not in record.kept]
    return any(
        isinstance(each, Quantization) and each.zero_point not in (-128, 0, 128)
        for each in found
    )


_TRACES = {
    "activation_scales": "zero_points",
    "weight_rounding": "weights",
    "bias_correction": "correction",
}
"""What tensors or nodes say only where a setting gave them something."""


def _owners(model: Model) -> Iterator[tuple[str, Any]]:
    yield "the model", model.metadata_props
    graph = model.graph
    for values in (graph.value_info, graph.input, graph.output):
        yield from ((value.name, value.metadata_props) for value in values)
    yield from ((node.name, node.metadata_props) for node in graph.node)
    yield from ((tensor.name, tensor.metadata_props) for tensor in graph.initializer)


def _altered(value: Any, rng: np.random.Generator) -> Any:
    """The same kind of value, another in one place."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + int(rng.choice([-1, 1]))
    if isinstance(value, float):
        above = np.nextafter(np.float32(value), np.float32(np.inf))
        return float(above) if rng.random() < 0.5 else value * 1.5
    if isinstance(value, str):
        return value[:-1] if value else "x"
    if isinstance(value, dict) and value:
        key = sorted(value)[int(rng.integers(len(value)))]
        return value | {key: _altered(value[key], rng)}
    if isinstance(value, list) and value:
        at = int(rng.integers(len(value)))
        return [
            *value[:at],
            *([] if rng.random() < 0.2 else [_altered(value[at], rng)]),
            *value[at + 1 :],
        ]
    return {"x": "y"} if isinstance(value, dict) else [1] if isinstance(value, list) else 1.0
