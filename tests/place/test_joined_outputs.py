"""Joined outputs: boxes beside scores, each at a scale of its own."""

import numpy as np
import pytest

from calibration import Session
from qpasses import quantize, verify
from tests.support.small_models import model, numbers

ENDS = {
    "at the end": "y = Concat <axis = 2> (boxes, scores)",
    "moved behind": """
        both = Concat <axis = 2> (boxes, scores)
        y = Transpose <perm = [0, 1, 2]> (both)""",
    "moved before": """
        across = Transpose <perm = [0, 2, 1]> (scores)
        up = Transpose <perm = [0, 2, 1]> (boxes)
        both = Concat <axis = 1> (up, across)
        y = Transpose <perm = [0, 2, 1]> (both)""",
    "in two steps": """
        first, second = Split <axis = 2> (boxes, two)
        more = Concat <axis = 2> (second, scores)
        y = Concat <axis = 2> (first, more)""",
}


def detector(end):
    """Boxes of hundreds, and scores up to one."""
    return model(
        f"""net (float[N, 16, 8] x) => (float[N, 16, 7] y) {{
            b = MatMul (x, w)
            half = Sigmoid (b)
            boxes = Mul (half, size)
            s = MatMul (x, v)
            scores = Sigmoid (s)
            {end}
        }}""",
        w=numbers(8, 4),
        v=numbers(8, 3),
        size=np.float32(640),
        two=np.array([2, 2]),
    )


def sqnr_db(original, made, feeds, part):
    sessions = Session(original), Session(made)
    real, found = (
        np.concatenate([each.run(["y"], feed)[0] for feed in feeds])[..., part]
        for each in sessions
    )
    return 10 * np.log10(np.square(real).sum() / np.square(real - found).sum())


def pictures(count, seed=0):
    return [{"x": numbers(1, 16, 8, seed=seed + at)} for at in range(count)]


@pytest.mark.thinned
@pytest.mark.parametrize("end", ENDS)
def test_scores_beside_boxes_keep_their_digits(end):
    original, others = detector(ENDS[end]), pictures(8, seed=50)
    found = quantize(original, pictures(8))
    assert found.verdict == "ok" and found.report["summary"]["integer_only"]
    assert verify(found.model, original, others).verdict == "ok"
    for part in (slice(4), slice(4, 7)):
        assert sqnr_db(original, found.model, others, part) > 35
    left = found.report["summary"]["float_nodes"]
    assert "Concat" in {each["op_type"] for each in left}
    assert all("one scale would round it away" in each["reason"] for each in left)


def test_ranges_are_those_of_one_run(monkeypatch):
    runs = []
    from qpasses import pipeline

    whole = pipeline.find_ranges
    monkeypatch.setattr(
        pipeline, "find_ranges", lambda *args: runs.append(args[1]) or whole(*args)
    )
    quantize(detector(ENDS["at the end"]), pictures(4))
    assert len(runs) == 1


def test_integer_outputs_and_the_rules_of_a_tool_share_one_scale():
    original = detector(ENDS["at the end"])
    for options in ({"integer_io": True}, {"alignment": "tpu-mlir"}):
        found = quantize(original, pictures(8), **options)
        assert found.report["summary"]["float_nodes"] == []
        assert any("shares the scale of a wider" in w for w in found.report["warnings"])


def test_what_something_computes_with_is_joined_as_integers():
    original = model(
        """net (float[N, 16, 8] x) => (float[N, 16, 7] y) {
            b = MatMul (x, w)
            wide = Mul (b, size)
            s = MatMul (x, v)
            both = Concat <axis = 2> (wide, s)
            y = Sigmoid (both)
        }""",
        w=numbers(8, 4),
        v=numbers(8, 3),
        size=np.float32(640),
    )
    assert quantize(original, pictures(8)).report["summary"]["float_nodes"] == []
