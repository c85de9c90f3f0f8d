"""Every check of architectures catches a fault that it is there for."""

from dataclasses import replace

import torch
from tests.testing.mutants import mutant_tests

from plugformer.interfaces import IGNORED, Level, Limits, Padding, Ragged, Tokens
from plugformer.registry import Kind
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


MUTANTS = {
    "every_level_builds": (ServesNothing, HidesItsStack),
    "sequences_are_padded_as_asked": (PadsRight, ForgetsTheLength, SaysNoPadding),
    "targets_are_those_of_the_examples": (LosesTheFirstTarget, EndsEveryPiece),
    "padding_changes_nothing": (PositionsOfPadding,),
    "examples_are_independent": (MixesTheBatch, AveragesLosses),
    "nothing_reads_what_it_predicts": (Bidirectional,),
    "all_that_is_given_is_read": (LeavesOutTheBeginning,),
    "every_parameter_gets_a_gradient": (TwoEmbeddings,),
    "positions_cover_a_batch": (ForgetsEnd,),
    "limits_are_honest": (WithoutEnd,),
    "continuing_equals_reading": (ReadsBeginTwice, PromptsOfOneLength, NeverReorders),
    "there_is_room_for_an_output": (RoomForAll, CountsEnd),
}


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.ARCHITECTURE)
