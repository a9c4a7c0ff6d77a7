"""What accuracy gains on published models that take pictures: SQNR of fast and balanced.

`make gains` measures them too and writes a table into docs/gains.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import qpasses
from calibration import Samples, Session, input_specs, open_samples
from calibration.presets import preprocessing
from qpasses.ir.choices import Accuracy
from tests.bench.manifest import ZOO, decibels
from tests.bench.published import FOLDER

PICTURES = ZOO / "data" / "imagenet224"

CALIBRATION, TEST = 100, 40
"""So many pictures of the 500, the ones among every fifth, the others not."""

TAKES: Mapping[str, str] = {
    "cct_2_32_32_128_op20": "cifar10",
    "chineseocr_angle_shufflenetv2": "imagenet",
    "deeplabv3_mnv2_257_nhwc": "inception",
    "face_landmarks_v2_478": "unit",
    "mobilenetv2_035_128_food": "inception",
    "mobilenetv2_imagenet_from_dyn": "imagenet",
    "palm_detection_lite": "unit",
    "pan_mobilenetv3s_seg_512_raw": "imagenet",
    "retinaface_mnet025": "caffe",
    "scrfd_500m_kps": "inception",
    "selfie_segmentation": "unit",
    "ssd_mobilenetv1_025_256": "inception",
    "tbefn_lowlight_180x320": "unit",
    "tinycnn_esp": "cifar10",
    "tinyml_mobilenetv3_cifar": "cifar10",
    "traffic_sign_bnn_vnncomp": "raw",
    "unet_sedgen": "unit",
    "yolov8n_320_from_dyn": "yolo",
}
"""What the pictures become for each model, as far as its family tells."""

ACCURACIES: Sequence[Accuracy] = ("fast", "balanced")

HEAD = [
    "model",
    "pictures",
    *ACCURACIES,
    "tensors with scales of channels",
    "weights",
    "biases of",
]


@dataclass
class Row:
    """One model: by accuracy SQNR in dB, and what balanced has chosen."""

    model: str
    preset: str
    sqnr_db: Mapping[str, float]
    tensors: int
    rounding: str
    corrected: int

    def cells(self) -> list[str]:
        """Its line in a table."""
        shown = [f"{db:.2f}" for db in self.sqnr_db.values()]
        last = str(self.tensors), self.rounding, str(self.corrected)
        return [self.model, self.preset, *shown, *last]


def here() -> list[Path]:
    """Those of the models that are on this machine."""
    paths = [FOLDER / f"{name}.onnx" for name in TAKES]
    return [path for path in paths if path.is_file()]


def bench(path: Path) -> Row:
    """Quantize with either accuracy and run the other pictures."""
    preset = TAKES[path.stem]
    how = preprocessing(preset)
    every = open_samples(PICTURES, input_specs(onnx.load(path)), None, how)
    others = every.without(set(every.spread(CALIBRATION).names)).spread(TEST)
    sqnr_db, report = dict[str, float](), dict[str, Any]()
    for accuracy in ACCURACIES:
        made = qpasses.quantize(
            path, PICTURES, samples=CALIBRATION, preprocessing=how, accuracy=accuracy
        )
        assert made.model is not None
        sqnr_db[accuracy] = _sqnr_db(onnx.load(path), made.model, others)
        report = made.report
    scaled, rounded = report["activation_scales"], report["weight_rounding"]
    corrected = report["bias_correction"]["nodes"]
    return Row(path.stem, preset, sqnr_db, scaled["tensors"], rounded["chosen"], corrected)


def _sqnr_db(real: onnx.ModelProto, made: onnx.ModelProto, samples: Samples) -> float:
    """Of all elements of all float outputs together, each model fed as it wants."""
    seen = []
    for model in (real, made):
        session, types = Session(model, optimize=False), input_specs(model)
        feeds = (
            {each.name: np.asarray(feed[each.name], each.dtype) for each in types}
            for _, feed in samples
        )
        found = [each for feed in feeds for each in session.run(None, feed)]
        seen.append(np.concatenate([each.ravel() for each in found if each.dtype.kind == "f"]))
    return decibels(*seen)
