"""Draw docs/flow.svg: three nodes of digits_cnn before and after, with their real numbers.

``make docs`` runs it. Colours follow those of the page that shows the picture.
"""

from collections.abc import Iterator
from html import escape
from tempfile import TemporaryDirectory

import onnx

import qpasses
from qpasses.checking.inspection import Inspection, Row
from tests.bench.manifest import MODELS, ROOT

PICTURE = ROOT / "docs" / "flow.svg"
DIGITS = MODELS / "digits_cnn"

NODE, FOLDED = "stem/conv", "stem/bn"

STAGES = ("prepare", "calibrate", "place", "integerize", "prove", "emit")

STYLE = """
  .page { fill: #ffffff; stroke: #d0d7de }
  .box { fill: #f6f8fa; stroke: #d0d7de }
  .whole { fill: #ddf4ff; stroke: #54aeff }
  .proof { fill: #dafbe1; stroke: #4ac26b }
  text { fill: #1f2328; font: 13px ui-sans-serif, -apple-system, "Segoe UI", sans-serif }
  .code { font-family: ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace }
  .head { font-weight: 600 }
  .soft { fill: #59636e }
  .line { stroke: #818b98; fill: none; stroke-width: 1.3 }
  .tip { fill: #818b98 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; stroke: #3d444d }
    .box { fill: #151b23; stroke: #3d444d }
    .whole { fill: #121d2f; stroke: #388bfd }
    .proof { fill: #12261e; stroke: #2ea043 }
    text { fill: #f0f6fc }
    .soft { fill: #9198a1 }
  }
"""

WIDTH, HEIGHT = 880, 396


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """A line that begins at x, its foot at y."""
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(words)}</text>'


def middle(x: float, y: float, words: str, kind: str = "") -> str:
    """A line around x."""
    line = f'<text x="{x}" y="{y}" class="{kind}" text-anchor="middle">'
    return f"{line}{escape(words)}</text>"


def box(x: float, y: float, width: float, height: float, kind: str = "box") -> str:
    """A rectangle of round corners."""
    size = f'width="{width}" height="{height}"'
    return f'<rect x="{x}" y="{y}" {size} rx="6" class="{kind}"/>'


def arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    """A line with a tip, along one axis."""
    if x == to_x:
        tip = f"{to_x - 4},{to_y - 7} {to_x + 4},{to_y - 7} {to_x},{to_y}"
    else:
        tip = f"{to_x - 7},{to_y - 4} {to_x - 7},{to_y + 4} {to_x},{to_y}"
    line = f'<path d="M{x} {y} L{to_x} {to_y}" class="line"/>'
    return f'{line}<polygon points="{tip}" class="tip"/>'


def flow() -> Iterator[str]:
    """The stages in a row, from file to file."""
    x, y = 24.0, 22.0
    names = ["model.onnx", *STAGES, "model.int8.onnx"]
    widths = [98, 70, 76, 56, 82, 60, 54, 138]
    gap = (WIDTH - 48 - sum(widths)) / (len(names) - 1)
    for place, (name, width) in enumerate(zip(names, widths, strict=True)):
        is_file = name.endswith(".onnx")
        yield box(x, y, width, 30, "whole" if is_file else "box")
        yield middle(x + width / 2, y + 20, name, "code" if is_file else "")
        if place < len(names) - 1:
            yield arrow(x + width + 2, y + 15, x + width + gap - 2, y + 15)
        x += width + gap


def before(model: onnx.ModelProto, row: Row) -> Iterator[str]:
    """The float nodes, one below the other."""
    x, y, width = 24, 118, 250
    yield text(x, y - 14, "before: float", "head")
    (source,) = [node for node in model.graph.node if node.name == row.source[0]]
    weights = next(each for each in model.graph.initializer if each.name == source.input[1])
    sizes = " x ".join(map(str, weights.dims))
    names = [row.source[0], FOLDED, row.source[-1]]
    nodes = {node.name: node for node in model.graph.node}
    for place, name in enumerate(names):
        top = y + place * 72
        yield box(x, top, width, 48)
        yield text(x + 14, top + 20, nodes[name].op_type, "code head")
        said = f"weights float32[{sizes}]" if place == 0 else name
        yield text(x + 14, top + 38, said, "soft")
        if place:
            yield arrow(x + width / 2, top - 24, x + width / 2, top)


def after(row: Row, channel: int = 0) -> Iterator[str]:
    """The integer node with its numbers."""
    x, y, width = 330, 118, WIDTH - 354
    (x_in,), (y_out,) = row.inputs, row.outputs
    weights = row.constants["w"]
    multiplier, shift = row.multiplier[channel], row.shift[channel]
    bias = int(row.constants["bias"][channel])
    low, high = row.clamp or (0, 0)
    yield arrow(284, y + 96, x - 10, y + 96)
    yield text(x, y - 14, "after: one node on integers", "head")
    yield box(x, y, width, 192, "whole")
    yield text(x + 16, y + 26, f"qpasses.{row.op}", "code head")
    yield text(
        x + 16, y + 47, f"stands for {', '.join(row.source)}; {FOLDED} is folded in", "soft"
    )
    lines = [
        ("x", f"{x_in.type}", f"real = (stored - {x_in.zero_point}) * {x_in.scale:.9f}"),
        ("w", str(weights.dtype), f"{weights.min()} .. {weights.max()}"),
        ("acc", "int32", f"sum(x * w) + bias, channel {channel}: bias {bias:,}"),
        ("y", y_out.type, f"clamp(round(acc * {multiplier:,} / 2^{shift}), {low}, {high})"),
        ("", "", f"real = (stored - {y_out.zero_point}) * {y_out.scale:.9f}"),
    ]
    for place, (name, kind, said) in enumerate(lines):
        foot = y + 76 + place * 24
        yield text(x + 16, foot, name, "code")
        yield text(x + 60, foot, kind, "code soft")
        yield text(x + 118, foot, said, "code")


def proof(row: Row) -> Iterator[str]:
    """What is known of the node, and who says so."""
    found = row.proof
    assert found is not None
    yield box(330, 322, WIDTH - 354, 54, "proof")
    wrong, inputs = f"{found.mismatches:,}", f"{found.domain:,}"
    moved, gap = f"{found.reference_moved:,}", found.reference_max_lsb
    yield text(346, 344, "proved", "head")
    yield text(412, 344, f"the kernel leaves this meaning on {wrong} of {inputs} accumulators")
    yield text(346, 364, "counted", "head")
    yield text(412, 364, f"{moved} of them differ from real arithmetic, by {gap} step at most")
    yield box(24, 322, 250, 54)
    yield text(38, 344, "verify", "code head")
    yield text(38, 362, "derives every number again", "soft")


def drawn(model: onnx.ModelProto, found: Inspection) -> str:
    """The picture."""
    row = found.node(NODE)
    parts = [*flow(), *before(model, row), *after(row), *proof(row)]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img">'
    )
    title = "<title>What qpasses makes of a Conv, BatchNormalization and Relu</title>"
    page = box(0.5, 0.5, WIDTH - 1, HEIGHT - 1, "page")
    lines = "\n".join(parts)
    return f"{head}\n{title}\n<style>{STYLE}</style>\n{page}\n{lines}\n</svg>\n"


def made() -> str:
    """The picture of what the shipped model becomes today."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/int8.onnx"
        qpasses.quantize(DIGITS / "digits_cnn.onnx", DIGITS / "calibration.npz", path)
        found = qpasses.inspect(path)
    return drawn(onnx.load(DIGITS / "digits_cnn.onnx"), found)


def main() -> None:
    """Write it."""
    PICTURE.write_text(made(), "utf-8")


if __name__ == "__main__":
    main()
