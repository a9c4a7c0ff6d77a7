"""Integer nodes of LSTM as plain loops of kernels have them: from codes and scales alone."""

from math import frexp

import numpy as np

from qpasses.evidence.bodies import constants_of
from tests.support.lstm_kernels import GATES, Gate, Lstm

COLUMNS = dict(zip("iofg", range(4), strict=True))
"""Gates as ONNX has them."""


def kernel_of(node, record):
    """What the kernel has in place of the node: no multiplier, shift or table of it."""
    given, entry = constants_of(node), record.nodes[node.name]
    hidden = len(given["r"])
    h, c = (record.tensors[node.outputs[place].name] for place in (0, 2))
    parts = {
        "w": given["w"].T.tolist(),
        "r": given["r"].T.tolist(),
        "bias": given["bias"].tolist(),
    }
    gates = {}
    for name in GATES:
        rows = slice(COLUMNS[name] * hidden, (COLUMNS[name] + 1) * hidden)
        scales = [set(entry.scales[part][rows]) for part in "wr"]
        (w_scale,), (r_scale,) = scales
        gates[name] = Gate(*(parts[each][rows] for each in parts), w_scale, r_scale)
    mantissa, exponent = frexp(c.scale)
    assert mantissa == 0.5
    zeros = int(given["x_zero"]), int(given["y_zero"])
    return Lstm(
        *(gates, entry.scales["x"][0], zeros[0], h.scale, zeros[1], exponent - 1, 32767),
        wide=given["x_zero"].dtype == np.int16,
        unsigned=given["x_zero"].dtype == np.uint8,
    )
