"""Every check of tokenizers catches a fault that it is there for."""

import subprocess
import sys
from copy import copy
from pathlib import Path

from tests.testing.mutants import after, before, instead, mutant_tests

from plugformer.interfaces import BEGIN, UNKNOWN, Tokenizer
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


class FirstWordWithoutSpace(BPE):
    """Looks at where a word stands, which it cannot know."""

    def encode_words(self, words):
        return self.encode(words[:1]) + super().encode_words(words[1:])


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


class GoesOnDrawing(DrawsOtherTexts):
    def sampling(self, generator):
        self.generator = generator
        return self


class DrawsFromElsewhere(Whitespace):
    """Has a generator of its own."""

    count = 0

    def sampling(self, generator):
        self.count += 1
        drawing = copy(self)
        drawing.encode = lambda texts: [row[self.count :] for row in self.encode(texts)]
        return drawing


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


class LosesWhatItDraws(LearnsACase):
    def sampling(self, generator):
        drawing = copy(self)
        drawing.encode = lambda texts: self.encode(in_its_case(self, texts))
        return drawing


class AcceptsAnything(Characters):
    def load(self, file: Path):
        if file.exists() and file.stat().st_size > 10:
            super().load(file)


class TrainsOnNothing(Characters):
    def train(self, texts):
        super().train(["", *texts, "something"])
        raise ValueError("too little text")


MUTANTS = {
    "special_numbers_come_first": (
        encoding("CountsFromZero", lambda row: [max(number - 4, 0) for number in row]),
        before(
            "HidesTheUnknown", Characters, decode=lambda _, rows: [[n for n in r if n != 1] for r in rows]
        ),
    ),
    "numbers_are_in_the_vocabulary": (
        instead("WrongSize", Characters, size=property(lambda self: Characters.size.fget(self) - 20)),
        SpellsSpecials,
    ),
    "unknown_characters_are_not_dropped": (
        encoding("DropsTheUnknown", lambda row: [number for number in row if number != UNKNOWN]),
    ),
    "nothing_gives_nothing": (reading("StartsEveryText", "a{}".format),),
    "words_give_the_tokens_of_their_text": (
        instead("ForgetsWhereWordsBegin", BPE, encode_words=BPE.encode),
        FirstWordWithoutSpace,
        # has no row for a word without tokens: all tags behind it are those of other words
        after("PassesOverWords", Whitespace, encode_words=lambda self, rows, _: [row for row in rows if row]),
    ),
    "known_text_survives": (reading("LosesLetters", lambda text: text.replace("x", "")),),
    "decoded_text_is_stable": (
        ForgetsTheSpace,
        after("DoublesQuotes", BPE, decode=lambda _, texts, rows: [t.replace("'", "''") for t in texts]),
    ),
    "batches_equal_single_texts": (  # knows in a batch what came before
        after(
            "Remembers", Characters, encode=lambda _, rows, texts: [*rows[:1], *([*r, 5] for r in rows[1:])]
        ),
    ),
    "drawn_tokens_spell_the_same_text": (
        DrawsOtherTexts,
        instead("DrawsPadding", DrawsOtherTexts, drawn=lambda self, row: [0, *row]),
    ),
    "draws_follow_the_generator": (DrawsFromElsewhere, GoesOnDrawing),
    "trained_twice_is_the_same": (RemembersTraining,),
    "trained_in_another_process_is_the_same": (OrderOfAHashTable,),
    "saved_and_loaded_is_the_same": (
        before("KeepsACase", LearnsACase, encode=in_its_case),
        before("LosesWhatWordsAre", LearnsACase, encode_words=in_its_case),
        after("LosesSpellings", LearnsACase, tokens=lambda self, tokens, _: in_its_case(self, tokens)),
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


def test_another_process_finds_the_class_of_a_script(tmp_path):
    (tmp_path / "mine.py").write_text(SCRIPT)
    command = [sys.executable, "mine.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["passed"], done.stderr


test_is_caught, test_every_check_catches_one = mutant_tests(
    MUTANTS, Kind.TOKENIZER, raising=("OrderOfAHashTable",)
)
