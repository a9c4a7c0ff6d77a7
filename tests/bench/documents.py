"""Write what documents take from code and figures; fill their paragraphs to one width.

``make docs`` runs it. The parts stand between comments; a test holds that they are fresh.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from calibration.presets import PRESET_NOTES
from opsets.target import KNOWN, Target, load_target, target_names
from qpasses.ir.elementwise import COMBINING, PAIRING, UNARY
from qpasses.ir.flow import VALUES
from qpasses.ir.graph import STORE
from qpasses.ir.moving import MOVING
from qpasses.lowering import INTEGERIZE
from qpasses.prepare import PREPARE
from tests.bench.manifest import METRICS, ROOT
from tests.bench.markdown import replaced, rewrapped, table
from tests.bench.option_tables import option_tables
from tests.bench.published import published_table as published_float_table
from tests.bench.quantized_models import (
    outputs_table,
    published_table,
    scores_table,
    static_table,
)
from tests.bench.survival import (
    left_table,
    ops_table,
    refused_table,
    summary_table,
    wrong_table,
)
from tests.bench.tflite_files import zoo_table as tflite_table
from tests.bench.tosa_programs import published_table as tosa_published_table
from tests.bench.tosa_programs import zoo_table as tosa_zoo_table
from tests.bench.zoo import Row, markdown

DOCS = ROOT / "docs"


def presets() -> str:
    """The ways of preprocessing pictures that have a name."""
    rows = [[f"`{name}`", note] for name, note in PRESET_NOTES.items()]
    return table(["`--preprocess`", "what the model reads"], rows)


def shipped_targets() -> str:
    """The targets that ship with the project."""
    rows = [[f"`{name}`", load_target(name).description] for name in target_names()]
    return table(["`--target`", "whose integers"], rows)


def target_rules() -> str:
    """What a target file may say."""
    rows = []
    for rule in fields(Target):
        if rule.name in ("name", "description"):
            continue
        usual = "must be given" if rule.default is MISSING else _in_toml(rule.default)
        others = [f"`{each}`" for each in KNOWN.get(rule.name, ()) if each != rule.default]
        rows.append([f"`{rule.name}`", usual, ", ".join(others)])
    return table(["rule", "usual", "others"], rows)


def _in_toml(value: Any) -> str:
    return "not given" if value is None else f"`{json.dumps(value)}`"


COMMON = {"fold-into-table", "integerize-chain", "integerize-moving"}
"""Passes whose ops are listed by what they are."""


def float_ops() -> str:
    """Op types of ONNX, and the passes that are asked about a node of each."""
    takers: dict[str, list[str]] = {}
    for each in (*PREPARE, *INTEGERIZE):
        for op in sorted(each.op_types - {"QuantizeLinear", "DequantizeLinear", STORE}):
            takers.setdefault(op, []).append(each.name)
    for op in (*UNARY, *COMBINING):
        _insert(takers.setdefault(op, []), "integerize-chain")
    rows = [[op, ", ".join(takers[op])] for op in sorted(takers) if {*takers[op]} - COMMON]
    moved = MOVING.keys() - {STORE} - VALUES
    return (
        f"Functions of one number, tables by `integerize-chain`: {_listed(UNARY)}.\n\n"
        f"Likewise, of one tensor and constants, or of what is made of one: "
        f"{_listed(COMBINING)}.\n\n"
        f"Functions of two tensors that a table of all pairs may hold: {_listed(PAIRING)}.\n\n"
        f"Ops that move stored integers, by `integerize-moving`: {_listed(moved)}.\n\n"
        + table(["op", "passes"], rows)
    )


def _insert(names: list[str], name: str) -> None:
    """``name`` where it stands in the order of the passes."""
    order = [each.name for each in (*PREPARE, *INTEGERIZE)]
    names.append(name)
    names.sort(key=order.index)


def _listed(names: Any) -> str:
    return ", ".join(sorted(names))


def zoo_rows() -> list[Row]:
    """What `make zoo` found."""
    return [Row(**row) for row in json.loads((DOCS / "zoo.json").read_text("utf-8"))]


def zoo() -> str:
    """The whole table."""
    return markdown(zoo_rows())


SHORT = {
    "squeezenet1.1_fp32_from_fp16": "ImageNet classifier",
    "cifar10_resnet44": "CIFAR-10 classifier",
    "mlperf_tiny_dscnn_kws": "keywords, MLPerf Tiny",
    "ppocr_v2_cls": "direction of text lines",
    "vit_pgd_2_3_16": "vision transformer",
    "kwt1_transformer": "keywords, transformer",
    "magika_standard_v2_1": "types of files, embeddings",
    "super_resolution_x3": "super resolution",
    "nanodet_m": "detector",
    "yolox_nano": "detector, hard in 8 bits",
}
"""The models of the front page, and what they do."""


def short_zoo() -> str:
    """A few models, those that lose much among them."""
    rows = []
    for row in zoo_rows():
        if row.model in SHORT:
            form = METRICS[row.metric]
            scores = [form.format(score) for score in (row.float_score, row.score)]
            share = f"{row.integer_mac_share:.0%}"
            rows.append([row.model, SHORT[row.model], share, *scores, f"{row.sqnr_db:.1f} dB"])
    return table(["model", "what it is", "integer", "float", "int8", "SQNR"], rows)


def latency() -> str:
    """What `make bench` found: each graph's time over float's, and on how many threads."""
    rows = json.loads((DOCS / "latency.json").read_text("utf-8"))["graphs"]
    counts = sorted({row["threads"] for row in rows})
    static = "quantize_static"
    graphs = {static: static, "qpasses": "bodies", "qpasses, compiled kernels": "kernels"}
    found: dict[tuple[str, int, str], float] = {}
    times: dict[tuple[str, int], float] = {}
    for row in rows:
        if row["latency_ms"] is not None:
            graph = static if row["graph"].startswith(static) else row["graph"]
            found[row["model"], row["threads"], graph] = row["to_float"]
            if graph == "float":
                times[row["model"], row["threads"]] = row["latency_ms"]
    models = list(dict.fromkeys(row["model"] for row in rows))
    cells = [(count, graph) for count in counts for graph in graphs]

    def ratio(model: str, count: int, graph: str) -> str:
        value = found.get((model, count, graph))
        return "-" if value is None else f"{value:.2f}"

    lines = []
    for model in models:
        line = [model, f"{times[model, counts[0]]:.3f}"]
        lines.append(line + [ratio(model, *cell) for cell in cells])
    known = [
        [found[model, *cell] for model in models if (model, *cell) in found] for cell in cells
    ]
    means = [f"{geometric_mean(each):.2f}" for each in known]
    lines.append(["geometric mean", "", *means])
    heads = [f"{graphs[graph]} ({count})" for count, graph in cells]
    return table(["model", "float, ms", *heads], lines)


def classify() -> str:
    """The program in C++ that loads the kernels, as a test compiles and runs it."""
    return f"```cpp\n{(DOCS / 'classify.cpp').read_text('utf-8')}```"


PARTS: Mapping[Path, Mapping[str, Callable[[], str]]] = {
    ROOT / "README.md": {"figures": short_zoo},
    DOCS / "deploying.md": {"classify": classify},
    DOCS / "figures.md": {"zoo": zoo, "latency": latency},
    DOCS / "options.md": {"options": option_tables},
    DOCS / "published.md": {"published": published_float_table},
    DOCS / "quantized-models.md": {
        "published": published_table,
        "outputs": outputs_table,
        "scores": scores_table,
        "static": static_table,
    },
    DOCS / "samples.md": {"presets": presets},
    DOCS / "supported-ops.md": {"ops": float_ops},
    DOCS / "survival.md": {
        "summary": summary_table,
        "wrong": wrong_table,
        "ops": ops_table,
        "left": left_table,
        "refused": refused_table,
    },
    DOCS / "tflite.md": {"zoo": tflite_table},
    DOCS / "tosa.md": {"zoo": tosa_zoo_table, "published": tosa_published_table},
    DOCS / "targets.md": {"shipped": shipped_targets, "rules": target_rules},
}
"""By document, the parts that are written, by name."""


def documents() -> Sequence[Path]:
    """Every Markdown document of the project."""
    named = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*named, *sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("models/*/README.md"))]


def written(path: Path) -> str:
    """The document as it has to be; pages of ops are written whole by another script."""
    text = path.read_text("utf-8")
    if path.parent == DOCS / "ops":
        return text
    for name, content in PARTS.get(path, {}).items():
        text = replaced(text, name, content())
    return rewrapped(text)


def main() -> None:
    """Write what is not as it has to be."""
    for path in documents():
        text = written(path)
        if text != path.read_text("utf-8"):
            path.write_text(text, "utf-8")
            print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
