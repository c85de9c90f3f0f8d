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
from plugformer.interfaces.position import Positions, View

Tensors = tuple[Shaped[Tensor, "rows ..."], ...]


@dataclass(eq=False)
class Slots:
    """The slots of a cache into which the new tokens of each row are written, after the row's last token.

    Attributes:
        start: Slot of the first new token, where rows have equally many tokens; None where they differ.
        index: Slot of each new token; None if `start` says it for all rows.
        end: Number of slots that are in use afterwards, by the longest row.
        capacity: Number of slots that a cache without room allocates.
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
    """The key-value cache of one sublayer, or what else it keeps between two steps of decoding.

    Attributes:
        owner: The state of a layer below that the sublayer reads in place of its own.
        tokens: What `Context.cached` keeps, such as keys and values; the last axis but one has the slots.
        kept: What `Context.keep` or `once` keeps: tensors of a fixed shape.
        shared: What `Context.cached` or `once` has returned last, for layers above that read it.
        weights: Concatenated weights for `Context.product`, made once.
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
        key: Positions of the tokens that it may read: the same ones; in decoding also those before them; in
            cross-attention the other stack's.
        view: Which keys a query sees, padding aside, such as those of a causal mask.
        cross: Whether this is cross-attention: keys belong to another stack.
        memory: In cross-attention that stack's output, (batch, key, width), for `once`; otherwise None.
        observer: Receives the name and the value of each tensor that attention records.
        state: The cache of the sublayer that computes; None where nothing is kept.
        slots: Where decoding writes new tokens; None in training.
        partial: Whether keys between other keys are masked, see `only`.
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
        """The padding mask of the tokens that are computed: True for real ones; None without padding."""
        return self.query.mask

    def rotate(
        self, heads: Float[Tensor, "batch heads length head_width"]
    ) -> Float[Tensor, "batch heads length head_width"]:
        """Applies the positional encoding's rotation to query or key heads of the tokens that are computed.

        Keys of cross-attention, which belong to the memory, are rotated by `context.key.rotate`.
        """
        return self.query.rotate(heads)

    def product(self, x: Float[Tensor, "*batch width"], *maps: nn.Linear) -> Float[Tensor, "*batch outputs"]:
        """Returns the concatenated outputs of linear maps of `x`, computed as one matrix product.

        Each map keeps parameters of its own, with their names, initial values and updates.
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
        """Writes keys and values into the key-value cache; returns those of all tokens so far.

        In training they are returned as they are. Tensors other than keys and values, which are (batch,
        heads, length, head width), have the length on their last axis but one, too. Entries after the last
        token of a row are arbitrary, and masked.
        """
        if self.state is None:
            return new
        self.state.shared = new if self.slots is None else self.state.write(new, self.slots)
        return self.state.shared

    def once(self, make: Callable[[Tensor], Tensors]) -> Tensors:
        """Returns `make(memory)`, such as keys and values; decoding calls it once, and keeps the result."""
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
        """Keeps a running state, a summary of all tokens so far, for the next step; in training nothing.

        Its shape is fixed. Tokens that are not `real` must not change it: padding at the end of a row, and
        tokens that a layer leaves out, also between others.

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
        """Returns a context in which all other keys are masked; `state` keeps which tokens these were."""
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
        """Computes the mask and the bias that layers share, before layers that compute again or compiled."""
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
        mask, allowed = self.key.mask, self._allowed
        if mask is None and allowed is not None:
            return allowed[:, None]
        mask = torch.ones_like(self.key.index, dtype=torch.bool) if mask is None else mask
        mask = mask[:, None, None]
        return mask if allowed is None else mask & allowed[:, None]

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
    """Returns the concatenated weights and biases of linear maps."""
    bias = torch.cat([each.bias for each in maps]) if biased else None
    return torch.cat([each.weight for each in maps]), bias


def _is_plain(part: nn.Linear) -> bool:
    """Returns whether a linear map is a matrix product that nobody changes or watches."""
    hooks = (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, part._backward_pre_hooks)
    return type(part) is nn.Linear and "forward" not in part.__dict__ and not any(hooks)


def _room(like: Tensor, rows: int, slots: int) -> Tensor:
    """Returns memory for slots that are contiguous within each row."""
    return like.new_empty(rows, slots, *like.shape[1:-2], like.shape[-1]).movedim(1, -2)
