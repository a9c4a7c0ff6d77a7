"""The judge of TFLite files: LiteRT or TensorFlow Lite Micro has every stored integer."""

from dataclasses import replace
from pathlib import Path

import numpy as np

import qpasses
from calibration import input_specs, open_samples
from opsets.errors import ModelError, QPassesError, UsageError
from qpasses.checking.beside.litert_check import check_litert
from qpasses.ir.progress import no_progress
from tests.bench.fuzzing import graphs
from tests.bench.fuzzing.graphs import Case
from tests.bench.fuzzing.judge import Failure, Seen
from tests.support.litert_served import judge_alone

WORDS: tuple[list[str], ...] = ([], [".*=int16"], ["[a-z]*[02468]=int16"])
"""Types of tensors: 8 bits, 16 where there are any, or in one half."""

RUNTIMES = "litert", "tflm"

_SAMPLES, _EXPORT = 2, 7


def tflite_case(seed: int, number: int) -> Case | None:
    """Case ``number`` of ``seed`` for one of the runtimes."""
    made = graphs.case(seed, number)
    rng = np.random.default_rng([seed, number, _EXPORT])
    options = {
        "target": RUNTIMES[int(rng.integers(len(RUNTIMES)))],
        "activation_type": ["uint8", "int8"][int(rng.integers(2))],
        "tensor_types": WORDS[int(rng.integers(len(WORDS)))],
        "accuracy": "fast",
    }
    return made and replace(made, options=options, is_exported=True)


def judge_tflite(case: Case, seen: Seen | None = None) -> Failure | None:
    """Whether the runtime gives other integers than onnxruntime, of any stored tensor."""
    seen = seen or Seen()
    seen.float_ops.update(node.op_type for node in case.model.graph.node)
    try:
        made = qpasses.quantize(case.model, list(case.feeds), **case.options).model
    except UsageError as error:
        seen.refusals[str(error)[:40]] += 1
        return None
    except QPassesError as error:
        return Failure(f"quantize refuses: {type(error).__name__}", str(error))
    assert made is not None
    samples = open_samples(list(case.feeds[:_SAMPLES]), input_specs(case.model))
    try:
        with judge_alone():
            found = check_litert(
                *(made, Path("model"), case.model, samples, no_progress),
                runtime=case.options["target"],
                all_tensors=True,
            )
    except (ModelError, UsageError) as error:
        seen.refusals[str(error).partition(" as TFLite: ")[2][:40] or "left in float"] += 1
        return None
    except Exception as error:
        return Failure(f"export: {type(error).__name__}", str(error))
    seen.integer_ops.update(node.op_type for node in made.graph.node)
    seen.compared["elements in TFLite"] += found.elements
    return Failure("TFLite", "; ".join(found.problems)) if found.problems else None
