"""The layers of encoder and decoder: sublayers, each inside a residual connection with its norm."""

from collections.abc import Callable
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import Attention, FeedForward, Norm, Padding, Positions, Scope, take_tokens
from plugformer.model.cache import LayerCache
from plugformer.model.dropout import Dropout

Sublayer = Callable[[Float[Tensor, "batch length width"]], Float[Tensor, "batch length width"]]


class PreNorm(nn.Module):
    """x + dropout(sublayer(norm(x))): https://arxiv.org/abs/2002.04745, figure 1 (b)."""

    def __init__(self, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch length width"], sublayer: Sublayer
    ) -> Float[Tensor, "batch length width"]:
        """Adds to `x` what the sublayer makes of its normalised value."""
        return self.dropout.added(x, sublayer(self.norm(x)))


class PostNorm(PreNorm):
    """norm(x + dropout(sublayer(x))): Attention Is All You Need, section 3.1."""

    def forward(
        self, x: Float[Tensor, "batch length width"], sublayer: Sublayer
    ) -> Float[Tensor, "batch length width"]:
        """Normalises the sum of `x` and what the sublayer makes of it."""
        output: Tensor = self.norm(self.dropout.added(x, sublayer(x)))
        return output


Residual = PreNorm | PostNorm


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network.

    Args:
        attention: Reads the sequence itself.
        feed_forward: Sees real tokens only.
        residuals: The connections around the two sublayers, in this order.
    """

    def __init__(
        self, *, attention: Attention, feed_forward: FeedForward, residuals: tuple[Residual, Residual]
    ) -> None:
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_residual, self.feed_forward_residual = residuals

    def forward(
        self, x: Float[Tensor, "batch length width"], scope: Scope
    ) -> Float[Tensor, "batch length width"]:
        """Returns the hidden states after this layer."""
        x = self.attention_residual(
            x, lambda h: self.attention.attend(h, self.attention.project(h, scope.key), scope)
        )
        output: Tensor = self.feed_forward_residual(
            x, lambda h: at_real_tokens(self.feed_forward, h, scope.query)
        )
        return output


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention to the encoder's output, then a feed-forward network.

    Args:
        attention: Reads the target so far.
        cross_attention: Reads the source.
        feed_forward: Sees real tokens only.
        residuals: The connections around the three sublayers, in this order.
    """

    def __init__(
        self,
        *,
        attention: Attention,
        cross_attention: Attention,
        feed_forward: FeedForward,
        residuals: tuple[Residual, Residual, Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.attention_residual, self.cross_attention_residual, self.feed_forward_residual = residuals

    def start(self, memory: Float[Tensor, "batch source width"], at: Positions) -> LayerCache:
        """Returns an empty past beside the projection of the source, which the first call computes."""
        return LayerCache(partial(self.cross_attention.project, memory, at))

    def forward(
        self,
        x: Float[Tensor, "batch length width"],
        cache: LayerCache,
        at: Positions,
        scope: Scope,
        cross: Scope,
    ) -> Float[Tensor, "batch length width"]:
        """Returns the hidden states of new tokens after this layer, and adds them to the cache.

        Args:
            x: Hidden states of the new tokens.
            cache: What this layer keeps of the tokens before, and of the source.
            at: Positions of the new tokens.
            scope: From the new tokens to all target tokens so far.
            cross: From the new tokens to the source.
        """
        x = self.attention_residual(
            x, lambda h: self.attention.attend(h, cache.remember(self.attention.project(h, at)), scope)
        )
        x = self.cross_attention_residual(x, lambda h: self.cross_attention.attend(h, cache.source, cross))
        output: Tensor = self.feed_forward_residual(x, lambda h: at_real_tokens(self.feed_forward, h, at))
        return output


def at_real_tokens(
    network: FeedForward, x: Float[Tensor, "batch length width"], at: Positions
) -> Float[Tensor, "batch length width"]:
    """Applies a network to the real tokens alone; at padding the result is zero."""
    tokens = x.flatten(0, 1)
    if at.padding is Padding.NONE:
        everywhere: Tensor = network(tokens)
        return everywhere.reshape(x.shape)
    rows = at.once("rows of real tokens", lambda: at.real.flatten().nonzero().squeeze(1))
    output: Tensor = network(take_tokens(tokens, rows))
    return output.new_zeros(tokens.shape).index_copy(0, rows, output).view(x.shape)
