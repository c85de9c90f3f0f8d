"""Every check of attention catches a fault that it is there for."""

import torch
from tests.testing.mutants import after, before, changed, instead, mutant_tests

from plugformer.interfaces import EVERYTHING, PAST, AttentionContext, Padding, Positions
from plugformer.registry import Kind
from plugformer_blocks import PositionwiseState
from plugformer_plugins.attention.grouped import MultiHeadAttention
from plugformer_testing import check


def seen(context, *, query=None, key=None, view=None, observer=None):
    """Returns a context with other positions, or another view; nobody observes it by default."""
    return AttentionContext(
        query or context.query, key or context.key, view=view or context.view, observer=observer
    )


def without_mask(key, padding=None):
    return changed(key, mask=torch.ones_like(key.mask), padding=padding)


def still(positions):
    return changed(positions, index=torch.zeros_like(positions.index))


def attending(name, scope):
    """Returns an attention that computes in another scope: a function of (self, context)."""
    plain = MultiHeadAttention.attend
    return instead(
        name,
        MultiHeadAttention,
        attend=lambda self, query, state, context: plain(self, query, state, scope(self, context)),
    )


def returning(name, change):
    """Returns an attention whose outputs are changed: a function of (self, output, query, state, context)."""
    return after(name, MultiHeadAttention, attend=change)


def keeping(name, state):
    """Returns an attention that keeps another state."""
    return after(name, MultiHeadAttention, project=lambda self, made, *_: state(*made.tensors))


class CountsPadding(MultiHeadAttention):
    """Places keys and queries by column instead of by their positions."""

    def project(self, memory, positions):
        return super().project(memory, self.columns(positions))

    def attend(self, query, state, context):
        key = self.columns(context.key)
        at = key if context.query is context.key else context.query
        return super().attend(query, state, seen(context, query=at, key=key))

    def columns(self, positions):
        return changed(positions, index=torch.arange(positions.length)[None].expand(positions.mask.shape))


class NotANumber(MultiHeadAttention):
    """A plain softmax: rows that see nothing are NaN."""

    def attend(self, query, state, context):
        key, value = (tensor.transpose(1, 2) for tensor in state.tensors)
        heads = context.query.rotate(self.query(query).unflatten(-1, (self.heads, -1)).transpose(1, 2))
        scores = heads @ key.transpose(-2, -1)
        weights = scores.masked_fill(~context.mask, -torch.inf).softmax(-1)
        return self.output((weights @ value).transpose(1, 2).flatten(-2))


class OffByOneState(PositionwiseState):
    """Keys move by one whenever some are appended."""

    def append(self, new):
        (key, value), (new_key, new_value) = self.tensors, new.tensors
        moved = torch.cat([value.roll(1, 1), new_value], 1)
        return OffByOneState(torch.cat([key, new_key], 1), moved)


class RestartsPositions(MultiHeadAttention):
    """Rotates the keys of every piece as if it were the first."""

    def project(self, memory, positions):
        return super().project(memory, Positions.of(positions.mask, positions.encoding, positions.padding))


def write_into_the_state(self, read, query, state, context):
    with torch.no_grad():
        state.tensors[1].mul_(1.1)
    return read


class FixedRows(PositionwiseState):
    """Keeps the first rows, whichever are selected."""

    def select(self, rows):
        return FixedRows(*(tensor[: len(rows)] for tensor in self.tensors))


class CannotSelect(PositionwiseState):
    def select(self, rows):
        raise NotImplementedError("select")


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


class UnrotatedQueries(MultiHeadAttention):
    def attend(self, query, state, context):
        turned, here = seen(context), still(context.query)
        turned.query = type("Still", (), {"rotate": here.rotate, "length": context.query.length})()
        turned.__dict__.update(
            mask=context.mask, bias=context.bias, is_causal=False, _allowed=context._allowed
        )
        turned.content_bias = context.content_bias
        return super().attend(query, state, turned)


class ShowsUnmaskedWeights(MultiHeadAttention):
    def attend(self, query, state, context):
        shape = (len(query), self.heads, query.shape[1], context.key.length)
        context.record("weights", torch.full(shape, 1 / context.key.length))
        return super().attend(query, state, seen(context))


class ShowsOtherWeights(MultiHeadAttention):
    """Shows weights that respect the mask and sum to one, but are not those used."""

    def attend(self, query, state, context):
        shape = (len(query), self.heads, query.shape[1], context.key.length)
        shown = context.mask.expand(shape).double()
        context.record("weights", shown / shown.sum(dim=-1, keepdim=True).clamp(min=1))
        return super().attend(query, state, seen(context))


class DropsForever(MultiHeadAttention):
    def attend(self, query, state, context):
        training, self.training = self.training, True
        read = super().attend(query, state, context)
        self.training = training
        return read


def two_keys(self, context):
    near = context.key.mask & (context.key.index < 2)
    return seen(context, key=changed(context.key, mask=near, padding=Padding.ANYWHERE))


def unmasked_where_observed(self, context):
    """Computes cross-attention without the padding mask where somebody looks."""
    if not (context.cross and context.observed):
        return context
    key = without_mask(context.key, Padding.NONE)
    return seen(context, key=key, view=EVERYTHING, observer=context.observer)


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
        if self.reads_layer is not None:
            context = seen(context, query=still(context.query), view=EVERYTHING)
        return super().attend(query, state, context)


SeesPadding = attending("SeesPadding", lambda _, context: seen(context, key=without_mask(context.key)))
LearnsFromTheFuture = returning(
    "LearnsFromTheFuture",
    lambda _, read, query, *__: read + (query - query.detach()).sum(dim=1, keepdim=True),
)
MUTANTS = {
    "the_view_is_followed": (
        attending("SeesThePast", lambda _, at: seen(at, view=PAST if at.view.causal else at.view)),
        attending("LosesMarks", lambda _, at: seen(at, key=changed(at.key))),
    ),
    "shapes": (
        ReadsItself,
        ReadsAReader,
        returning("NeedsEqualLengths", lambda _, read, query, state, context: read[:, : context.key.length]),
    ),
    "cached_pieces_equal_the_whole": (
        GrowsTheOwners,
        keeping("OffByOneCache", OffByOneState),
        RestartsPositions,
        attending(  # lets the tokens of a chunk see one another whenever there is a past
            "OpenChunks",
            lambda _, at: seen(at, view=at.view if at.query.length == at.key.length else EVERYTHING),
        ),
    ),
    "the_future_is_not_seen": (
        ReaderIsUnrotated,
        attending("Sees", lambda _, at: seen(at, query=changed(at.query, index=at.query.index + 1))),
        LearnsFromTheFuture,
    ),
    "distances_alone_matter": (ReaderIsUnrotated, UnrotatedQueries),
    "exports": (
        returning("KnowsTheBatch", lambda _, read, query, *__: read[: int(query.new_ones(len(query)).sum())]),
        returning("Other", lambda _, read, *__: read * (2 if torch.compiler.is_exporting() else 1)),
    ),
    "last_map_is_linear": (
        returning("NormalizesItsOutput", lambda _, read, *__: torch.nn.functional.normalize(read, dim=-1)),
    ),
    "every_real_token_is_read": (attending("ReadsTwoKeys", two_keys),),
    "dropout_ends_with_training": (
        DropsForever,
        attending(
            "Leaks", lambda self, context: seen(context, view=EVERYTHING if self.training else context.view)
        ),
        attending(
            "SeesPaddingInTraining",
            lambda self, at: seen(at, key=without_mask(at.key)) if self.training else at,
        ),
    ),
    "padding_is_not_seen": (SeesPadding, LearnsFromTheFuture),
    "padding_moves_nothing": (SeesPadding, CountsPadding),
    "rows_are_independent": (
        returning("MixesRows", lambda _, read, *__: read - read.mean(dim=0, keepdim=True)),
        returning("NumbersRows", lambda _, read, *__: read * torch.arange(1, len(read) + 1)[:, None, None]),
    ),
    "rows_without_real_tokens_are_harmless": (NotANumber,),
    "projecting_pieces_equals_projecting_the_whole": (
        before(
            "Centers", MultiHeadAttention, project=lambda _, memory: memory - memory.mean(1, keepdim=True)
        ),
    ),
    "cross_attention_goes_on_by_steps": (returning("GrowingState", write_into_the_state),),
    "rows_can_be_selected": (
        keeping("IgnoresSelection", FixedRows),
        keeping("ForgetsASelection", SelectsLater),
        keeping("RaisesOnSelection", CannotSelect),
    ),
    "looking_changes_nothing": (
        returning("OtherWhenObserved", lambda _, read, query, state, context: read * (1 + context.observed)),
        attending("ShowsCrossingUnmasked", unmasked_where_observed),
    ),
    "shown_weights_respect_the_mask": (ShowsUnmaskedWeights,),
    "shown_weights_are_those_used": (ShowsOtherWeights,),
}


def test_attention_that_shares_states_is_sound():
    assert check(Shared)


test_is_caught, test_every_check_catches_one = mutant_tests(
    MUTANTS, Kind.ATTENTION, raising=("RaisesOnSelection",)
)


def test_an_exception_at_later_positions_says_which_they_are():
    def indexed(self, read, query, state, context):
        return read[:, context.query.index[0]]

    mutant = returning("IndexesByPosition", indexed)
    (outcome,) = check(mutant, only="distances_alone_matter").outcomes
    assert outcome.message.startswith("raised for a sequence whose first token has the position 9 IndexError")


def test_a_map_that_is_not_linear_is_named_with_its_declaration():
    mutant = returning(
        "NormalizesItsOutput", lambda _, read, *__: torch.nn.functional.normalize(read, dim=-1)
    )
    (outcome,) = check(mutant, only="last_map_is_linear").outcomes
    assert "'output', the last map that it names in `residual_path`" in outcome.message
