"""Fitted classifiers as ONNX graphs, and as files for scorers of one file."""
