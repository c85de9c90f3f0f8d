"""Export to ONNX: https://onnx.ai."""

from plugformer_export.onnx.format import ONNX

__all__ = ["ONNX"]
