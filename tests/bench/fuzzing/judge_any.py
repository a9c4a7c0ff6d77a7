"""Judge any case: a float graph, one that is quantized already, or one that is exported."""

from tests.bench.fuzzing.graphs import Case
from tests.bench.fuzzing.judge import Failure, Seen, judge
from tests.bench.fuzzing.judge_quantized import judge_quantized
from tests.bench.fuzzing.judge_tflite import judge_tflite


def judge_any(case: Case, seen: Seen | None = None) -> Failure | None:
    """The first check that ``case`` fails."""
    if case.is_exported:
        return judge_tflite(case, seen)
    return (judge_quantized if case.is_quantized else judge)(case, seen)
