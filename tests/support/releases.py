"""What only newer releases of onnxruntime have: tests that need it skip below."""

import onnxruntime
import pytest

_RELEASE = tuple(map(int, onnxruntime.__version__.split(".")[:2]))

needs_opset_27 = pytest.mark.skipif(
    _RELEASE < (1, 32), reason="onnxruntime 1.32 is the first that runs opsets above 26"
)

needs_windowed_attention = pytest.mark.skipif(
    _RELEASE < (1, 32), reason="onnxruntime 1.32 is the first whose Attention has windows"
)
