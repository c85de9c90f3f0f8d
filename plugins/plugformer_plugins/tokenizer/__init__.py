"""Tokenizers on the pipelines of Hugging Face `tokenizers`."""
