"""Llama: Touvron et al. 2023, https://arxiv.org/abs/2302.13971."""

from collections.abc import Iterator
from typing import Any, ClassVar

from plugformer.configuration import ModelSettings
from plugformer.errors import ConfigurationError
from plugformer_transformers.family import Config, Family, linear, norm, option
from plugformer_transformers.weights import Interleaved, Step, Weight


class Llama(Family):
    """Rotary positions pair neighbors here, and halves there: rows of queries and keys are reordered."""

    model_type = "llama"
    base = "model."
    classes: ClassVar = {"language_model": "LlamaForCausalLM"}
    needs: ClassVar = {"hidden_act": "silu"}
    special = (("pad", "eos"), ("unk", "eos"), ("bos", "eos"), ("eos",))
    tied = False

    def check(self, config: Config) -> None:
        """Also refuses scaled rotary positions, and heads that do not make up the width."""
        super().check(config)
        scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
        kind = scaling.get("rope_type", scaling.get("type", "default"))
        if kind != "default":
            raise ConfigurationError(f"llama: rope_type {kind!r} has no counterpart here; expected 'default'")
        heads, width = config["num_attention_heads"], config["hidden_size"]
        if (config.get("head_dim") or width // heads) * heads != width:
            raise ConfigurationError(
                f"llama: {heads} heads of {config['head_dim']} are not the width {width}"
            )

    def settings(self, config: Config) -> dict[str, Any]:
        """Returns rotary positions, grouped queries, RMS norms before sublayers, and a gated network."""
        rope = config.get("rope_parameters") or {}
        base: float = rope.get("rope_theta") or config.get("rope_theta") or 10000.0
        heads, biased = config["num_attention_heads"], config.get("attention_bias", False)
        groups = config.get("num_key_value_heads") or heads
        grouped = {1: {"name": "mqa"}, heads: {"name": "mha"}}.get(
            groups, {"name": "gqa", "kv_heads": groups}
        )
        return {
            "width": config["hidden_size"],
            "heads": heads,
            "layers": config["num_hidden_layers"],
            "ffn_width": config["intermediate_size"],
            "embeddings": {"tied": config.get("tie_word_embeddings", self.tied), "scaled": False},
            "position": {"name": "rope", "base": float(base)},
            "attention": {"bias": biased, **grouped},
            "feed_forward": {"name": "swiglu", "bias": config.get("mlp_bias", False)},
            "norm": {"name": "rms_norm", "epsilon": config.get("rms_norm_eps", 1e-6)},
            "residual": {"name": "pre"},
        }

    def defaults(self, config: Config) -> dict[str, Any]:
        """Returns a decoder alone."""
        longest = config.get("max_position_embeddings", 2048)
        return {"architecture": "decoder-only", "head": "language_model", "max_length": longest}

    def config(self, model: ModelSettings) -> dict[str, Any]:
        """Returns the nearest configuration."""
        attention = model.decoder.attention or model.attention
        groups = option(attention, "kv_heads", None)
        if groups is None:
            halved = max((n for n in range(1, model.heads) if model.heads % n == 0), default=1)
            groups = {"mqa": 1, "gqa": halved}.get(attention.name, model.heads)
        return {
            "hidden_size": model.width,
            "num_attention_heads": model.heads,
            "num_key_value_heads": groups,
            "head_dim": model.width // model.heads,
            "num_hidden_layers": model.decoder.layers or model.layers,
            "intermediate_size": model.ffn_width,
            "tie_word_embeddings": model.embeddings.tied,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": option(model.position, "base", 10000.0),
            },
            "attention_bias": option(attention, "bias", False),
            "mlp_bias": option(model.feed_forward, "bias", False),
            "rms_norm_eps": option(model.norm, "epsilon", 1e-6),
            "max_position_embeddings": model.max_length,
            "attention_dropout": 0.0,
        }

    def weights(self, config: Config, tokens: Step, rows: int) -> Iterator[Weight]:
        """Yields the weights."""
        del rows
        yield Weight("model.embed_tokens.weight", ("decoder.embedding.weight",), (tokens,))
        biased, networks = config.get("attention_bias", False), config.get("mlp_bias", False)
        heads = config["num_attention_heads"]
        groups = config.get("num_key_value_heads") or heads
        for number in range(config["num_hidden_layers"]):
            theirs, ours = f"model.layers.{number}", f"decoder.layers.{number}"
            for name, own, count in (("q", "query", heads), ("k", "key", groups)):
                turned = (Interleaved(0, count),)
                yield from linear(
                    f"{theirs}.self_attn.{name}_proj", f"{ours}.attention.{own}", bias=biased, outputs=turned
                )
            for name, own in (("v", "value"), ("o", "output")):
                yield from linear(f"{theirs}.self_attn.{name}_proj", f"{ours}.attention.{own}", bias=biased)
            for name in ("gate", "up", "down"):
                yield from linear(f"{theirs}.mlp.{name}_proj", f"{ours}.feed_forward.{name}", bias=networks)
            norms = f"{ours}.residual.norms"
            yield from norm(f"{theirs}.input_layernorm", f"{norms}.attention", bias=False)
            yield from norm(f"{theirs}.post_attention_layernorm", f"{norms}.feed_forward", bias=False)
        yield from norm("model.norm", "decoder.final_norm", bias=False)
        yield Weight("lm_head.weight", ("head.weight",), (tokens,))
