"""Llama: Touvron et al. 2023, https://arxiv.org/abs/2302.13971."""

from typing import Any, ClassVar

from plugformer.configuration import ModelSettings
from plugformer.errors import ConfigurationError
from plugformer_transformers.families.bert import BERT
from plugformer_transformers.family import Config, Family, inside, option
from plugformer_transformers.weights import Conversion, interleaved


class Llama(Family):
    """Rotary positions pair neighbors here, and halves there: rows of queries and keys are reordered."""

    model_type = "llama"
    architecture = "decoder-only"
    stack = "decoder"
    base = "model."
    classes: ClassVar = {"language_model": "LlamaForCausalLM"}
    special = (("pad", "eos"), ("unk", "eos"), ("bos", "eos"), ("eos",))
    tied = False
    sizes: ClassVar = BERT.sizes
    longest = ("max_position_embeddings", 2048)
    activation = "hidden_act"
    activations: ClassVar = {"silu": {"name": "swiglu"}}
    names: ClassVar = {
        "decoder.embedding": "model.embed_tokens",
        **inside(
            "decoder.layers.*",
            "model.layers.*",
            {
                "attention.query": "self_attn.q_proj",
                "attention.key": "self_attn.k_proj",
                "attention.value": "self_attn.v_proj",
                "attention.output": "self_attn.o_proj",
                "feed_forward.gate": "mlp.gate_proj",
                "feed_forward.up": "mlp.up_proj",
                "feed_forward.down": "mlp.down_proj",
                "residual.norms.attention": "input_layernorm",
                "residual.norms.feed_forward": "post_attention_layernorm",
            },
        ),
        "decoder.final_norm": "model.norm",
        "head.weight": "lm_head.weight",
    }

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

    def parts(self, config: Config) -> dict[str, Any]:
        """Returns rotary positions, grouped queries, RMS norms before sublayers, and a gated network."""
        rope = config.get("rope_parameters") or {}
        base: float = rope.get("rope_theta") or config.get("rope_theta") or 10000.0
        heads, groups = config["num_attention_heads"], _groups(config)
        names = {1: {"name": "mqa"}, heads: {"name": "mha"}}
        grouped = names.get(groups, {"name": "gqa", "kv_heads": groups})
        return {
            "position": {"name": "rope", "base": float(base)},
            "attention": {"bias": config.get("attention_bias", False), **grouped},
            "feed_forward": {"name": "swiglu", "bias": config.get("mlp_bias", False)},
            "norm": {"name": "rms_norm", "epsilon": config.get("rms_norm_eps", 1e-6)},
            "residual": {"name": "pre"},
        }

    def options(self, model: ModelSettings) -> dict[str, Any]:
        """Returns the number of key-value heads, the base of rotations, biases and the epsilon."""
        attention = model.decoder.attention or model.attention
        groups = option(attention, "kv_heads", None)
        if groups is None:
            halved = max((n for n in range(1, model.heads) if model.heads % n == 0), default=1)
            groups = {"mqa": 1, "gqa": halved}.get(attention.name, model.heads)
        base = option(model.position, "base", 10000.0)
        return {
            "num_key_value_heads": groups,
            "head_dim": model.width // model.heads,
            "rope_parameters": {"rope_type": "default", "rope_theta": base},
            "attention_bias": option(attention, "bias", False),
            "mlp_bias": option(model.feed_forward, "bias", False),
            "rms_norm_eps": option(model.norm, "epsilon", 1e-6),
            "attention_dropout": 0.0,
        }

    def conversions(self, name: str, config: Config) -> tuple[Conversion, ...]:
        """Returns the order of neighbors, of queries and keys."""
        if ".attention.query." in name:
            return (interleaved(0, config["num_attention_heads"]),)
        return (interleaved(0, _groups(config)),) if ".attention.key." in name else ()


def _groups(config: Config) -> int:
    groups: int = config.get("num_key_value_heads") or config["num_attention_heads"]
    return groups
