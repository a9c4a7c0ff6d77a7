"""Judge any case: float, with bodies, quantized already, or exported."""

from tests.bench.fuzzing.bodies import judge_bodies
from tests.bench.fuzzing.graphs import Case
from tests.bench.fuzzing.judge import Failure, Seen, judge
from tests.bench.fuzzing.judge_quantized import judge_quantized
from tests.bench.fuzzing.judge_tflite import judge_tflite


def judge_any(case: Case, seen: Seen | None = None) -> Failure | None:
    """The first check that ``case`` fails."""
    if case.has_bodies:
        return judge_bodies(case, seen)
    if case.is_exported:
        return judge_tflite(case, seen)
    return (judge_quantized if case.is_quantized else judge)(case, seen)
