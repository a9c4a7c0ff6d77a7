"""The verdict on an integer model, and how it lies with the certificate beside it."""

from pathlib import Path
from typing import Any

from opsets.errors import UsageError, VerificationError
from qpasses.checking.compare_certificates import Compared, compare_certificate
from qpasses.checking.verification import Verification
from qpasses.emit.certificate import Certificate, certificate
from qpasses.emit.provenance import Provenance
from qpasses.evidence.summary import summarize
from qpasses.load.arguments import Source
from qpasses.load.integer_model import IntegerModel


def sized_as(read: IntegerModel, original: Source) -> Source:
    """``original`` with the sizes that were fixed when ``read`` was made of it.

    Raises VerificationError if it does not take them.
    """
    try:
        return original.sized(read.settings.input_shape)
    except UsageError as error:
        raise VerificationError(
            f"the integer model was not made from this float model: {error}"
        ) from error


def judged(
    found: Verification,
    read: IntegerModel,
    original: Source | None,
    beside: Path | None,
    kept: Certificate | None,
) -> tuple[dict[str, Any], Certificate, list[str]]:
    """The summary with its verdict, the certificate as recomputed, and notes on what is kept.

    What ``kept``, read from ``beside``, says otherwise joins the problems that were found.
    """
    summary = summarize(found.graph, found.record, found.evidence)
    sha256 = read.about["float_sha256"] if original is None else original.sha256
    origin = Provenance(sha256, read.about["version"], {})
    recomputed = certificate(
        read.model, origin, found.graph, found.record, found.evidence, found.settings, summary
    )
    compared = Compared()
    if kept is not None:
        compared = compare_certificate(kept, recomputed, str(beside))
    found.problems += compared.problems
    found.checks["evidence_file"] = beside and {
        "path": str(beside),
        "nodes": len(found.evidence),
        "differences": compared.differences,
    }
    if found.problems:
        summary |= {"verdict": "failed", "because": []}
    elif found.unchecked:
        because = [*summary["because"], *found.unchecked]
        summary |= {"verdict": "incomplete", "because": because}
    return summary, recomputed, compared.notes
