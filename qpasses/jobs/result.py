"""What the functions of the interface give back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from opsets.argument_kinds import check_kind, check_path
from opsets.errors import UsageError
from qpasses.emit.certificate import Certificate
from qpasses.emit.evidence_file import place_to_write, write_outputs
from qpasses.emit.model_file import model_files, weights_place
from qpasses.emit.tosa.emit import emit_tosa
from qpasses.emit.whole_files import Content, check_outputs
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.load.arguments import given_paths
from qpasses.load.integer_model import read_integer_model


@dataclass(frozen=True)
class Result:
    """The emitted model (None from ``verify``), the report of docs/report.md, the evidence.

    ``certificate``: the evidence file of docs/evidence.md, by ``verify`` what it recomputed;
    None where no integer model was emitted.
    """

    model: onnx.ModelProto | None
    report: dict[str, Any]
    evidence: Sequence[NodeEvidence]
    certificate: Certificate | None = None

    def __repr__(self) -> str:
        return f"Result(verdict={self.verdict!r}, {len(self.evidence)} integer nodes)"

    @property
    def verdict(self) -> str:
        """``ok``, ``incomplete`` or ``failed``."""
        return str(self.report["summary"]["verdict"])

    def save(
        self,
        output: str | Path,
        evidence_file: str | Path | None = None,
        save_as_external_data: bool = False,
    ) -> None:
        """Write model and certificate as ``quantize`` does: all that there is or nothing.

        ``evidence_file``: beside ``output`` where it is None. ``save_as_external_data``: the
        weights beside it too. Raises UsageError for a path that cannot be written, and for
        the result of ``verify``, which holds no model.
        """
        check_kind("output", output, "str | Path")
        check_path("evidence_file", evidence_file)
        if self.model is None:
            raise UsageError(f"{output}: the result of verify holds no model to write")
        made = self.report["configuration"]
        evidence = place_to_write(evidence_file, output, made["emit"], made["stop_after"])
        weights = weights_place(self.model, output, save_as_external_data)
        check_outputs(given_paths(output, evidence, weights), [])
        files = files_of(self.model, output, weights, made["emit"])
        write_outputs(files, self.certificate, evidence)


def files_of(
    model: onnx.ModelProto, output: str | Path | None, weights: Path | None, emit: str
) -> Mapping[Path, Content]:
    """What is in ``output``, and in that of the ``weights`` if they have one.

    Raises ModelError or UsageError, also without ``output``, for what TOSA cannot say.
    """
    if emit == "tosa":
        made = emit_tosa(read_integer_model(model, "the model").graph)
        return {} if output is None else {Path(output): made.content()}
    return {} if output is None else model_files(model, Path(output), weights)
