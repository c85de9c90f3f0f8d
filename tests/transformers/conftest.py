"""Tiny models of Transformers with random weights, as `save_pretrained` writes them."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEXTS = ["the quick brown fox", "a new house and a low dog", "new words are low"] * 3

SPECIAL: dict[str, dict[str, str]] = {
    "llama": {"unk": "<unk>", "bos": "<s>", "eos": "</s>"},
    "gpt2": {"eos": "<|endoftext|>", "bos": "<|endoftext|>"},
    "bert": {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
    "bart": {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>"},
    "marian": {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"},
    "t5": {"pad": "<pad>", "eos": "</s>", "unk": "<unk>"},
}
"""The special tokens of each family."""


@pytest.fixture(scope="session")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Any]]:
    """Makes a model of a family; returns its folder and the model."""
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.disable_progress_bar()

    def config(family: str, size: int, ids: dict[str, int]) -> Any:
        stacks = {
            f"{stack}_{name}": value
            for stack in ("encoder", "decoder")
            for name, value in {
                "ffn_dim": 48,
                "layers": 2 - (stack == "decoder"),
                "attention_heads": 4,
            }.items()
        }
        bert = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
        translating = {"d_model": 32, "init_std": 0.3, "max_position_embeddings": 64, **stacks}
        sizes = {
            "llama": {
                **bert,
                "num_key_value_heads": 2,
                "initializer_range": 0.1,
                "tie_word_embeddings": False,
            },
            "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.3},
            "bert": {**bert, "max_position_embeddings": 64, "initializer_range": 0.3},
            "bart": {**translating, "decoder_start_token_id": ids["eos"]},
            "marian": {
                **translating,
                "scale_embedding": True,
                "activation_function": "swish",
                "decoder_start_token_id": ids.get("pad"),
            },
            "t5": {
                "d_model": 64,
                "d_ff": 48,
                "num_layers": 2,
                "num_heads": 4,
                "d_kv": 16,
                "feed_forward_proj": "gated-gelu",
                "decoder_start_token_id": ids.get("pad"),
            },
        }
        numbers = {f"{name}_token_id": ids.get(name) for name in ("pad", "bos", "eos")}
        kinds = {"gpt2": "GPT2", "bart": "Bart", "bert": "Bert", "t5": "T5"}
        kind = getattr(transformers, f"{kinds.get(family, family.capitalize())}Config")
        return kind(vocab_size=size, **numbers, **sizes[family])

    @cache
    def make(family: str) -> tuple[Path, Any]:
        folder = tmp_path_factory.mktemp(family)
        names = SPECIAL[family]
        pipeline = byte_level(["x", *dict.fromkeys(names.values())])
        ids = {name: pipeline.token_to_id(token) for name, token in names.items()}
        spelled = {f"{name}_token": token for name, token in names.items()}
        transformers.PreTrainedTokenizerFast(tokenizer_object=pipeline, **spelled).save_pretrained(folder)
        torch.manual_seed(1)
        settings = config(family, pipeline.get_vocab_size() + 3, {"eos": 0, **ids})
        kind = {
            "llama": "LlamaForCausalLM",
            "gpt2": "GPT2LMHeadModel",
            "bert": "BertForMaskedLM",
            "bart": "BartForConditionalGeneration",
            "marian": "MarianMTModel",
            "t5": "T5ForConditionalGeneration",
        }[family]
        model = getattr(transformers, kind)(settings).eval()
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
        model.save_pretrained(folder)
        return folder, model

    return make


def byte_level(special: list[str]) -> Tokenizer:
    """Returns byte pairs learned from the texts, special tokens first."""
    pipeline = Tokenizer(models.BPE())
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pipeline.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=280,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pipeline.train_from_iterator(TEXTS, trainer)
    return pipeline


def task_of(family: str, folder: Path, **model: Any) -> dict[str, Any]:
    """Returns a task that starts from a folder, with one update that changes nothing."""
    kinds = {
        **dict.fromkeys(("llama", "gpt2"), "language-modelling"),
        **dict.fromkeys(("bart", "marian", "t5"), "sequence-to-sequence"),
        "bert": "masked-language-modelling",
    }
    return {
        "type": "classification" if "head" in model else kinds[family],
        "model": {"initialize_from": {"transformers": str(folder)}, "dropout": 0.0, **model},
        "data": "memory",
        "training": {"steps": 1, "batch_size": 4, "optimizer": {"name": "adam", "lr": 1e-30}},
        "decoding": {"max_length": 3},
    }


def rows_of(family: str, *, label: bool = False) -> dict[str, Any]:
    """Returns examples in memory."""
    if family in ("bart", "marian", "t5"):
        rows = [{"source": text, "target": text[:9]} for text in TEXTS]
    elif label:
        rows = [{"text": text, "label": "ab"[number % 2]} for number, text in enumerate(TEXTS)]
    else:
        rows = [{"text": text} for text in TEXTS]
    return {"train": rows, "validation": rows}
