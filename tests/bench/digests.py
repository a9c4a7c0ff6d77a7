"""Digests of everything that quantize emits: `make digests` says what a change changed.

Each case is one model under one set of options. Its digests: the graph with its constants, the
functions with the names of their values numbered, the metadata (the record), the evidence, the
report without times and places. A rework that must not change what is emitted writes them
before (`python -m tests.bench.digests --write FILE`) and compares them after
(`python -m tests.bench.digests --against FILE`).
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper
from rich.progress import track

import qpasses
from calibration import Preprocessing
from calibration.presets import preprocessing
from qpasses.emit.overloads import named_by_place

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "models"
ZOO = Path(os.environ.get("QPASSES_ZOO") or ROOT.parent / "shared" / "zoo").resolve()

OPTIONS: dict[str, dict[str, Any]] = {
    "int8": {"activation_type": "int8"},
    "exact": {"exact": True},
    "portable": {"bodies": "portable"},
    "standard": {"emit": "standard"},
    "qdq": {"emit": "qdq"},
    "integer_io": {"integer_io": True},
    "4 bits": {"activation_bits": 4, "narrow_range": True},
    "symmetric": {"symmetric": True, "per_channel": False},
    "int16 residuals": {"residual_type": "int16"},
    "tflite": {"target": "tflite"},
    "tosa": {"target": "tosa"},
    "bm1684x": {"target": "bm1684x", "alignment": "tpu-mlir"},
    "ivit": {"target": "ivit"},
    "ibert": {"softmax": "ibert", "gelu": "ibert"},
    "shared tables": {"share_tables": 1.0},
    "function ranges": {"table_ranges": "function"},
    "percentile": {"calibration_method": "percentile"},
    "auto": {"calibration_method": "auto"},
    "multiplier form": {"activation_form": "multiplier"},
    "16-bit softmax": {"softmax_bits": 16},
    "kept sums": {"weight_rounding": "sum-preserving"},
}
"""What small models are quantized with, one after the other, beside the defaults."""

VARIED = ("digits_cnn", "digits_vit", "textures_cnn", "mtcnn_rnet", "mlperf_tiny_dscnn_kws")
"""The models that are quantized with all of them."""


@dataclass(frozen=True)
class Case:
    """One model with its data and options."""

    name: str
    model: Path
    data: Any
    how: Preprocessing | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def cases() -> Iterator[Case]:
    """Every model of models/ and the zoo that is here, on few samples."""
    sys.path.insert(0, str(ZOO))
    found = {path.stem: path for path in sorted(MODELS.glob("*/*.onnx"))}
    zoo = {path.stem: path for path in sorted((ZOO / "models").glob("*.onnx"))}
    more = sorted((ZOO / "more").glob("*/*.onnx"))
    for name, path in {**found, **zoo}.items():
        data, how = _data(name)
        for label, options in {"": {}, **(OPTIONS if name in VARIED else {})}.items():
            yield Case(f"{name} {label}".strip(), path, data, how, options)
    for path in more:
        yield Case(f"more/{path.stem}", path, "random:2")


def _data(name: str) -> tuple[Any, Preprocessing | None]:
    if name == "textures_cnn":
        return MODELS / name / "calibration", preprocessing("imagenet")
    if name.startswith("digits"):
        return MODELS / "digits_cnn" / "calibration.npz", None
    import score  # type: ignore[import-not-found]  # the zoo's own

    try:
        feeds = score.feeds(name, "calib", root=str(ZOO))
    except KeyError:  # a model that the zoo has no data for
        return "random:2", None
    return [feeds[place] for place in range(min(4, len(feeds)))], None


def digest(content: Any) -> str:
    """Of JSON, or of bytes."""
    is_bytes = isinstance(content, bytes)
    held = content if is_bytes else json.dumps(content, sort_keys=True, default=str).encode()
    return hashlib.sha256(held.replace(str(ROOT).encode(), b".")).hexdigest()[:16]


def parts(case: Case) -> dict[str, str]:
    """The digest of each part of what comes of a case, or of the message it ends with."""
    try:
        made = qpasses.quantize(
            case.model, case.data, samples=4, preprocessing=case.how, **case.options
        )
    except Exception as error:  # a message, or a fault that is there before and after
        return {"error": f"{type(error).__name__}: {error}".replace(str(ROOT), ".")[:300]}
    assert made.model is not None
    metadata = {each.key: each.value for each in made.model.metadata_props}
    return {
        "graph": digest(_graph(made.model)),
        "functions": digest(sorted(map(_function, made.model.functions))),
        "metadata": digest(metadata),
        "certificate": digest(_evidence(made.certificate)),
        "report": digest(made.report),
    }


def _evidence(certificate: Any) -> Any:
    """Without the digest of the file, which holds the names in its functions."""
    return certificate and {
        **certificate,
        "integer_model": certificate["integer_model"]["emit"],
    }


def _graph(model: onnx.ModelProto) -> list[Any]:
    graph = onnx.GraphProto()
    graph.CopyFrom(model.graph)
    del graph.initializer[:]
    constants = [
        (
            each.name,
            each.data_type,
            list(each.dims),
            digest(numpy_helper.to_array(each).tobytes()),
        )
        for each in model.graph.initializer
    ]
    opsets = sorted((each.domain, each.version) for each in model.opset_import)
    text = digest(graph.SerializeToString(deterministic=True))
    return [text, constants, opsets, model.ir_version]


def _function(function: onnx.FunctionProto) -> str:
    """Its content with values numbered in the order in which they occur."""
    copy = named_by_place(function)
    copy.doc_string = ""
    for node in copy.node:
        node.name = node.doc_string = ""
    return digest(copy.SerializeToString(deterministic=True))


def main() -> None:
    """Write digests, or compare them; exit code 1 where one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument("--against", type=Path, metavar="FILE")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    given = parser.parse_args()
    wanted = [c for c in cases() if not given.names or c.name.split()[0] in given.names]
    found = {each.name: parts(each) for each in track(wanted, "digests", transient=True)}
    if given.write:
        given.write.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    if not given.against:
        print(f"{len(found)} cases, {digest(found)}")
        return
    before = json.loads(given.against.read_text("utf-8"))
    unlike = {
        f"{name}: {part}"
        for name in found
        for part in found[name].keys() | before.get(name, {}).keys()
        if found[name].get(part) != before.get(name, {}).get(part)
    }
    for each in sorted(unlike):
        print(f"differs: {each}")
    print(f"{len(found)} cases, {len(unlike)} parts differ")
    sys.exit(bool(unlike))


if __name__ == "__main__":
    main()
