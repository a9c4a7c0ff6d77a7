"""Single nodes of every op: the reference against plain loops, the bodies against it."""

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings

from opsets.op import Op
from opsets.qpasses_v1 import OPS
from qpasses.ir.runtime import run_op
from tests.bench.fuzzing.judge import Failure
from tests.support.op_cases import CASES, Case
from tests.support.op_loops import PLAIN

LOOKED_AT = 30
"""In about so many places of each result."""


def single_op(name: str, number: int, examples: int) -> Failure | None:
    """The smallest of random nodes of op ``name``, drawn from seed ``number``, that fails."""

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(CASES[name])
    def check(case: Case) -> None:
        _check(OPS[name], case)

    try:
        check()
    except Exception as error:
        notes = "; ".join(getattr(error, "__notes__", []))
        return Failure(f"single op: {name}", f"seed {number}: {error} {notes}")
    return None


def _check(op: Op, case: Case) -> None:
    stored = op.reference(*case.inputs, **case.attributes)
    shape, code_at = PLAIN[op.name](*case.inputs, **case.attributes)
    assert stored.shape == tuple(shape)
    positions = list(np.ndindex(shape))
    for position in positions[:: max(1, len(positions) // LOOKED_AT)]:
        assert stored[position] == code_at(*position), position
    portable = op.body(
        "portable", dict(zip(op.inputs, case.inputs, strict=True)), case.attributes
    )
    for optimize in (False, True):
        found = run_op(op.name, portable, case.inputs, case.attributes, optimize=optimize)
        np.testing.assert_array_equal(found, stored, strict=True)
