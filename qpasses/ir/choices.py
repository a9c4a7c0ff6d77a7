"""Choices: the words that options and arguments take; light, the command line begins here."""

from typing import Literal

Bodies = Literal["onnxruntime", "portable"]
ActivationType = Literal["uint8", "int8"]
ResidualType = Literal["activation", "int16"]
Accuracy = Literal["fast", "balanced", "best"]
ActivationScales = Literal["per-tensor", "per-channel", "auto"]
WeightType = Literal["int8"]
Analyze = Literal["no", "short", "full"]
ExportFormat = Literal["tosa", "tflite", "vectors"]
InferenceType = Literal["int8", "uint8", "float32"]
IoLayout = Literal["nhwc", "nchw"]
TfliteRuntime = Literal["litert", "tflm"]
GraphFormat = Literal["onnx", "mlir"]
OtherProgram = Literal["tosa-reference", "iree", "litert", "tflm"]
TosaProfile = Literal["pro-int-8k", "pro-int"]
BiasCorrection = Literal["none", "in-sequence", "auto"]
WeightRounding = Literal["nearest", "sum-preserving", "second-order", "auto"]
CalibrationMethod = Literal[
    "minmax",
    "moving-average",
    "percentile",
    "entropy",
    "mse",
    "octav",
    "aciq-gauss",
    "aciq-laplace",
    "tpumlir-kl",
    "tpumlir-octav",
    "auto",
]
ActivationForm = Literal["table", "multiplier"]
Alignment = Literal["qpasses", "tpu-mlir"]
TableRanges = Literal["calibrated", "function"]
SoftmaxNodes = Literal["inner", "all", "float"]
SoftmaxForm = Literal["table", "shiftmax", "shiftmax8", "ibert", "gemmlowp"]
SoftmaxBits = Literal[16, 24, 32]
GeluForm = Literal["table", "shift", "ibert"]
LayerNormForm = Literal["exact", "ivit", "ivit_short"]
Layout = Literal["auto", "nchw", "nhwc"]
Emit = Literal["integer", "qdq", "standard", "tosa"]
ForeignFormat = Literal["tpumlir", "onnxruntime"]
TableFormat = Literal["qpasses", ForeignFormat]
OnBadSample = Literal["error", "skip"]
EngineName = Literal["local", "ray"]
