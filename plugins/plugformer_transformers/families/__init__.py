"""A file for each family: which configuration means which settings, and which weights which parameters.

To add one, write a `Family` and name it here.
"""

from plugformer_transformers.families.bart import BART, Marian
from plugformer_transformers.families.bert import BERT
from plugformer_transformers.families.gpt2 import GPT2
from plugformer_transformers.families.llama import Llama
from plugformer_transformers.families.t5 import T5Family
from plugformer_transformers.family import Family

FAMILIES: dict[str, Family] = {
    family.model_type: family for family in (BART(), BERT(), GPT2(), Llama(), Marian(), T5Family())
}
"""The families by `model_type`."""

__all__ = ["FAMILIES"]
