"""Models of Hugging Face Transformers that compute the same as models of ours, in both directions."""
