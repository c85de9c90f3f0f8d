"""Export to Hugging Face Transformers: https://huggingface.co/docs/transformers."""

from plugformer_export.transformers.format import Transformers

__all__ = ["Transformers"]
