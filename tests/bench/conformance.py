"""New conformance vectors: random nodes in LiteRT's interpreter, beside what targets compute.

`make conformance` runs COUNT nodes of each operator in three modes of the interpreter, each in
a child process: its reference kernels, the optimized ones, and XNNPACK. It writes them to
build/conformance, in the format of the shared vectors, and compares what a target claims: a
table of operators, and exit code 1 if a single value differs.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from tests.bench.manifest import ROOT
from tests.bench.markdown import table
from tests.support.litert import IS_THERE, SingleOp, Stored, interpreted
from tests.support.tflite_cases import CASES
from tests.support.tflite_records import (
    TARGETS,
    of_add,
    of_average_pool,
    of_batch_matmul,
    of_concat,
    of_conv,
    of_fully_connected,
    of_leaky_relu,
    of_mean,
    of_mul,
    of_prelu,
    of_relu,
    of_relu6,
    of_rescale,
    of_resize,
    of_softmax,
    of_sub,
    table_of,
)

FOLDER = ROOT / "build" / "conformance"
MODES = {
    "ref": "BUILTIN_REF",
    "opt": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "xnnpack": "BUILTIN",
}
Record = Mapping[str, Any]
Codes = NDArray[np.integer[Any]]

BOTH = ("litert", "tflm")
"""TFLite Micro has these reference kernels too."""


@dataclass(frozen=True)
class Claim:
    """``codes(record, target)``, and by mode the targets that say the interpreter's are these.

    ``ruy`` and ``float32`` are what a file of one's own could say (tests.support.
    tflite_records). A mode that is not there is written and not judged: no rule says it, as of
    the optimized sums and depthwise convolutions, which differ from each near ties.
    """

    codes: Callable[[Record, Any], Codes]
    targets: Mapping[str, Sequence[str]]


SUMS = {"ref": BOTH, "opt": ("ruy",), "xnnpack": ("float32",)}
CLAIMS: dict[str, Claim] = {
    "conv_2d": Claim(of_conv, SUMS),
    "depthwise_conv_2d": Claim(of_conv, {"ref": BOTH, "xnnpack": ("float32",)}),
    "fully_connected": Claim(of_fully_connected, SUMS | {"ref": ("litert",)}),
    "batch_matmul": Claim(of_batch_matmul, {"ref": ("litert",), "opt": ("litert",)}),
    "add": Claim(of_add, {"ref": BOTH, "xnnpack": ("vaddsub",)}),
    "sub": Claim(of_sub, {"ref": BOTH, "xnnpack": ("vaddsub",)}),
    "mul": Claim(of_mul, {"ref": ("litert",), "opt": ("litert",), "xnnpack": ("float32",)}),
    "quantize_requant": Claim(of_rescale, {"ref": BOTH, "opt": ("ruy",)}),
    "relu": Claim(of_relu, dict.fromkeys(MODES, ("litert",))),
    "relu6": Claim(of_relu6, dict.fromkeys(MODES, ("litert",))),
    "leaky_relu": Claim(of_leaky_relu, {"ref": ("litert",), "opt": ("litert",)}),
    "prelu": Claim(of_prelu, dict.fromkeys(MODES, ("litert",))),
    "hard_swish": Claim(table_of("y = HardSwish (x)"), dict.fromkeys(MODES, BOTH)),
    "logistic": Claim(table_of("y = Sigmoid (x)"), dict.fromkeys(("ref", "opt"), ("litert",))),
    "tanh": Claim(table_of("y = Tanh (x)"), dict.fromkeys(("ref", "opt"), ("litert",))),
    "exp": Claim(table_of("y = Exp (x)"), dict.fromkeys(MODES, ("litert",))),
    "gelu": Claim(table_of("y = Gelu (x)"), dict.fromkeys(MODES, ("litert",))),
    "gelu_tanh": Claim(
        table_of('y = Gelu <approximate = "tanh"> (x)'), dict.fromkeys(MODES, ("litert",))
    ),
    "softmax_int8": Claim(of_softmax, {"ref": BOTH}),
    "average_pool_2d": Claim(of_average_pool, dict.fromkeys(MODES, BOTH)),
    "mean": Claim(of_mean, {"ref": BOTH}),
    "resize_bilinear": Claim(of_resize, {"ref": BOTH, "opt": BOTH}),
    "concatenation": Claim(of_concat, {"ref": BOTH, "opt": ("ruy",)}),
}

NOT_DELEGATED = dict.fromkeys(MODES, BOTH)
"""XNNPACK takes no 16 bits, and kernels of these are the same everywhere."""

CLAIMS |= {
    "conv_2d_16x8": Claim(of_conv, NOT_DELEGATED),
    "depthwise_conv_2d_16x8": Claim(of_conv, NOT_DELEGATED),
    "fully_connected_16x8": Claim(of_fully_connected, dict.fromkeys(MODES, ("litert",))),
    "batch_matmul_int16": Claim(of_batch_matmul, dict.fromkeys(MODES, ("litert",))),
    "average_pool_2d_int16": Claim(of_average_pool, NOT_DELEGATED),
    "mean_int16": Claim(of_mean, {"ref": BOTH}),
    "add_int16": Claim(of_add, {"ref": BOTH}),
    "sub_int16": Claim(of_sub, {"ref": BOTH}),
    "mul_int16": Claim(of_mul, dict.fromkeys(MODES, ("litert",))),
    "relu_int16": Claim(of_relu, dict.fromkeys(MODES, ("litert",))),
    "relu6_int16": Claim(of_relu6, dict.fromkeys(MODES, ("litert",))),
    **{
        f"quantize_{ends}": Claim(of_rescale, NOT_DELEGATED)
        for ends in ("int8_int16", "int16_int8", "int16")
    },
}


@dataclass(frozen=True)
class Judged:
    """How many values of an operator's cases a target has otherwise in one mode."""

    op: str
    mode: str
    target: str
    cases: int
    values: int
    wrong: int


def tensor_of(stored: Stored, role: str) -> dict[str, Any]:
    """As vectors have it."""
    scale = None if stored.scale is None else np.ravel(stored.scale).astype(np.float32)
    values = None if stored.values is None else np.asarray(stored.values, stored.dtype)
    return {
        "role": role,
        "shape": [*stored.shape],
        "dtype": stored.dtype,
        "scale": None if scale is None else scale.tolist(),
        "scale_f32_hex": None if scale is None else [each.tobytes().hex() for each in scale],
        "zp": stored.zero,
        "const": None if values is None else values.reshape(stored.shape).tolist(),
    }


def record_of(name: str, op: SingleOp, params: Record, found: Mapping[str, Codes]) -> Record:
    """Operator ``name``, fed once, with what each mode made of it."""
    inputs = [tensor_of(each, f"in{place}") for place, each in enumerate(op.inputs)]
    made = {mode: codes.tolist() for mode, codes in found.items()}
    alike = all(each == made["ref"] for each in made.values())
    expected = {"expected_all": made["ref"], "modes": [*made]} if alike else {"expected": made}
    tensors = [*inputs, tensor_of(op.output, "out")]
    feeds = [np.asarray(each).tolist() for each in op.feeds[0]]
    return {"op": name, "params": params, "tensors": tensors, "feeds": feeds, **expected}


def records_of(name: str, count: int, seed: int) -> list[Record]:
    """Random cases of an operator, run in every mode."""
    rng = np.random.default_rng([seed, *name.encode()])
    drawn = [CASES[name](rng) for _ in range(count)]
    runs = {mode: interpreted([each.op for each in drawn], r) for mode, r in MODES.items()}
    return [
        record_of(name, each.op, each.params, {mode: runs[mode][at][0] for mode in MODES})
        for at, each in enumerate(drawn)
    ]


def judged(name: str, records: Sequence[Record]) -> list[Judged]:
    """What each target has otherwise that claims a mode."""
    claim, found = CLAIMS[name], []
    for mode, targets in claim.targets.items():
        for target in targets:
            wrong = values = 0
            for record in records:
                theirs = np.array(record.get("expected_all") or record["expected"][mode])
                ours = claim.codes(record, TARGETS[target])
                assert ours.shape == theirs.shape, f"{name}: {ours.shape}, {theirs.shape}"
                wrong, values = wrong + int((ours != theirs).sum()), values + theirs.size
            found.append(Judged(name, mode, target, len(records), values, wrong))
    return found


def write(folder: Path, name: str, records: Sequence[Record]) -> None:
    """One file, as the shared ones."""
    peer = f"ai-edge-litert {version('ai-edge-litert')}"
    modes = {mode: f"OpResolverType.{resolver}" for mode, resolver in MODES.items()}
    found = {"peer": peer, "modes": modes, "cases": records}
    path = folder / f"tflite_{name}.json"
    path.write_text(json.dumps(found) + "\n", "utf-8")


def main() -> int:
    """Make, write and compare; 1 if any value differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40, help="nodes of each operator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--op", choices=[*CASES], action="append", help="this one alone")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given, console = parser.parse_args(), Console()
    if not IS_THERE:
        console.print("error: no ai-edge-litert, or no flatbuffers: pip install both")
        return 1
    given.folder.mkdir(parents=True, exist_ok=True)
    rows: list[Judged] = []
    for name in given.op or CASES:
        records = records_of(name, given.count, given.seed)
        write(given.folder, name, records)
        rows += judged(name, records)
    head = ["op", "mode", "target", "cases", "values", "wrong"]
    lines = [
        [r.op, r.mode, r.target, f"{r.cases}", f"{r.values:,}", f"{r.wrong:,}"] for r in rows
    ]
    console.print(table(head, lines), markup=False, highlight=False, soft_wrap=True)
    wrong = sum(row.wrong for row in rows)
    console.print(f"{wrong} wrong; vectors in {given.folder}", markup=False, highlight=False)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
