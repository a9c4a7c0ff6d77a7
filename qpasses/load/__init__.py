"""Any ONNX file in: read, refused where it must be, raised to the opset that is needed."""
