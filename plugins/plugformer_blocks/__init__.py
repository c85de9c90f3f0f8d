"""What components are built of: softmax attention, padding, losses, tokenizers of Hugging Face, tables.

Nothing here is registered, and no component has to use it: interfaces ask for results, not for a way to them.
"""

from plugformer_blocks.adapted import AdaptedModule
from plugformer_blocks.exporting import Program, exported, exporting, part_of, programs_of, tensors_of
from plugformer_blocks.fast_tokenizer import FastTokenizer, ForeignTokenizer, PipelineTokenizer, read_pipeline
from plugformer_blocks.files import check_file, read_lines
from plugformer_blocks.heads import project_heads, split_heads
from plugformer_blocks.linear_cross_entropy import IGNORED, LOGITS_MEMORY, linear_cross_entropy
from plugformer_blocks.padding import before_next, next_tokens, pad, pad_targets, token_targets
from plugformer_blocks.pooling import Pooling, pool
from plugformer_blocks.retrieval import nearest_texts
from plugformer_blocks.softmax_attention import attention_scores, attention_weights, softmax_attention
from plugformer_blocks.tables import TableColumn, find_column, table_cells
from plugformer_blocks.views import Prefix, Within

__all__ = [
    "IGNORED",
    "LOGITS_MEMORY",
    "AdaptedModule",
    "FastTokenizer",
    "ForeignTokenizer",
    "PipelineTokenizer",
    "Pooling",
    "Prefix",
    "Program",
    "TableColumn",
    "Within",
    "attention_scores",
    "attention_weights",
    "before_next",
    "check_file",
    "exported",
    "exporting",
    "find_column",
    "linear_cross_entropy",
    "nearest_texts",
    "next_tokens",
    "pad",
    "pad_targets",
    "part_of",
    "pool",
    "programs_of",
    "project_heads",
    "read_lines",
    "read_pipeline",
    "softmax_attention",
    "split_heads",
    "table_cells",
    "tensors_of",
    "token_targets",
]
