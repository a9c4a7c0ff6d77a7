"""Train a small CNN on scikit-learn's digits and write it as a float ONNX model.

Run it from anywhere; it writes next to itself and prints the numbers quoted in README.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]
from torch import Tensor, nn
from torch.nn import functional as F

FOLDER = Path(__file__).parent
SEED = 0
TEST_SAMPLES = 600
CALIBRATION_SAMPLES = 100
LARGEST_PIXEL = 16
EPOCHS = 60
BATCH = 64
MAX_EXPORT_ERROR = 1e-4  # bound on |onnxruntime - PyTorch| over the test logits

Images = NDArray[np.float32]
Labels = NDArray[np.int64]


class Split(NamedTuple):
    """Images are float32 [n, 1, 8, 8] in 0..1; labels are int64 [n] in 0..9."""

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels
    calibration_images: Images  # a subset of train_images, balanced over the classes


def split_digits() -> Split:
    """Load the 1797 digits and split them the same way every time."""
    raw, labels = load_digits(return_X_y=True)
    images = (raw / LARGEST_PIXEL).astype(np.float32).reshape(-1, 1, 8, 8)
    labels = labels.astype(np.int64)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=TEST_SAMPLES, stratify=labels, random_state=SEED
    )
    calibration_images, _ = train_test_split(
        train_images, train_size=CALIBRATION_SAMPLES, stratify=train_labels, random_state=SEED
    )
    return Split(train_images, train_labels, test_images, test_labels, calibration_images)


class ConvBn(nn.Module):
    """A bias-free Conv (padded to keep the size when stride is 1), then BatchNormalization."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(
            inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False
        )
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, inputs, H, W] to [N, outputs, ceil(H / stride), ceil(W / stride)]."""
        y: Tensor = self.bn(self.conv(x))
        return y


class DigitsCnn(nn.Module):
    """Module paths match the node names of NODES: down.depthwise.conv, down/depthwise/conv."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvBn(1, 16, 3)
        self.residual = nn.ModuleDict(
            {"first": ConvBn(16, 16, 3), "second": ConvBn(16, 16, 3)}
        )
        self.down = nn.ModuleDict(
            {
                "depthwise": ConvBn(16, 16, 3, stride=2, groups=16),
                "pointwise": ConvBn(16, 32, 1),
                "shortcut": ConvBn(16, 32, 1),
            }
        )
        self.head = ConvBn(32, 32, 3)
        self.logits = nn.Linear(32, 10)

    def forward(self, image: Tensor) -> Tensor:
        """Map images [N, 1, 8, 8] to logits [N, 10]."""
        stem = F.relu(self.stem(image))
        first = F.relu(self.residual["first"](stem))
        residual = F.relu(self.residual["second"](first) + stem)
        depthwise = F.relu(self.down["depthwise"](residual))
        shortcut = self.down["shortcut"](F.avg_pool2d(residual, 2))
        down = F.relu(self.down["pointwise"](depthwise) + shortcut)
        head = F.max_pool2d(F.relu(self.head(down)), 2)
        logits: Tensor = self.logits(head.mean(dim=(2, 3)))
        return logits


BN = {"epsilon": 1e-5}
CONV_1X1 = {"kernel_shape": [1, 1]}
CONV_3X3 = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
DEPTHWISE = {**CONV_3X3, "strides": [2, 2], "group": 16}
POOL_2X2 = {"kernel_shape": [2, 2], "strides": [2, 2]}

# The network again, as ONNX nodes, because PyTorch's exporter may fold BatchNormalization.
# Each row: node name (also the name of its output), operator, input tensors, attributes.
# A node's trained parameters follow its inputs; see `onnx_nodes`.
NODES: list[tuple[str, str, list[str], dict[str, Any]]] = [
    ("stem/conv", "Conv", ["image"], CONV_3X3),
    ("stem/bn", "BatchNormalization", ["stem/conv"], BN),
    ("stem/relu", "Relu", ["stem/bn"], {}),
    ("residual/first/conv", "Conv", ["stem/relu"], CONV_3X3),
    ("residual/first/bn", "BatchNormalization", ["residual/first/conv"], BN),
    ("residual/first/relu", "Relu", ["residual/first/bn"], {}),
    ("residual/second/conv", "Conv", ["residual/first/relu"], CONV_3X3),
    ("residual/second/bn", "BatchNormalization", ["residual/second/conv"], BN),
    ("residual/add", "Add", ["residual/second/bn", "stem/relu"], {}),
    ("residual/relu", "Relu", ["residual/add"], {}),
    ("down/depthwise/conv", "Conv", ["residual/relu"], DEPTHWISE),
    ("down/depthwise/bn", "BatchNormalization", ["down/depthwise/conv"], BN),
    ("down/depthwise/relu", "Relu", ["down/depthwise/bn"], {}),
    ("down/pointwise/conv", "Conv", ["down/depthwise/relu"], CONV_1X1),
    ("down/pointwise/bn", "BatchNormalization", ["down/pointwise/conv"], BN),
    ("down/shortcut/pool", "AveragePool", ["residual/relu"], POOL_2X2),
    ("down/shortcut/conv", "Conv", ["down/shortcut/pool"], CONV_1X1),
    ("down/shortcut/bn", "BatchNormalization", ["down/shortcut/conv"], BN),
    ("down/add", "Add", ["down/pointwise/bn", "down/shortcut/bn"], {}),
    ("down/relu", "Relu", ["down/add"], {}),
    ("head/conv", "Conv", ["down/relu"], CONV_3X3),
    ("head/bn", "BatchNormalization", ["head/conv"], BN),
    ("head/relu", "Relu", ["head/bn"], {}),
    ("head/max_pool", "MaxPool", ["head/relu"], POOL_2X2),
    ("head/mean", "GlobalAveragePool", ["head/max_pool"], {}),
    ("head/flatten", "Flatten", ["head/mean"], {"axis": 1}),
    ("logits", "Gemm", ["head/flatten"], {"transB": 1}),
]


def train(images: Images, labels: Labels) -> DigitsCnn:
    """Train for a fixed number of epochs; no other data steers it."""
    torch.manual_seed(SEED)
    model = DigitsCnn()
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    full_batches = len(x) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.01, total_steps=EPOCHS * full_batches
    )
    for _ in range(EPOCHS):
        # Full batches only: a small one would put noisy statistics into the BN averages.
        for batch in torch.randperm(len(x))[: full_batches * BATCH].view(-1, BATCH):
            loss = F.cross_entropy(model(shifted(x[batch])), y[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # PyTorch leaves it untyped
            optimizer.step()
            schedule.step()
    return model.eval()


def shifted(images: Tensor) -> Tensor:
    """Move each image by -1, 0 or 1 pixels along both axes, filling with background."""
    padded = F.pad(images, (1, 1, 1, 1))
    offsets = torch.randint(0, 3, (len(images), 2)).tolist()
    crops = [
        image[:, top : top + 8, left : left + 8]
        for image, (top, left) in zip(padded, offsets, strict=True)
    ]
    return torch.stack(crops)


def to_onnx(model: DigitsCnn) -> onnx.ModelProto:
    """Write NODES with the trained parameters; image [N, 1, 8, 8] to logits [N, 10]."""
    parameters = {
        name.replace(".", "/"): value.numpy()
        for name, value in model.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    graph = helper.make_graph(
        onnx_nodes(list(parameters)),
        "digits_cnn",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])],
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


def onnx_logits(exported: bytes, images: Images) -> Images:
    """Run the exported model on onnxruntime; returns float32 [n, 10]."""
    session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], {"image": images})
    return np.asarray(logits)


def main() -> None:
    """Train, check the export against PyTorch, write the files, print the numbers."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    split = split_digits()
    model = train(split.train_images, split.train_labels)
    exported = to_onnx(model).SerializeToString(deterministic=True)

    logits = onnx_logits(exported, split.test_images)
    with torch.no_grad():
        expected = model(torch.from_numpy(split.test_images)).numpy()
    error = float(np.abs(logits - expected).max())
    assert error < MAX_EXPORT_ERROR, f"onnxruntime differs from PyTorch by {error:.2e}"

    (FOLDER / "digits_cnn.onnx").write_bytes(exported)
    np.savez_compressed(FOLDER / "calibration.npz", image=split.calibration_images)
    np.savez_compressed(FOLDER / "test.npz", image=split.test_images)
    np.save(FOLDER / "test_labels.npy", split.test_labels)

    correct = int((logits.argmax(axis=1) == split.test_labels).sum())
    total = len(split.test_labels)
    print(f"max |onnxruntime - PyTorch| over the test logits: {error:.1e}")
    print(f"float test accuracy: {correct}/{total} = {correct / total:.2%}")


if __name__ == "__main__":
    main()
