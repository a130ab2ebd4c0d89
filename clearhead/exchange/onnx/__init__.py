"""Export models to ONNX, the format of ONNX Runtime, which runs them without torch."""
