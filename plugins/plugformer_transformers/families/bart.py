"""BART (Lewis et al. 2020, https://arxiv.org/abs/1910.13461) and Marian (https://arxiv.org/abs/1804.00344)."""

from typing import Any, ClassVar

from plugformer.configuration import ModelSettings
from plugformer.errors import ConfigurationError
from plugformer_transformers.family import ACTIVATIONS, Config, Family, inside, layers
from plugformer_transformers.weights import FIRST_ROW, Conversion, interleaved


def _names(stack: str, positions: dict[str, str]) -> dict[str, str]:
    """Returns the names of a stack, with those of its positions."""
    layer = {
        "feed_forward.up": "fc1",
        "feed_forward.down": "fc2",
        "residual.norms.feed_forward": "final_layer_norm",
    }
    for ours, theirs in {"attention": "self_attn", "cross_attention": "encoder_attn"}.items():
        maps = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
        layer |= inside(ours, theirs, maps)
        layer[f"residual.norms.{ours}"] = f"{theirs}_layer_norm"
    there = f"model.{stack}"
    return inside(f"{stack}.layers.*", f"{there}.layers.*", layer) | inside(stack, there, positions)


class BART(Family):
    """Texts begin with <s>, an ordinary token here; the decoder begins with BEGIN, which is </s> there."""

    model_type = "bart"
    architecture = "encoder-decoder"
    base = "model."
    classes: ClassVar = {"language_model": "BartForConditionalGeneration"}
    needs: ClassVar = {"tie_word_embeddings": [True]}
    special = (("pad",), ("unk", "eos"), ("decoder_start", "eos"), ("eos",))
    prefix: ClassVar[str | None] = "bos"
    sizes: ClassVar = {
        "width": "d_model",
        "heads": "encoder_attention_heads",
        "layers": "encoder_layers",
        "ffn_width": "encoder_ffn_dim",
    }
    longest = ("max_position_embeddings", 1024)
    activation = "activation_function"
    activations: ClassVar = {
        **ACTIVATIONS,
        "swish": {"name": "silu", "bias": True},
        "silu": {"name": "silu", "bias": True},
    }
    names: ClassVar = {
        "encoder.embedding": "model.shared",
        **_names("encoder", {"position.table": "embed_positions", "position.norm": "layernorm_embedding"}),
        **_names("decoder", {"position.table": "embed_positions", "position.norm": "layernorm_embedding"}),
        "head.bias": "final_logits_bias",
    }
    offset = 2
    positions: ClassVar = {"name": "normalized", "segments": 0, "epsilon": 1e-5}

    def check(self, config: Config) -> None:
        """Also refuses stacks of different sizes."""
        super().check(config)
        for name in ("attention_heads", "ffn_dim"):
            one, two = (config[f"{stack}_{name}"] for stack in ("encoder", "decoder"))
            if one != two:
                message = f"encoder_{name} is {one} and decoder_{name} is {two}; here both are the same"
                raise ConfigurationError(f"{self.model_type}: {message}")

    def parts(self, config: Config) -> dict[str, Any]:
        """Returns one embedding for all, and norms after sublayers."""
        deep, other = config["encoder_layers"], config["decoder_layers"]
        return {
            **({"decoder": {"layers": other}} if deep != other else {}),
            "embeddings": {"tied": True, "shared": True, "scaled": config.get("scale_embedding", False)},
            "position": self.positions,
            "attention": {"name": "mha", "bias": True},
            "norm": {"name": "layer_norm", "epsilon": 1e-5, "bias": True},
            "residual": {"name": "post"},
        }

    def options(self, model: ModelSettings) -> dict[str, Any]:
        """Returns the sizes of the decoder, and what is said of embeddings."""
        return {
            "decoder_attention_heads": model.heads,
            "decoder_layers": layers(model, "decoder"),
            "decoder_ffn_dim": model.ffn_width,
            "scale_embedding": model.embeddings.scaled,
            "tie_word_embeddings": True,
        }

    def defaults(self, config: Config) -> dict[str, Any]:
        """Returns them with a bias of the logits."""
        return {**super().defaults(config), "head": {"name": "language_model", "bias": True}}

    def heads(self, config: Config) -> dict[str, Any]:  # noqa: ARG002 (BERT's depend on it)
        """Returns the head for the next token; a missing bias is one of zeros."""
        return {"language_model": {}}

    def conversions(self, name: str, config: Config) -> tuple[Conversion, ...]:  # noqa: ARG002 (always the same)
        """Returns the row that the bias of the logits is there."""
        return (FIRST_ROW,) if name == "head.bias" else ()


class Marian(BART):
    """Sines and cosines are neighbors here, and halves of the width there: the stream is reordered."""

    model_type = "marian"
    classes: ClassVar = {"language_model": "MarianMTModel"}
    needs: ClassVar = {"tie_word_embeddings": [True], "share_encoder_decoder_embeddings": [True]}
    special = (("pad",), ("unk", "eos"), ("decoder_start", "pad"), ("eos",))
    prefix: ClassVar[str | None] = None
    positions: ClassVar = {"name": "sinusoidal"}

    def conversions(self, name: str, config: Config) -> tuple[Conversion, ...]:
        """Returns the order of neighbors along the axis that reads the stream, or writes to it."""
        module, _, kind = name.rpartition(".")
        if ".norms." in name or module.endswith((".output", ".down")):
            return (interleaved(0),)
        if kind == "weight" and module.endswith((".embedding", ".query", ".key", ".value", ".up")):
            return (interleaved(1),)
        return super().conversions(name, config)
