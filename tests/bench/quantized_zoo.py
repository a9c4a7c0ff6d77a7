"""Quantized models as people publish them, in the zoo's more/quantized, and their data."""

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from PIL import Image

from tests.bench.manifest import ZOO

FOLDER = ZOO / "more" / "quantized"

Array: TypeAlias = NDArray[Any]
Data: TypeAlias = tuple[Array, Array | None]
"""Samples along the first axis, and their labels."""

MADE_UP = "made up"
"""Numbers within the range of the input: no data that fit are at hand."""


@dataclass(frozen=True)
class Published:
    """One file: its form, the samples for it in words and as arrays.

    ``offset``: its first label. ``needs_data``: it does not say itself how all is stored.
    """

    name: str
    form: str
    what: str
    samples: Callable[[], Data]
    offset: int = 0
    needs_data: bool = False

    @property
    def path(self) -> Path:
        """The file."""
        return FOLDER / f"{self.name}.onnx"

    @property
    def labels(self) -> Array | None:
        """Of the samples, if they have any."""
        return self.samples()[1]

    def feeds(self, count: int | None = None, first: int = 0) -> Sequence[Mapping[str, Array]]:
        """``count`` samples, or all, one by one."""
        values, _ = self.samples()
        name = onnx.load(self.path).graph.input[0].name
        end = len(values) if count is None else min(first + count, len(values))
        return [{name: values[i : i + 1]} for i in range(first, end)]


@cache
def _npz(name: str) -> Mapping[str, Array]:
    with np.load(ZOO / "data" / name) as found:
        return {key: found[key] for key in found.files}


def _column(*values: float) -> Array:
    return np.array(values, np.float32).reshape(1, 3, 1, 1)


def _first_channels(pictures: Array) -> Array:
    return pictures.astype(np.float32).transpose(0, 3, 1, 2)


def _normal(pictures: Array, mean: Array, deviation: Array) -> Array:
    """RGB of 0 to 255 as networks are trained: of 0 to 1, less the mean, channels first."""
    return np.asarray((_first_channels(pictures) / 255 - mean) / deviation, np.float32)


IMAGENET = _column(0.485, 0.456, 0.406), _column(0.229, 0.224, 0.225)
CIFAR = _column(0.4914, 0.4822, 0.4465), _column(0.2023, 0.1994, 0.2010)


@cache
def imagenet() -> tuple[Array, Array]:
    """400 pictures of 224 x 224, those that the zoo scores with, and their classes."""
    files = sorted((ZOO / "data" / "imagenet224").glob("*.jpg"))
    files = [path for place, path in enumerate(files) if place % 5]
    pictures = [np.asarray(Image.open(path).convert("RGB")) for path in files]
    return np.stack(pictures), np.array([int(path.stem) for path in files])


@cache
def imagenet_normal() -> Data:
    """As torchvision prepares them."""
    pictures, labels = imagenet()
    return _normal(pictures, *IMAGENET), labels


def _cifar() -> tuple[Array, Array]:
    found = _npz("cifar10_lossless.npz")
    return found["x"], found["y"].astype(np.int64)


def _cifar_as(mean: Array, deviation: Array) -> Callable[[], Data]:
    @cache
    def samples() -> Data:
        pictures, labels = _cifar()
        return _normal(pictures, mean, deviation), labels

    return samples


@cache
def _cifar_codes() -> Data:
    pictures, labels = _cifar()
    return (pictures.astype(np.int16) - 128).astype(np.int8), labels


@cache
def _keywords() -> Data:
    """MFCCs in the codes of the model's input."""
    found = _npz("kws01_mfcc.npz")
    levels = np.rint(found["x"].transpose(0, 2, 3, 1) / np.float32(0.5847029089927673)) + 83
    return np.clip(levels, -128, 127).astype(np.int8), found["y"].astype(np.int64)


@cache
def _digits() -> Data:
    """MNIST, 0 to 255."""
    images, labels = (
        gzip.decompress((ZOO / "data" / f"t10k-{name}-ubyte.gz").read_bytes())
        for name in ("images-idx3", "labels-idx1")
    )
    pictures = np.frombuffer(images[16:], np.uint8).reshape(-1, 1, 28, 28)
    return pictures[:1000].astype(np.float32), np.frombuffer(labels[8:], np.uint8)[:1000]


def _digits_to(low: float, high: float) -> Callable[[], Data]:
    @cache
    def samples() -> Data:
        pictures, labels = _digits()
        return low + pictures / np.float32(255) * np.float32(high - low), labels

    return samples


def _photos(size: int, as_codes: bool = False, gray: bool = False) -> Callable[[], Data]:
    """The zoo's pictures and 16 of ImageNet: RGB in the model's size, no labels."""

    @cache
    def samples() -> Data:
        files = sorted((ZOO / "data" / "images").iterdir())
        files += sorted((ZOO / "data" / "imagenet224").glob("*.jpg"))[1:160:10]
        mode = "L" if gray else "RGB"
        pictures = [Image.open(path).convert(mode).resize((size, size)) for path in files]
        stacked = np.stack([np.asarray(each) for each in pictures])
        if as_codes:
            return stacked, None
        stacked = stacked[..., None] if gray else stacked
        return _first_channels(stacked) / np.float32(255), None

    return samples


def _random(*shape: int, low: float, high: float, smooth: bool = False) -> Callable[[], Data]:
    """32 samples in [low, high]; ``smooth``: running sums, as signals and spectra look."""

    @cache
    def samples() -> Data:
        rng = np.random.default_rng(0)
        values = rng.random((32, *shape))
        if smooth:
            walk = np.cumsum(rng.normal(size=values.shape), axis=-1)
            least, most = walk.min(axis=-1, keepdims=True), walk.max(axis=-1, keepdims=True)
            values = (walk - least) / (most - least)
        return (low + values * (high - low)).astype(np.float32), None

    return samples


@cache
def spectra() -> Data:
    """500 made-up spectrograms of 49 x 40 in [-5, 5]: noise, smooth along time and bins.

    Other noise, smooth in neither, is silence to the models.
    """
    rng = np.random.default_rng(0)
    along = [
        np.exp(-np.square(np.subtract.outer(np.arange(n), np.arange(n)) / width) / 2)
        for n, width in ((49, 5), (40, 3))
    ]
    fields = along[0] @ rng.normal(size=(500, 49, 40)) @ along[1]
    fields -= fields.mean(axis=(1, 2), keepdims=True)
    fields *= 3 / fields.std(axis=(1, 2), keepdims=True)
    levels = np.clip(fields + rng.uniform(-2, 4, (500, 1, 1)), -5, 5)
    return levels.reshape(500, -1).astype(np.float32), None


DYNAMIC, WEIGHTS = "dynamic", "weights only"

PUBLISHED = [
    Published("mobilenetv2_imagenet_qdq_s8s8", "Q/DQ int8", "ImageNet", imagenet_normal),
    Published("mobilenetv2_imagenet_qoperator", "QOperator", "ImageNet", imagenet_normal),
    Published("tflite_mobilenetv2_imagenet_qat_u8", "Q/DQ uint8", "ImageNet", imagenet, 1),
    Published("tinyml_mobilenetv3_cifar_qdq_s8", "Q/DQ int8", "CIFAR-10", _cifar_as(*CIFAR)),
    Published("tinyml_mobilenetv3_cifar_dyn", DYNAMIC, "CIFAR-10", _cifar_as(*CIFAR), 0, True),
    Published("tinycnn_esp_qoperator", "QOperator", "CIFAR-10", _cifar_as(*IMAGENET)),
    Published("tflite_mlperf_resnet8_int8", "Q/DQ int8", "CIFAR-10", _cifar_codes),
    Published("tflite_mlperf_kws_int8", "Q/DQ int8", "keywords", _keywords),
    Published("micro_kws_m_qdq", "Q/DQ int8", MADE_UP, spectra),
    Published("micro_kws_m_qoperator", "QOperator", MADE_UP, spectra),
    Published("micro_kws_m_qoperator_softmax", "QOperator", MADE_UP, spectra),
    Published("tfc_2w2a_brevitas", "QONNX", "MNIST", _digits_to(0, 1), 0, True),
    Published("tfc_2w2a_brevitas_qcdq", "Q/DQ, clipped", "MNIST", _digits_to(0, 1), 0, True),
    Published("espcn_nnresize_brevitas", "QONNX", "photos", _photos(128)),
    Published("espcn_nnresize_brevitas_qcdq", "Q/DQ, clipped", "photos", _photos(128)),
    Published("jettagging_qkeras", "QONNX", MADE_UP, _random(16, low=-3, high=3), 0, True),
    Published(
        "jettagging_qkeras_qcdq",
        "Q/DQ, clipped",
        MADE_UP,
        _random(16, low=-3, high=3),
        0,
        True,
    ),
    Published("ort_qdq_axis_snps", "Q/DQ int8", "MNIST", _digits),
    Published("ort_qdq_u8_block", "Q/DQ uint8", MADE_UP, _random(32, 56, 56, low=-6, high=6)),
    Published(
        "ort_qdq16_op21_block", "Q/DQ 16 bits", MADE_UP, _random(32, 56, 56, low=-6, high=6)
    ),
    Published(
        "ort_conv_convtranspose_s8", "Q/DQ int8", MADE_UP, _random(3, 24, 24, low=0, high=1)
    ),
    Published(
        "motor_fault_1dcnn_qdq",
        "Q/DQ int8",
        MADE_UP,
        _random(1, 128, low=0, high=0.43, smooth=True),
    ),
    Published("ece_cnn_v1_qdq", "Q/DQ uint8", "photos", _photos(96, gray=True)),
    Published("yolo_lpr_qdq_u8s8", "Q/DQ uint8", "photos", _photos(320), 0, True),
    Published("ssd_mobilenet_st_qdq", "Q/DQ int8", "photos", _photos(256, as_codes=True)),
    Published(
        "tflite_movenet_lightning_int8", "Q/DQ int8", "photos", _photos(192, as_codes=True)
    ),
    Published(
        "tflite_toycar_weightonly_int8",
        WEIGHTS,
        MADE_UP,
        _random(640, low=-60, high=0, smooth=True),
        0,
        True,
    ),
    Published("yolov8n_320_dyn_s8", DYNAMIC, "photos", _photos(320), 0, True),
]
"""All files of the folder."""
