"""Every check of attention catches a fault that it is there for."""

from dataclasses import fields, replace

import torch
from tests.testing.mutants import after, fault_test, instead
from tests.testing.outcomes import failure, unsound
from torch.nn.functional import normalize

from plugformer.interfaces import CAUSAL, Context
from plugformer.interfaces.context import State
from plugformer.registry import Kind
from plugformer_blocks import project_heads, softmax_attention, split_heads
from plugformer_plugins.attention.grouped import MultiHeadAttention


def attending(name, scope):
    """Returns an attention that computes in another context: a function of (self, context)."""
    plain = MultiHeadAttention.forward
    forward = lambda self, x, context: plain(self, x, scope(self, context))  # noqa: E731
    return instead(name, MultiHeadAttention, forward=forward)


def keeping(name, **members):
    """Returns an attention whose context has other methods."""
    other, names = instead(name, Context, **members), [each.name for each in fields(Context) if each.init]
    return attending(name, lambda _, at: other(**{each: getattr(at, each) for each in names}))


def returning(name, change):
    """Returns an attention whose outputs are changed: a function of (self, output, x, context)."""
    return after(name, MultiHeadAttention, forward=change)


def unmasked(context):
    return replace(context, key=replace(context.key, mask=None))


def still(positions):
    return replace(positions, index=torch.zeros_like(positions.index))


class NotANumber(MultiHeadAttention):
    """A plain softmax: rows that see nothing are NaN."""

    def forward(self, x, context):
        query, key, value = project_heads(x, context, self.query, self.key, self.value, width=self.width)
        read = (query @ key.mT).masked_fill(~context.mask, -torch.inf).softmax(-1) @ value
        return self.output(read.transpose(1, 2).flatten(-2))


def off_by_one(self, *new):
    """Values move by one whenever some are appended."""
    key, value = Context.cached(self, *new)
    return key, value if self.slots is None or self.slots.start == 0 else value.roll(1, -2)


ITS_OWN = [State()]


def keep_for_itself(self, *new):
    """Keeps keys and values where no rows are selected."""
    if self.slots is None:
        return new
    if self.slots.start == 0:
        ITS_OWN[0] = State()
    return ITS_OWN[0].write(new, self.slots)


class ShowsScores(MultiHeadAttention):
    """Shows what goes into the softmax."""

    def forward(self, x, context):
        shape = (len(x), self.heads, x.shape[1], context.key.length)
        context.record("weights", context.mask.expand(shape).double() - 0.5)
        return super().forward(x, replace(context, observer=None))


class DropsForever(MultiHeadAttention):
    def forward(self, x, context):
        training, self.training = self.training, True
        read = super().forward(x, context)
        self.training = training
        return read


def two_keys(self, context):
    near = (context.key.index < 2).expand(len(context.mask), -1)
    return replace(context, key=replace(context.key, mask=near), partial=True)


class Shared(MultiHeadAttention):
    """Odd layers read the keys and values of the layer below."""

    def __init__(self, model):
        super().__init__(model)
        if model.place.layer % 2:
            self.reads_layer = model.place.layer - 1

    def forward(self, x, context):
        if self.reads_layer is None:
            return super().forward(x, context)
        query = context.rotate(split_heads(self.query(x), self.width))
        dropout = self.dropout if self.training else 0.0
        read = softmax_attention(query, *context.shared, context, dropout=dropout)
        return self.output(read.transpose(1, 2).flatten(-2))


class WritesToTheOwner(Shared):
    """Puts its own keys and values where the layer below keeps those that both read."""

    def forward(self, x, context):
        if self.reads_layer is not None and context.slots is not None:
            new = (split_heads(each(x), self.width) for each in (self.key, self.value))
            context.state.owner.write(tuple(new), context.slots)
        return super().forward(x, context)


MUTANTS = {
    "the_view_is_followed": attending(
        "SeesThePast", lambda _, at: replace(at, view=CAUSAL if at.view.causal else at.view)
    ),
    "shapes": returning("NeedsEqualLengths", lambda _, read, x, context: read[:, : context.key.length]),
    "cached_pieces_equal_the_whole": keeping("OffByOneCache", cached=off_by_one),
    "the_future_is_not_seen": attending(
        "Sees", lambda _, at: replace(at, query=replace(at.query, index=at.query.index + 1))
    ),
    "distances_alone_matter": attending("UnrotatedQueries", lambda _, at: replace(at, query=still(at.query))),
    "exports": returning("KnowsTheBatch", lambda _, read, x, at: read[: int(x.new_ones(len(x)).sum())]),
    "keeps_the_format": returning(
        "InFloat32", lambda _, read, x, at: read.float() if x.dtype == torch.bfloat16 else read
    ),
    "last_map_is_linear": returning("NormalizesItsOutput", lambda _, read, *__: normalize(read, dim=-1)),
    "every_real_token_is_read": attending("ReadsTwoKeys", two_keys),
    "updates_keep_their_size": returning("GrowsWithTheWidth", lambda _, read, x, __: read * x.shape[-1]),
    "dropout_ends_with_training": DropsForever,
    "padding_is_not_seen": attending("SeesPadding", lambda _, context: unmasked(context)),
    "some_tokens_can_be_taken": keeping(
        "AlwaysCausal", is_causal=property(lambda self: self.view.is_causal(self.query, self.key))
    ),
    "rows_are_independent": returning(
        "MixesRows", lambda _, read, *__: read - read.mean(dim=0, keepdim=True)
    ),
    "rows_without_real_tokens_are_harmless": NotANumber,
    "cross_attention_goes_on_by_steps": keeping(
        "ReadsTheMemoryAgain", once=lambda self, make: make(self.memory)
    ),
    "rows_can_be_selected": keeping("KeepsForItself", cached=keep_for_itself),
    "looking_changes_nothing": returning(
        "OtherWhenObserved", lambda _, read, x, context: read * (1 + context.observed)
    ),
    "shown_weights_fit_the_mask": ShowsScores,
}


test_every_check_catches_a_fault = fault_test(MUTANTS, Kind.ATTENTION, raising=("KeepsForItself",))


def test_attentions_that_share_states_are_checked_together():
    assert not unsound(Shared)
    failure(WritesToTheOwner, "cached_pieces_equal_the_whole")
