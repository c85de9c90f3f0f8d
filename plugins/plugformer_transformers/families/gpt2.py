"""GPT-2: Radford et al. 2019, Language Models are Unsupervised Multitask Learners."""

from collections.abc import Iterator
from typing import Any, ClassVar

from plugformer.configuration import ModelSettings
from plugformer_transformers.family import Config, Family, linear, norm, option
from plugformer_transformers.weights import Shifted, Step, Transposed, Weight


class GPT2(Family):
    """Its matrices are transposed, and those of queries, keys and values are one."""

    model_type = "gpt2"
    base = "transformer."
    classes: ClassVar = {"language_model": "GPT2LMHeadModel"}
    needs: ClassVar = {
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
    }
    special = (("pad", "eos"), ("unk", "eos"), ("bos", "eos"), ("eos",))

    activations: ClassVar = {
        "gelu_new": {"name": "gelu", "approximate": "tanh", "bias": True},
        "gelu_pytorch_tanh": {"name": "gelu", "approximate": "tanh", "bias": True},
        "gelu": {"name": "gelu", "approximate": "none", "bias": True},
        "relu": {"name": "relu", "bias": True},
    }

    def settings(self, config: Config) -> dict[str, Any]:
        """Returns learned positions, norms before sublayers, and the activation."""
        activation = config.get("activation_function", "gelu_new")
        self.refuse_unknown("activation_function", activation, self.activations)
        return {
            "width": config["n_embd"],
            "heads": config["n_head"],
            "layers": config["n_layer"],
            "ffn_width": config.get("n_inner") or 4 * config["n_embd"],
            "embeddings": {"tied": config.get("tie_word_embeddings", True), "scaled": False},
            "position": {"name": "learned"},
            "attention": {"name": "mha", "bias": True},
            "feed_forward": self.activations[activation],
            "norm": {"name": "layer_norm", "epsilon": config.get("layer_norm_epsilon", 1e-5), "bias": True},
            "residual": {"name": "pre"},
        }

    def defaults(self, config: Config) -> dict[str, Any]:
        """Returns a decoder alone, as long as the table of positions."""
        longest = config.get("n_positions", 1024)
        return {"architecture": "decoder-only", "head": "language_model", "max_length": longest}

    def config(self, model: ModelSettings) -> dict[str, Any]:
        """Returns the nearest configuration."""
        return {
            "n_embd": model.width,
            "n_head": model.heads,
            "n_layer": model.decoder.layers or model.layers,
            "n_inner": model.ffn_width,
            "n_positions": model.max_length,
            "tie_word_embeddings": model.embeddings.tied,
            "activation_function": self.nearest_activation(model, self.activations, "gelu_new"),
            "layer_norm_epsilon": option(model.norm, "epsilon", 1e-5),
        }

    def weights(self, config: Config, tokens: Step, rows: int) -> Iterator[Weight]:
        """Yields the weights."""
        turned = (Transposed(),)
        yield Weight("transformer.wte.weight", ("decoder.embedding.weight",), (tokens,))
        positions = (Shifted(0, rows),)
        yield Weight("transformer.wpe.weight", ("decoder.position.table.weight",), positions)
        for number in range(config["n_layer"]):
            theirs, ours = f"transformer.h.{number}", f"decoder.layers.{number}"
            for kind, steps in (("weight", turned), ("bias", ())):
                names = tuple(f"{ours}.attention.{name}.{kind}" for name in ("query", "key", "value"))
                yield Weight(f"{theirs}.attn.c_attn.{kind}", names, steps)
            yield from linear(f"{theirs}.attn.c_proj", f"{ours}.attention.output", inputs=turned)
            yield from linear(f"{theirs}.mlp.c_fc", f"{ours}.feed_forward.up", inputs=turned)
            yield from linear(f"{theirs}.mlp.c_proj", f"{ours}.feed_forward.down", inputs=turned)
            yield from norm(f"{theirs}.ln_1", f"{ours}.residual.norms.attention")
            yield from norm(f"{theirs}.ln_2", f"{ours}.residual.norms.feed_forward")
        yield from norm("transformer.ln_f", "decoder.final_norm")
        yield Weight("lm_head.weight", ("head.weight",), (tokens,))
