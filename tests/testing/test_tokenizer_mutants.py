"""Every check of tokenizers catches a fault that it is there for."""

import subprocess
import sys
from copy import copy
from pathlib import Path

import pytest
from tests.testing.mutants import mutant_tests

from plugformer.interfaces import BEGIN, UNKNOWN, Tokenizer
from plugformer.registry import Kind
from plugformer_plugins.tokenizer.subwords import BPE
from plugformer_plugins.tokenizer.word_level import Characters, Whitespace


class DropsTheUnknown(Characters):
    def encode(self, texts):
        return [[number for number in row if number != UNKNOWN] for row in super().encode(texts)]


class HidesTheUnknown(Characters):
    def decode(self, rows):
        return super().decode([number for number in row if number != UNKNOWN] for row in rows)


class CountsFromZero(Characters):
    """Forgets the special tokens in its numbers."""

    def encode(self, texts):
        return [[max(number - 4, 0) for number in row] for row in super().encode(texts)]


class WrongSize(Characters):
    size = property(lambda self: super().size - 20)


class SpellsSpecials(Characters):
    """Reads <begin > as the token itself."""

    def encode(self, texts):
        return [
            [BEGIN] if "<begin >" in text else row
            for text, row in zip(texts, super().encode(texts), strict=True)
        ]


class StartsEveryText(Characters):
    def encode(self, texts):
        return super().encode([f"a{text}" for text in texts])


class ForgetsWhereWordsBegin(BPE):
    def encode_words(self, words):
        return self.encode(words)


class FirstWordWithoutSpace(BPE):
    """Looks at where a word stands, which it cannot know."""

    def encode_words(self, words):
        return self.encode(words[:1]) + super().encode_words(words[1:])


class PassesOverWords(Whitespace):
    """Has no row for a word without tokens: all tags behind it are those of other words."""

    def encode_words(self, words):
        return [row for row in super().encode_words(words) if row]


class LosesLetters(Characters):
    """Forgets the letter x."""

    def encode(self, texts):
        return super().encode([text.replace("x", "") for text in texts])


class DoublesQuotes(BPE):
    def decode(self, rows):
        return [text.replace("'", "''") for text in super().decode(rows)]


class ForgetsTheSpace(Whitespace):
    """Says that words stand together, although it puts spaces between them."""

    def token_bytes(self, *, at_start):
        return super().token_bytes(at_start=True)


class RemembersTheBatch(Characters):
    """Knows in a batch what came before."""

    def encode(self, texts):
        rows = super().encode(texts)
        return [[*row, 5] if number and row else row for number, row in enumerate(rows)]


class DrawsOtherTexts(Characters):
    """Draws which tokens to leave out."""

    generator = None

    def sampling(self, generator):
        drawing = copy(self)
        drawing.generator = generator
        return drawing

    def encode(self, texts):
        rows = super().encode(texts)
        if self.generator is None:
            return rows
        return [[number for number in row if self.generator.random() > 0.5] for row in rows]


class DrawsSpecials(DrawsOtherTexts):
    """Draws PADDING, which no text shows."""

    def encode(self, texts):
        rows = Characters.encode(self, texts)
        return rows if self.generator is None else [[0, *row] for row in rows]


class DrawsFromElsewhere(Whitespace):
    """Has a generator of its own."""

    count = 0

    def sampling(self, generator):
        self.count += 1
        drawing = copy(self)
        drawing.encode = lambda texts: [row[self.count :] for row in self.encode(texts)]
        return drawing


class GoesOnDrawing(DrawsOtherTexts):
    def sampling(self, generator):
        self.generator = generator
        return self


class RemembersTraining(Characters):
    trainings = 0

    def train(self, texts):
        self.trainings += 1
        super().train(texts)

    def encode(self, texts):
        return [row[:: self.trainings] for row in super().encode(texts)]


class OrderOfAHashTable(Tokenizer):
    """A vocabulary in the order in which a set yields it."""

    def train(self, texts):
        self.words = ["", "", "", "", *{word for text in texts for word in text.split()}]

    def encode(self, texts):
        return [[self.words.index(w) if w in self.words else 1 for w in t.split()] for t in texts]

    def decode(self, rows):
        return [" ".join("<unk>" if n == 1 else self.words[n] for n in row if n != 0) for row in rows]

    def tokens(self, row):
        return [self.words[number] for number in row]

    size = property(lambda self: len(self.words))

    def save(self, file):
        file.write_text("\n".join(self.words))

    def load(self, file):
        self.words = file.read_text().split("\n")


class KeepsACase(Whitespace):
    """What decides how it reads is learned, and not saved."""

    lower = False

    def train(self, texts):
        super().train(texts)
        self.lower = True

    def encode(self, texts):
        return super().encode([text.lower() if self.lower else text.upper() for text in texts])


class LosesWhatWordsAre(KeepsACase):
    """What decides how it reads words, spells and draws is learned, and not saved."""

    def encode(self, texts):
        return Whitespace.encode(self, texts)

    def encode_words(self, words):
        return super().encode_words([word if self.lower else word.upper() for word in words])


class LosesSpellings(LosesWhatWordsAre):
    def encode_words(self, words):
        return Whitespace.encode_words(self, words)

    def tokens(self, row):
        return [token if self.lower else token.upper() for token in super().tokens(row)]


class LosesWhatItDraws(LosesWhatWordsAre):
    def encode_words(self, words):
        return Whitespace.encode_words(self, words)

    def sampling(self, generator):
        return self if self.lower else KeepsACase.sampling(Upper(self), generator)


class Upper(KeepsACase):
    """Another tokenizer's vocabulary, in capitals."""

    def __init__(self, other):
        self.__dict__.update(other.__dict__)


class AcceptsAnything(Characters):
    def load(self, file: Path):
        if file.exists() and file.stat().st_size > 10:
            super().load(file)


class TrainsOnNothing(Characters):
    def train(self, texts):
        super().train(["", *texts, "something"])
        raise ValueError("too little text")


MUTANTS = {
    "special_numbers_come_first": (CountsFromZero, HidesTheUnknown),
    "numbers_are_in_the_vocabulary": (WrongSize, SpellsSpecials),
    "unknown_characters_are_not_dropped": (DropsTheUnknown,),
    "nothing_gives_nothing": (StartsEveryText,),
    "words_give_the_tokens_of_their_text": (ForgetsWhereWordsBegin, FirstWordWithoutSpace, PassesOverWords),
    "known_text_survives": (LosesLetters,),
    "decoded_text_is_stable": (
        ForgetsTheSpace,
        DoublesQuotes,
    ),
    "batches_equal_single_texts": (RemembersTheBatch,),
    "drawn_tokens_spell_the_same_text": (DrawsOtherTexts, DrawsSpecials),
    "draws_follow_the_generator": (DrawsFromElsewhere, GoesOnDrawing),
    "trained_twice_is_the_same": (RemembersTraining,),
    "trained_in_another_process_is_the_same": (OrderOfAHashTable,),
    "saved_and_loaded_is_the_same": (
        KeepsACase,
        LosesWhatWordsAre,
        LosesSpellings,
        LosesWhatItDraws,
        OrderOfAHashTable,
    ),
    "broken_files_are_refused": (AcceptsAnything,),
    "no_text_is_refused": (TrainsOnNothing,),
}


SCRIPT = """
from plugformer_plugins.tokenizer.word_level import Characters
from plugformer_testing import check

class Mine(Characters):
    pass

if __name__ == "__main__":
    print(check(Mine, only="trained_in_another_process_is_the_same").outcomes[0].status)
"""


@pytest.mark.parametrize(("arguments", "status"), [(["mine.py"], "passed"), (["-c", SCRIPT], "skipped")])
def test_another_process_finds_the_class_of_a_script(tmp_path, arguments, status):
    """But none that was typed at a prompt."""
    (tmp_path / "mine.py").write_text(SCRIPT)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [status], done.stderr


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.TOKENIZER)
