"""Attentions of x-transformers."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad
from x_transformers import x_transformers as library

from plugformer.errors import ConfigurationError, NotExportableError
from plugformer.interfaces import Attention, Context, ModelContext, Role
from plugformer_x_transformers.settings import Settings, adapted

Stream = Float[Tensor, "batch length width"]

UNFIT = {
    *(
        "selective",
        "inverted_attention",
        "data_dependent_alibi",
        "use_rel_proj_pos_bias",
        "cope_talking_heads",
    ),
    *("max_attend_past", "flash", "causal", "gumbel_softmax", "use_latent_q", "use_latent_kv", "on_attn"),
    *("orthog_projected_values", "orthog_projected_values_per_head", "hybrid_module"),
}
"""Settings that read scores of other queries or places in the tensor, or that draw in evaluation."""

UNTRACEABLE = {
    "gate_value_heads": "einx counts axes",
    "sparse_topk": "the number of keys decides what is chosen",
}
"""Settings that torch.export cannot trace, with the reasons."""


class XAttention(Attention):
    """An attention of x-transformers: https://github.com/lucidrains/x-transformers.

    The library makes queries, keys and values, computes weights and what is read, and gates it. In between,
    keys and values are cached, positions rotate and bias, and the masks are Plugformer's.

    Args:
        model: Sizes of the model; the heads must divide the width.
        settings: Arguments of x-transformers' Attention, such as `{qk_norm: true, gate_values: true}`.

    Raises:
        ConfigurationError: The heads do not divide the width; or settings are refused by the library, need
            what no cache keeps, or have no meaning in this place.
    """

    residual_path = ("to_v", "to_out")

    def __init__(self, model: ModelContext, *, settings: Settings | None = None) -> None:
        super().__init__()
        settings = settings or {}
        if model.width % model.heads:
            raise ConfigurationError(f"{model.heads} heads do not divide the width {model.width}")
        if unfit := sorted(UNFIT & settings.keys()):
            raise ConfigurationError(
                f"settings: {', '.join(unfit)} cannot be computed with a cache, a mask or positions"
            )
        if settings.get("use_cope") and not model.place.causal:
            raise ConfigurationError(
                "settings: use_cope counts the tokens before: choose another attention here"
            )
        self.untraceable = {name: UNTRACEABLE[name] for name in UNTRACEABLE if settings.get(name)}
        self.call = Call()
        self.attention = adapted(
            placed_attention,
            model.width,
            settings=settings,
            call=self.call,
            dim_head=model.width // model.heads,
            heads=model.heads,
            causal=bool(settings.get("use_cope")),
            dropout=model.attention_dropout,
        )

    def forward(self, x: Stream, context: Context) -> Stream:
        """Returns what each token reads; NotExportableError if it is traced, but cannot be."""
        if self.untraceable and torch.compiler.is_exporting():
            raise NotExportableError(f"x-transformers: {self.untraceable}")
        memory = None
        if context.cross:  # later steps have no memory: keys and values are those of the first
            memory = x[:, :0] if context.memory is None else context.memory
        self.call.context = context
        try:
            output: Tensor = self.attention(x, context=memory)
        finally:
            self.call.context = None
        return output


class Call:
    """The context of the present call, and the numbers of keys before and after those of tokens."""

    context: Context | None = None
    extra: tuple[int, int] = (0, 0)


def placed_attention(width: int, *, call: Call, **settings: Any) -> nn.Module:
    """Returns an attention of x-transformers whose kernel has cache, positions and masks of a context."""
    attention: Any = library.Attention(width, **settings)
    attention.to_q.roles = {"weight": Role.QUERY}
    attention.roles = dict.fromkeys(("mem_k", "mem_v"), Role.INPUT) if settings.get("num_mem_kv") else {}
    for name in ("q_rmsnorm", "k_rmsnorm", "value_rmsnorm"):
        if isinstance(norm := getattr(attention, name, None), nn.Module) and hasattr(norm, "gamma"):
            norm.roles = {"gamma": Role.INPUT}  # type: ignore[assignment]
    if attention.attend.cope is not None:
        attention.attend.cope.roles = {"pos_emb": Role.INPUT}
    attention.attend.attn_dropout = RecordedDropout(settings["dropout"], call)
    attention.attend = PlacedKernel(attention, call)
    made: nn.Module = attention
    return made


class PlacedKernel(nn.Module):
    """The kernel of x-transformers between the cache, the positions and the masks of a context."""

    def __init__(self, attention: Any, call: Call) -> None:
        super().__init__()
        self.kernel = attention.attend
        self.call = call
        self.memories: int = attention.num_mem_kv if hasattr(attention, "mem_k") else 0
        self.fewest: int = attention.sparse_topk or 0

    def forward(self, query: Tensor, key: Tensor, value: Tensor, **_: object) -> Any:
        """Returns what query heads read from heads of keys and values, learned memories first, and more."""
        context, count = self.call.context, self.memories
        assert context is not None  # noqa: S101 (set by the component)
        memories, (key, value) = zip(
            *((each[:, :, :count], each[:, :, count:]) for each in (key, value)), strict=True
        )
        if context.cross:
            key, value = context.once(lambda _: (context.key.rotate(key), value))
        else:
            key, value = context.cached(context.rotate(key), value)
        query = context.rotate(query)
        bias, mask = self._added(query, key, context), context.mask
        missing = max(0, self.fewest - key.shape[2])  # it chooses so many keys: the others are masked
        key, value = (
            torch.cat([each, pad(own, (0, 0, 0, missing))], dim=2)
            for each, own in zip(memories, (key, value), strict=True)
        )
        self.call.extra = count + self.kernel.add_zero_kv, missing
        blind = ~mask.any(dim=-1, keepdim=True)  # the softmax of queries that see nothing would not be finite
        mask = pad(pad(mask | blind, (0, missing), value=False), (count, 0), value=True)
        bias = None if bias is None else pad(bias, (count, missing))
        read, rest = self.kernel(query, key, value, mask=mask, attn_bias=bias, causal=False)
        return read.masked_fill(blind, 0.0), rest

    def _added(self, query: Tensor, key: Tensor, context: Context) -> Tensor | None:
        """Returns what the positional encoding adds to the scores."""
        content = context.content_bias(query, key)
        added = [context.bias, None if content is None else content * self.kernel.scale]
        present = [each.to(query.dtype) for each in added if each is not None]
        return sum(present[1:], present[0]) if present else None


class RecordedDropout(nn.Dropout):
    """Attention dropout that records the weights of tokens."""

    def __init__(self, rate: float, call: Call) -> None:
        super().__init__(rate)
        self.call = call

    def forward(self, weights: Tensor) -> Tensor:
        """Returns the weights, some of them dropped in training."""
        weights = super().forward(weights)
        before, after = self.call.extra
        if self.call.context is not None:
            self.call.context.record("weights", weights[..., before : weights.shape[-1] - after])
        return weights
