"""BART (Lewis et al. 2020, https://arxiv.org/abs/1910.13461) and Marian (https://arxiv.org/abs/1804.00344)."""

from collections.abc import Iterator
from typing import Any, ClassVar

from plugformer.configuration import ModelSettings
from plugformer.errors import ConfigurationError
from plugformer_transformers.family import Config, Family, layers, linear, norm
from plugformer_transformers.weights import FirstRow, Interleaved, Shifted, Step, Weight

OFFSET = 2
"""Rows in front of BART's table of positions, which nobody reads."""


class BART(Family):
    """Texts begin with <s>, an ordinary token here; the decoder begins with BEGIN, which is </s> there."""

    model_type = "bart"
    base = "model."
    classes: ClassVar = {"language_model": "BartForConditionalGeneration"}
    needs: ClassVar = {"tie_word_embeddings": True}
    special = (("pad",), ("unk", "eos"), ("decoder_start", "eos"), ("eos",))
    prefix: ClassVar[str | None] = "bos"

    activations: ClassVar = {
        "gelu": {"name": "gelu", "approximate": "none", "bias": True},
        "gelu_new": {"name": "gelu", "approximate": "tanh", "bias": True},
        "relu": {"name": "relu", "bias": True},
        "swish": {"name": "silu", "bias": True},
        "silu": {"name": "silu", "bias": True},
    }

    def check(self, config: Config) -> None:
        """Also refuses stacks of different sizes."""
        super().check(config)
        for name in ("attention_heads", "ffn_dim"):
            one, two = (config[f"{stack}_{name}"] for stack in ("encoder", "decoder"))
            if one != two:
                message = f"encoder_{name} is {one} and decoder_{name} is {two}; here both are the same"
                raise ConfigurationError(f"{self.model_type}: {message}")

    def positions(self) -> dict[str, Any]:
        """Returns the positional encoding."""
        return {"name": "normalized", "segments": 0, "epsilon": 1e-5}

    def settings(self, config: Config) -> dict[str, Any]:
        """Returns one embedding for all, norms after sublayers, and a bias of the logits."""
        activation = config.get("activation_function", "gelu")
        self.refuse_unknown("activation_function", activation, self.activations)
        deep, other = config["encoder_layers"], config["decoder_layers"]
        return {
            "width": config["d_model"],
            "heads": config["encoder_attention_heads"],
            "layers": deep,
            **({"decoder": {"layers": other}} if deep != other else {}),
            "ffn_width": config["encoder_ffn_dim"],
            "embeddings": {"tied": True, "shared": True, "scaled": config.get("scale_embedding", False)},
            "position": self.positions(),
            "attention": {"name": "mha", "bias": True},
            "feed_forward": self.activations[activation],
            "norm": {"name": "layer_norm", "epsilon": 1e-5, "bias": True},
            "residual": {"name": "post"},
        }

    def defaults(self, config: Config) -> dict[str, Any]:
        """Returns encoder and decoder, as long as the table of positions."""
        head = {"name": "language_model", "bias": True}
        longest = config.get("max_position_embeddings", 1024)
        return {"architecture": "encoder-decoder", "head": head, "max_length": longest}

    def config(self, model: ModelSettings) -> dict[str, Any]:
        """Returns the nearest configuration."""
        sizes = {
            f"{stack}_{name}": value
            for stack in ("encoder", "decoder")
            for name, value in (
                ("attention_heads", model.heads),
                ("ffn_dim", model.ffn_width),
                ("layers", layers(model, stack)),
            )
        }
        return {
            **sizes,
            "d_model": model.width,
            "activation_function": self.nearest_activation(model, self.activations, "gelu"),
            "scale_embedding": model.embeddings.scaled,
            "max_position_embeddings": model.max_length,
            "tie_word_embeddings": True,
        }

    def heads(self, config: Config) -> dict[str, Any]:  # noqa: ARG002 (BERT's depend on it)
        """Returns the head for the next token; a missing bias is one of zeros."""
        return {"language_model": {}}

    def stream(self, axis: int) -> tuple[Step, ...]:  # noqa: ARG002 (Marian's is different)
        """Returns what happens to an axis along the residual stream."""
        return ()

    def positional(self, stack: str, rows: int) -> Iterator[Weight]:
        """Yields the weights of positions."""
        ours = f"{stack}.position"
        table = (Shifted(OFFSET, rows),)
        yield Weight(f"model.{stack}.embed_positions.weight", (f"{ours}.table.weight",), table)
        yield from norm(f"model.{stack}.layernorm_embedding", f"{ours}.norm")

    def weights(self, config: Config, tokens: Step, rows: int) -> Iterator[Weight]:
        """Yields the weights."""
        read, written = self.stream(1), self.stream(0)
        yield Weight("model.shared.weight", ("encoder.embedding.weight",), (tokens, *read))
        for stack in ("encoder", "decoder"):
            yield from self.positional(stack, rows)
            attentions = [("self_attn", "attention"), ("encoder_attn", "cross_attention")]
            for number in range(config[f"{stack}_layers"]):
                theirs, ours = f"model.{stack}.layers.{number}", f"{stack}.layers.{number}"
                for attention, own in attentions[: 1 + (stack == "decoder")]:
                    for name, part in (("q", "query"), ("k", "key"), ("v", "value")):
                        yield from linear(
                            f"{theirs}.{attention}.{name}_proj", f"{ours}.{own}.{part}", inputs=read
                        )
                    yield from linear(
                        f"{theirs}.{attention}.out_proj", f"{ours}.{own}.output", outputs=written
                    )
                    yield from norm(
                        f"{theirs}.{attention}_layer_norm", f"{ours}.residual.norms.{own}", written
                    )
                yield from linear(f"{theirs}.fc1", f"{ours}.feed_forward.up", inputs=read)
                yield from linear(f"{theirs}.fc2", f"{ours}.feed_forward.down", outputs=written)
                yield from norm(f"{theirs}.final_layer_norm", f"{ours}.residual.norms.feed_forward", written)
        yield Weight("final_logits_bias", ("head.bias",), (FirstRow(), tokens))


class Marian(BART):
    """Sines and cosines are neighbors here, and halves of the width there: the stream is reordered."""

    model_type = "marian"
    classes: ClassVar = {"language_model": "MarianMTModel"}
    needs: ClassVar = {"tie_word_embeddings": True, "share_encoder_decoder_embeddings": True}
    special = (("pad",), ("unk", "eos"), ("decoder_start", "pad"), ("eos",))
    prefix: ClassVar[str | None] = None

    def positions(self) -> dict[str, Any]:
        """Returns sinusoids."""
        return {"name": "sinusoidal"}

    def stream(self, axis: int) -> tuple[Step, ...]:
        """Returns the order of neighbors."""
        return (Interleaved(axis),)

    def positional(self, stack: str, rows: int) -> Iterator[Weight]:  # noqa: ARG002 (no table is learned)
        """Yields nothing: sinusoids are computed."""
        yield from ()
