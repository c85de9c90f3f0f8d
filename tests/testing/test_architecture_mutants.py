"""Every check of architectures catches a fault that it is there for."""

from dataclasses import replace

import torch
from tests.testing.mutants import after, instead, mutant_tests

from plugformer.interfaces import ABSENT, Level, Limits, Padding, Ragged, Tokens
from plugformer.registry import Kind
from plugformer_plugins.architecture.decoder_only import DecoderModel, DecoderOnly
from plugformer_plugins.architecture.encoder_decoder import EncoderDecoder, EncoderDecoderModel
from plugformer_plugins.architecture.encoder_only import EncoderModel, EncoderOnly


def building(architecture, model, **members):
    """Returns an architecture that makes another model of the same parts."""

    def build(self, made, *_):
        made.__class__ = model
        return made

    return instead(model.__name__, after("Building", architecture, build=build), **members)


def hide_a_stack(self, made, *_):
    """Names a stack that the model does not have."""
    made.transformer = made.decoder
    del made._modules["decoder"]
    return made


def add_an_embedding(self, made, builder, sizes, level):
    """Keeps an embedding that nobody reads."""
    made.other = builder.embedding(sizes.source, tied=False)
    return made


class PadsRight(DecoderOnly):
    def collate(self, encoded, level, *, side="right", length=None):
        return super().collate(encoded, level, length=length)


class ForgetsTheLength(EncoderDecoder):
    def collate(self, encoded, level, *, side="right", length=None):
        return super().collate(encoded, level, side=side)


def say_no_padding(self, batch, *_):
    return replace(batch, source=replace(batch.source, padding=Padding.NONE))


class LosesTheFirstTarget(EncoderOnly):
    def collate(self, encoded, level, **padding):
        if isinstance(encoded.targets, Ragged):
            values = encoded.targets.values.copy()
            values[0] = ABSENT
            encoded = replace(encoded, targets=Ragged(values, encoded.targets.lengths))
        return super().collate(encoded, level, **padding)


class EndsEveryPiece(DecoderOnly):
    """Expects END behind a piece of a text that goes on."""

    def collate(self, encoded, level, **padding):
        return super().collate(replace(encoded, complete=True), level, **padding)


class LeavesOutTheBeginning(EncoderDecoder):
    """Cuts the first token off inputs."""

    def collate(self, encoded, level, **padding):
        cut = Ragged.of([row[1:] for row in encoded.input.rows()])
        return super().collate(replace(encoded, inputs={"input": cut}), level, **padding)


class PlacesPadding(DecoderModel):
    """Counts padding as positions."""

    def hidden(self, batch):
        target = batch.target
        every = torch.ones_like(target.mask)
        return super().hidden(replace(batch, target=Tokens(target.ids, every, Padding.NONE)))


class SeesAll(DecoderModel):
    """Reads in both directions while training."""

    def hidden(self, batch):
        real = batch.target.mask[:, :-1] & batch.target.mask[:, 1:]
        turned = self.decoder.embedding(batch.target.ids[:, :-1]).masked_fill(~real[..., None], 0)
        return super().hidden(batch) + turned.sum(dim=1, keepdim=True)


class StartsTwice(EncoderDecoderModel):
    """Reads the first token of an output when it begins, too."""

    def begin(self, batch):
        past, last = super().begin(batch)
        self.step(Tokens(last[:, None], torch.ones_like(last, dtype=torch.bool)[:, None], Padding.NONE), past)
        return past, last


class Kept:
    """What is kept, of which rows of one example cannot change places."""

    def __init__(self, past):
        self.past = past

    def select(self, rows):
        self.past.select(rows)

    def reorder(self, rows):
        pass


class NeverReorders(EncoderDecoderModel):
    def begin(self, batch):
        past, last = super().begin(batch)
        return Kept(past), last

    def step(self, tokens, past):
        return super().step(tokens, past.past)


MixesRows = after(
    "MixesRows", EncoderModel, hidden=lambda self, hidden, _: hidden - hidden[:, :1].mean(dim=0, keepdim=True)
)
Averages = after(
    "Averages",
    EncoderDecoderModel,
    forward=lambda self, loss, _: loss._replace(total=loss.total / loss.targets),
)
LastOfTheLongest = after(  # takes what stands in the last column for the last token of every prompt
    "LastOfTheLongest", DecoderModel, begin=lambda self, found, batch: (found[0], batch.target.ids[:, -1])
)
RoomForAll = after("RoomForAll", DecoderModel, room=lambda self, room, _: torch.full_like(room, 16))
CountsEnd = after("CountsEnd", EncoderDecoderModel, input_lengths=lambda self, lengths, _: lengths + 1)

MUTANTS = {
    "every_level_builds": (
        instead("ServesNothing", DecoderOnly, levels=frozenset()),
        after("HidesItsStack", DecoderOnly, build=hide_a_stack),
    ),
    "sequences_are_padded_as_asked": (
        PadsRight,
        ForgetsTheLength,
        after("SaysNoPadding", EncoderOnly, collate=say_no_padding),
    ),
    "targets_are_those_of_the_examples": (LosesTheFirstTarget, EndsEveryPiece),
    "padding_changes_nothing": (building(DecoderOnly, PlacesPadding),),
    "examples_are_independent": (building(EncoderOnly, MixesRows), building(EncoderDecoder, Averages)),
    "nothing_reads_what_it_predicts": (building(DecoderOnly, SeesAll, levels=frozenset({Level.NEXT_TOKEN})),),
    "all_that_is_given_is_read": (LeavesOutTheBeginning,),
    "every_parameter_gets_a_gradient": (after("TwoEmbeddings", EncoderOnly, build=add_an_embedding),),
    "positions_cover_a_batch": (
        after("ForgetsEnd", DecoderOnly, positions=lambda self, found, *_: found - 1),
    ),
    "limits_are_honest": (  # leaves no room for BEGIN and END
        instead("WithoutEnd", EncoderOnly, limits=lambda self, most, level: Limits(most, most, most)),
    ),
    "continuing_equals_reading": (
        building(EncoderDecoder, StartsTwice),
        building(DecoderOnly, LastOfTheLongest),
        building(EncoderDecoder, NeverReorders),
    ),
    "there_is_room_for_an_output": (
        building(DecoderOnly, RoomForAll),
        building(EncoderDecoder, CountsEnd),
    ),
}


test_is_caught, test_every_check_catches_one = mutant_tests(
    MUTANTS, Kind.ARCHITECTURE, raising=("WithoutEnd", "RoomForAll")
)
