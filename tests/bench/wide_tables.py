"""Tables of 16-bit integers: what interpolation is off by, and what an element costs.

``python -m tests.bench.wide_tables`` prints the tables of docs/decisions/0018.
"""

from collections.abc import Iterator
from math import log

import numpy as np
from onnx import ModelProto, helper, parser

from opsets.fixed_point import ROUNDINGS
from opsets.qpasses_v1 import OPS
from qpasses import Quantization, WideTables, wide_table
from qpasses.ir.runtime import IR_VERSION, OPSET
from tests.bench.costs import run_time

ELEMENTS = 100_000


def written_out(body: str) -> ModelProto:
    """The model of ``body``, which makes y of x."""
    header = f'<ir_version: {IR_VERSION}, opset_import: ["" : {OPSET}]>'
    return parser.parse_model(f"{header} g (float[N] x) => (float[N] y) {{ {body} }}")


LINE = "slope = Constant <value_float = 0.618> () y = Mul (x, slope)"

FUNCTIONS: dict[str, tuple[str | ModelProto, tuple[float, float], tuple[float, float]]] = {
    "Sigmoid": ("Sigmoid", (-8, 8), (0, 1)),
    "Tanh": ("Tanh", (-4, 4), (-1, 1)),
    "Gelu": ("Gelu", (-8, 8), (-0.17, 8)),
    "SiLU": (written_out("s = Sigmoid (x) y = Mul (x, s)"), (-8, 8), (-0.28, 8)),
    "Exp": ("Exp", (-10, 0), (0, 1)),
    "HardSwish": ("HardSwish", (-8, 8), (-0.375, 8)),
    "Sqrt": ("Sqrt", (0, 16), (0, 4)),
    "0.618 x": (written_out(LINE), (-1, 1), (-1, 1)),
    "Log": ("Log", (0, 16), (log(16 / 65535), log(16))),
}
"""Functions, with usual ranges of x and what those become."""


def covering(low: float, high: float) -> Quantization:
    """int16 for ``low`` to ``high``, zero included."""
    scale = float(np.float32((high - low) / 65535))
    return Quantization(
        scale, int(np.clip(round(-low / scale) - 32768, -32768, 32767)), "int16"
    )


def tables() -> Iterator[tuple[str, WideTables, WideTables]]:
    """Of each function, with plain and with adjusted knots."""
    for name, (function, x, y) in FUNCTIONS.items():
        ends = covering(*x), covering(*y)
        yield (
            name,
            wide_table(function, *ends, within=1),
            wide_table(function, *ends, within=1, knots="adjusted"),
        )


def nanoseconds(op: str, overload: str, of: WideTables, rounding: str) -> float:
    """What an element of a node costs, its own constants initializers."""
    table = of.full if op == "Lut16" else of.interpolated
    attributes = {} if op == "Lut16" else {"rounding": rounding}
    node = helper.make_node(
        op, list(OPS[op].inputs), ["y"], domain="qpasses", overload=overload, **attributes
    )
    x = np.random.default_rng(0).integers(-32768, 32767, ELEMENTS, np.int16, endpoint=True)
    return run_time([node], {"x": x}, table.constants) / ELEMENTS * 1e9


def main() -> None:
    """Print both tables."""
    heads = ["function", "x", "full / real", "513 / full", "513 / real", "adjusted / full"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name, plain, adjusted in tables():
        x = FUNCTIONS[name][1]
        gaps = (
            plain.full.against_real,
            plain.interpolated.against_full,
            plain.interpolated.against_real,
            adjusted.interpolated.against_full,
        )
        cells = [f"{gap.codes:,}, {gap.max_lsb:,}, {gap.mean_lsb:.4f}" for gap in gaps]
        proved = all(
            each.evidence.proved
            for found in (plain, adjusted)
            for each in (found.full, found.interpolated)
        )
        assert proved, name
        print(f"| {name} | {x[0]} .. {x[1]} | {' | '.join(cells)} |")
    print("\n| op | body | ns an element |\n|---|---|---|")
    found = wide_table("Sigmoid", covering(-8, 8), covering(0, 1), within=1)
    for op in ("Lut16", "LutInterpolated"):
        for body in OPS[op].bodies:
            rounding = next(r for r in ROUNDINGS if body.accepts({}, {"rounding": r}))
            cost = nanoseconds(op, body.overload, found, rounding)
            print(f"| {op} | {body.overload} | {cost:.2f} |")


if __name__ == "__main__":
    main()
