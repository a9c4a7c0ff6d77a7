"""Write small Q/DQ models in the styles in which PyTorch's quantization-aware flows export.

Run it from the root: `python -m tests.data.qat.make`. It needs what models/digits_qat needs,
and torchao 0.18.0. Each style trains the same kind of network on scikit-learn's digits, float
and then quantized, and exports it. What a file holds is printed, and how far onnxruntime and
PyTorch are apart on it.

What does not export, by PyTorch 2.13.0: torch.ao's default fake quantizers, which are fused
with their observers (aten::fused_moving_avg_obs_fake_quant, either exporter); fake_quantize
ops at a dynamic batch, or torch.ao's modules that hold them, by the newer exporter; scales by
channel below opset 13; a narrow range of codes, -127 to 127; convert_to_reference_fx.
"""

from __future__ import annotations

import copy
import io
import logging
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.ao import quantization
from torch.ao.quantization import quantize_fx
from torchao.quantization import pt2e
from torchao.quantization.pt2e import quantize_pt2e
from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

from models.digits_qat import train as digits_qat

FOLDER = Path(__file__).parent
CHANNELS = 8
FLOAT_EPOCHS = 20
FLOAT_RATE = 0.02
QUANTIZED_EPOCHS = 4
QUANTIZED_RATE = 1e-3
LARGEST_FILE = 30_000  # bytes
EXAMPLE = torch.zeros(2, 1, 8, 8)
DYNAMIC = {"image": {0: torch.export.Dim("N")}}

Exported = tuple[nn.Module, onnx.ModelProto]


class Network(nn.Module):
    """A plain float network, for the flows that place the quantizers themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.quantize = quantization.QuantStub()  # the eager flow wants to be told
        self.stem = self.conv(1)
        self.relu = nn.ReLU()
        self.depthwise = self.conv(CHANNELS, groups=CHANNELS)
        self.relu2 = nn.ReLU()
        self.pointwise = self.conv(CHANNELS, kernel=1)
        self.add = torch.ao.nn.quantized.FloatFunctional()
        self.activation = nn.Hardswish()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.logits = nn.Linear(CHANNELS, 10)
        self.dequantize = quantization.DeQuantStub()

    @staticmethod
    def conv(inputs: int, kernel: int = 3, groups: int = 1) -> nn.Sequential:
        """A Conv that keeps the size, then BatchNormalization."""
        layer = nn.Conv2d(
            inputs, CHANNELS, kernel, padding=kernel // 2, groups=groups, bias=False
        )
        return nn.Sequential(layer, nn.BatchNorm2d(CHANNELS))

    def forward(self, image: Tensor) -> Tensor:
        """Map images [N, 1, 8, 8] to logits [N, 10]."""
        stem = self.relu(self.stem(self.quantize(image)))
        depthwise = self.relu2(self.depthwise(stem))
        total = self.activation(self.add.add(self.pointwise(depthwise), stem))
        logits: Tensor = self.logits(self.flatten(self.pool(total)))
        return self.dequantize(logits)


class OwnQuantizers(nn.Module):
    """The network of quantizers as in models/digits_qat."""

    def __init__(self) -> None:
        super().__init__()
        conv = digits_qat.ConvBn
        self.image = digits_qat.Unsigned()
        self.stem = nn.Sequential(conv(1, CHANNELS, 3), digits_qat.Unsigned())
        self.depthwise = nn.Sequential(
            conv(CHANNELS, CHANNELS, 3, groups=CHANNELS), digits_qat.Unsigned()
        )
        self.pointwise = nn.Sequential(conv(CHANNELS, CHANNELS, 1), digits_qat.Symmetric())
        self.total = digits_qat.Asymmetric()
        self.activation = nn.Sequential(nn.Hardswish(), digits_qat.Asymmetric())
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), digits_qat.Asymmetric())
        self.logits = nn.Sequential(
            nn.Flatten(), digits_qat.Linear(CHANNELS, 10), digits_qat.Asymmetric()
        )

    def forward(self, image: Tensor) -> Tensor:
        """Map images [N, 1, 8, 8] to logits [N, 10]."""
        stem = self.stem(self.image(image))
        total = self.total(self.pointwise(self.depthwise(stem)) + stem)
        logits: Tensor = self.logits(self.pool(self.activation(total)))
        return logits


class InputQuantizers(nn.Module):
    """Symmetric int8 before each Conv and Linear and nowhere else, BatchNormalization kept."""

    def __init__(self) -> None:
        super().__init__()
        conv = digits_qat.ConvBn
        self.stem = nn.Sequential(digits_qat.Symmetric(), conv(1, CHANNELS, 3), nn.ReLU())
        self.depthwise = nn.Sequential(
            digits_qat.Symmetric(), conv(CHANNELS, CHANNELS, 3, groups=CHANNELS), nn.ReLU()
        )
        self.pointwise = nn.Sequential(digits_qat.Symmetric(), conv(CHANNELS, CHANNELS, 1))
        self.activation = nn.ReLU()
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.logits = nn.Sequential(digits_qat.Symmetric(), digits_qat.Linear(CHANNELS, 10))

    def forward(self, image: Tensor) -> Tensor:
        """Map images [N, 1, 8, 8] to logits [N, 10]."""
        stem = self.stem(image)
        total = self.activation(self.pointwise(self.depthwise(stem)) + stem)
        logits: Tensor = self.logits(self.pool(total))
        return logits


def eager() -> Exported:
    """torch.ao's prepare_qat, traced while it simulates: Conv, Div, BatchNormalization."""
    model = trained(Network().train())
    pairs = [["stem.0", "stem.1", "relu"], ["depthwise.0", "depthwise.1", "relu2"]]
    quantization.fuse_modules_qat(
        model, [*pairs, ["pointwise.0", "pointwise.1"]], inplace=True
    )
    model.qconfig = fake_quantizers(255)
    quantization.prepare_qat(model, inplace=True)
    return simulated(model, opset=13)


def fx() -> Exported:
    """torch.ao's prepare_qat_fx on folded layers, of codes up to 127: a Clip behind each Q."""
    folded = quantize_fx.fuse_fx(trained(Network().train()).eval()).train()
    everywhere = quantization.QConfigMapping().set_global(fake_quantizers(127))
    return simulated(quantize_fx.prepare_qat_fx(folded, everywhere, (EXAMPLE,)), opset=17)


def fx_converted() -> Exported:
    """By torch.ao's defaults, converted to its integer kernels, traced: stored weights."""
    model = quantize_fx.convert_fx(
        prepared_fx(quantization.get_default_qat_qconfig_mapping("x86"))
    )
    return model, traced(model, opset=17)


def fx_decomposed() -> Exported:
    """The same flow, converted to quantize and dequantize ops, by the newer exporter.

    Codes are all of uint8: that exporter drops the defaults' limit of 127.
    """
    everywhere = quantization.QConfigMapping().set_global(fake_quantizers(255))
    model = quantize_fx._convert_to_reference_decomposed_fx(prepared_fx(everywhere))
    return model, captured(model, DYNAMIC)


def pt2e_x86() -> Exported:
    """torchao's flow on an exported program, for the x86 backend: stored weights."""
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config(is_qat=True))
    model = torch.export.export(
        trained(Network().train()),
        (torch.zeros(digits_qat.BATCH, 1, 8, 8),),
        dynamic_shapes={"image": {0: torch.export.Dim("N", min=2)}},
    ).module()
    prepared = finetuned(quantize_pt2e.prepare_qat_pt2e(model, quantizer))
    pt2e.move_exported_model_to_eval(prepared)
    converted = quantize_pt2e.convert_pt2e(prepared)
    return converted, captured(converted, DYNAMIC)


def dynamo() -> Exported:
    """fake_quantize ops by the newer exporter, which takes them at a fixed batch alone."""
    model = own_quantizers(OwnQuantizers(), fold=True)
    return model, captured(model, None)


def inputs_only() -> Exported:
    """As NVIDIA's pytorch-quantization places quantizers: residual sums stay in float."""
    model = own_quantizers(InputQuantizers(), fold=False)
    return model, traced(model, opset=13)


STYLES: dict[str, Callable[[], Exported]] = {
    "eager_opset13": eager,
    "fx_opset17": fx,
    "fx_converted_opset17": fx_converted,
    "fx_decomposed_opset18": fx_decomposed,
    "pt2e_x86_opset18": pt2e_x86,
    "dynamo_opset18": dynamo,
    "inputs_only_opset13": inputs_only,
}


def trained(model: nn.Module) -> nn.Module:
    """Train in float."""
    images, labels = (torch.from_numpy(array) for array in digits_qat.train_digits())
    digits_qat.fit(model, images, labels, FLOAT_EPOCHS, FLOAT_RATE)
    return model


def finetuned(model: nn.Module) -> nn.Module:
    """Train quantized."""
    images, labels = (torch.from_numpy(array) for array in digits_qat.train_digits())
    digits_qat.fit(model, images, labels, QUANTIZED_EPOCHS, QUANTIZED_RATE)
    return model


def own_quantizers(model: nn.Module, fold: bool) -> nn.Module:
    """Both trainings of models/digits_qat, with BatchNormalization folded between or not."""
    trained(model.train()).eval()
    if fold:
        digits_qat.fold(model)
    with torch.no_grad():
        digits_qat.start_quantizing(model, torch.from_numpy(digits_qat.train_digits()[0]))
    finetuned(model.train() if fold else model)
    digits_qat.freeze(model)
    return model.eval()


def fake_quantizers(largest_code: int) -> quantization.QConfig:
    """uint8 from 0 to the largest code for activations, int8 per channel for weights."""
    return quantization.QConfig(
        activation=quantization.FakeQuantize.with_args(
            observer=quantization.MovingAverageMinMaxObserver,
            quant_min=0,
            quant_max=largest_code,
        ),
        weight=quantization.default_per_channel_weight_fake_quant,
    )


def prepared_fx(mapping: quantization.QConfigMapping) -> nn.Module:
    """prepare_qat_fx, trained."""
    model = quantize_fx.prepare_qat_fx(trained(Network().train()), mapping, (EXAMPLE,))
    return finetuned(model).eval()


def simulated(model: nn.Module, opset: int) -> Exported:
    """Train a prepared model and trace it with its fake quantizers."""
    finetuned(model).eval().apply(quantization.disable_observer)
    return model, traced(model, opset)


def traced(model: nn.Module, opset: int) -> onnx.ModelProto:
    """By the TorchScript exporter; any batch."""
    file = io.BytesIO()
    torch.onnx.export(
        copy.deepcopy(model),
        (EXAMPLE,),
        file,
        dynamo=False,
        opset_version=opset,
        input_names=["image"],
        output_names=["logits"],
        dynamic_axes={"image": {0: "N"}, "logits": {0: "N"}},
    )
    return onnx.load_from_string(file.getvalue())


def captured(model: nn.Module, dynamic_shapes: dict[str, object] | None) -> onnx.ModelProto:
    """By the newer exporter; the batch is that of EXAMPLE without dynamic shapes."""
    program = torch.onnx.export(
        model,
        (EXAMPLE,),
        dynamo=True,
        opset_version=18,
        input_names=["image"],
        output_names=["logits"],
        dynamic_shapes=dynamic_shapes,
        verbose=False,
    )
    assert program is not None
    return program.model_proto


def without_traces(model: onnx.ModelProto) -> onnx.ModelProto:
    """Drop stack traces and the like, which name files of the machine that exported."""
    for item in [*model.graph.node, *model.graph.initializer, *model.graph.value_info]:
        item.ClearField("doc_string")
        item.ClearField("metadata_props")
    for value in [*model.graph.input, *model.graph.output]:
        value.ClearField("metadata_props")
    model.graph.ClearField("metadata_props")
    model.ClearField("metadata_props")
    onnx.checker.check_model(model, full_check=True)
    return model


def compare(model: nn.Module, exported: bytes, batch: int | str) -> str:
    """Say how far onnxruntime and PyTorch are apart on the test images."""
    images, labels = digits_qat.test_digits()
    step = batch if isinstance(batch, int) else len(images)
    parts = [images[start : start + step] for start in range(0, len(images), step)]
    logits = np.concatenate([digits_qat.onnx_logits(exported, part) for part in parts])
    with torch.no_grad():
        expected = torch.cat([model(torch.from_numpy(part)) for part in parts]).numpy()
    same = int((logits.argmax(axis=1) == expected.argmax(axis=1)).sum())
    correct = int((logits.argmax(axis=1) == labels).sum())
    error = np.abs(logits - expected).max()
    return f"{correct} of {len(labels)} right, {same} as PyTorch, max difference {error:.3f}"


def main() -> None:
    """Write every style; print size, operators and the comparison."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    for name, style in STYLES.items():
        torch.manual_seed(digits_qat.SEED)
        model, proto = style()
        exported = without_traces(proto).SerializeToString(deterministic=True)
        assert len(exported) <= LARGEST_FILE, f"{name}: {len(exported)} bytes"
        (FOLDER / f"{name}.onnx").write_bytes(exported)
        dimension = proto.graph.input[0].type.tensor_type.shape.dim[0]
        nodes = Counter(node.op_type for node in proto.graph.node)
        print(f"{name}: {len(exported)} bytes")
        print(f"  {', '.join(f'{count} {op}' for op, count in sorted(nodes.items()))}")
        print(f"  {compare(model, exported, dimension.dim_value or dimension.dim_param)}")


if __name__ == "__main__":
    main()
