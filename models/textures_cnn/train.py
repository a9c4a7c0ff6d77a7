"""Train a small CNN to tell ten pictures apart by 32x32 patches; write it as float ONNX.

Run it from anywhere; it writes next to itself and prints the numbers quoted in README.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import skimage
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

FOLDER = Path(__file__).parent
SEED = 0
PATCH = 32  # pixels along each side
TRAIN_SHARE = 0.55  # of a picture's columns, from the left; the others are for testing
TRAIN_PER_CLASS = 800
CALIBRATION_PER_CLASS = 10
TEST_PER_CLASS = 50
SATURATION = (0.2, 1.0)  # 0 is grey, 1 as it was
CONTRAST = (0.5, 1.2)
BRIGHTNESS = (-40, 40)  # added to pixels in 0..255
EPOCHS = 16
BATCH = 64
MAX_EXPORT_ERROR = 1e-4  # bound on |onnxruntime - PyTorch| over the test logits

# The usual ImageNet preprocessing, per channel: (pixel / 255 - MEAN) / STD.
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]


class Picture(NamedTuple):
    """A picture of scikit-image: cropped to box (left, upper, right, lower), then reduced."""

    file: str
    reduce: int = 1
    box: tuple[int, int, int, int] | None = None


# Folder of each class, in label order. The box keeps to the bright disc of the retina, whose
# vessels fill a patch after reducing.
CLASSES = {
    "0_brick": Picture("brick.png"),
    "1_camera": Picture("camera.png"),
    "2_cell": Picture("cell.png"),
    "3_chelsea": Picture("chelsea.png"),
    "4_coffee": Picture("coffee.png"),
    "5_grass": Picture("grass.png"),
    "6_gravel": Picture("gravel.png"),
    "7_hubble": Picture("hubble_deep_field.jpg"),
    "8_retina": Picture("retina.jpg", 2, (206, 206, 1206, 1206)),
    "9_rocket": Picture("rocket.jpg"),
}


class Patches(NamedTuple):
    """Pixels are uint8 [n, 32, 32, 3], RGB; labels are int64 [n] in 0..9."""

    pixels: Pixels
    labels: NDArray[np.int64]


def cut_patches() -> tuple[Patches, Patches, Patches]:
    """Cut every picture the same way every time; returns train, calibration and test."""
    random = np.random.default_rng(SEED)
    train, calibration, test = [], [], []
    for picture in CLASSES.values():
        left, right = regions(picture)
        train.append(relit(windows(left, 1, TRAIN_PER_CLASS, random), random))
        calibration.append(relit(windows(left, PATCH, CALIBRATION_PER_CLASS, random), random))
        test.append(relit(windows(right, PATCH, TEST_PER_CLASS, random), random))
    return labelled(train), labelled(calibration), labelled(test)


def regions(picture: Picture) -> tuple[Pixels, Pixels]:
    """The columns to train on and the columns to test on, as [height, width, 3]."""
    image = Image.open(Path(skimage.__file__).parent / "data" / picture.file)
    pixels = np.asarray(image.convert("RGB").crop(picture.box).reduce(picture.reduce))
    border = round(pixels.shape[1] * TRAIN_SHARE)
    return pixels[:, :border], pixels[:, border:]


def windows(region: Pixels, step: int, count: int, random: np.random.Generator) -> Pixels:
    """Draw distinct windows whose corners are multiples of `step`: 32 means no overlap."""
    every = np.lib.stride_tricks.sliding_window_view(region, (PATCH, PATCH), (0, 1))
    candidates = every[::step, ::step]  # [rows, columns, 3, 32, 32], a view
    corners = candidates.shape[:2]
    chosen = random.choice(corners[0] * corners[1], count, replace=False)
    return candidates[np.unravel_index(chosen, corners)].transpose(0, 2, 3, 1)


def relit(patches: Pixels, random: np.random.Generator) -> Pixels:
    """Change saturation, contrast and brightness of each patch: colour tells too much."""
    saturation, contrast, brightness = (
        random.uniform(low, high, (len(patches), 1, 1, 1))
        for low, high in (SATURATION, CONTRAST, BRIGHTNESS)
    )
    grey = patches.mean(axis=3, keepdims=True)
    mean = grey.mean(axis=(1, 2), keepdims=True)
    faded = grey + saturation * (patches - grey)
    changed = mean + contrast * (faded - mean) + brightness
    return changed.round().clip(0, 255).astype(np.uint8)


def labelled(per_class: list[Pixels]) -> Patches:
    """Stack the patches of all classes, in label order."""
    counts = [len(patches) for patches in per_class]
    return Patches(np.concatenate(per_class), np.repeat(np.arange(len(counts)), counts))


def preprocessed(pixels: Pixels) -> Floats:
    """Map uint8 [n, 32, 32, 3] to what the model takes, float32 [n, 3, 32, 32]."""
    scaled = (pixels / 255 - np.array(MEAN)) / np.array(STD)
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2), dtype=np.float32)


class ConvBn(nn.Module):
    """A bias-free Conv padded to keep the size, then BatchNormalization."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, inputs, H, W] to [N, outputs, H, W]."""
        y: Tensor = self.bn(self.conv(x))
        return y


class ConvBias(nn.Module):
    """A 1x1 Conv with a bias."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, inputs, H, W] to [N, outputs, H, W]."""
        y: Tensor = self.conv(x)
        return y


class TexturesCnn(nn.Module):
    """Module paths match the node names of NODES: fire.narrow.conv, fire/narrow/conv."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvBn(3, 16, 3)
        self.fire = nn.ModuleDict(
            {
                "squeeze": ConvBias(16, 12),
                "narrow": ConvBn(12, 16, 1),
                "wide": ConvBn(12, 24, 3),
            }
        )
        self.inception = nn.ModuleDict(
            {
                "narrow": ConvBn(40, 16, 1),
                "squeeze": ConvBias(40, 16),
                "wide": ConvBn(16, 32, 3),
                "pooled": ConvBias(40, 16),
            }
        )
        self.head = ConvBn(64, 24, 3)
        self.logits = nn.Linear(24 * 2 * 2, len(CLASSES))

    def forward(self, image: Tensor) -> Tensor:
        """Map images [N, 3, 32, 32] to logits [N, 10]."""
        stem = F.max_pool2d(F.relu(self.stem(image)), 2)

        squeeze = F.relu(self.fire["squeeze"](stem))
        narrow = F.relu(self.fire["narrow"](squeeze))
        wide = F.relu(self.fire["wide"](squeeze))
        fire = F.max_pool2d(torch.cat([narrow, wide], dim=1), 2)

        narrow = F.relu(self.inception["narrow"](fire))
        wide = F.relu(self.inception["wide"](F.relu(self.inception["squeeze"](fire))))
        neighbours = F.max_pool2d(fire, 3, stride=1, padding=1)
        pooled = F.relu(self.inception["pooled"](neighbours))
        inception = F.max_pool2d(torch.cat([narrow, wide, pooled], dim=1), 2)

        head = F.max_pool2d(F.relu(self.head(inception)), 2)
        logits: Tensor = self.logits(head.flatten(1))
        return logits


BN = {"epsilon": 1e-5}
CONV_1X1 = {"kernel_shape": [1, 1]}
CONV_3X3 = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
POOL_2X2 = {"kernel_shape": [2, 2], "strides": [2, 2]}
POOL_3X3 = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
CHANNELS = {"axis": 1}

# The network again, as ONNX nodes, because PyTorch's exporter may fold BatchNormalization.
# Each row: node name (also the name of its output), operator, input tensors, attributes.
# A node's trained parameters follow its inputs; see `onnx_nodes`.
NODES: list[tuple[str, str, list[str], dict[str, Any]]] = [
    ("stem/conv", "Conv", ["image"], CONV_3X3),
    ("stem/bn", "BatchNormalization", ["stem/conv"], BN),
    ("stem/relu", "Relu", ["stem/bn"], {}),
    ("stem/max_pool", "MaxPool", ["stem/relu"], POOL_2X2),
    ("fire/squeeze/conv", "Conv", ["stem/max_pool"], CONV_1X1),
    ("fire/squeeze/relu", "Relu", ["fire/squeeze/conv"], {}),
    ("fire/narrow/conv", "Conv", ["fire/squeeze/relu"], CONV_1X1),
    ("fire/narrow/bn", "BatchNormalization", ["fire/narrow/conv"], BN),
    ("fire/narrow/relu", "Relu", ["fire/narrow/bn"], {}),
    ("fire/wide/conv", "Conv", ["fire/squeeze/relu"], CONV_3X3),
    ("fire/wide/bn", "BatchNormalization", ["fire/wide/conv"], BN),
    ("fire/wide/relu", "Relu", ["fire/wide/bn"], {}),
    ("fire/concat", "Concat", ["fire/narrow/relu", "fire/wide/relu"], CHANNELS),
    ("fire/max_pool", "MaxPool", ["fire/concat"], POOL_2X2),
    ("inception/narrow/conv", "Conv", ["fire/max_pool"], CONV_1X1),
    ("inception/narrow/bn", "BatchNormalization", ["inception/narrow/conv"], BN),
    ("inception/narrow/relu", "Relu", ["inception/narrow/bn"], {}),
    ("inception/squeeze/conv", "Conv", ["fire/max_pool"], CONV_1X1),
    ("inception/squeeze/relu", "Relu", ["inception/squeeze/conv"], {}),
    ("inception/wide/conv", "Conv", ["inception/squeeze/relu"], CONV_3X3),
    ("inception/wide/bn", "BatchNormalization", ["inception/wide/conv"], BN),
    ("inception/wide/relu", "Relu", ["inception/wide/bn"], {}),
    ("inception/pooled/max_pool", "MaxPool", ["fire/max_pool"], POOL_3X3),
    ("inception/pooled/conv", "Conv", ["inception/pooled/max_pool"], CONV_1X1),
    ("inception/pooled/relu", "Relu", ["inception/pooled/conv"], {}),
    (
        "inception/concat",
        "Concat",
        ["inception/narrow/relu", "inception/wide/relu", "inception/pooled/relu"],
        CHANNELS,
    ),
    ("inception/max_pool", "MaxPool", ["inception/concat"], POOL_2X2),
    ("head/conv", "Conv", ["inception/max_pool"], CONV_3X3),
    ("head/bn", "BatchNormalization", ["head/conv"], BN),
    ("head/relu", "Relu", ["head/bn"], {}),
    ("head/max_pool", "MaxPool", ["head/relu"], POOL_2X2),
    ("head/flatten", "Flatten", ["head/max_pool"], {"axis": 1}),
    ("logits", "Gemm", ["head/flatten"], {"transB": 1}),
]


def train(patches: Patches) -> TexturesCnn:
    """Train for a fixed number of epochs; no other data steers it."""
    torch.manual_seed(SEED)
    model = TexturesCnn()
    x = torch.from_numpy(preprocessed(patches.pixels))
    y = torch.from_numpy(patches.labels)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    full_batches = len(x) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.01, total_steps=EPOCHS * full_batches
    )
    for _ in range(EPOCHS):
        # Full batches only: a small one would put noisy statistics into the BN averages.
        for batch in torch.randperm(len(x))[: full_batches * BATCH].view(-1, BATCH):
            loss = F.cross_entropy(model(mirrored(x[batch])), y[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def mirrored(images: Tensor) -> Tensor:
    """Mirror a batch, or not, along each axis."""
    return images.flip([axis for axis in (2, 3) if torch.rand(()) < 0.5])


def to_onnx(model: TexturesCnn) -> onnx.ModelProto:
    """Write NODES with the trained parameters; image [N, 3, 32, 32] to logits [N, 10]."""
    parameters = {
        name.replace(".", "/"): value.numpy()
        for name, value in model.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, PATCH, PATCH])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", len(CLASSES)])
    graph = helper.make_graph(
        onnx_nodes(list(parameters)),
        "textures_cnn",
        [image],
        [logits],
        [numpy_helper.from_array(value, name) for name, value in parameters.items()],
    )
    opset = helper.make_opsetid("", 17)
    exported = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    onnx.checker.check_model(exported, full_check=True)
    return exported


def onnx_nodes(parameters: list[str]) -> list[onnx.NodeProto]:
    """Give each node the parameters under its name; PyTorch lists them in ONNX's order."""
    nodes = []
    for name, op_type, inputs, attributes in NODES:
        own = [p for p in parameters if p.rpartition("/")[0] == name]
        nodes.append(helper.make_node(op_type, inputs + own, [name], name, **attributes))
    return nodes


def onnx_logits(exported: bytes, images: Floats) -> Floats:
    """Run the exported model on onnxruntime; returns float32 [n, 10]."""
    session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], {"image": images})
    return np.asarray(logits)


def write_pictures(patches: Patches, folder: Path) -> None:
    """Write every patch as folder/class/NNNN.png, numbered from 0 in each class."""
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number, pixels in enumerate(patches.pixels[patches.labels == label]):
            Image.fromarray(pixels).save(folder / name / f"{number:04}.png", optimize=True)


def read_pictures(folder: Path) -> Patches:
    """Read what `write_pictures` wrote: classes in label order, pictures in file order."""
    files = [sorted((folder / name).glob("*.png")) for name in CLASSES]
    return labelled([np.stack([np.asarray(Image.open(f)) for f in own]) for own in files])


def main() -> None:
    """Train, check the export against PyTorch, write the files, print the numbers."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    train_patches, calibration, test = cut_patches()
    model = train(train_patches)
    exported = to_onnx(model).SerializeToString(deterministic=True)

    (FOLDER / "textures_cnn.onnx").write_bytes(exported)
    write_pictures(calibration, FOLDER / "calibration")
    write_pictures(test, FOLDER / "test")

    written = read_pictures(FOLDER / "test")
    images = preprocessed(written.pixels)
    logits = onnx_logits(exported, images)
    with torch.no_grad():
        expected = model(torch.from_numpy(images)).numpy()
    error = float(np.abs(logits - expected).max())
    assert error < MAX_EXPORT_ERROR, f"onnxruntime differs from PyTorch by {error:.2e}"

    right = logits.argmax(axis=1) == written.labels
    print(f"max |onnxruntime - PyTorch| over the test logits: {error:.1e}")
    print(f"float test accuracy: {right.sum()}/{len(right)} = {right.mean():.2%}")


if __name__ == "__main__":
    main()
