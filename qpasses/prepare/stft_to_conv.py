"""StftToConv: short Fourier transforms, one every so many samples, are a convolution."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import Graph, Node, constant, input_at
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.linear_to_mat_mul import MOST_WEIGHTS
from qpasses.prepare.recognition.expansion import Expansion
from qpasses.prepare.recognition.waves import fourier

_CHANNELS = np.array([1])
"""The axis that a signal without parts lacks."""


class StftToConv(Pass):
    """Replace STFT by a Conv whose kernels are windowed cosines and sines.

    before: ``y = STFT (x, frame_step, window, frame_length)``, x [N, L, 1 or 2] or [N, L]
    after:  ``c = Transpose (x); p = Conv <strides = [frame_step]> (c, w);
            t = Transpose (p); y = Reshape (t, [0, 0, bins, 2])``: w [2 * bins, 1 or 2,
            frame_length] holds real and imaginary part of each bin, one after the other
    **Exact** in real arithmetic: it is its definition. In float32 each of frame_length
    products, and their sum, is rounded: the result is off by at most frame_length * 2**-24
    times the sum of the absolute products.
    """

    op_types: ClassVar = frozenset({"STFT"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite constant steps, windows and lengths."""
        x = node.inputs[0]
        if node.domain or node.name in context.selection.excluded:
            return NOT_MINE
        shape: Sequence[Any] = x.shape or ()
        parts = shape[2] if len(shape) == 3 else 1
        if x.dtype != np.float32 or len(shape) not in (2, 3) or parts not in (1, 2):
            return Declined("STFT of other types than float32, or not of [N, L, 1 or 2]")
        given = [input_at(node, place) for place in (1, 2, 3)]
        step, window, length = (constant(each) for each in given)
        is_known = all(
            each is None or value is not None
            for each, value in zip(given, (step, window, length), strict=True)
        )
        sized = window if length is None else length
        if not is_known or step is None or sized is None:
            return Declined("STFT with a step, window or length that is not constant")
        size = sized.size if length is None else int(sized.reshape(()))
        kernels = _kernels(size, window, int(parts), bool(node.attrs.get("onesided", 1)))
        if kernels is None or kernels.size > MOST_WEIGHTS:
            return Declined("STFT with a window of another length, or of too many numbers")
        made = Expansion(graph, node, context)
        if len(shape) == 3:
            channels = made.add("Transpose", "channels", [x], perm=[0, 2, 1])
        else:
            channels = made.add("Unsqueeze", "channels", [x, made.constant("axis", _CHANNELS)])
        weights = made.constant("waves", kernels)
        strides = [int(step.reshape(()))]
        spectra = made.add(
            "Conv", "spectra", [channels, weights], strides=strides, kernel_shape=[size]
        )
        frames = made.add("Transpose", "frames", [spectra], perm=[0, 2, 1])
        sizes = made.constant("sizes", np.array([0, 0, kernels.shape[0] // 2, 2]))
        made.y.shape = [*(made.y.shape or (shape[0], None))[:2], kernels.shape[0] // 2, 2]
        made.add("Reshape", "parts", [frames, sizes], made.y)
        return REWRITTEN


def _kernels(
    size: int, window: NDArray[np.float32] | None, parts: int, onesided: bool
) -> NDArray[np.float32] | None:
    """[bins * 2, parts, size]: the waves of a frame, as far as the window lets them."""
    if size < 1 or (window is not None and window.size != size):
        return None
    waves = fourier(size, parts, size, inverse=False, onesided=onesided)
    whole = waves.reshape(size, parts, -1).transpose(2, 1, 0)
    heights = np.ones(size) if window is None else window.reshape(-1).astype(np.float64)
    return np.ascontiguousarray((whole * heights + 0.0).astype(np.float32))  # no -0
