"""The contract of tokenizers, see plugformer.interfaces.tokenizer, and the texts that they are tried on."""

import itertools
import json
import random
import tempfile
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from plugformer.interfaces import BEGIN, END, PADDING, SPECIAL_TOKENS, UNKNOWN, Tokenizer
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.processes import in_another_process
from plugformer_testing.subject import Subject

TRAINING = (
    "the quick brown fox jumps over the lazy dog",
    "low lower lowest and new newer newest",
    "a fox and a dog are in the new house , it rains !",
    "ein schöner Tag (wirklich) für Straße und Haus",
    "晚风 摇树 树 还 挺，晨露 润花 花 更 红。",
    "3 10 7; 12.5 - 4 = 8.5 <b> #1 @home",
) * 3

KNOWN = ("fox", "the lazy dog", "low lower lowest", "a new house", TRAINING[0])
"""Made of training words in lower case, with single spaces: no tokenizer changes them."""

STRANGE = "☃龘ж"  # characters that training never saw
_PIECES = (
    *("fox", "dog", "new", "a", "0", "42"),
    *(" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u2028", "\u200b"),
    *(".", ",", "!", "'", '"', "-", "##", "▁", "Ġ", "</w>", "\\", "{}", "%s"),
    *("e\u0301", "é", "ß", "ﬁ", "İ", "中", "文", "ไทย", "עברית", "\u200f", "👩‍👩‍👧", "🏳️‍🌈", "☃"),
    *("\x00", "\x7f", "\ufeff", "\ufffd", "\U0010ffff"),
    *(*SPECIAL_TOKENS, "<unk>", "<s>", "[PAD]", "<padding>"),
)
_DRAW = random.Random(1)  # noqa: S311 (examples, not secrets)
_MIXED = {"".join(_DRAW.choices(_PIECES, k=_DRAW.randint(2, 8))) for _ in range(60)}

NASTY = sorted({*_PIECES, *_MIXED, "x" * 1500, "fox " * 300}, key=lambda text: (len(text), text))
"""Difficult texts, the shortest first: spaces, marks, emoji, control characters, special tokens."""

TEXTS = [*KNOWN, *TRAINING[:6], *NASTY]


def trained(subject: Subject) -> Tokenizer:
    """Returns the component trained on the texts: one object for all checks, which only read it."""

    def train() -> Tokenizer:
        tokenizer: Tokenizer = subject.create()
        tokenizer.train(iter(TRAINING))
        return tokenizer

    return subject.once("trained", train)


def _encoded(subject: Subject, text: str) -> tuple[Tokenizer, list[int], str]:
    """Returns the trained tokenizer, the numbers of a text, and the text that they read."""
    row = trained(subject).encode([text])[0]
    return trained(subject), row, trained(subject).decode([row])[0]


@contract_check()
def special_numbers_come_first(subject: Subject) -> None:
    """Numbers 0 to 3 are padding, unknown, begin and end, and all four are counted in the size."""
    tokenizer, row, plain = _encoded(subject, KNOWN[0])
    require.that(tokenizer.size > 4, f"the vocabulary has {tokenizer.size} tokens, only special ones")
    require.that(row and min(row) > END, f"{KNOWN[0]!r} is encoded as {row}, expected numbers from 4")
    marked, shown = tokenizer.decode(iter([[BEGIN, *row, END, PADDING, PADDING], [*row, UNKNOWN]]))
    require.equal(marked, plain, "what is decoded with BEGIN, END and PADDING around it")
    require.that("<unk>" in shown, f"UNKNOWN is decoded as {shown!r}, expected '<unk>' in it")


@contract_check(cases=NASTY)
def numbers_are_in_the_vocabulary(subject: Subject, text: str) -> None:
    """Every number is in the vocabulary and has a spelling. No text is encoded as PADDING, BEGIN or END."""
    tokenizer, row, _ = _encoded(subject, text)
    outside = [number for number in row if not 0 <= number < tokenizer.size]
    require.that(not outside, f"the numbers {outside} are outside the vocabulary of {tokenizer.size}")
    special = {PADDING, BEGIN, END} & set(row)
    require.that(not special, f"the text is encoded with the special numbers {special}")
    spelled = tokenizer.tokens(row)
    fits = len(spelled) == len(row) and all(isinstance(token, str) for token in spelled)
    require.that(fits, f"{len(row)} tokens are spelled as {spelled}")


@contract_check(cases=(STRANGE[0], f"fox {STRANGE[1]}", f"fox{STRANGE[2]}", f"{STRANGE} fox"))
def unknown_characters_are_not_dropped(subject: Subject, text: str) -> None:
    """A character that the vocabulary cannot spell becomes UNKNOWN; it does not vanish."""
    _, row, kept = _encoded(subject, text)
    lost = [character for character in STRANGE if character in text and character not in kept]
    require.that(UNKNOWN in row or not lost, f"it is encoded as {row}, without UNKNOWN, which reads {kept!r}")


@contract_check()
def words_give_the_tokens_of_their_text(subject: Subject) -> None:
    """Words have the tokens of a text of them, a row for each word, the same whatever the others are."""
    tokenizer, words = trained(subject), KNOWN[1].split()
    row = list(itertools.chain.from_iterable(tokenizer.encode_words(words)))
    texts = tokenizer.encode([" ".join(words), " ".join(["", *words])])
    require.that(row in texts, f"the words {words} are encoded as {row}, their text as {texts[0]}")
    words += ["", STRANGE]
    alone = [tokenizer.encode_words([word]) for word in words]
    together = [[row] for row in tokenizer.encode_words(words)]
    require.equal(together, alone, f"what {words} are encoded as, together not alone,")


@contract_check()
def nothing_gives_nothing(subject: Subject) -> None:
    """An empty text is read back as an empty text, an empty batch as an empty batch."""
    tokenizer, _, again = _encoded(subject, "")
    require.equal((tokenizer.encode([]), tokenizer.decode([])), ([], []), "an empty batch and back")
    require.equal(again, "", "the empty text, read back,")
    require.equal(tokenizer.decode([[]]), [""], "a row without tokens, decoded,")


@contract_check(cases=KNOWN)
def known_text_survives(subject: Subject, text: str) -> None:
    """Text made of training words is read back, except for spaces and case: nothing is lost or added."""
    _, row, again = _encoded(subject, text)
    bare, expected = (unicodedata.normalize("NFKC", each).casefold().split() for each in (again, text))
    require.that("".join(bare) == "".join(expected) and UNKNOWN not in row, f"it is read back as {again!r}")


@contract_check(cases=NASTY)
def decoded_text_is_stable(subject: Subject, text: str) -> None:
    """Text that was decoded once comes back unchanged, except for spaces at its ends.

    The pieces of a row's tokens, one after the other, are its text: patterns are spelled with them.
    """
    tokenizer, row, once = _encoded(subject, text)
    made = lambda: [tokenizer.token_bytes(at_start=at) for at in (True, False)]  # noqa: E731
    first, later = subject.once("pieces", made)
    require.equal((len(first), len(later)), (tokenizer.size,) * 2, "the number of first and of later pieces")
    pieces = [(later if place else first)[number] for place, number in enumerate(row)]
    same = not all(pieces) or "\ufffd" in once or b"".join(pieces) == once.encode()
    require.that(same, f"it is read back as {once!r}, and its tokens' pieces are {pieces}")
    if UNKNOWN not in row:
        _, _, again = _encoded(subject, once)
        require.equal(again.strip(), once.strip(), "what is read back from what was read back")


@contract_check(cases=(2, 7, len(NASTY)))
def batches_equal_single_texts(subject: Subject, size: int) -> None:
    """A text is encoded, and a row decoded, the same in a batch as alone."""
    tokenizer, texts = trained(subject), NASTY[-size:]
    rows = tokenizer.encode(texts)
    require.equal(len(rows), size, "the number of rows")
    for text, row, decoded in zip(texts, rows, tokenizer.decode(iter(rows)), strict=True):
        _, alone, again = _encoded(subject, text)
        require.equal(row, alone, f"what {text[:40]!a} is encoded as in a batch")
        require.equal(decoded, again, "what is decoded in a batch")


@contract_check(cases=NASTY)
def drawn_tokens_spell_the_same_text(subject: Subject, text: str) -> None:
    """Tokens drawn by `sampling` are in the vocabulary, and read as those of `encode` do."""
    tokenizer, row, expected = _encoded(subject, text)
    if UNKNOWN not in row:
        drawn = tokenizer.sampling(np.random.default_rng(0)).encode([text] * 3)
        outside = [number for row in drawn for number in row if not END < number < tokenizer.size]
        require.that(not outside, f"{outside} are drawn, expected numbers from 4 to {tokenizer.size - 1}")
        require.equal(list(tokenizer.decode(drawn)), [expected] * len(drawn), "what drawn tokens read")


@contract_check()
def draws_follow_the_generator(subject: Subject) -> None:
    """The same generator draws the same tokens again, and the tokenizer itself continues without drawing."""
    tokenizer = trained(subject)
    plain, first = tokenizer.encode(TEXTS), tokenizer.sampling(np.random.default_rng(0)).encode(TEXTS)
    require.that(tokenizer.encode(TEXTS) == plain, "after `sampling` the tokenizer encodes differently")
    again = tokenizer.sampling(np.random.default_rng(0)).encode(TEXTS)
    require.that(again == first, "the same generator draws other tokens")


@contract_check()
def trained_in_another_process_is_the_same(subject: Subject) -> None:
    """The same texts give the same numbers in another process, with other hash seeds and threads."""
    written = in_another_process(subject, _trained_file)
    loaded = _loaded(subject, lambda file: file.write_bytes(written))
    _require_same(loaded, trained(subject), "trained in another process")


def _trained_file(tokenizer: Tokenizer) -> bytes:
    tokenizer.train(iter(TRAINING))
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(file := Path(folder, "tokenizer.json"))
        return file.read_bytes()


@contract_check()
def saved_and_loaded_is_the_same(subject: Subject) -> None:
    """Saved as JSON and loaded into a new object, a tokenizer encodes and decodes the same."""

    def save(file: Path) -> None:
        trained(subject).save(file)
        json.loads(file.read_text(encoding="utf-8"))

    _require_same(_loaded(subject, save), trained(subject), "saved and loaded")


def _loaded(subject: Subject, write: Callable[[Path], object]) -> Tokenizer:
    """Returns a new object that has loaded the file which `write` writes."""
    loaded: Tokenizer = subject.create()
    with tempfile.TemporaryDirectory() as folder:
        write(file := Path(folder, "tokenizer.json"))
        loaded.load(file)
    return loaded


_USES: dict[str, Callable[[Tokenizer], Any]] = {
    "encodes": lambda tokenizer: tokenizer.encode(TEXTS),
    "decodes": lambda tokenizer: tokenizer.decode(tokenizer.encode(TEXTS)),
    "encodes words": lambda tokenizer: tokenizer.encode_words(KNOWN[1].split()),
    "spells tokens": lambda tokenizer: tokenizer.tokens(tokenizer.encode([KNOWN[1]])[0]),
    "draws tokens": lambda tokenizer: tokenizer.sampling(np.random.default_rng(0)).encode(TEXTS),
}


def _require_same(tokenizer: Tokenizer, expected: Tokenizer, how: str) -> None:
    require.equal(tokenizer.size, expected.size, f"{how}, the size of the vocabulary")
    for what, use in _USES.items():
        pairs = zip(use(tokenizer), use(expected), strict=True)
        found, wanted = next((pair for pair in pairs if pair[0] != pair[1]), (None, None))
        require.that(found == wanted, f"{how} it {what} differently: {found!r}, expected {wanted!r}")
