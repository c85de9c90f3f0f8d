"""GPT-2: Radford et al. 2019, Language Models are Unsupervised Multitask Learners."""

from typing import Any, ClassVar

from plugformer.configuration import ModelSettings
from plugformer_transformers.family import ACTIVATIONS, Config, Family, inside, option
from plugformer_transformers.weights import TRANSPOSED, Conversion


class GPT2(Family):
    """Its matrices are transposed, and those of queries, keys and values are one."""

    model_type = "gpt2"
    architecture = "decoder-only"
    stack = "decoder"
    base = "transformer."
    classes: ClassVar = {"language_model": "GPT2LMHeadModel"}
    needs: ClassVar = {
        "scale_attn_weights": [True],
        "scale_attn_by_inverse_layer_idx": [False],
        "add_cross_attention": [False],
    }
    special = (("pad", "eos"), ("unk", "eos"), ("bos", "eos"), ("eos",))
    sizes: ClassVar = {"width": "n_embd", "heads": "n_head", "layers": "n_layer", "ffn_width": "n_inner"}
    longest = ("n_positions", 1024)
    activation = "activation_function"
    activations: ClassVar = {
        "gelu_new": ACTIVATIONS["gelu_new"],
        "gelu_pytorch_tanh": ACTIVATIONS["gelu_new"],
        **ACTIVATIONS,
    }
    names: ClassVar = {
        "decoder.embedding": "transformer.wte",
        "decoder.position.table": "transformer.wpe",
        **inside(
            "decoder.layers.*",
            "transformer.h.*",
            {
                **dict.fromkeys(("attention.query", "attention.key", "attention.value"), "attn.c_attn"),
                "attention.output": "attn.c_proj",
                "feed_forward.up": "mlp.c_fc",
                "feed_forward.down": "mlp.c_proj",
                "residual.norms.attention": "ln_1",
                "residual.norms.feed_forward": "ln_2",
            },
        ),
        "decoder.final_norm": "transformer.ln_f",
        "head.weight": "lm_head.weight",
    }

    def parts(self, config: Config) -> dict[str, Any]:
        """Returns learned positions, and norms before sublayers."""
        return {
            "ffn_width": config.get("n_inner") or 4 * config["n_embd"],
            "position": {"name": "learned"},
            "attention": {"name": "mha", "bias": True},
            "norm": {"name": "layer_norm", "epsilon": config.get("layer_norm_epsilon", 1e-5), "bias": True},
            "residual": {"name": "pre"},
        }

    def options(self, model: ModelSettings) -> dict[str, Any]:
        """Returns the epsilon."""
        return {"layer_norm_epsilon": option(model.norm, "epsilon", 1e-5)}

    def conversions(self, name: str, config: Config) -> tuple[Conversion, ...]:  # noqa: ARG002 (always the same)
        """Returns the transposition of linear maps in layers."""
        is_map = ".attention." in name or ".feed_forward." in name
        return (TRANSPOSED,) if is_map and name.endswith(".weight") and ".norms." not in name else ()
