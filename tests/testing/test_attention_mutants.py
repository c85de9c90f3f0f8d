"""Every check of attention catches a fault that it is there for."""

from dataclasses import fields, replace

import torch
from tests.testing.mutants import after, instead, mutant_tests
from torch.nn.functional import normalize

from plugformer.interfaces import BIDIRECTIONAL, CAUSAL, Context, Positions
from plugformer.interfaces.context import State
from plugformer.registry import Kind
from plugformer_blocks import project_heads, softmax_attention, split_heads
from plugformer_plugins.attention.grouped import MultiHeadAttention
from plugformer_testing import check


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


class Composed(MultiHeadAttention):
    """Attention of parts that may be faulty."""

    def forward(self, x, context):
        heads = project_heads(x, context, self.query, self.key, self.value, width=self.width)
        return self.output(self.read(x, *heads, context).transpose(1, 2).flatten(-2))


class NotANumber(Composed):
    """A plain softmax: rows that see nothing are NaN."""

    def read(self, x, query, key, value, context):
        return (query @ key.mT).masked_fill(~context.mask, -torch.inf).softmax(-1) @ value


class UnrotatedQueries(Composed):
    def read(self, x, query, key, value, context):
        return softmax_attention(split_heads(self.query(x), self.width), key, value, context)


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


def by_column(self, context):
    """Writes into the cache where the longest row goes on."""
    if context.slots is None:
        return context
    start = context.slots.end - context.query.length
    return replace(context, slots=replace(context.slots, start=start, index=None))


def write_into_the_memory(self, read, x, context):
    if context.state is not None:
        context.state.kept[1].mul_(1.1)
    return read


class ShowsUnmaskedWeights(MultiHeadAttention):
    def forward(self, x, context):
        shape = (len(x), self.heads, x.shape[1], context.key.length)
        context.record("weights", torch.full(shape, 1 / context.key.length))
        return super().forward(x, replace(context, observer=None))


class ShowsOtherWeights(MultiHeadAttention):
    """Shows weights that respect the mask and sum to one, but are not those used."""

    def forward(self, x, context):
        shape = (len(x), self.heads, x.shape[1], context.key.length)
        shown = context.mask.expand(shape).double()
        context.record("weights", shown / shown.sum(dim=-1, keepdim=True).clamp(min=1))
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


class ReadsItself(Shared):
    def __init__(self, model):
        super().__init__(model)
        if self.reads_layer is not None:
            self.reads_layer = model.place.layer


class ReadsAReader(Shared):
    def __init__(self, model):
        super().__init__(model)
        self.reads_layer = model.place.layer - 1 if model.place.layer else None


class WritesToTheOwner(Shared):
    """Puts its own keys and values where the layer below keeps those that both read."""

    def forward(self, x, context):
        if self.reads_layer is not None and context.slots is not None:
            new = (split_heads(each(x), self.width) for each in (self.key, self.value))
            context.state.owner.write(tuple(new), context.slots)
        return super().forward(x, context)


class ReaderIsUnrotated(Shared):
    def forward(self, x, context):
        if self.reads_layer is not None:
            context = replace(context, query=still(context.query), view=BIDIRECTIONAL)
        return super().forward(x, context)


SeesPadding = attending("SeesPadding", lambda _, context: unmasked(context))
LearnsFromTheFuture = returning(
    "LearnsFromTheFuture", lambda _, read, x, at: read + (x - x.detach()).sum(dim=1, keepdim=True)
)
MUTANTS = {
    "the_view_is_followed": (
        attending("SeesThePast", lambda _, at: replace(at, view=CAUSAL if at.view.causal else at.view)),
        attending("LosesMarks", lambda _, at: replace(at, key=replace(at.key, marks={}))),
    ),
    "shapes": (
        ReadsItself,
        ReadsAReader,
        returning("NeedsEqualLengths", lambda _, read, x, context: read[:, : context.key.length]),
    ),
    "cached_pieces_equal_the_whole": (
        WritesToTheOwner,
        keeping("OffByOneCache", cached=off_by_one),
        keeping(  # rotates every piece as if it were the first
            "RestartsPositions",
            rotate=lambda self, heads: Positions.of(self.query.length, self.query.encoding).rotate(heads),
        ),
        attending(  # lets the tokens of a piece see one another whenever there is a past
            "OpenPieces",
            lambda _, at: replace(at, view=BIDIRECTIONAL) if at.slots and at.slots.start != 0 else at,
        ),
        attending("WritesByColumn", by_column),
        attending("ReadsWhatIsBehind", lambda _, at: unmasked(at) if at.slots else at),
    ),
    "the_future_is_not_seen": (
        ReaderIsUnrotated,
        attending("Sees", lambda _, at: replace(at, query=replace(at.query, index=at.query.index + 1))),
        LearnsFromTheFuture,
    ),
    "distances_alone_matter": (ReaderIsUnrotated, UnrotatedQueries),
    "exports": (
        returning("KnowsTheBatch", lambda _, read, x, at: read[: int(x.new_ones(len(x)).sum())]),
        returning("CountsInSteps", lambda _, read, x, at: read[: len(x)] if at.slots else read),
        returning("Other", lambda _, read, *__: read * (2 if torch.compiler.is_exporting() else 1)),
    ),
    "keeps_the_format": (
        returning("InFloat32", lambda _, read, x, at: read.float() if x.dtype == torch.bfloat16 else read),
        returning(
            "OfItsParameters",
            lambda self, read, x, at: read.to(self.output.weight.dtype) if at.real is not None else read,
        ),
    ),
    "last_map_is_linear": (returning("NormalizesItsOutput", lambda _, read, *__: normalize(read, dim=-1)),),
    "every_real_token_is_read": (attending("ReadsTwoKeys", two_keys),),
    "dropout_ends_with_training": (
        DropsForever,
        attending("Leaks", lambda self, at: replace(at, view=BIDIRECTIONAL if self.training else at.view)),
        attending("SeesPaddingInTraining", lambda self, at: unmasked(at) if self.training else at),
    ),
    "padding_is_not_seen": (
        SeesPadding,
        LearnsFromTheFuture,
        returning(
            "NothingAtPadding",
            lambda _, read, x, at: read if at.real is None else read / at.real[..., None],
        ),
    ),
    "padding_moves_nothing": (
        SeesPadding,
        returning("CountsPadding", lambda _, read, x, context: read * x.shape[1]),
    ),
    "some_tokens_can_be_taken": (
        keeping("AlwaysCausal", is_causal=property(lambda self: self.view.is_causal(self.query, self.key))),
    ),
    "rows_are_independent": (
        returning("MixesRows", lambda _, read, *__: read - read.mean(dim=0, keepdim=True)),
        returning("NumbersRows", lambda _, read, *__: read * torch.arange(1, len(read) + 1)[:, None, None]),
    ),
    "rows_without_real_tokens_are_harmless": (NotANumber,),
    "cross_attention_goes_on_by_steps": (
        returning("GrowingMemory", write_into_the_memory),
        keeping("ReadsTheMemoryAgain", once=lambda self, make: make(self.memory)),
    ),
    "rows_can_be_selected": (keeping("KeepsForItself", cached=keep_for_itself),),
    "looking_changes_nothing": (
        returning("OtherWhenObserved", lambda _, read, x, context: read * (1 + context.observed)),
        attending("ShowsCrossingUnmasked", lambda _, at: unmasked(at) if at.cross and at.observed else at),
    ),
    "shown_weights_respect_the_mask": (ShowsUnmaskedWeights,),
    "shown_weights_are_those_used": (ShowsOtherWeights,),
}


def test_attention_that_shares_states_is_sound():
    assert check(Shared)


test_is_caught, test_every_check_catches_one = mutant_tests(
    MUTANTS, Kind.ATTENTION, raising=("KeepsForItself",)
)


def test_an_exception_at_later_positions_says_which_they_are():
    def indexed(self, read, x, context):
        return read[:, context.query.index[0]]

    mutant = returning("IndexesByPosition", indexed)
    (outcome,) = check(mutant, only="distances_alone_matter").outcomes
    assert outcome.message.startswith("raised for a sequence whose first token has the position 9 IndexError")


def test_a_map_that_is_not_linear_is_named_with_its_declaration():
    mutant = returning("NormalizesItsOutput", lambda _, read, *__: normalize(read, dim=-1))
    (outcome,) = check(mutant, only="last_map_is_linear").outcomes
    assert "'output', the last map that it names in `residual_path`" in outcome.message


def test_a_memory_that_cross_attention_does_not_read_is_named():
    mutant = attending("ReadsItsInput", lambda _, at: replace(at, cross=False, key=at.query))
    (outcome,) = check(mutant, only="every_real_token_is_read").outcomes
    assert outcome.message.startswith("the memory is not read (see `context.once`), in cross-attention")


def test_tokens_that_are_not_read_are_named_with_their_place():
    (outcome,) = check(MUTANTS["every_real_token_is_read"][0], only="every_real_token_is_read").outcomes
    assert (
        outcome.message
        == "query 0 does not read the tokens [2, 3, 4], in cross-attention in layer 1 of the decoder"
    )
