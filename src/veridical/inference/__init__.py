"""Run trained detectors with NumPy and ONNX, without torch: artifacts, prompts, pairs, heads."""
