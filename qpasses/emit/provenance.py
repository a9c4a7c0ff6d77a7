"""Where an emitted model comes from, as entries of its metadata."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx

from qpasses.ir.metadata import PREFIX, note


@dataclass(frozen=True)
class Provenance:
    """Where a model comes from: digest of the float model, tool version, configuration.

    ``kept``: the entries of the float model's own metadata; ``doc`` its text.
    """

    float_sha256: str
    version: str
    configuration: dict[str, Any]
    kept: Mapping[str, str] = field(default_factory=dict)
    doc: str = ""

    @classmethod
    def of(
        cls, source: onnx.ModelProto, sha256: str, version: str, configuration: dict[str, Any]
    ) -> "Provenance":
        """That of a model made from ``source``."""
        entries = {entry.key: entry.value for entry in source.metadata_props}
        kept = {key: text for key, text in entries.items() if not key.startswith(PREFIX)}
        return cls(sha256, version, configuration, kept, source.doc_string)


def sign(model: onnx.ModelProto, provenance: Provenance) -> None:
    """Write ``provenance`` into ``model``."""
    model.producer_name, model.producer_version = "qpasses", provenance.version
    model.doc_string = provenance.doc
    for key, text in provenance.kept.items():
        model.metadata_props.add(key=key, value=text)
    note(
        model.metadata_props,
        float_sha256=provenance.float_sha256,
        version=provenance.version,
        configuration=provenance.configuration,
    )
