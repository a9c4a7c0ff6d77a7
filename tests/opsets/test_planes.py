"""Words as two planes of bytes, in onnxruntime itself."""

from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
from numpy.typing import NDArray

from opsets.fragments import Fragment
from opsets.planes import PLANES

EVERY = np.arange(-(1 << 15), 1 << 15).astype(np.int16)


def run(statements: Fragment, signature: str, **inputs: NDArray[Any]) -> list[NDArray[Any]]:
    header = '<ir_version: 10, opset_import: ["": 21]>'
    model = onnx.parser.parse_model(f"{header}\nplanes {signature} {{{statements.text}}}")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    found: list[NDArray[Any]] = session.run(None, inputs)
    return found


def test_planes_of_every_word_are_bytes_that_make_it_again() -> None:
    signature = (
        "(int16[N] x) => (uint8[N] high, uint8 high_zero, uint8[N] low, uint8 low_zero)"
    )
    high, high_zero, low, low_zero = run(PLANES, signature, x=EVERY)
    levels = [
        each.astype(np.int64) - zero for each, zero in ((high, high_zero), (low, low_zero))
    ]
    np.testing.assert_array_equal(256 * levels[0] + levels[1], EVERY)
    assert [int(high_zero), int(low_zero)] == [128, 0]
