"""Every check of architectures catches a fault that it is there for."""

from dataclasses import replace

from tests.testing.mutants import after, fault_test, instead

from plugformer.interfaces import ABSENT, Level, Ragged
from plugformer.registry import Kind
from plugformer_plugins.architecture.decoder_only import DecoderModel, DecoderOnly
from plugformer_plugins.architecture.encoder_decoder import EncoderDecoder
from plugformer_plugins.architecture.encoder_only import EncoderModel, EncoderOnly
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


class SwapsLengths(EncoderDecoder):
    def collate(self, encoded, level, *, lengths=()):
        return super().collate(encoded, level, lengths=lengths[::-1])


class LosesTheFirstTarget(EncoderOnly):
    def collate(self, encoded, level, **padding):
        if isinstance(encoded.targets, Ragged):
            values = encoded.targets.values.copy()
            values[0] = ABSENT
            encoded = replace(encoded, targets=Ragged(values, encoded.targets.lengths))
        return super().collate(encoded, level, **padding)


class LeavesOutTheBeginning(EncoderDecoder):
    """Cuts the first token off inputs."""

    def collate(self, encoded, level, **padding):
        cut = Ragged.of([row[1:] for row in encoded.input.rows()])
        return super().collate(replace(encoded, inputs={"input": cut}), level, **padding)


class SeesAll(DecoderModel):
    """Reads in both directions while training."""

    def hidden(self, batch):
        real = batch.target.mask[:, :-1] & batch.target.mask[:, 1:]
        turned = self.decoder.embedding(batch.target.ids[:, :-1]).masked_fill(~real[..., None], 0)
        return super().hidden(batch) + turned.sum(dim=1, keepdim=True)


MixesRows = after(
    "MixesRows", EncoderModel, hidden=lambda self, hidden, _: hidden - hidden[:, :1].mean(dim=0, keepdim=True)
)


class LastOfTheLongest(DecoderModel):
    """Takes the last column for the last token of every prompt."""

    def begin(self, batch):
        past = self.decoder.start()
        return past, self.step(batch.target, past)[:, -1]


class LosesMarks(DecoderModel):
    """Forgets the marks when it cuts off the last token."""

    def hidden(self, batch):
        return super().hidden(replace(batch, target=replace(batch.target, marks={})))


MUTANTS = {
    "every_level_builds": after("HidesItsStack", DecoderOnly, build=hide_a_stack),
    "sequences_are_padded_as_asked": SwapsLengths,
    "targets_are_those_of_the_examples": LosesTheFirstTarget,
    "examples_are_independent": building(EncoderOnly, MixesRows),
    "nothing_reads_what_it_predicts": building(DecoderOnly, SeesAll, levels=frozenset({Level.NEXT_TOKEN})),
    "all_that_is_given_is_read": LeavesOutTheBeginning,
    "every_parameter_gets_a_gradient": after("TwoEmbeddings", EncoderOnly, build=add_an_embedding),
    "positions_cover_a_batch": after("ForgetsEnd", DecoderOnly, positions=lambda self, found, *_: found - 1),
    "continuing_equals_reading": building(DecoderOnly, LastOfTheLongest),
    "the_view_is_what_it_says": building(PrefixLM, LosesMarks),
}


test_every_check_catches_a_fault = fault_test(MUTANTS, Kind.ARCHITECTURE)
