"""Train a small CNN on scikit-learn's digits, quantization-aware, and write it as Q/DQ ONNX.

Run it from anywhere; it writes next to itself and prints the numbers quoted in README.md.
Split and files of samples are those of ../digits_cnn, which it reads.

Three phases: float training with BatchNormalization; BatchNormalization folded, and a range
observed for each quantizer; training with fake quantization, which learns weights and scales.
"""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
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
from torch.nn.utils.fusion import fuse_conv_bn_weights

FOLDER = Path(__file__).parent
DIGITS_CNN = FOLDER.parent / "digits_cnn"
SEED = 0
LARGEST_PIXEL = 16
BATCH = 64
FLOAT_EPOCHS = 60
FLOAT_RATE = 0.01  # the largest learning rate of its schedule, as below
QUANTIZED_EPOCHS = 30
QUANTIZED_RATE = 1e-3
LARGEST_WEIGHT = 127  # in codes: narrow range, -128 stays unused
MAX_EXPORT_STEPS = 2  # bound on |onnxruntime - PyTorch| over the test logits, in output codes

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


class Quantizer(nn.Module):
    """Fake quantization of a tensor by one scale: what its three subclasses share.

    It starts in float and remembers the range of what it saw last; `start` turns that range
    into a scale and a zero point; training learns the scale; `freeze` ends that.
    """

    lowest_code, highest_code = -128, 127

    def __init__(self) -> None:
        super().__init__()
        self.log_scale: nn.Parameter | None = None  # learned as a logarithm, so above zero
        self.register_buffer("scale", None)
        self.register_buffer("zero_point", torch.zeros((), dtype=torch.int32))
        self.seen = (0.0, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Map reals to reals, the multiples of the scale once it has started."""
        if self.log_scale is None:
            self.seen = (x.detach().min().item(), x.detach().max().item())
            return self.in_float(x)
        if self.scale is None:
            return self.straight_through(x)
        return torch.fake_quantize_per_tensor_affine(
            x, self.scale, self.zero_point, self.lowest_code, self.highest_code
        )

    def in_float(self, x: Tensor) -> Tensor:
        """The function that the quantizer computes but for rounding and its upper end."""
        return x

    def straight_through(self, x: Tensor) -> Tensor:
        """Let gradients past the rounding; those of the scale are LSQ's (arXiv:1902.08153)."""
        scale = self.log_scale.exp()
        quotient = x / scale
        rounded = quotient + (quotient.round() - quotient).detach()
        codes = (rounded + self.zero_point).clamp(self.lowest_code, self.highest_code)
        return (codes - self.zero_point) * scale

    def observed(self) -> tuple[float, int]:
        """The scale and zero point that just hold the range seen last."""
        raise NotImplementedError

    def start(self) -> None:
        """Quantize from now on, by a scale that training changes."""
        scale, zero_point = self.observed()
        self.log_scale = nn.Parameter(torch.tensor(scale).log())
        self.zero_point.fill_(zero_point)

    def freeze(self) -> None:
        """Quantize by PyTorch's own operator, which torch.onnx exports."""
        self.scale = self.log_scale.detach().exp()


class Unsigned(Quantizer):
    """uint8 at zero point 0: its lower end is the ReLU of the layer that it follows."""

    lowest_code, highest_code = 0, 255

    def in_float(self, x: Tensor) -> Tensor:
        """What is below zero becomes code 0."""
        return F.relu(x)

    def observed(self) -> tuple[float, int]:
        """255 codes from 0 to the largest."""
        return max(self.seen) / 255, 0


class Symmetric(Quantizer):
    """int8 at zero point 0."""

    def observed(self) -> tuple[float, int]:
        """127 codes on either side of 0."""
        return max(abs(end) for end in self.seen) / 127, 0


class Asymmetric(Quantizer):
    """int8 at the zero point that uses all codes."""

    def observed(self) -> tuple[float, int]:
        """255 codes from the smallest to the largest, 0 among them."""
        low, high = min(self.seen[0], 0.0), max(self.seen[1], 0.0)
        scale = (high - low) / 255
        return scale, round(-128 - low / scale)


class WeightQuantizer(nn.Module):
    """int8 codes from -127 to 127, a scale for each output channel that fits its weights."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.started = False
        self.register_buffer("scale", None)
        self.register_buffer("zero_point", torch.zeros(outputs, dtype=torch.int32))

    def forward(self, weight: Tensor) -> Tensor:
        """Map [outputs, ...] to the same shape."""
        if not self.started:
            return weight
        scale = fitting(weight) if self.scale is None else self.scale
        # torch.onnx exports -128 to 127 alone; these scales leave -128 unused.
        return torch.fake_quantize_per_channel_affine(
            weight, scale, self.zero_point, axis=0, quant_min=-128, quant_max=127
        )


def fitting(weight: Tensor) -> Tensor:
    """The scales [outputs] by which the largest weight of each channel is code 127."""
    return weight.detach().flatten(1).abs().amax(dim=1) / LARGEST_WEIGHT


class ConvBn(nn.Conv2d):
    """A Conv of quantized weights (padded to keep the size when stride is 1), then BN."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__(
            inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False
        )
        self.bn: nn.Module = nn.BatchNorm2d(outputs)
        self.quantizer = WeightQuantizer(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, inputs, H, W] to [N, outputs, ceil(H / stride), ceil(W / stride)]."""
        weight = self.quantizer(self.weight)
        y: Tensor = self.bn(
            F.conv2d(x, weight, self.bias, self.stride, self.padding, groups=self.groups)
        )
        return y

    def fold(self) -> None:
        """Move BatchNormalization, by its running averages, into weights and a bias."""
        bn = self.bn
        assert isinstance(bn, nn.BatchNorm2d)
        self.weight, self.bias = fuse_conv_bn_weights(
            self.weight, self.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
        )
        self.bn = nn.Identity()


class Linear(nn.Linear):
    """A linear layer of quantized weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.quantizer = WeightQuantizer(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, inputs] to [N, outputs]."""
        return F.linear(x, self.quantizer(self.weight), self.bias)


class DigitsQat(nn.Module):
    """Each line of `forward` ends in the quantizer of what it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.image = Unsigned()
        self.stem = nn.Sequential(ConvBn(1, 16, 3), Unsigned())
        self.first = nn.Sequential(ConvBn(16, 16, 3), Unsigned())
        self.second = nn.Sequential(ConvBn(16, 16, 3), Symmetric())
        self.residual = Unsigned()
        self.depthwise = nn.Sequential(ConvBn(16, 16, 3, stride=2, groups=16), Asymmetric())
        self.activation = nn.Sequential(nn.Hardswish(), Asymmetric())
        self.pointwise = nn.Sequential(ConvBn(16, 32, 1), Symmetric())
        self.pool = nn.Sequential(nn.AvgPool2d(2), Unsigned())
        self.shortcut = nn.Sequential(ConvBn(16, 32, 1), Asymmetric())
        self.down = Asymmetric()
        self.head = nn.Sequential(ConvBn(32, 32, 3), Unsigned())
        self.mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), Unsigned())
        self.logits = nn.Sequential(nn.Flatten(), Linear(32, 10), Asymmetric())

    def forward(self, image: Tensor) -> Tensor:
        """Map images [N, 1, 8, 8] to logits [N, 10]."""
        stem = self.stem(self.image(image))
        residual = self.residual(self.second(self.first(stem)) + stem)
        pointwise = self.pointwise(self.activation(self.depthwise(residual)))
        down = self.down(pointwise + self.shortcut(self.pool(residual)))
        logits: Tensor = self.logits(self.mean(self.head(down)))
        return logits


def train(images: Images, labels: Labels) -> tuple[DigitsQat, Tensor]:
    """Train in float, then quantized; no other data steers it. Also the float test logits."""
    torch.manual_seed(SEED)
    model = DigitsQat()
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    fit(model, x, y, FLOAT_EPOCHS, FLOAT_RATE)
    with torch.no_grad():
        model.eval()
        float_logits = model(torch.from_numpy(test_digits()[0]))
        fold(model)
        start_quantizing(model, x)
    fit(model.train(), x, y, QUANTIZED_EPOCHS, QUANTIZED_RATE)
    freeze(model)
    return model.eval(), float_logits


def fit(model: nn.Module, x: Tensor, y: Tensor, epochs: int, rate: float) -> None:
    """Train for a fixed number of epochs."""
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    full_batches = len(x) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=rate, total_steps=epochs * full_batches
    )
    for _ in range(epochs):
        # Full batches only: a small one would put noisy statistics into the BN averages.
        for batch in torch.randperm(len(x))[: full_batches * BATCH].view(-1, BATCH):
            loss = F.cross_entropy(model(shifted(x[batch])), y[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # PyTorch leaves it untyped
            optimizer.step()
            schedule.step()


def shifted(images: Tensor) -> Tensor:
    """Move each image by -1, 0 or 1 pixels along both axes, filling with background."""
    padded = F.pad(images, (1, 1, 1, 1))
    offsets = torch.randint(0, 3, (len(images), 2)).tolist()
    crops = [
        image[:, top : top + 8, left : left + 8]
        for image, (top, left) in zip(padded, offsets, strict=True)
    ]
    return torch.stack(crops)


def fold(model: nn.Module) -> None:
    """Fold every BatchNormalization into the Conv before it."""
    for module in list(model.modules()):
        if isinstance(module, ConvBn):
            module.fold()


def start_quantizing(model: nn.Module, images: Tensor) -> None:
    """Let each quantizer start from the range that it sees over these images."""
    model(images)
    for module in model.modules():
        if isinstance(module, Quantizer):
            module.start()
        elif isinstance(module, WeightQuantizer):
            module.started = True


def freeze(model: nn.Module) -> None:
    """Make constants of all scales."""
    for module in model.modules():
        if isinstance(module, Quantizer):
            module.freeze()
        elif isinstance(module, ConvBn | Linear):
            module.quantizer.scale = fitting(module.weight)


def to_onnx(model: DigitsQat) -> onnx.ModelProto:
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
    graph.name = "digits_qat"
    exported = onnx.ModelProto(
        ir_version=traced.ir_version, opset_import=traced.opset_import, graph=graph
    )
    onnx.checker.check_model(exported, full_check=True)
    return exported


def onnx_logits(exported: bytes, images: Images) -> Images:
    """Run the model on onnxruntime, node by node as it is written; float32 [n, 10]."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        exported, options, providers=["CPUExecutionProvider"]
    )
    (logits,) = session.run(["logits"], {"image": images})
    return np.asarray(logits)


def print_accuracy(name: str, logits: Images, labels: Labels) -> None:
    """Print how many test images are right."""
    correct = int((logits.argmax(axis=1) == labels).sum())
    print(f"{name}: {correct}/{len(labels)} = {correct / len(labels):.2%}")


def main() -> None:
    """Train, check the export against PyTorch, write the model, print the numbers."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    model, float_logits = train(*train_digits())
    proto = to_onnx(model)
    exported = proto.SerializeToString(deterministic=True)

    images, labels = test_digits()
    logits = onnx_logits(exported, images)
    with torch.no_grad():
        expected = model(torch.from_numpy(images)).numpy()
    output = model.logits[-1]
    steps = np.abs(logits - expected) / float(output.scale)
    assert steps.max() < MAX_EXPORT_STEPS + 0.5, f"{steps.max():.1f} output codes apart"
    assert np.array_equal(logits.argmax(axis=1), expected.argmax(axis=1))

    (FOLDER / "digits_qat.onnx").write_bytes(exported)

    nodes = Counter(node.op_type for node in proto.graph.node)
    print(f"nodes: {', '.join(f'{count} {op}' for op, count in sorted(nodes.items()))}")
    apart = int((steps > 0.5).sum())
    print(f"onnxruntime and PyTorch: {apart} of {steps.size} test logits differ,")
    print(f"by {steps.max():.0f} of the output's codes at most; all predictions are equal")
    print_accuracy("float test accuracy, before quantization", float_logits.numpy(), labels)
    print_accuracy("fake-quantized test accuracy, PyTorch", expected, labels)
    print_accuracy("Q/DQ test accuracy, onnxruntime", logits, labels)


if __name__ == "__main__":
    main()
