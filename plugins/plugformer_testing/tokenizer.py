"""The contract of tokenizers: see plugformer.interfaces.tokenizer.

How a vocabulary is kept and comes out the same everywhere is in tokenizer_files.
"""

import unicodedata
from functools import partial

import numpy as np

from plugformer.interfaces import BEGIN, END, PADDING, UNKNOWN, Tokenizer
from plugformer_testing.check import check, require
from plugformer_testing.subject import Subject
from plugformer_testing.texts import KNOWN, NASTY, STRANGE, Text, simpler_texts
from plugformer_testing.tokenizer_files import (
    broken_files_are_refused,
    no_text_is_refused,
    saved_and_loaded_is_the_same,
    trained,
    trained_in_another_process_is_the_same,
    trained_twice_is_the_same,
)

SPECIAL = {PADDING, BEGIN, END}


@check()
def special_numbers_come_first(subject: Subject) -> None:
    """Numbers 0 to 3 are padding, unknown, begin and end, and all four are counted in the size."""
    tokenizer = trained(subject)
    require(
        tokenizer.size > 4, f"the vocabulary has {tokenizer.size} tokens, no room beside the special ones"
    )
    row = tokenizer.encode([KNOWN[0]])[0]
    require(
        bool(row) and min(row) > END, f"{KNOWN[0]!r} is encoded as {row}, below the first ordinary number 4"
    )
    plain, marked = tokenizer.decode(iter([row, [BEGIN, *row, END, PADDING, PADDING]]))
    require(plain == marked, f"with BEGIN, END and PADDING around it {plain!r} is decoded as {marked!r}")
    shown = tokenizer.decode([[*row, UNKNOWN]])[0]
    require("<unk>" in shown, f"UNKNOWN is decoded as {shown!r}, expected '<unk>' in it: it is not shown")


@check(NASTY, simpler_texts)
def numbers_are_in_the_vocabulary(subject: Subject, text: Text) -> None:
    """Every number is in the vocabulary and has a spelling."""
    tokenizer = trained(subject)
    row = tokenizer.encode([text.value])[0]
    outside = [number for number in row if not 0 <= number < tokenizer.size]
    require(not outside, f"number {outside[:1]} is outside the vocabulary of {tokenizer.size}")
    spelled = tokenizer.tokens(row)
    require(
        len(spelled) == len(row) and all(isinstance(token, str) for token in spelled),
        f"{len(row)} tokens are spelled as {spelled}",
    )


@check(NASTY, simpler_texts)
def text_never_becomes_a_special_token(subject: Subject, text: Text) -> None:
    """No text, not even one that spells a special token, is encoded as PADDING, BEGIN or END."""
    row = trained(subject).encode([text.value])[0]
    require(
        not SPECIAL & set(row),
        f"the text is encoded with the special number {min(SPECIAL & {*row}, default=0)}",
    )


@check(tuple(Text(text) for text in (STRANGE[0], f"fox {STRANGE[1]}", f"fox{STRANGE[2]}", f"{STRANGE} fox")))
def unknown_characters_are_not_dropped(subject: Subject, text: Text) -> None:
    """What the vocabulary cannot spell becomes UNKNOWN; it does not vanish."""
    tokenizer = trained(subject)
    row = tokenizer.encode([text.value])[0]
    kept = tokenizer.decode([row])[0]
    lost = [character for character in STRANGE if character in text.value and character not in kept]
    require(
        UNKNOWN in row or not lost,
        f"an unknown character is dropped: encoded as {row}, without UNKNOWN, which reads {kept!r}",
    )


@check()
def nothing_gives_nothing(subject: Subject) -> None:
    """An empty text is read back as an empty text, an empty batch as an empty batch."""
    tokenizer = trained(subject)
    require(
        tokenizer.encode([]) == [] and tokenizer.decode([]) == [],
        "an empty batch does not give an empty batch",
    )
    row = tokenizer.encode([""])[0]
    require(
        tokenizer.decode([row]) == [""],
        f"the empty text is encoded as {row}, which reads {tokenizer.decode([row])[0]!r}",
    )
    require(tokenizer.decode([[]]) == [""], "a row without tokens is not decoded as an empty text")


@check(tuple(Text(text) for text in KNOWN))
def known_text_survives(subject: Subject, text: Text) -> None:
    """Text made of training words is read back, but for spaces and case: nothing is lost or added."""
    tokenizer = trained(subject)
    row = tokenizer.encode([text.value])[0]
    again = tokenizer.decode([row])[0]
    require(UNKNOWN not in row, f"words of the training text are unknown: it is read back as {again!r}")
    require(_bare(again) == _bare(text.value), f"it is read back as {again!r}")


@check(NASTY, simpler_texts)
def decoded_text_is_stable(subject: Subject, text: Text) -> None:
    """Text that was decoded once comes back as it is, but for spaces at its ends: tidying up ends there."""
    tokenizer = trained(subject)
    row = tokenizer.encode([text.value])[0]
    if UNKNOWN in row:
        return
    once = tokenizer.decode([row])[0]
    again = tokenizer.decode(tokenizer.encode([once]))[0]
    require(again.strip() == once.strip(), f"it is read back as {once!r}, and that as {again!r}")


@check(NASTY, simpler_texts)
def pieces_make_the_text(subject: Subject, text: Text) -> None:
    """A row reads as its tokens' pieces do, one after the other: patterns are spelled with them."""
    tokenizer = trained(subject)
    row = tokenizer.encode([text.value])[0]
    first, later = (subject.once(("pieces", at), partial(tokenizer.pieces, first=at)) for at in (True, False))
    require(
        len(first) == len(later) == tokenizer.size,
        f"{tokenizer.size} tokens have {len(first)} first and {len(later)} later pieces",
    )
    pieces = [(later if place else first)[number] for place, number in enumerate(row)]
    decoded = tokenizer.decode([row])[0]
    if all(pieces) and "\ufffd" not in decoded:
        require(
            b"".join(pieces) == decoded.encode(),
            f"it is read back as {decoded!r}, and its tokens' pieces are {pieces}",
        )


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
        require(
            back == tokenizer.decode([row])[0], f"{Text(text)} is decoded otherwise in a batch than alone"
        )


@check(NASTY, simpler_texts)
def drawn_tokens_spell_the_same_text(subject: Subject, text: Text) -> None:
    """Tokens drawn by `sampling` are in the vocabulary, and read as those of `encode` do."""
    tokenizer = trained(subject)
    row = tokenizer.encode([text.value])[0]
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


def _bare(text: str) -> str:
    """Returns the text without spaces, case and compatibility forms."""
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


CHECKS = (
    special_numbers_come_first,
    numbers_are_in_the_vocabulary,
    text_never_becomes_a_special_token,
    unknown_characters_are_not_dropped,
    nothing_gives_nothing,
    known_text_survives,
    decoded_text_is_stable,
    pieces_make_the_text,
    batches_equal_single_texts,
    drawn_tokens_spell_the_same_text,
    draws_follow_the_generator,
    trained_twice_is_the_same,
    trained_in_another_process_is_the_same,
    saved_and_loaded_is_the_same,
    broken_files_are_refused,
    no_text_is_refused,
)
