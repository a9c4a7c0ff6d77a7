"""Float ONNX in, proven integer-only ONNX out."""
