"""Every check of attention catches a fault that it is there for."""

import torch
from tests.testing.mutants import changed, mutant_tests

from plugformer.interfaces import AttentionContext, Padding, Positions
from plugformer.registry import Kind
from plugformer_blocks import PositionwiseState
from plugformer_plugins.attention.grouped import MultiHeadAttention
from plugformer_testing import check


def seen(context, *, query=None, key=None, causal=None, observer=None):
    """Returns a context with other positions, or that is causal or not; nobody observes it by default."""
    causal = context.causal if causal is None else causal
    return AttentionContext(query or context.query, key or context.key, causal=causal, observer=observer)


class Altered(MultiHeadAttention):
    """Multi-head attention with one thing wrong."""

    def plain(self, query, state, context):
        return super().attend(query, state, context)


class SeesTheFuture(Altered):
    """Leaks the next key."""

    def attend(self, query, state, context):
        later = changed(context.query, index=context.query.index + 1)
        return self.plain(query, state, seen(context, query=later))


class LearnsFromTheFuture(Altered):
    def attend(self, query, state, context):
        whole = query.sum(dim=1, keepdim=True)
        return self.plain(query, state, context) + (whole - whole.detach())


class SeesPadding(Altered):
    """Ignores the padding mask."""

    def attend(self, query, state, context):
        key = changed(context.key, mask=torch.ones_like(context.key.mask))
        return self.plain(query, state, seen(context, key=key))


class CountsPadding(Altered):
    """Places keys and queries by column instead of by their positions."""

    def project(self, memory, positions):
        return super().project(memory, self.columns(positions))

    def attend(self, query, state, context):
        same = context.query is context.key
        key = self.columns(context.key)
        return self.plain(query, state, seen(context, query=key if same else context.query, key=key))

    def columns(self, positions):
        return changed(positions, index=torch.arange(positions.length)[None].expand(positions.mask.shape))


class MixesRows(Altered):
    def attend(self, query, state, context):
        read = self.plain(query, state, context)
        return read - read.mean(dim=0, keepdim=True)


class NumbersRows(Altered):
    def attend(self, query, state, context):
        return self.plain(query, state, context) * torch.arange(1, len(query) + 1)[:, None, None]


class NotANumber(Altered):
    """A plain softmax: rows that see nothing are NaN."""

    def attend(self, query, state, context):
        key, value = (tensor.transpose(1, 2) for tensor in state.tensors)
        heads = context.query.rotate(self.query(query).unflatten(-1, (self.heads, -1)).transpose(1, 2))
        scores = heads @ key.transpose(-2, -1)
        weights = scores.masked_fill(~context.mask, -torch.inf).softmax(-1)
        return self.output((weights @ value).transpose(1, 2).flatten(-2))


class OffByOneState(PositionwiseState):
    def append(self, new):
        return OffByOneState(
            *(torch.cat([old.roll(1, 1), add], 1) for old, add in zip(self.tensors, new.tensors, strict=True))
        )


class OffByOneCache(Altered):
    """Keys move by one whenever some are appended."""

    def project(self, memory, positions):
        key, value = super().project(memory, positions).tensors
        state = OffByOneState(value)
        return TwoStates(PositionwiseState(key), state)


class TwoStates(PositionwiseState):
    """Keys in one state, values in another that is off by one."""

    def __init__(self, keys, values):
        self.keys, self.values = keys, values

    @property
    def tensors(self):
        return (*self.keys.tensors, *self.values.tensors)

    def append(self, new):
        return TwoStates(self.keys.append(new.keys), self.values.append(new.values))

    def select(self, rows):
        return TwoStates(self.keys.select(rows), self.values.select(rows))


class RestartsPositions(Altered):
    """Rotates the keys of every piece as if it were the first."""

    def project(self, memory, positions):
        return super().project(memory, Positions.of(positions.mask, positions.encoding, positions.padding))


class OpenChunks(Altered):
    """Lets the tokens of a chunk see one another whenever there is a past."""

    def attend(self, query, state, context):
        whole = context.query.length == context.key.length
        return self.plain(query, state, seen(context, causal=context.causal and whole))


class CentersMemory(Altered):
    """Its projection of a piece depends on the piece."""

    def project(self, memory, positions):
        return super().project(memory - memory.mean(dim=1, keepdim=True), positions)


class GrowingState(Altered):
    """Reading writes into the state."""

    def attend(self, query, state, context):
        read = self.plain(query, state, context)
        with torch.no_grad():
            state.tensors[1].mul_(1.1)
        return read


class FixedRows(PositionwiseState):
    def select(self, rows):
        return FixedRows(*(tensor[: len(rows)] for tensor in self.tensors))


class IgnoresSelection(Altered):
    """Keeps the first rows, whichever are selected."""

    def project(self, memory, positions):
        return FixedRows(*super().project(memory, positions).tensors)


class RaisesOnSelection(Altered):
    class Missing(PositionwiseState):
        def select(self, rows):
            raise NotImplementedError("select")

    def project(self, memory, positions):
        return self.Missing(*super().project(memory, positions).tensors)


class UnrotatedQueries(Altered):
    def attend(self, query, state, context):
        here = changed(context.query, index=torch.zeros_like(context.query.index))
        turned = seen(context)
        turned.query = type("Still", (), {"rotate": here.rotate, "length": context.query.length})()
        turned.__dict__.update(mask=context.mask, bias=context.bias, is_causal=False)
        turned.content_bias = context.content_bias
        return self.plain(query, state, turned)


class OtherWhenObserved(Altered):
    def attend(self, query, state, context):
        return self.plain(query, state, context) * (2 if context.observed else 1)


class ShowsUnmaskedWeights(Altered):
    def attend(self, query, state, context):
        shape = (len(query), self.heads, query.shape[1], context.key.length)
        context.record("weights", torch.full(shape, 1 / context.key.length))
        return self.plain(query, state, seen(context))


class ShowsOtherWeights(Altered):
    """Shows weights that respect the mask and sum to one, but are not those used."""

    def attend(self, query, state, context):
        shape = (len(query), self.heads, query.shape[1], context.key.length)
        shown = context.mask.expand(shape).double()
        context.record("weights", shown / shown.sum(dim=-1, keepdim=True).clamp(min=1))
        return self.plain(query, state, seen(context))


class DropsForever(Altered):
    def attend(self, query, state, context):
        training, self.training = self.training, True
        read = self.plain(query, state, context)
        self.training = training
        return read


class NeedsEqualLengths(Altered):
    def attend(self, query, state, context):
        read = self.plain(query, state, context)
        return read[:, : context.key.length]


class ReadsTwoKeys(Altered):
    def attend(self, query, state, context):
        key = context.key
        near = key.mask & (key.index < 2)
        key = changed(key, mask=near, padding=Padding.ANYWHERE)
        return self.plain(query, state, seen(context, key=key))


class NormalizesItsOutput(MultiHeadAttention):
    def attend(self, query, state, context):
        return torch.nn.functional.normalize(super().attend(query, state, context), dim=-1)


class Shared(MultiHeadAttention):
    """Odd layers read the state of the layer below."""

    def __init__(self, model):
        super().__init__(model)
        if model.place.layer % 2:
            self.reads_layer = model.place.layer - 1


class ReadsItself(Shared):
    def __init__(self, model):
        super().__init__(model)
        if self.reads_layer is not None:
            self.reads_layer = model.place.layer


class ReadsAReader(Shared):
    def __init__(self, model):
        super().__init__(model)
        self.reads_layer = model.place.layer - 1 if model.place.layer else None


class GrowsTheOwners(Shared):
    """Appends what it has read to a state that is another's."""

    def attend(self, query, state, context):
        read = super().attend(query, state, context)
        if self.reads_layer is not None:
            state.append(self.project(query, context.query))
        return read


class ReaderIsUnrotated(Shared):
    def attend(self, query, state, context):
        if self.reads_layer is None:
            return super().attend(query, state, context)
        still = changed(context.query, index=torch.zeros_like(context.query.index))
        return super().attend(query, state, seen(context, query=still, causal=False))


class LeaksInTraining(Altered):
    """Is causal in evaluation mode only."""

    def attend(self, query, state, context):
        causal = context.causal and not self.training
        return self.plain(query, state, seen(context, causal=causal))


class SeesPaddingInTraining(SeesPadding):
    def attend(self, query, state, context):
        return super().attend(query, state, context) if self.training else self.plain(query, state, context)


class ShowsCrossingUnmasked(Altered):
    """Computes cross-attention without the padding mask where somebody looks."""

    def attend(self, query, state, context):
        if not (context.cross and context.observed):
            return self.plain(query, state, context)
        key = changed(context.key, mask=torch.ones_like(context.key.mask), padding=Padding.NONE)
        return self.plain(query, state, seen(context, key=key, causal=False, observer=context.observer))


class SelectsLater(PositionwiseState):
    """Notes which rows are selected, and forgets them when others are before it has moved any."""

    chosen = None

    def select(self, rows):
        self.chosen = rows
        return self

    def append(self, new):
        if self.chosen is not None:
            super().select(self.chosen)
            self.chosen = None
        return super().append(new)


class ForgetsASelection(Altered):
    def project(self, memory, positions):
        return SelectsLater(*super().project(memory, positions).tensors)


MUTANTS = {
    "shapes": (ReadsItself, ReadsAReader, NeedsEqualLengths),
    "cached_pieces_equal_the_whole": (GrowsTheOwners, OffByOneCache, RestartsPositions, OpenChunks),
    "the_future_is_not_seen": (ReaderIsUnrotated, SeesTheFuture, LearnsFromTheFuture),
    "distances_alone_matter": (ReaderIsUnrotated, UnrotatedQueries),
    "last_map_is_linear": (NormalizesItsOutput,),
    "every_real_token_is_read": (ReadsTwoKeys,),
    "dropout_ends_with_training": (DropsForever, LeaksInTraining, SeesPaddingInTraining),
    "padding_is_not_seen": (SeesPadding, LearnsFromTheFuture),
    "padding_moves_nothing": (SeesPadding, CountsPadding),
    "rows_are_independent": (MixesRows, NumbersRows),
    "rows_without_real_tokens_are_harmless": (NotANumber,),
    "projecting_pieces_equals_projecting_the_whole": (CentersMemory,),
    "cross_attention_goes_on_by_steps": (GrowingState,),
    "rows_can_be_selected": (IgnoresSelection, ForgetsASelection, RaisesOnSelection),
    "looking_changes_nothing": (OtherWhenObserved, ShowsCrossingUnmasked),
    "shown_weights_respect_the_mask": (ShowsUnmaskedWeights,),
    "shown_weights_are_those_used": (ShowsOtherWeights,),
}


def test_attention_that_shares_states_is_sound():
    assert check(Shared)


test_is_caught, test_every_check_catches_one = mutant_tests(
    MUTANTS, Kind.ATTENTION, raising=(RaisesOnSelection,)
)
