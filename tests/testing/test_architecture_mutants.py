"""Every check of architectures catches a fault that it is there for."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from tests.testing.mutants import after, instead, mutant_tests

from plugformer.interfaces import ABSENT, BEGIN, BIDIRECTIONAL, CAUSAL, END, Level, Ragged, Tokens
from plugformer.model import Limits
from plugformer.registry import Kind
from plugformer_blocks import Prefix, Within
from plugformer_plugins.architecture.decoder_only import DecoderModel, DecoderOnly
from plugformer_plugins.architecture.encoder_decoder import EncoderDecoder, EncoderDecoderModel
from plugformer_plugins.architecture.encoder_only import EncoderModel, EncoderOnly, VectorModel
from plugformer_plugins.architecture.prefix import PrefixLM


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


class ForgetsLengths(DecoderOnly):
    def collate(self, encoded, level, *, lengths=()):
        return super().collate(encoded, level)


class SwapsLengths(EncoderDecoder):
    def collate(self, encoded, level, *, lengths=()):
        return super().collate(encoded, level, lengths=lengths[::-1])


class PadsLeft(DecoderOnly):
    def collate(self, encoded, level, *, lengths=()):
        batch = super().collate(encoded, level, lengths=lengths)
        order = batch.target.mask.long().argsort(dim=1, stable=True)
        ids, mask = (each.gather(1, order) for each in (batch.target.ids, batch.target.mask))
        return replace(batch, target=replace(batch.target, ids=ids, mask=mask))


def say_no_padding(self, batch, *_):
    return replace(batch, source=replace(batch.source, full=True))


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


class CountsFromTheEnd(DecoderModel):
    """The last column, which may be padding, is in the place of the first."""

    def hidden(self, batch):
        hidden = super().hidden(batch)
        return hidden + torch.arange(hidden.shape[1]).flip(0)[:, None]


class SeesAll(DecoderModel):
    """Reads in both directions while training."""

    def hidden(self, batch):
        real = batch.target.mask[:, :-1] & batch.target.mask[:, 1:]
        turned = self.decoder.embedding(batch.target.ids[:, :-1]).masked_fill(~real[..., None], 0)
        return super().hidden(batch) + turned.sum(dim=1, keepdim=True)


class StartsTwice(EncoderDecoderModel):
    """Reads BEGIN twice."""

    def begin(self, batch):
        past, _ = super().begin(batch)
        begin = torch.full_like(batch.source.ids[:, :1], BEGIN)
        return past, self.step(Tokens(begin, begin > 0, full=True), past)[:, -1]


class Kept:
    """What is kept, of which rows of one example cannot change places."""

    def __init__(self, past):
        self.past = past

    def select(self, rows, examples=None):
        if examples is not None:
            self.past.select(rows, examples)


class NeverReorders(EncoderDecoderModel):
    def begin(self, batch):
        past, last = super().begin(batch)
        return Kept(past), last

    def step(self, tokens, past):
        return super().step(tokens, past.past if isinstance(past, Kept) else past)


MixesRows = after(
    "MixesRows", EncoderModel, hidden=lambda self, hidden, _: hidden - hidden[:, :1].mean(dim=0, keepdim=True)
)
Averages = after(
    "Averages",
    EncoderDecoderModel,
    forward=lambda self, loss, _: loss._replace(total=loss.total / loss.targets),
)


class LastOfTheLongest(DecoderModel):
    """Takes the last column for the last token of every prompt."""

    def begin(self, batch):
        past = self.decoder.start()
        return past, self.step(batch.target, past)[:, -1]


RoomForAll = after("RoomForAll", DecoderModel, room=lambda self, room, _: torch.full_like(room, 16))
CountsEnd = after("CountsEnd", EncoderDecoderModel, input_lengths=lambda self, lengths, _: lengths + 1)


class OwnedByTheNext(EncoderOnly):
    """Gives the last row of an example to the next one."""

    def collate(self, encoded, level, **padding):
        batch = super().collate(encoded, level, **padding)
        for tokens in batch.reads.values():
            if tokens.rows_of is not None:
                object.__setattr__(tokens, "rows_of", tokens.rows_of.roll(1))
        return batch


class SortsRows(EncoderOnly):
    """Reads the rows of an example in the order of their lengths."""

    def collate(self, encoded, level, **padding):
        if (rows := encoded.inputs.get("rows")) is not None:
            by_example = np.split(np.array(rows.rows(), dtype=object), np.cumsum(rows.counts)[:-1])
            ordered = [row for part in by_example for row in sorted(part, key=len)]
            ordered = replace(Ragged.of(ordered), counts=rows.counts)
            encoded = replace(encoded, inputs={**encoded.inputs, "rows": ordered})
        return super().collate(encoded, level, **padding)


class MarksAll(VectorModel):
    """Counts absent rows as rows."""

    def targets(self, batch):
        targets, real = super().targets(batch)
        return targets, torch.ones_like(real)


class FirstForAll(VectorModel):
    """Takes the first example's last row for that of all."""

    def hidden(self, batch):
        hidden = super().hidden(batch)
        return torch.cat([hidden[:, :-1], hidden[:1, -1:].expand(len(hidden), -1, -1)], dim=1)


def viewing(name, architecture, view):
    """Returns an architecture whose decoder has another view than its stack."""

    def build(self, made, *_):
        made.decoder.view = view
        return made

    return after(name, architecture, build=build)


def marking(name, prefix):
    """Returns a prefix LM with another prefix: `prefix(tokens, number of given ones)`."""

    def collate(self, batch, encoded, *_):
        if encoded.input is None or batch.given is None:
            return batch
        marks = {"in_prefix": prefix(batch.target, batch.given[:, None]).long()}
        return replace(batch, target=replace(batch.target, marks=marks))

    return after(name, PrefixLM, collate=collate)


def without_marks(self, batch, encoded, *_):
    """Marks no prefix where nothing is given to predict."""
    return batch if encoded.output else replace(batch, target=replace(batch.target, marks={}))


class LosesMarks(DecoderModel):
    """Forgets the marks when it cuts off the last token."""

    def hidden(self, batch):
        return super().hidden(replace(batch, target=replace(batch.target, marks={})))


@dataclass(frozen=True)
class GoesOn(Within):
    """Positions do not restart."""

    def positions(self, new, ids, past=None):
        return replace(super().positions(new, ids, past), index=new.index)


@dataclass(frozen=True)
class CountsTheRow(GoesOn):
    """Positions do not restart in steps."""

    def positions(self, new, ids, past=None):
        base = super() if past is not None else Within(self.view)
        return base.positions(new, ids, past)


@dataclass(frozen=True)
class ForgetsDocuments(Within):
    """Numbers the documents of each piece from 0."""

    def positions(self, new, ids, past=None):
        found = super().positions(new, ids, past)
        return replace(found, marks={"document": (ids == END).cumsum(dim=1)})


MUTANTS = {
    "every_level_builds": (
        instead("ServesNothing", DecoderOnly, levels=frozenset()),
        after("HidesItsStack", DecoderOnly, build=hide_a_stack),
    ),
    "sequences_are_padded_as_asked": (
        ForgetsLengths,
        SwapsLengths,
        PadsLeft,
        after("SaysNoPadding", EncoderOnly, collate=say_no_padding),
    ),
    "targets_are_those_of_the_examples": (LosesTheFirstTarget, EndsEveryPiece),
    "padding_changes_nothing": (
        building(DecoderOnly, CountsFromTheEnd),
        marking("AtTheEnd", lambda tokens, given: torch.ones_like(tokens.mask).cumsum(1).flip(1) < given),
    ),
    "examples_are_independent": (
        building(EncoderOnly, MixesRows),
        building(EncoderDecoder, Averages),
        marking("OnePrefix", lambda tokens, given: tokens.mask.cumsum(dim=1) < given[:1]),
    ),
    "nothing_reads_what_it_predicts": (
        building(DecoderOnly, SeesAll, levels=frozenset({Level.NEXT_TOKEN})),
        marking("OutputInPrefix", lambda tokens, given: tokens.mask.cumsum(dim=1) <= given + 1),
    ),
    "all_that_is_given_is_read": (LeavesOutTheBeginning,),
    "every_parameter_gets_a_gradient": (after("TwoEmbeddings", EncoderOnly, build=add_an_embedding),),
    "positions_cover_a_batch": (
        after("ForgetsEnd", DecoderOnly, positions=lambda self, found, *_: found - 1),
        after("IgnoresCounts", EncoderOnly, rows=lambda self, found, *_: found**0),
    ),
    "limits_are_honest": (  # leaves no room for BEGIN and END
        instead("WithoutEnd", EncoderOnly, limits=lambda self, most, level: Limits(most, most, most)),
    ),
    "rows_stay_with_their_example": (
        OwnedByTheNext,
        SortsRows,
        building(EncoderOnly, MarksAll, levels=frozenset({Level.VECTOR})),
        building(EncoderOnly, FirstForAll, levels=frozenset({Level.VECTOR})),
    ),
    "continuing_equals_reading": (
        building(EncoderDecoder, StartsTwice),
        building(DecoderOnly, LastOfTheLongest),
        building(EncoderDecoder, NeverReorders),
        after("MarksInTrainingAlone", PrefixLM, collate=without_marks),
    ),
    "the_view_is_what_it_says": (
        viewing("Leaks", DecoderOnly, BIDIRECTIONAL),
        viewing("SeesThePastAlone", PrefixLM, CAUSAL),
        marking("NoPrefix", lambda tokens, given: tokens.mask & False),
        building(PrefixLM, LosesMarks),
        instead("ClaimsAll", DecoderOnly, stacks=(("decoder", Prefix()),)),
    ),
    "documents_are_read_as_if_alone": tuple(
        viewing(view.__name__, DecoderOnly, view(CAUSAL)) for view in (GoesOn, CountsTheRow, ForgetsDocuments)
    ),
    "there_is_room_for_an_output": (
        building(DecoderOnly, RoomForAll),
        building(EncoderDecoder, CountsEnd),
    ),
}


test_is_caught, test_every_check_catches_one = mutant_tests(
    MUTANTS, Kind.ARCHITECTURE, raising=("WithoutEnd", "RoomForAll")
)
