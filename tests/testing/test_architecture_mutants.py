"""Every check of architectures catches a fault that it is there for."""

from dataclasses import replace

import torch
from tests.testing.mutants import mutant_tests

from plugformer.interfaces import IGNORED, Level, Limits, Padding, Ragged, Tokens
from plugformer.kinds import Kind
from plugformer_plugins.architecture.decoder_only import DecoderModel, DecoderOnly
from plugformer_plugins.architecture.encoder_decoder import EncoderDecoder, EncoderDecoderModel
from plugformer_plugins.architecture.encoder_only import EncoderModel, EncoderOnly


def building(architecture, model):
    """Returns a `build` that makes another model of the same parts."""

    def build(self, builder, sizes, level):
        made = architecture.build(self, builder, sizes, level)
        made.__class__ = model
        return made

    return build


class ServesNothing(DecoderOnly):
    levels = frozenset()


class HidesItsStack(DecoderOnly):
    """Names a stack that the model does not have."""

    def build(self, builder, sizes, level):
        made = super().build(builder, sizes, level)
        made.transformer = made.decoder
        del made._modules["decoder"]
        return made


class PadsRight(DecoderOnly):
    def collate(self, encoded, level, *, side="right", length=None):
        return super().collate(encoded, level, length=length)


class ForgetsTheLength(EncoderDecoder):
    def collate(self, encoded, level, *, side="right", length=None):
        return super().collate(encoded, level, side=side)


class SaysNoPadding(EncoderOnly):
    def collate(self, encoded, level, *, side="right", length=None):
        batch = super().collate(encoded, level, side=side, length=length)
        return replace(batch, source=replace(batch.source, padding=Padding.NONE))


class LosesTheFirstTarget(EncoderOnly):
    def collate(self, encoded, level, *, side="right", length=None):
        if isinstance(encoded.targets, Ragged):
            values = encoded.targets.values.copy()
            values[0] = IGNORED
            encoded = replace(encoded, targets=Ragged(values, encoded.targets.lengths))
        return super().collate(encoded, level, side=side, length=length)


class EndsEveryPiece(DecoderOnly):
    """Expects END behind a piece of a text that goes on."""

    def collate(self, encoded, level, *, side="right", length=None):
        return super().collate(replace(encoded, complete=True), level, side=side, length=length)


class CountsPadding(DecoderModel):
    """Counts padding as positions."""

    def hidden(self, batch):
        target = batch.target
        every = torch.ones_like(target.mask)
        return super().hidden(replace(batch, target=Tokens(target.ids, every, Padding.NONE)))


class PositionsOfPadding(DecoderOnly):
    build = building(DecoderOnly, CountsPadding)


class SubtractsTheMean(EncoderModel):
    def hidden(self, batch):
        hidden = super().hidden(batch)
        return hidden - hidden[:, :1].mean(dim=0, keepdim=True)


class MixesTheBatch(EncoderOnly):
    build = building(EncoderOnly, SubtractsTheMean)


class Averages(EncoderDecoderModel):
    def forward(self, batch):
        loss = super().forward(batch)
        return loss._replace(total=loss.total / loss.targets)


class AveragesLosses(EncoderDecoder):
    build = building(EncoderDecoder, Averages)


class SeesAll(DecoderModel):
    """Reads in both directions while training."""

    def hidden(self, batch):
        target = Tokens(batch.target.ids[:, :-1], self.targets_read(batch), batch.target.padding)
        forward = super().hidden(batch)
        turned = self.decoder.embedding(target.ids).masked_fill(~target.mask[..., None], 0)
        return forward + turned.sum(dim=1, keepdim=True)

    def targets_read(self, batch):
        return batch.target.mask[:, :-1] & batch.target.mask[:, 1:]


class Bidirectional(DecoderOnly):
    levels = frozenset({Level.NEXT_TOKEN})
    build = building(DecoderOnly, SeesAll)


class LeavesOutTheBeginning(EncoderDecoder):
    """Cuts the first token off inputs."""

    def collate(self, encoded, level, *, side="right", length=None):
        cut = Ragged.of([row[1:] for row in encoded.input.rows()])
        return super().collate(replace(encoded, input=cut), level, side=side, length=length)


class TwoEmbeddings(EncoderOnly):
    """Keeps an embedding that nobody reads."""

    def build(self, builder, sizes, level):
        made = super().build(builder, sizes, level)
        made.other = builder.embedding(sizes.source, tied=False)
        return made


class ForgetsEnd(DecoderOnly):
    def positions(self, lengths, level):
        return super().positions(lengths, level) - 1


class WithoutEnd(EncoderOnly):
    """Leaves no room for BEGIN and END."""

    def limits(self, max_length, level):
        return Limits(max_length, max_length, max_length)


class StartsTwice(EncoderDecoderModel):
    """Reads the first token of an output when it begins, too."""

    def begin(self, batch):
        past, last = super().begin(batch)
        self.step(Tokens(last[:, None], torch.ones_like(last, dtype=torch.bool)[:, None], Padding.NONE), past)
        return past, last


class ReadsBeginTwice(EncoderDecoder):
    build = building(EncoderDecoder, StartsTwice)


class LastOfTheLongest(DecoderModel):
    """Takes what stands in the last column for the last token of every prompt."""

    def begin(self, batch):
        past, _ = super().begin(batch)
        return past, batch.target.ids[:, -1]


class PromptsOfOneLength(DecoderOnly):
    build = building(DecoderOnly, LastOfTheLongest)


class Kept:
    """What is kept, of which rows of one example cannot change places."""

    def __init__(self, past):
        self.past = past

    def select(self, rows):
        self.past.select(rows)

    def reorder(self, rows):
        pass


class StaysInPlace(EncoderDecoderModel):
    def begin(self, batch):
        past, last = super().begin(batch)
        return Kept(past), last

    def step(self, tokens, past):
        return super().step(tokens, past.past)


class NeverReorders(EncoderDecoder):
    build = building(EncoderDecoder, StaysInPlace)


class Boundless(DecoderModel):
    def room(self, batch):
        return torch.full_like(super().room(batch), 16)


class RoomForAll(DecoderOnly):
    build = building(DecoderOnly, Boundless)


class CountsSpecial(EncoderDecoderModel):
    def input_lengths(self, batch):
        return super().input_lengths(batch) + 1


class CountsEnd(EncoderDecoder):
    build = building(EncoderDecoder, CountsSpecial)


MUTANTS = [
    (ServesNothing, "every_level_builds", "it serves no level"),
    (HidesItsStack, "every_level_builds", r"has the stacks \['transformer'\], it declares \['decoder'\]"),
    (
        PadsRight,
        "sequences_are_padded_as_asked",
        r"target is not on the left.*smallest case: next-token: inputs",
    ),
    (ForgetsTheLength, "sequences_are_padded_as_asked", "of a least length of 16 the longest sequence has 6"),
    (SaysNoPadding, "sequences_are_padded_as_asked", "says that its padding is NONE, but it is on the right"),
    (LosesTheFirstTarget, "targets_are_those_of_the_examples", r"the targets are \[\[2\], "),
    (EndsEveryPiece, "targets_are_those_of_the_examples", r"3\]\], expected"),
    (PositionsOfPadding, "padding_changes_nothing", "with padding on the left, hidden states differ"),
    (MixesTheBatch, "neighbors_change_nothing", "an example's hidden states change with others"),
    (AveragesLosses, "losses_add_up", "the losses of examples do not add up"),
    (Bidirectional, "nothing_reads_what_it_predicts", "before token 0 of an output .*: the future leaks"),
    (LeavesOutTheBeginning, "all_that_is_given_is_read", "changes with the first token of the input"),
    (TwoEmbeddings, "every_parameter_gets_a_gradient", "other.weight gets no gradient"),
    (ForgetsEnd, "positions_cover_a_batch", r"positions says 7 for .*, a batch of them has 8"),
    (WithoutEnd, "limits_are_honest", "inputs of 16 tokens keeps to the limits .* of 16 positions, but"),
    (ReadsBeginTwice, "continuing_equals_reading", "step 2, .* differs from reading all at once"),
    (PromptsOfOneLength, "continuing_equals_reading", "the first step differs"),
    (NeverReorders, "continuing_equals_reading", "step 2, after rows were selected, differs"),
    (RoomForAll, "there_is_room_for_an_output", "there is room for .* of 16 positions, but: a sequence of"),
    (
        CountsEnd,
        "there_is_room_for_an_output",
        r"input_lengths gives \[4, 2, 6\], the inputs have \[3, 1, 5\]",
    ),
]


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.ARCHITECTURE)
