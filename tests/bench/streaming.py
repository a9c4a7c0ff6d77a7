"""Streaming: states fed back for 1,000 steps, integers beside float, on speech in noise.

`make streaming` writes docs/recurrent.md with its curve docs/streaming.svg: the SQNR of each
50 steps, of models of the zoo that have states. Where it does not fall, nothing drifts.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import vl_convert
from numpy.typing import NDArray
from rich.progress import track

import qpasses
from calibration import Session
from opsets.native import library
from tests.bench.manifest import ROOT
from tests.bench.markdown import rewrapped, table
from tests.support.zoo_models import ZOO

DOCUMENT, PICTURE = ROOT / "docs" / "recurrent.md", ROOT / "docs" / "streaming.svg"

STEPS, WINDOW, SAMPLES = 1000, 50, 128
"""So many steps, of which so many make a point; on so many of the float run is calibrated."""

WAYS: Mapping[str, Mapping[str, Any]] = {
    "8 bits": {},
    "16 bits": {"tensor_types": [".*=int16"]},
}

Frames = NDArray[np.float32]


@dataclass(frozen=True)
class Model:
    """A model of the zoo: its spectra of ``length`` samples each, its states by input."""

    name: str
    length: int
    input: str
    states: Mapping[str, str]
    log: bool = False

    def frames(self) -> Frames:
        """What goes in: magnitudes of the zoo's mix, a frame a step, or log power."""
        mix = np.load(ZOO / "data" / "denoise_mix_16k.npz")["mix"].astype(np.float32)
        mix, hop = mix / np.abs(mix).max(), self.length // 2
        window = np.hanning(self.length).astype(np.float32)
        starts = range(0, len(mix) - self.length, hop)
        spectra = np.abs(
            np.fft.rfft(np.stack([mix[k : k + self.length] for k in starts]) * window)
        )
        found = np.log10(np.maximum(spectra**2, 1e-12)) if self.log else spectra
        return np.asarray(found, np.float32)


MODELS = (
    Model("nsnet2_gru", 320, "input", {"h1": "h1_out", "h2": "h2_out"}, log=True),
    Model("dtln_1", 512, "input_2", {"input_3": "tf_op_layer_stack_2"}),
)


@dataclass(frozen=True)
class Point:
    """The SQNR in dB of what is no state, in one window."""

    model: str
    way: str
    step: int
    sqnr_db: float


def run(session: Session, model: Model, first: Mapping[str, Frames]) -> list[dict[str, Any]]:
    """Feeds and outputs of all steps, states fed back."""
    frames, states, found = model.frames(), dict(first), []
    names = session.outputs
    for step in range(STEPS):
        feed = {model.input: frames[step % len(frames)][None, None], **states}
        given = dict(zip(names, session.run(None, feed), strict=True))
        found.append({"feed": feed, "given": given})
        states = {name: given[end] for name, end in model.states.items()}
    return found


def measured(model: Model) -> list[Point]:
    """The points of one model, both ways."""
    path = ZOO / "models" / f"{model.name}.onnx"
    original = onnx.load(path)
    first = {
        value.name: np.zeros(
            [each.dim_value for each in value.type.tensor_type.shape.dim], "f"
        )
        for value in original.graph.input
        if value.name in model.states
    }
    real = run(Session(original), model, first)
    samples = [each["feed"] for each in real[:: STEPS // SAMPLES]]
    points = []
    for way, options in WAYS.items():
        made = qpasses.quantize(path, samples, **options)
        assert made.model is not None
        integer = run(Session(made.model, operators=library()), model, first)
        for start in range(0, STEPS, WINDOW):
            sides = [_outputs(each[start : start + WINDOW], model) for each in (real, integer)]
            noise = ((sides[0] - sides[1]) ** 2).sum()
            ratio = (sides[0] ** 2).sum() / max(noise, np.finfo(np.float64).tiny)
            points.append(Point(model.name, way, start, float(10 * np.log10(ratio))))
    return points


def _outputs(steps: Sequence[Mapping[str, Any]], model: Model) -> NDArray[np.float64]:
    ends = [
        value.ravel().astype(np.float64)
        for each in steps
        for name, value in each["given"].items()
        if name not in model.states.values()
    ]
    return np.concatenate(ends)


def picture(points: Sequence[Point]) -> str:
    """The curves, as SVG."""
    values = [
        {"step": each.step, "SQNR dB": each.sqnr_db, "model": f"{each.model}, {each.way}"}
        for each in points
    ]
    drawn = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": 620,
        "height": 260,
        "background": "white",
        "data": {"values": values},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "step", "type": "quantitative"},
            "y": {"field": "SQNR dB", "type": "quantitative", "scale": {"zero": False}},
            "color": {"field": "model", "type": "nominal", "legend": {"orient": "bottom"}},
        },
    }
    return str(vl_convert.vegalite_to_svg(drawn))


def document(points: Sequence[Point]) -> str:
    """The figures between the marks of docs/recurrent.md."""
    rows = list[list[str]]()
    for model in MODELS:
        for way in WAYS:
            own = [p.sqnr_db for p in points if (p.model, p.way) == (model.name, way)]
            rest = own[1:]
            figures = own[0], min(rest), float(np.median(rest)), rest[-1]
            rows.append([model.name, way, *(f"{each:.1f}" for each in figures)])
    head = ["model", "tensors", "first 50 steps, dB", "worst 50 behind", "median", "last 50"]
    return str(table(head, rows))


BEGIN, END = "<!-- written by `make streaming` -->\n", "<!-- to here -->\n"


def main() -> None:
    """``python -m tests.bench.streaming``."""
    if not (ZOO / "models").is_dir():
        sys.exit("error: the zoo is not here: set QPASSES_ZOO")
    points = [point for model in track(MODELS, "models") for point in measured(model)]
    text = DOCUMENT.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, behind = rest.partition(END)
    DOCUMENT.write_text(
        rewrapped(f"{before}{BEGIN}\n{document(points)}\n\n{END}{behind}"), "utf-8"
    )
    PICTURE.write_text(picture(points), "utf-8")


if __name__ == "__main__":
    main()
