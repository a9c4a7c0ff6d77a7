"""Where an emitted model comes from, as entries of its metadata."""

import json
from dataclasses import dataclass
from typing import Any

import onnx

PREFIX = "qpasses."
"""What the keys of all entries begin with; the values are JSON."""


@dataclass(frozen=True)
class Provenance:
    """Where a model comes from: digest of the float model, tool version, configuration."""

    float_sha256: str
    version: str
    configuration: dict[str, Any]


def sign(model: onnx.ModelProto, provenance: Provenance) -> None:
    """Write ``provenance`` into ``model``."""
    model.producer_name, model.producer_version = "qpasses", provenance.version
    note(
        model.metadata_props,
        float_sha256=provenance.float_sha256,
        version=provenance.version,
        configuration=provenance.configuration,
    )


def note(target: Any, **entries: Any) -> None:
    """Add ``entries`` to the metadata of a model, node or tensor, sorted by key."""
    for key, value in sorted(entries.items()):
        target.add(key=PREFIX + key, value=json.dumps(value, sort_keys=True))
