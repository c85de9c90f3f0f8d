"""A tokenizer's vocabulary: trained the same everywhere, saved, and loaded again."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from plugformer.errors import DataError, RunError
from plugformer.interfaces import Tokenizer
from plugformer_testing.check import check, fail, require
from plugformer_testing.processes import in_another_process
from plugformer_testing.subject import Subject
from plugformer_testing.texts import KNOWN, NASTY, TRAINING

TEXTS = [*KNOWN, *TRAINING[:6], *(text.value for text in NASTY)]


def trained(subject: Subject) -> Tokenizer:
    """Returns the component trained on the suite's texts: one object, which checks only read."""
    return subject.once("trained", lambda: _train(subject, TRAINING))


def _train(subject: Subject, texts: Sequence[str]) -> Tokenizer:
    tokenizer: Tokenizer = subject.create()
    tokenizer.train(iter(texts))
    return tokenizer


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
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tokenizer.json")
        in_another_process(subject, file, TRAINING)
        loaded: Tokenizer = subject.create()
        loaded.load(file)
    _require_same(loaded, trained(subject), "trained in another process")


@check()
def saved_and_loaded_is_the_same(subject: Subject) -> None:
    """Saved as JSON and loaded into a new object, a tokenizer encodes and decodes the same."""
    tokenizer, loaded = trained(subject), subject.create()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tokenizer.json")
        tokenizer.save(file)
        require(file.is_file(), "save writes no file at the path that it is given")
        try:
            json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            fail(f"what save writes is not JSON: {error}")
        loaded.load(file)
    _require_same(loaded, tokenizer, "saved and loaded")


@check(("missing", "", "{", "[]", "\x00\xff"))
def broken_files_are_refused(subject: Subject, content: str) -> None:
    """Loading a file that is missing or damaged is a RunError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tokenizer.json")
        if content != "missing":
            file.write_bytes(content.encode("latin-1"))
        try:
            subject.create().load(file)
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
        fail(
            f"training on {blank} blank texts raises {type(error).__name__}, "
            "expected plugformer.errors.DataError"
        )


def _require_same(tokenizer: Tokenizer, expected: Tokenizer, how: str) -> None:
    require(
        tokenizer.size == expected.size, f"{how} it has {tokenizer.size} tokens instead of {expected.size}"
    )
    rows, wanted = tokenizer.encode(TEXTS), expected.encode(TEXTS)
    for text, row, other in zip(TEXTS, rows, wanted, strict=True):
        require(row == other, f"{how} it encodes {text[:40]!r} as {row[:8]} instead of {other[:8]}")
    require(tokenizer.decode(rows) == expected.decode(wanted), f"{how} it decodes the same rows otherwise")
