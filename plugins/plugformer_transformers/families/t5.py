"""T5: Raffel et al. 2020, https://arxiv.org/abs/1910.10683."""

from collections.abc import Mapping
from typing import Any, ClassVar

from plugformer.configuration import ModelSettings
from plugformer.errors import ConfigurationError
from plugformer_transformers.family import Config, Family, inside, layers, option
from plugformer_transformers.weights import Conversion, scaled


def _names(stack: str, sublayers: Mapping[str, str]) -> dict[str, str]:
    """Returns the names of a stack whose sublayers have these names there."""
    maps = ("query", "key", "value", "output")
    layer: dict[str, str] = {}
    networks = {"gate": "wi_0", "up": "wi_1", "down": "wo"}
    for number, (ours, theirs) in enumerate(sublayers.items()):
        names = networks if ours == "feed_forward" else {name: name[0] for name in maps}
        layer |= inside(ours, f"{number}.{theirs}", names)
        layer[f"residual.norms.{ours}"] = f"{number}.layer_norm"
    bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    return {
        **inside(f"{stack}.layers.*", f"{stack}.block.*.layer", layer),
        f"{stack}.position.table": bias,
        f"{stack}.final_norm": f"{stack}.final_layer_norm",
    }


class T5Family(Family):
    """Scores are not scaled there: queries are larger here by the square root of the head width.

    Where the output projection is the embedding, T5 divides hidden states by the square root of the width.
    Here the embedding is smaller by it, and multiplied by it where tokens are read (`embeddings.scaled`).
    """

    model_type = "t5"
    architecture = "encoder-decoder"
    base = ""
    classes: ClassVar = {"language_model": "T5ForConditionalGeneration"}
    special = (("pad",), ("unk", "pad"), ("decoder_start", "pad"), ("eos",))
    sizes: ClassVar = {"width": "d_model", "heads": "num_heads", "layers": "num_layers", "ffn_width": "d_ff"}
    longest = ("n_positions", 512)
    activation = "feed_forward_proj"
    activations: ClassVar = {
        "relu": {"name": "relu", "bias": False},
        "gelu": {"name": "gelu", "approximate": "none", "bias": False},
        "gated-gelu": {"name": "geglu", "approximate": "tanh", "bias": False},
        "gated-silu": {"name": "swiglu", "bias": False},
        "gated-relu": {"name": "reglu", "bias": False},
    }
    names: ClassVar = {
        "encoder.embedding": "shared",
        **_names("encoder", {"attention": "SelfAttention", "feed_forward": "DenseReluDense"}),
        **_names(
            "decoder",
            {
                "attention": "SelfAttention",
                "cross_attention": "EncDecAttention",
                "feed_forward": "DenseReluDense",
            },
        ),
        "head.weight": "lm_head.weight",
    }

    def check(self, config: Config) -> None:
        """Also refuses heads that do not make up the width."""
        super().check(config)
        heads, each, width = config["num_heads"], config["d_kv"], config["d_model"]
        if heads * each != width:
            message = f"{heads} heads of d_kv {each} are not d_model {width}; here heads divide the width"
            raise ConfigurationError(f"t5: {message}")

    def parts(self, config: Config) -> dict[str, Any]:
        """Returns relative positions, RMS norms before sublayers, and no biases."""
        tied, deep = _scaled(config), config["num_layers"]
        other = config.get("num_decoder_layers") or deep
        return {
            **({"decoder": {"layers": other}} if deep != other else {}),
            "embeddings": {"tied": tied, "shared": True, "scaled": tied},
            "position": {
                "name": "t5",
                "buckets": config.get("relative_attention_num_buckets", 32),
                "max_distance": config.get("relative_attention_max_distance", 128),
            },
            "attention": {"name": "mha", "bias": False},
            "norm": {"name": "rms_norm", "epsilon": config.get("layer_norm_epsilon", 1e-6)},
            "residual": {"name": "pre"},
        }

    def options(self, model: ModelSettings) -> dict[str, Any]:
        """Returns the width of heads, the depth of the decoder, buckets and the epsilon."""
        return {
            "d_kv": model.width // model.heads,
            "num_decoder_layers": layers(model, "decoder"),
            "relative_attention_num_buckets": option(model.position, "buckets", 32),
            "relative_attention_max_distance": option(model.position, "max_distance", 128),
            "layer_norm_epsilon": option(model.norm, "epsilon", 1e-6),
            "scale_decoder_outputs": model.embeddings.tied,
        }

    def conversions(self, name: str, config: Config) -> tuple[Conversion, ...]:
        """Returns the factors of queries, and of an embedding that is the output projection."""
        if name.endswith(".query.weight"):
            return (scaled(config["d_kv"] ** 0.5),)
        shrunk = name.endswith(".embedding.weight") and _scaled(config)
        return (scaled(config["d_model"] ** -0.5),) if shrunk else ()


def _scaled(config: Config) -> bool:
    """Returns whether the output projection is the embedding, and hidden states are divided."""
    return bool(config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True)))
