"""The same encoder-decoder in Plugformer and in its peers: sizes, shared and tied embeddings, dropout, loss.

Each system is a function that returns a model, and one that returns the mean loss of a batch of padded source
and target token numbers. Peers are installed with `pip install transformers x-transformers`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn import functional

from plugformer.configuration import resolve
from plugformer.interfaces import BEGIN, END, PADDING, Batch, Tokens
from plugformer.model import Sizes, build
from plugformer.validation import validate

VOCABULARY, WIDTH, LAYERS, HEADS, HIDDEN, DROPOUT, LONGEST = 8000, 256, 3, 4, 1024, 0.1, 128


@dataclass(frozen=True)
class Shape:
    """The sizes of a model; layers of the encoder, and as many of the decoder."""

    vocabulary: int = VOCABULARY
    width: int = WIDTH
    layers: int = LAYERS
    heads: int = HEADS
    hidden: int = HIDDEN
    dropout: float = DROPOUT
    longest: int = LONGEST


Ids = Int[Tensor, "batch length"]
Loss = Callable[[nn.Module, Ids, Ids], Tensor]


@dataclass(frozen=True)
class System:
    """A way to train the model.

    Attributes:
        name: For the table.
        build: Returns the model, in training mode.
        loss: Returns the mean loss over real targets; sources end with END, targets also begin with BEGIN.
    """

    name: str
    build: Callable[[], nn.Module]
    loss: Loss


def plugformer() -> nn.Module:
    """Returns the model assembled from registered components."""
    settings = [
        f"model.width={WIDTH}",
        f"model.layers={LAYERS}",
        f"model.heads={HEADS}",
        f"model.ffn_width={HIDDEN}",
        f"model.dropout={DROPOUT}",
        f"model.max_length={LONGEST}",
        "model.embeddings={shared: true, tied: true, scaled: true}",
        "model.position=sinusoidal",
        "model.feed_forward=relu",
        "model.residual=post",
    ]
    task = validate(resolve("dates", settings))
    return build(task.spec, Sizes(VOCABULARY, VOCABULARY)).train()


def plugformer_loss(model: nn.Module, source: Ids, target: Ids) -> Tensor:
    """Returns the loss as the trainer computes it."""
    loss = model(Batch(_tokens(source), target=_tokens(target)))
    mean: Tensor = loss.total / loss.targets
    return mean


def _tokens(ids: Ids) -> Tokens:
    real = ids != PADDING
    return Tokens(ids, real, bool(real.all()))


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with embeddings, learned positions and a tied output projection."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        nn.init.normal_(self.embedding.weight, std=WIDTH**-0.5)
        self.position = nn.Embedding(LONGEST, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)
        self.transformer = nn.Transformer(
            WIDTH, HEADS, LAYERS, LAYERS, HIDDEN, DROPOUT, batch_first=True, activation="relu"
        )

    def forward(self, source: Ids, target: Ids) -> Tensor:
        """Returns logits at every target position."""
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1]).isinf()
        hidden = self.transformer(
            self._embed(source),
            self._embed(target),
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=source == PADDING,
            tgt_key_padding_mask=target == PADDING,
            memory_key_padding_mask=source == PADDING,
        )
        return functional.linear(hidden, self.embedding.weight)

    def _embed(self, ids: Ids) -> Tensor:
        positions = torch.arange(ids.shape[1])
        embedded: Tensor = self.dropout(self.embedding(ids) * WIDTH**0.5 + self.position(positions))
        return embedded


def torch_loss(model: nn.Module, source: Ids, target: Ids) -> Tensor:
    """Returns the loss of a model that is called with source and target and gives logits."""
    logits = model(source, target[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PADDING)


def marian(shape: Shape = Shape()) -> nn.Module:
    """Returns Hugging Face's Marian."""
    from transformers import MarianConfig, MarianMTModel

    return MarianMTModel(
        MarianConfig(
            vocab_size=shape.vocabulary,
            d_model=shape.width,
            encoder_layers=shape.layers,
            decoder_layers=shape.layers,
            encoder_attention_heads=shape.heads,
            decoder_attention_heads=shape.heads,
            encoder_ffn_dim=shape.hidden,
            decoder_ffn_dim=shape.hidden,
            dropout=shape.dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            activation_function="relu",
            max_position_embeddings=shape.longest,
            pad_token_id=PADDING,
            bos_token_id=BEGIN,
            eos_token_id=END,
            decoder_start_token_id=BEGIN,
            forced_eos_token_id=None,
            scale_embedding=True,
            share_encoder_decoder_embeddings=True,
            tie_word_embeddings=True,
            use_cache=False,
        )
    ).train()


def marian_loss(model: nn.Module, source: Ids, target: Ids) -> Tensor:
    """Returns the loss that the model computes of its labels."""
    labels = target[:, 1:].masked_fill(target[:, 1:] == PADDING, -100)
    loss: Tensor = model(
        input_ids=source,
        attention_mask=(source != PADDING).long(),
        decoder_input_ids=target[:, :-1],
        labels=labels,
    ).loss
    return loss


def marian_search(model: Any, source: Ids, *, beams: int, steps: int) -> Int[Tensor, "batch outputs"]:
    """Returns BEGIN and `steps` further tokens of each output, searched by Hugging Face's generate."""
    with torch.inference_mode():
        found: Tensor = model.generate(
            input_ids=source,
            attention_mask=(source != PADDING).long(),
            max_new_tokens=steps,
            min_new_tokens=steps,
            num_beams=beams,
            do_sample=False,
            use_cache=True,
        )
    return found


def x_transformers() -> nn.Module:
    """Returns x-transformers' encoder-decoder."""
    from x_transformers import XTransformer

    sides = {"num_tokens": VOCABULARY, "depth": LAYERS, "heads": HEADS, "max_seq_len": LONGEST}
    dropouts = {"ff_dropout": DROPOUT, "attn_flash": True, "ff_mult": HIDDEN // WIDTH, "emb_dropout": DROPOUT}
    model: nn.Module = XTransformer(
        dim=WIDTH,
        tie_token_emb=True,
        pad_value=PADDING,
        ignore_index=PADDING,
        **{f"enc_{key}": value for key, value in {**sides, **dropouts}.items()},
        **{f"dec_{key}": value for key, value in {**sides, **dropouts}.items()},
    )
    return model.train()


def x_transformers_loss(model: nn.Module, source: Ids, target: Ids) -> Tensor:
    """Returns the loss that the model computes of whole targets."""
    loss: Tensor = model(source, target, mask=source != PADDING)
    return loss
