"""The same graph in programs that are not onnxruntime, and whether they give its integers."""
