"""Random nets as TFLite files: the runtime they are for has every stored integer."""

from tests.bench.fuzzing.judge import Seen
from tests.bench.fuzzing.judge_tflite import judge_tflite, tflite_case
from tests.support.litert import needs_litert, needs_tflm
from tests.support.thoroughness import THOROUGH

pytestmark = [needs_litert, needs_tflm]

FEW = range(30)


def test_no_stored_integer_differs():
    seen, failures = Seen(), []
    for number in range(300) if THOROUGH else FEW:
        drawn = tflite_case(7, number)
        failure = drawn and judge_tflite(drawn, seen)
        failures += [(number, failure)] if failure else []
    assert failures == []
    assert seen.compared["elements in TFLite"] > 1000
    assert len(seen.integer_ops) > 20
