"""What a layer sees while it computes: positions, masks, the other stack, and what decoding keeps."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import cast

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.functional import linear

from plugformer.errors import RegistryError
from plugformer.interfaces.position import Positions
from plugformer.interfaces.view import View

Tensors = tuple[Shaped[Tensor, "rows ..."], ...]


@dataclass(eq=False)
class Slots:
    """Where a cache has room for new tokens of each row: behind those that the row has so far.

    Attributes:
        start: Of the first new token, where all rows have as many so far; None if they differ.
        index: Of each new token; None if all rows have `start`.
        end: Behind the last new token of the longest row.
        capacity: How many the cache shall have.
    """

    start: int | None
    index: Int[Tensor, "rows new"] | None
    end: int
    capacity: int

    @cached_property
    def rows(self) -> Int[Tensor, "rows 1"]:
        """The number of each row."""
        assert self.index is not None  # noqa: S101 (where rows differ)
        return torch.arange(len(self.index), device=self.index.device)[:, None]


@dataclass(eq=False)
class State:
    """What one sublayer keeps of a sequence between two steps of decoding: see `Context.cached` and `keep`.

    Attributes:
        owner: The state of a layer below that the sublayer reads in place of one of its own.
        tokens: Tensors with an entry for each slot on their last axis but one.
        kept: Tensors of a fixed shape.
        shared: What `Context.cached` or `once` has returned last, for layers that share it.
        weights: Joint weights of `Context.product`, made once.
        fixed: Whether `kept` stays at its address while the number of rows is the same.
    """

    owner: "State | None" = None
    tokens: Tensors = ()
    kept: Tensors = ()
    shared: Tensors = ()
    weights: dict[tuple[int, ...], tuple[Tensor, Tensor | None]] = field(default_factory=dict)
    fixed: bool = False

    def keep(self, summary: Tensors) -> None:
        """Keeps a summary in place of the one before."""
        if self.fixed and self.kept and len(self.kept[0]) == len(summary[0]):
            summary = tuple(map(Tensor.copy_, self.kept, summary))
        self.kept = summary

    def write(self, new: Tensors, slots: Slots) -> Tensors:
        """Writes the entries of new tokens; returns those of all tokens so far."""
        if torch.compiler.is_exporting():  # what grows is a new tensor
            pairs = zip(self.tokens, new, strict=True)
            self.tokens = tuple(torch.cat(pair, dim=-2) for pair in pairs) if self.tokens else new
            return self.tokens
        if not self.tokens or self.tokens[0].shape[-2] < slots.end:
            rooms = [_room(each, len(each), slots.capacity).zero_() for each in new]
            old, self.tokens = self.tokens, tuple(rooms)
            for storage, each in zip(self.tokens, old, strict=False):
                storage.narrow(-2, 0, each.shape[-2]).copy_(each)
        for storage, each in zip(self.tokens, new, strict=True):
            if slots.index is None:
                storage.narrow(-2, slots.start or 0, each.shape[-2]).copy_(each)
            else:
                storage.movedim(-2, 1)[slots.rows, slots.index] = each.movedim(-2, 1)
        if slots.start == 0:
            return new
        return tuple(storage.narrow(-2, 0, slots.end) for storage in self.tokens)

    def select(self, rows: Int[Tensor, " rows"], used: int) -> None:
        """Keeps these rows, in this order, and their first `used` slots; in place if there are as many."""
        new = self.tokens
        if new and len(rows) != len(new[0]):
            new = tuple(_room(each, len(rows), each.shape[-2]) for each in new)
        for pair in zip(self.tokens, new, strict=True):
            filled = min(used, pair[0].shape[-2])
            old, room = (each.movedim(-2, 1).narrow(1, 0, filled) for each in pair)
            room.copy_(old.index_select(0, rows))
        self.tokens = new
        self.keep(tuple(each.index_select(0, rows) for each in self.kept))
        self.shared = ()

    @property
    def tensors(self) -> Tensors:
        """All that is kept."""
        return (*self.tokens, *self.kept)

    def rebuilt(self, tensors: Sequence[Shaped[Tensor, "rows ..."]], owner: "State | None") -> "State":
        """Returns a state of the same kind with other tensors."""
        return State(owner, tuple(tensors[: len(self.tokens)]), tuple(tensors[len(self.tokens) :]))


@dataclass(eq=False)
class Context:
    """What the sublayers of a layer see besides their input; all layers of a stack share the tensors.

    Masks are boolean and True means "may attend". Each tensor is computed at its first use.

    Attributes:
        query: Positions of the tokens that the sublayer computes.
        key: Positions of the tokens that it may read: of the same ones; in decoding also of those before
            them; in cross-attention of the other stack's.
        view: Which keys a query sees, padding aside.
        cross: Whether the keys belong to another stack.
        memory: That stack's output, (batch, key, width), for `once`; None elsewhere.
        observer: Receives the name and the value of each tensor that attention records; None for no observer.
        state: What the sublayer that computes keeps; None where nothing is kept.
        slots: Where decoding keeps new tokens; None in training.
        partial: Whether tokens between others are left out, see `only`.
    """

    query: Positions
    key: Positions
    _: KW_ONLY
    view: View
    cross: bool = False
    memory: Float[Tensor, "batch key width"] | None = None
    observer: Callable[[str, Tensor], None] | None = None
    state: State | None = None
    slots: Slots | None = None
    partial: bool = False

    @property
    def real(self) -> Bool[Tensor, "batch length"] | None:
        """True for real tokens among those that are computed, False for padding; None for no padding."""
        return self.query.mask

    def rotate(
        self, heads: Float[Tensor, "batch heads length head_width"]
    ) -> Float[Tensor, "batch heads length head_width"]:
        """Rotates heads of the tokens that the sublayer computes, as the positional encoding says.

        Keys of cross-attention, which belong to the memory, are rotated by `context.key.rotate`.
        """
        return self.query.rotate(heads)

    def product(self, x: Float[Tensor, "*batch width"], *maps: nn.Linear) -> Float[Tensor, "*batch outputs"]:
        """Returns the outputs of linear maps of `x` side by side, computed as one product.

        Each map keeps its own parameters, with the initial values, names and updates of a map by itself.
        """
        biased = maps[0].bias is not None
        if not all(_is_plain(each) and (each.bias is not None) == biased for each in maps):
            return torch.cat([each(x) for each in maps], dim=-1)
        if self.slots is None or self.state is None:
            return linear(x, *_joint(maps, biased))
        kept, key = self.state.weights, tuple(map(id, maps))
        if key not in kept:
            kept[key] = _joint(maps, biased)
        return linear(x, *kept[key])

    def cached(self, *new: Shaped[Tensor, "rows ..."]) -> Tensors:
        """Returns tensors of the tokens that may be read, from those of the tokens that are computed.

        Each has an entry for each token on its last axis but one: keys and values are (batch, heads, length,
        head width). In training they are returned as they are. Decoding keeps them, and returns those of all
        tokens so far. What is behind the tokens of a row is arbitrary, and masked.
        """
        if self.state is None:
            return new
        self.state.shared = new if self.slots is None else self.state.write(new, self.slots)
        return self.state.shared

    def once(self, make: Callable[[Tensor], Tensors]) -> Tensors:
        """Returns what `make` makes of the memory; decoding calls it once, and keeps the result."""
        if self.state is None or not self.state.kept:
            assert self.memory is not None  # noqa: S101 (this is cross-attention)
            made = make(self.memory)
            if self.state is None:
                return made
            self.state.shared = made
            if self.slots is None:
                return made
            self.state.kept = tuple(each.movedim(-2, 1).contiguous().movedim(1, -2) for each in made)
        return self.state.kept

    @property
    def shared(self) -> Tensors:
        """What `cached` or `once` has returned to the layer that `reads_layer` names."""
        assert self.state is not None and self.state.owner is not None  # noqa: S101 (by `reads_layer`)
        return self.state.owner.kept or self.state.owner.shared

    @property
    def past(self) -> Tensors | None:
        """What `keep` was given at the last step of decoding; None at the beginning of a sequence."""
        return self.state.kept if self.state is not None and self.state.kept else None

    def keep(self, *summary: Shaped[Tensor, "rows ..."]) -> None:
        """Keeps a summary of all tokens so far, of a fixed shape, for the next step; in training nothing.

        What is not `real` must not change it: padding, behind the tokens of a row, and tokens that a layer
        leaves out, also between others.

        Raises:
            RegistryError: A tensor has another shape than at the last step.
        """
        if self.state is not None and self.slots is not None:
            for before, now in zip(self.state.kept, summary, strict=False):
                if before.shape[1:] != now.shape[1:]:
                    shapes = f"{tuple(now.shape)} after {tuple(before.shape)}"
                    raise RegistryError(
                        f"`context.keep` is given a tensor of shape {shapes}, expected the same at each "
                        "step; keep what grows with the tokens by `context.cached`"
                    )
            self.state.keep(summary)

    def only(self, tokens: Bool[Tensor, "batch length"], state: State | None) -> "Context":
        """Returns the context in which only these tokens are queries and keys; `state` keeps them."""
        query = replace(self.query, mask=tokens)
        key = query
        if self.slots is not None and state is not None:
            (seen,) = state.write((tokens[..., None],), self.slots)
            whole = self.key.mask
            key = replace(self.key, mask=seen[..., 0] if whole is None else whole & seen[..., 0])
        return replace(self, query=query, key=key, partial=True)

    @property
    def observed(self) -> bool:
        """Whether there is an observer. Attention then takes its plain path and records its weights."""
        return self.observer is not None

    def record(self, name: str, value: Tensor) -> None:
        """Passes a tensor to the observer, for example "weights" of shape (batch, heads, query, key)."""
        if self.observer is not None:
            self.observer(name, value)

    def prepare(self) -> None:
        """Computes the mask and the bias that layers share, outside of layers that are computed twice."""
        if not self.is_causal or self.bias is not None:
            _ = self.attn_mask

    @cached_property
    def is_causal(self) -> bool:
        """The `is_causal` of scaled_dot_product_attention: True for whole sequences, padded on the right."""
        return not self.partial and self.view.is_causal(self.query, self.key)

    @property
    def unmasked(self) -> bool:
        """Whether every query sees every key: there is no padding, and the view hides none."""
        return self.key.mask is None and self._allowed is None

    @cached_property
    def mask(self) -> Bool[Tensor, "#batch 1 #query key"]:
        """The attention mask, from padding and view: True where a query may attend to a key."""
        allowed = None if self._allowed is None else self._allowed[:, None]
        if self.key.mask is None:
            return (
                torch.ones_like(self.key.index, dtype=torch.bool)[:, None, None]
                if allowed is None
                else allowed
            )
        mask = self.key.mask[:, None, None, :]
        return mask if allowed is None else mask & allowed

    @cached_property
    def _allowed(self) -> Bool[Tensor, "#batch query key"] | None:
        return self.view.allowed(self.query, self.key)

    @cached_property
    def bias(self) -> Float[Tensor, "#batch #maps query key"] | None:
        """The bias that the positional encoding adds to the scores, or None."""
        return cast("Tensor | None", self.query.encoding("bias", self.query, self.key))

    def content_bias(
        self,
        query_heads: Float[Tensor, "batch heads query head_width"],
        key_heads: Float[Tensor, "batch groups key head_width"],
    ) -> Float[Tensor, "#batch #heads query key"] | None:
        """Returns the positional encoding's bias of the products of these heads, or None."""
        arguments = (query_heads, key_heads, self.query, self.key)
        return cast("Tensor | None", self.query.encoding("content_bias", *arguments))

    @cached_property
    def attn_mask(
        self,
    ) -> Float[Tensor, "#batch #maps #query key"] | Bool[Tensor, "#batch 1 #query key"] | None:
        """The `attn_mask` of scaled_dot_product_attention: the mask, or the masked bias; None for neither."""
        if self.bias is None:
            return None if self.unmasked else self.mask
        return self.bias if self.unmasked else self.bias.masked_fill(~self.mask, -torch.inf)


def _joint(maps: Sequence[nn.Linear], biased: bool) -> tuple[Tensor, Tensor | None]:
    """Returns the weights and the biases of linear maps side by side."""
    bias = torch.cat([each.bias for each in maps]) if biased else None
    return torch.cat([each.weight for each in maps]), bias


def _is_plain(part: nn.Linear) -> bool:
    """Returns whether a linear map is a matrix product that nobody changes or watches."""
    hooks = (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, part._backward_pre_hooks)
    return type(part) is nn.Linear and "forward" not in part.__dict__ and not any(hooks)


def _room(like: Tensor, rows: int, slots: int) -> Tensor:
    """Returns room for these slots, which lie one behind the other in each row."""
    return like.new_empty(rows, slots, *like.shape[1:-2], like.shape[-1]).movedim(1, -2)
