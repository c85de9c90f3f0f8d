"""T5: Raffel et al. 2020, https://arxiv.org/abs/1910.10683."""

from collections.abc import Iterator
from typing import Any, ClassVar

from plugformer.configuration import ModelSettings
from plugformer.errors import ConfigurationError
from plugformer_transformers.family import Config, Family, layers, linear, norm, option
from plugformer_transformers.weights import Scaled, Step, Weight


class T5(Family):
    """Scores are not scaled there: queries are larger here by the square root of the head width.

    Where the output projection is the embedding, T5 divides hidden states by the square root of the width.
    Here the embedding is smaller by it, and multiplied by it where tokens are read (`embeddings.scaled`).
    """

    model_type = "t5"
    base = ""
    classes: ClassVar = {"language_model": "T5ForConditionalGeneration"}
    special = (("pad",), ("unk", "pad"), ("decoder_start", "pad"), ("eos",))

    activations: ClassVar = {
        "relu": {"name": "relu", "bias": False},
        "gelu": {"name": "gelu", "approximate": "none", "bias": False},
        "gated-gelu": {"name": "geglu", "approximate": "tanh", "bias": False},
        "gated-silu": {"name": "swiglu", "bias": False},
        "gated-relu": {"name": "reglu", "bias": False},
    }

    def check(self, config: Config) -> None:
        """Also refuses heads that do not make up the width."""
        super().check(config)
        heads, each, width = config["num_heads"], config["d_kv"], config["d_model"]
        if heads * each != width:
            message = f"{heads} heads of d_kv {each} are not d_model {width}; here heads divide the width"
            raise ConfigurationError(f"t5: {message}")

    def settings(self, config: Config) -> dict[str, Any]:
        """Returns relative positions, RMS norms before sublayers, and no biases."""
        activation = config.get("feed_forward_proj", "relu")
        self.refuse_unknown("feed_forward_proj", activation, self.activations)
        tied = self.scaled(config)
        deep, other = config["num_layers"], config.get("num_decoder_layers") or config["num_layers"]
        return {
            "width": config["d_model"],
            "heads": config["num_heads"],
            "layers": deep,
            **({"decoder": {"layers": other}} if deep != other else {}),
            "ffn_width": config["d_ff"],
            "embeddings": {"tied": tied, "shared": True, "scaled": tied},
            "position": {
                "name": "t5",
                "buckets": config.get("relative_attention_num_buckets", 32),
                "max_distance": config.get("relative_attention_max_distance", 128),
            },
            "attention": {"name": "mha", "bias": False},
            "feed_forward": self.activations[activation],
            "norm": {"name": "rms_norm", "epsilon": config.get("layer_norm_epsilon", 1e-6)},
            "residual": {"name": "pre"},
        }

    def scaled(self, config: Config) -> bool:
        """Returns whether the output projection is the embedding, and hidden states are divided."""
        return bool(config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True)))

    def defaults(self, config: Config) -> dict[str, Any]:
        """Returns encoder and decoder."""
        longest = config.get("n_positions", 512)
        return {"architecture": "encoder-decoder", "head": "language_model", "max_length": longest}

    def config(self, model: ModelSettings) -> dict[str, Any]:
        """Returns the nearest configuration."""
        return {
            "d_model": model.width,
            "num_heads": model.heads,
            "d_kv": model.width // model.heads,
            "num_layers": layers(model, "encoder"),
            "num_decoder_layers": layers(model, "decoder"),
            "d_ff": model.ffn_width,
            "feed_forward_proj": self.nearest_activation(model, self.activations, "relu"),
            "relative_attention_num_buckets": option(model.position, "buckets", 32),
            "relative_attention_max_distance": option(model.position, "max_distance", 128),
            "layer_norm_epsilon": option(model.norm, "epsilon", 1e-6),
            "tie_word_embeddings": model.embeddings.tied,
            "scale_decoder_outputs": model.embeddings.tied,
            "n_positions": model.max_length,
        }

    def weights(self, config: Config, tokens: Step, rows: int) -> Iterator[Weight]:
        """Yields the weights."""
        del rows
        tied, gated = self.scaled(config), config.get("feed_forward_proj", "relu").startswith("gated")
        shrunk = (Scaled(config["d_model"] ** -0.5),) if tied else ()
        yield Weight("shared.weight", ("encoder.embedding.weight",), (tokens, *shrunk))
        grown = (Scaled(config["d_kv"] ** 0.5),)
        maps = (("q", "query", grown), ("k", "key", ()), ("v", "value", ()), ("o", "output", ()))
        networks = [("wi_0", "gate"), ("wi_1", "up")] if gated else [("wi", "up")]
        depths = {"encoder": config["num_layers"]}
        depths["decoder"] = config.get("num_decoder_layers") or config["num_layers"]
        for stack, depth in depths.items():
            bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
            yield Weight(bias, (f"{stack}.position.table",))
            attentions = ["SelfAttention"] + ["EncDecAttention"] * (stack == "decoder")
            owns = ["attention", "cross_attention"]
            for number in range(depth):
                theirs, ours = f"{stack}.block.{number}.layer", f"{stack}.layers.{number}"
                for place, attention in enumerate(attentions):
                    for name, own, steps in maps:
                        source = f"{theirs}.{place}.{attention}.{name}"
                        yield from linear(source, f"{ours}.{owns[place]}.{own}", bias=False, outputs=steps)
                    norms = f"{ours}.residual.norms.{owns[place]}"
                    yield from norm(f"{theirs}.{place}.layer_norm", norms, bias=False)
                last = f"{theirs}.{len(attentions)}"
                for name, own in (*networks, ("wo", "down")):
                    yield from linear(
                        f"{last}.DenseReluDense.{name}", f"{ours}.feed_forward.{own}", bias=False
                    )
                yield from norm(f"{last}.layer_norm", f"{ours}.residual.norms.feed_forward", bias=False)
            yield from norm(f"{stack}.final_layer_norm", f"{stack}.final_norm", bias=False)
        yield Weight("lm_head.weight", ("head.weight",), (tokens,))
