"""BERT: Devlin et al. 2019, https://arxiv.org/abs/1810.04805."""

from collections.abc import Iterator
from typing import Any, ClassVar

from plugformer.configuration import ModelSettings
from plugformer_transformers.family import Config, Family, linear, norm, option
from plugformer_transformers.weights import Shifted, Step, Weight


class BERT(Family):
    """[CLS] is BEGIN, [SEP] is END, and [MASK] is UNKNOWN: [UNK] stays a token like others."""

    model_type = "bert"
    base = "bert."
    classes: ClassVar = {
        "masked_token": "BertForMaskedLM",
        "classifier": "BertForSequenceClassification",
        "token_classifier": "BertForTokenClassification",
    }
    needs: ClassVar = {"position_embedding_type": "absolute", "is_decoder": False}
    special = (("pad",), ("mask", "unk"), ("cls", "bos"), ("sep", "eos"))

    activations: ClassVar = {
        "gelu": {"name": "gelu", "approximate": "none", "bias": True},
        "gelu_new": {"name": "gelu", "approximate": "tanh", "bias": True},
        "relu": {"name": "relu", "bias": True},
    }

    def settings(self, config: Config) -> dict[str, Any]:
        """Returns normalized embeddings with positions and segments, and norms after sublayers."""
        activation = config.get("hidden_act", "gelu")
        self.refuse_unknown("hidden_act", activation, self.activations)
        epsilon = config.get("layer_norm_eps", 1e-12)
        return {
            "width": config["hidden_size"],
            "heads": config["num_attention_heads"],
            "layers": config["num_hidden_layers"],
            "ffn_width": config["intermediate_size"],
            "embeddings": {"tied": config.get("tie_word_embeddings", True), "scaled": False},
            "position": {
                "name": "normalized",
                "segments": config.get("type_vocab_size", 2),
                "epsilon": epsilon,
            },
            "attention": {"name": "mha", "bias": True},
            "feed_forward": self.activations[activation],
            "norm": {"name": "layer_norm", "epsilon": epsilon, "bias": True},
            "residual": {"name": "post"},
        }

    def defaults(self, config: Config) -> dict[str, Any]:
        """Returns an encoder alone with a head for masked tokens, as long as the table of positions."""
        head = {"name": "masked_token", **self.heads(config)["masked_token"]}
        longest = config.get("max_position_embeddings", 512)
        return {"architecture": "encoder-only", "head": head, "max_length": longest}

    def config(self, model: ModelSettings) -> dict[str, Any]:
        """Returns the nearest configuration."""
        return {
            "hidden_size": model.width,
            "num_attention_heads": model.heads,
            "num_hidden_layers": model.encoder.layers or model.layers,
            "intermediate_size": model.ffn_width,
            "max_position_embeddings": model.max_length,
            "type_vocab_size": option(model.position, "segments", 2) or 1,
            "tie_word_embeddings": model.embeddings.tied,
            "hidden_act": self.nearest_activation(model, self.activations, "gelu"),
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

    def weights(self, config: Config, tokens: Step, rows: int) -> Iterator[Weight]:
        """Yields the weights."""
        below, ours = "bert.embeddings", "encoder.position"
        yield Weight(f"{below}.word_embeddings.weight", ("encoder.embedding.weight",), (tokens,))
        positions = (Shifted(0, rows),)
        yield Weight(f"{below}.position_embeddings.weight", (f"{ours}.table.weight",), positions)
        yield Weight(f"{below}.token_type_embeddings.weight", (f"{ours}.segments.weight",))
        yield from norm(f"{below}.LayerNorm", f"{ours}.norm")
        for number in range(config["num_hidden_layers"]):
            theirs, ours = f"bert.encoder.layer.{number}", f"encoder.layers.{number}"
            for name in ("query", "key", "value"):
                yield from linear(f"{theirs}.attention.self.{name}", f"{ours}.attention.{name}")
            yield from linear(f"{theirs}.attention.output.dense", f"{ours}.attention.output")
            yield from linear(f"{theirs}.intermediate.dense", f"{ours}.feed_forward.up")
            yield from linear(f"{theirs}.output.dense", f"{ours}.feed_forward.down")
            yield from norm(f"{theirs}.attention.output.LayerNorm", f"{ours}.residual.norms.attention")
            yield from norm(f"{theirs}.output.LayerNorm", f"{ours}.residual.norms.feed_forward")
        yield from linear("bert.pooler.dense", "head.hidden.0")
        yield from linear("cls.predictions.transform.dense", "head.dense")
        yield from norm("cls.predictions.transform.LayerNorm", "head.norm")
        yield Weight("cls.predictions.decoder.weight", ("head.weight",), (tokens,))
        yield Weight("cls.predictions.bias", ("head.bias",), (tokens,))
        yield from linear("classifier", "head.output")
