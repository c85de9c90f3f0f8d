"""BERT: Devlin et al. 2019, https://arxiv.org/abs/1810.04805."""

from typing import Any, ClassVar

from plugformer.configuration import ModelSettings
from plugformer_transformers.family import ACTIVATIONS, Config, Family, inside, option


class BERT(Family):
    """[CLS] is BEGIN, [SEP] is END, and [MASK] is UNKNOWN: [UNK] stays a token like others."""

    model_type = "bert"
    architecture = "encoder-only"
    base = "bert."
    classes: ClassVar = {
        "masked_token": "BertForMaskedLM",
        "classifier": "BertForSequenceClassification",
        "token_classifier": "BertForTokenClassification",
    }
    needs: ClassVar = {"position_embedding_type": ["absolute"], "is_decoder": [False]}
    special = (("pad",), ("mask", "unk"), ("cls", "bos"), ("sep", "eos"))
    sizes: ClassVar = {
        "width": "hidden_size",
        "heads": "num_attention_heads",
        "layers": "num_hidden_layers",
        "ffn_width": "intermediate_size",
    }
    longest = ("max_position_embeddings", 512)
    activation = "hidden_act"
    activations: ClassVar = ACTIVATIONS
    names: ClassVar = {
        "encoder.embedding": "bert.embeddings.word_embeddings",
        "encoder.position.table": "bert.embeddings.position_embeddings",
        "encoder.position.segments": "bert.embeddings.token_type_embeddings",
        "encoder.position.norm": "bert.embeddings.LayerNorm",
        **inside(
            "encoder.layers.*",
            "bert.encoder.layer.*",
            {
                "attention.query": "attention.self.query",
                "attention.key": "attention.self.key",
                "attention.value": "attention.self.value",
                "attention.output": "attention.output.dense",
                "feed_forward.up": "intermediate.dense",
                "feed_forward.down": "output.dense",
                "residual.norms.attention": "attention.output.LayerNorm",
                "residual.norms.feed_forward": "output.LayerNorm",
            },
        ),
        "head.hidden.0": "bert.pooler.dense",
        "head.dense": "cls.predictions.transform.dense",
        "head.norm": "cls.predictions.transform.LayerNorm",
        "head.weight": "cls.predictions.decoder.weight",
        "head.bias": "cls.predictions.bias",
        "head.output": "classifier",
    }

    def parts(self, config: Config) -> dict[str, Any]:
        """Returns normalized embeddings with positions and segments, and norms after sublayers."""
        epsilon, segments = config.get("layer_norm_eps", 1e-12), config.get("type_vocab_size", 2)
        return {
            "position": {"name": "normalized", "segments": segments, "epsilon": epsilon},
            "attention": {"name": "mha", "bias": True},
            "norm": {"name": "layer_norm", "epsilon": epsilon, "bias": True},
            "residual": {"name": "post"},
        }

    def options(self, model: ModelSettings) -> dict[str, Any]:
        """Returns the number of segments and the epsilon."""
        return {
            "type_vocab_size": option(model.position, "segments", 2) or 1,
            "layer_norm_eps": option(model.norm, "epsilon", 1e-12),
        }

    def heads(self, config: Config) -> dict[str, Any]:
        """Returns the options of heads: the norm is that of the layers, and a classifier reads [CLS]."""
        activation = self.activations[config.get("hidden_act", "gelu")]
        return {
            "masked_token": {
                "epsilon": config.get("layer_norm_eps", 1e-12),
                "approximate": activation.get("approximate", "none"),
            },
            "classifier": {"pooling": "first", "hidden": config["hidden_size"], "activation": "tanh"},
            "token_classifier": {},
        }
