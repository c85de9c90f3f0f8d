"""The contract of tokenizers: see plugformer.interfaces.tokenizer."""

import itertools
import json
import tempfile
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from plugformer.errors import DataError, RunError
from plugformer.interfaces import BEGIN, END, PADDING, UNKNOWN, Tokenizer
from plugformer_testing.check import check, fail, require
from plugformer_testing.processes import in_another_process
from plugformer_testing.subject import Subject
from plugformer_testing.texts import KNOWN, NASTY, STRANGE, TRAINING, Text

TEXTS = [*KNOWN, *TRAINING[:6], *(text.value for text in NASTY)]
SPECIAL = {PADDING, BEGIN, END}


@check()
def special_numbers_come_first(subject: Subject) -> None:
    """Numbers 0 to 3 are padding, unknown, begin and end, and all four are counted in the size."""
    tokenizer = trained(subject)
    if tokenizer.size <= 4:
        fail(f"the vocabulary has {tokenizer.size} tokens, no room beside the special ones")
    row = tokenizer.encode([KNOWN[0]])[0]
    if not row or min(row) <= END:
        fail(f"{KNOWN[0]!r} is encoded as {row}, below the first ordinary number 4")
    plain, marked = tokenizer.decode(iter([row, [BEGIN, *row, END, PADDING, PADDING]]))
    require(plain == marked, f"with BEGIN, END and PADDING around it {plain!r} is decoded as {marked!r}")
    shown = tokenizer.decode([[*row, UNKNOWN]])[0]
    require("<unk>" in shown, f"UNKNOWN is decoded as {shown!r}, expected '<unk>' in it: it is not shown")


@check(NASTY)
def numbers_are_in_the_vocabulary(subject: Subject, text: Text) -> None:
    """Every number is in the vocabulary and has a spelling."""
    tokenizer, row = trained(subject), encoded(subject, text)
    outside = [number for number in row if not 0 <= number < tokenizer.size]
    require(not outside, f"number {outside[:1]} is outside the vocabulary of {tokenizer.size}")
    spelled = tokenizer.tokens(row)
    if not (len(spelled) == len(row) and all(isinstance(token, str) for token in spelled)):
        fail(f"{len(row)} tokens are spelled as {spelled}")


@check(NASTY)
def text_never_becomes_a_special_token(subject: Subject, text: Text) -> None:
    """No text, not even one that spells a special token, is encoded as PADDING, BEGIN or END."""
    row = encoded(subject, text)
    if SPECIAL & set(row):
        fail(f"the text is encoded with the special number {min(SPECIAL & {*row})}")


@check(
    Text(text, whole=True) for text in (STRANGE[0], f"fox {STRANGE[1]}", f"fox{STRANGE[2]}", f"{STRANGE} fox")
)
def unknown_characters_are_not_dropped(subject: Subject, text: Text) -> None:
    """What the vocabulary cannot spell becomes UNKNOWN; it does not vanish."""
    tokenizer, row = trained(subject), encoded(subject, text)
    kept = tokenizer.decode([row])[0]
    lost = [character for character in STRANGE if character in text.value and character not in kept]
    if UNKNOWN not in row and lost:
        fail(f"an unknown character is dropped: encoded as {row}, without UNKNOWN, which reads {kept!r}")


@check()
def words_give_the_tokens_of_their_text(subject: Subject) -> None:
    """A text given as words has the tokens that it has as a text: the words joined by spaces.

    Each word has a row of tokens, the same whatever stands beside it.
    """
    tokenizer, words = trained(subject), KNOWN[1].split()
    row = list(itertools.chain.from_iterable(tokenizer.encode_words(words)))
    texts = [" ".join(words), " ".join(["", *words])]
    if row not in tokenizer.encode(texts):
        fail(f"the words {words} are encoded as {row}, their text as {tokenizer.encode(texts)[0]}")
    words += ["", STRANGE]
    together, alone = tokenizer.encode_words(words), [tokenizer.encode_words([word]) for word in words]
    if [[each] for each in together] != alone:
        fail(f"the words {words} are encoded as {together} together, and alone as {alone}")


@check()
def nothing_gives_nothing(subject: Subject) -> None:
    """An empty text is read back as an empty text, an empty batch as an empty batch."""
    tokenizer = trained(subject)
    if tokenizer.encode([]) != [] or tokenizer.decode([]) != []:
        fail("an empty batch does not give an empty batch")
    row = tokenizer.encode([""])[0]
    if tokenizer.decode([row]) != [""]:
        fail(f"the empty text is encoded as {row}, which reads {tokenizer.decode([row])[0]!r}")
    require(tokenizer.decode([[]]) == [""], "a row without tokens is not decoded as an empty text")


@check(Text(text, whole=True) for text in KNOWN)
def known_text_survives(subject: Subject, text: Text) -> None:
    """Text made of training words is read back, but for spaces and case: nothing is lost or added."""
    tokenizer, row = trained(subject), encoded(subject, text)
    again = tokenizer.decode([row])[0]
    require(UNKNOWN not in row, f"words of the training text are unknown: it is read back as {again!r}")
    require(_bare(again) == _bare(text.value), f"it is read back as {again!r}")


@check(NASTY)
def decoded_text_is_stable(subject: Subject, text: Text) -> None:
    """Text that was decoded once comes back as it is, but for spaces at its ends: tidying up ends there."""
    tokenizer, row = trained(subject), encoded(subject, text)
    if UNKNOWN in row:
        return
    once = tokenizer.decode([row])[0]
    again = tokenizer.decode(tokenizer.encode([once]))[0]
    require(again.strip() == once.strip(), f"it is read back as {once!r}, and that as {again!r}")


@check(NASTY)
def pieces_make_the_text(subject: Subject, text: Text) -> None:
    """A row reads as its tokens' pieces do, one after the other: patterns are spelled with them."""
    tokenizer, row = trained(subject), encoded(subject, text)
    first, later = subject.once(
        "pieces", lambda: [tokenizer.token_bytes(at_start=at_start) for at_start in (True, False)]
    )
    if not len(first) == len(later) == tokenizer.size:
        fail(f"{tokenizer.size} tokens have {len(first)} first and {len(later)} later pieces")
    pieces = [(later if place else first)[number] for place, number in enumerate(row)]
    decoded = tokenizer.decode([row])[0]
    if all(pieces) and "\ufffd" not in decoded and b"".join(pieces) != decoded.encode():
        fail(f"it is read back as {decoded!r}, and its tokens' pieces are {pieces}")


@check((2, 7, len(NASTY)))
def batches_equal_single_texts(subject: Subject, size: int) -> None:
    """A text in a batch is encoded, and a row decoded, as alone."""
    tokenizer: Tokenizer = trained(subject)
    texts = [text.value for text in NASTY[-size:]]
    rows = tokenizer.encode(texts)
    require(len(rows) == size, f"{size} texts give {len(rows)} rows")
    decoded = tokenizer.decode(iter(rows))
    for text, row, back in zip(texts, rows, decoded, strict=True):
        alone = tokenizer.encode([text])[0]
        require(row == alone, f"{Text(text)} is encoded otherwise in a batch than alone")
        if back != tokenizer.decode([row])[0]:
            fail(f"{Text(text)} is decoded otherwise in a batch than alone")


@check(NASTY)
def drawn_tokens_spell_the_same_text(subject: Subject, text: Text) -> None:
    """Tokens drawn by `sampling` are in the vocabulary, and read as those of `encode` do."""
    tokenizer, row = trained(subject), encoded(subject, text)
    if UNKNOWN in row:
        return
    expected = tokenizer.decode([row])[0]
    drawn = tokenizer.sampling(np.random.default_rng(0)).encode([text.value] * 3)
    outside = [number for each in drawn for number in each if not END < number < tokenizer.size]
    require(not outside, f"number {outside[:1]} is drawn, expected one from 4 to {tokenizer.size - 1}")
    for each, found in zip(drawn, tokenizer.decode(drawn), strict=True):
        require(found == expected, f"the tokens {each} are drawn, which read {found!r}, not {expected!r}")


@check()
def draws_follow_the_generator(subject: Subject) -> None:
    """The same generator draws the same tokens again, and the tokenizer itself goes on without drawing."""
    tokenizer, texts = trained(subject), [text.value for text in NASTY]
    plain = tokenizer.encode(texts)

    def drawn() -> list[list[int]]:
        return tokenizer.sampling(np.random.default_rng(0)).encode(texts)

    first = drawn()
    require(tokenizer.encode(texts) == plain, "after `sampling` the tokenizer itself encodes otherwise")
    require(drawn() == first, "the same generator draws other tokens")


@check()
def trained_twice_is_the_same(subject: Subject) -> None:
    """Trained on the same texts again, also after others, a tokenizer encodes the same."""
    expected = trained(subject)
    tokenizer = _train(subject, [*reversed(TRAINING), "some other words were here before"])
    tokenizer.train(iter(TRAINING))
    _require_same(tokenizer, expected, "trained again on the same texts")


@check()
def trained_in_another_process_is_the_same(subject: Subject) -> None:
    """The same texts give the same numbers in another process, with other hash seeds and threads."""
    loaded = _loaded(subject, lambda file: in_another_process(subject, file, TRAINING))
    _require_same(loaded, trained(subject), "trained in another process")


@check()
def saved_and_loaded_is_the_same(subject: Subject) -> None:
    """Saved as JSON and loaded into a new object, a tokenizer encodes and decodes the same."""
    tokenizer = trained(subject)

    def save(file: Path) -> None:
        tokenizer.save(file)
        require(file.is_file(), "save writes no file at the path that it is given")
        try:
            json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            fail(f"what save writes is not JSON: {error}")

    _require_same(_loaded(subject, save), tokenizer, "saved and loaded")


@check(("missing", "", "{", "[]", "\x00\xff"))
def broken_files_are_refused(subject: Subject, content: str) -> None:
    """Loading a file that is missing or damaged is a RunError."""

    def write(file: Path) -> None:
        if content != "missing":
            file.write_bytes(content.encode("latin-1"))

    try:
        _loaded(subject, write)
    except RunError:
        return
    except Exception as error:
        fail(f"loading such a file raises {type(error).__name__}, expected plugformer.errors.RunError")
    fail("loading such a file raises nothing, expected plugformer.errors.RunError")


@check((0, 2))
def no_text_is_refused(subject: Subject, blank: int) -> None:
    """Training without any text is a DataError, unless there is nothing to train."""
    try:
        subject.create().train(iter([""] * blank))
    except DataError:
        return
    except Exception as error:
        what = f"training on {blank} blank texts raises {type(error).__name__}"
        fail(f"{what}, expected plugformer.errors.DataError")


def trained(subject: Subject) -> Tokenizer:
    """Returns the component trained on the suite's texts: one object, which checks only read."""
    return subject.once("trained", lambda: _train(subject, TRAINING))


def encoded(subject: Subject, text: Text) -> list[int]:
    """Returns a text as the trained tokenizer encodes it."""
    return trained(subject).encode([text.value])[0]


def _train(subject: Subject, texts: Sequence[str]) -> Tokenizer:
    tokenizer: Tokenizer = subject.create()
    tokenizer.train(iter(texts))
    return tokenizer


def _loaded(subject: Subject, write: Callable[[Path], None]) -> Tokenizer:
    """Returns a new object that has loaded what was written to a file."""
    loaded: Tokenizer = subject.create()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tokenizer.json")
        write(file)
        loaded.load(file)
    return loaded


def _require_same(tokenizer: Tokenizer, expected: Tokenizer, how: str) -> None:
    if tokenizer.size != expected.size:
        fail(f"{how} it has {tokenizer.size} tokens instead of {expected.size}")
    rows, wanted = tokenizer.encode(TEXTS), expected.encode(TEXTS)
    for text, row, other in zip(TEXTS, rows, wanted, strict=True):
        require(row == other, f"{how} it encodes {text[:40]!r} as {row[:8]} instead of {other[:8]}")
    require(tokenizer.decode(rows) == expected.decode(wanted), f"{how} it decodes the same rows otherwise")
    for what, use in _USES.items():
        require(use(tokenizer) == use(expected), f"{how} it {what} otherwise")


_USES: dict[str, Callable[[Tokenizer], object]] = {
    "encodes words": lambda tokenizer: tokenizer.encode_words(KNOWN[1].split()),
    "spells tokens": lambda tokenizer: tokenizer.tokens(tokenizer.encode([KNOWN[1]])[0]),
    "draws tokens": lambda tokenizer: tokenizer.sampling(np.random.default_rng(0)).encode(TEXTS),
}
"""What else a tokenizer is used for, in training or with a run."""


def _bare(text: str) -> str:
    """Returns the text without spaces, case and compatibility forms."""
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())
