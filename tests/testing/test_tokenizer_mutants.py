"""Every check of tokenizers catches a fault that it is there for."""

from copy import copy

from tests.testing.mutants import after, before, fault_test, instead

from plugformer.interfaces import BEGIN, UNKNOWN
from plugformer.registry import Kind
from plugformer_plugins.tokenizer.subwords import BPE
from plugformer_plugins.tokenizer.word_level import Characters, Whitespace


def encoding(name, change, base=Characters):
    """Returns a tokenizer of whose rows each is changed."""
    return after(name, base, encode=lambda self, rows, texts: list(map(change, rows)))


def reading(name, change, base=Characters):
    """Returns a tokenizer that encodes texts which were changed."""
    return before(name, base, encode=lambda self, texts: list(map(change, texts)))


class SpellsSpecials(Characters):
    """Reads <begin > as the token itself."""

    def encode(self, texts):
        pairs = zip(texts, super().encode(texts), strict=True)
        return [[BEGIN] if "<begin >" in text else row for text, row in pairs]


class ForgetsTheSpace(Whitespace):
    """Says that words stand together, although it puts spaces between them."""

    def token_bytes(self, *, at_start):
        return super().token_bytes(at_start=True)


class DrawsOtherTexts(Characters):
    """Draws which tokens to leave out."""

    generator = None

    def sampling(self, generator):
        drawing = copy(self)
        drawing.generator = generator
        return drawing

    def encode(self, texts):
        rows = super().encode(texts)
        return rows if self.generator is None else [self.drawn(row) for row in rows]

    def drawn(self, row):
        return [number for number in row if self.generator.random() > 0.5]


class DrawsFromElsewhere(Whitespace):
    """Has a generator of its own."""

    count = 0

    def sampling(self, generator):
        self.count += 1
        drawing = copy(self)
        drawing.encode = lambda texts: [row[self.count :] for row in self.encode(texts)]
        return drawing


class OrderOfAHashTable(Whitespace):
    """Learns the words that a set yields first."""

    def train(self, texts):
        words = {word for text in texts for word in text.split()}
        super().train([" ".join([*words][:20])])


class LearnsACase(Whitespace):
    """Learns a case, and does not save it."""

    lower = False

    def train(self, texts):
        super().train(texts)
        self.lower = True

    def cased(self, text):
        return text.lower() if self.lower else text.upper()


def in_its_case(self, texts):
    return [self.cased(text) for text in texts]


MUTANTS = {
    "special_numbers_come_first": encoding(
        "CountsFromZero", lambda row: [max(number - 4, 0) for number in row]
    ),
    "numbers_are_in_the_vocabulary": SpellsSpecials,
    "unknown_characters_are_not_dropped": encoding(
        "DropsTheUnknown", lambda row: [number for number in row if number != UNKNOWN]
    ),
    "nothing_gives_nothing": reading("StartsEveryText", "a{}".format),
    "words_give_the_tokens_of_their_text": instead("ForgetsWhereWordsBegin", BPE, encode_words=BPE.encode),
    "known_text_survives": reading("LosesLetters", lambda text: text.replace("x", "")),
    "decoded_text_is_stable": ForgetsTheSpace,
    "batches_equal_single_texts": after(  # knows in a batch what came before
        "Remembers", Characters, encode=lambda _, rows, texts: [*rows[:1], *([*r, 5] for r in rows[1:])]
    ),
    "drawn_tokens_spell_the_same_text": DrawsOtherTexts,
    "draws_follow_the_generator": DrawsFromElsewhere,
    "trained_in_another_process_is_the_same": OrderOfAHashTable,
    "saved_and_loaded_is_the_same": before("KeepsACase", LearnsACase, encode=in_its_case),
}


test_every_check_catches_a_fault = fault_test(MUTANTS, Kind.TOKENIZER)
