"""What components are built of: softmax attention, losses of large vocabularies, Hugging Face tokenizers.

Nothing here is registered, and no component has to use it: interfaces ask for results, not for a way to them.
"""

from plugformer_blocks.fast_tokenizer import FastTokenizer, byte_piece, read_pipeline
from plugformer_blocks.linear_cross_entropy import linear_cross_entropy
from plugformer_blocks.softmax_attention import attention_scores, attention_weights, softmax_attention

__all__ = [
    "FastTokenizer",
    "attention_scores",
    "attention_weights",
    "byte_piece",
    "linear_cross_entropy",
    "read_pipeline",
    "softmax_attention",
]
