"""Train a small vision transformer on scikit-learn's digits and write it as float ONNX.

Run it from anywhere; it writes next to itself and prints the numbers quoted in README.md.
Split and files of samples are those of ../digits_cnn, which it reads.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits  # type: ignore[import-untyped]
from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]
from torch import Tensor, nn
from torch.nn import functional as F

FOLDER = Path(__file__).parent
DIGITS_CNN = FOLDER.parent / "digits_cnn"
SEED = 0
LARGEST_PIXEL = 16
PATCH = 2  # pixels along each side
TOKENS = 1 + (8 // PATCH) ** 2  # the class token, then the patches row by row
WIDTH = 48
BLOCKS = 4
HEADS = 4
HIDDEN = 3 * WIDTH  # between the two layers of an MLP
EPOCHS = 300
BATCH = 64
LEARNING_RATE = 2e-3  # the largest of its schedule
MAX_EXPORT_ERROR = 1e-4  # bound on |onnxruntime - PyTorch| over the test logits

Images = NDArray[np.float32]
Labels = NDArray[np.int64]


def train_digits() -> tuple[Images, Labels]:
    """The digits that digits_cnn trains on: the same split, which leaves the same test set."""
    raw, labels = load_digits(return_X_y=True)
    images = (raw / LARGEST_PIXEL).astype(np.float32).reshape(-1, 1, 8, 8)
    test_images, test_labels = test_digits()
    train_images, other_images, train_labels, other_labels = train_test_split(
        images,
        labels.astype(np.int64),
        test_size=len(test_labels),
        stratify=labels,
        random_state=SEED,
    )
    assert np.array_equal(other_images, test_images)
    assert np.array_equal(other_labels, test_labels)
    return train_images, train_labels


def test_digits() -> tuple[Images, Labels]:
    """The test set of digits_cnn: float32 [600, 1, 8, 8] in 0..1, int64 [600] in 0..9."""
    images = np.load(DIGITS_CNN / "test.npz")["image"]
    return images, np.load(DIGITS_CNN / "test_labels.npy")


class Attention(nn.Module):
    """Self-attention of several heads; queries, keys and values come of one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.softmax = nn.Softmax(dim=-1)
        self.projection = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, tokens, width] to the same shape."""
        batch, tokens, _ = x.shape
        heads = self.qkv(x).reshape(batch, tokens, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)  # [N, heads, tokens, :]
        scores = query @ key.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
        mixed = self.softmax(scores) @ value
        y: Tensor = self.projection(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))
        return y


class Mlp(nn.Module):
    """Two layers with GELU between them, for each token on its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, HIDDEN)
        self.gelu = nn.GELU()
        self.second = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, tokens, width] to the same shape."""
        y: Tensor = self.second(self.gelu(self.first(x)))
        return y


class Block(nn.Module):
    """Attention, then an MLP, each behind a LayerNorm and added to what it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = Mlp()

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, tokens, width] to the same shape."""
        x = x + self.attention(self.norm1(x))
        y: Tensor = x + self.mlp(self.norm2(x))
        return y


class DigitsVit(nn.Module):
    """A pre-norm vision transformer that reads the digit off its class token."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, WIDTH, PATCH, PATCH)
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, WIDTH))
        self.position = nn.Parameter(0.02 * torch.randn(1, TOKENS, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.logits = nn.Linear(WIDTH, 10)

    def forward(self, image: Tensor) -> Tensor:
        """Map images [N, 1, 8, 8] to logits [N, 10]."""
        patches = self.patches(image).flatten(2).transpose(1, 2)
        class_token = self.class_token.expand(image.shape[0], -1, -1)
        tokens = torch.cat([class_token, patches], dim=1) + self.position
        logits: Tensor = self.logits(self.norm(self.blocks(tokens))[:, 0])
        return logits


def train(images: Images, labels: Labels) -> DigitsVit:
    """Train for a fixed number of epochs; no other data steers it."""
    torch.manual_seed(SEED)
    model = DigitsVit()
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    full_batches = len(x) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=LEARNING_RATE, total_steps=EPOCHS * full_batches
    )
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x))[: full_batches * BATCH].view(-1, BATCH):
            loss = F.cross_entropy(model(shifted(x[batch])), y[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # PyTorch leaves it untyped
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
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


def to_onnx(model: DigitsVit) -> onnx.ModelProto:
    """Export by tracing, which names nodes after modules; image [N, 1, 8, 8] to logits."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            model,
            (torch.zeros(2, 1, 8, 8),),
            Path(folder) / "model.onnx",
            dynamo=False,
            opset_version=17,
            input_names=["image"],
            output_names=["logits"],
            dynamic_axes={"image": {0: "N"}, "logits": {0: "N"}},
        )
        traced = onnx.load(Path(folder) / "model.onnx")
    graph = traced.graph
    for node in graph.node:
        node.ClearField("doc_string")
    graph.name = "digits_vit"
    exported = onnx.ModelProto(
        ir_version=traced.ir_version, opset_import=traced.opset_import, graph=graph
    )
    onnx.checker.check_model(exported, full_check=True)
    return exported


def onnx_logits(exported: bytes, images: Images) -> Images:
    """Run the exported model on onnxruntime; returns float32 [n, 10]."""
    session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], {"image": images})
    return np.asarray(logits)


def main() -> None:
    """Train, check the export against PyTorch, write the model, print the numbers."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    model = train(*train_digits())
    exported = to_onnx(model).SerializeToString(deterministic=True)

    images, labels = test_digits()
    logits = onnx_logits(exported, images)
    with torch.no_grad():
        expected = model(torch.from_numpy(images)).numpy()
    error = float(np.abs(logits - expected).max())
    assert error < MAX_EXPORT_ERROR, f"onnxruntime differs from PyTorch by {error:.2e}"

    (FOLDER / "digits_vit.onnx").write_bytes(exported)

    correct = int((logits.argmax(axis=1) == labels).sum())
    total = len(labels)
    print(f"max |onnxruntime - PyTorch| over the test logits: {error:.1e}")
    print(f"float test accuracy: {correct}/{total} = {correct / total:.2%}")


if __name__ == "__main__":
    main()
