"""Texts that a model is to answer: encoded, and limited in length as the task limits its examples."""

from collections.abc import Sequence
from dataclasses import dataclass

from plugformer.configuration.task import Task
from plugformer.data.encoding import SPECIALS, EncodedSplit
from plugformer.errors import DataError, LengthError, PlugformerError
from plugformer.interfaces.data import TaskType
from plugformer.interfaces.tokenizer import UNKNOWN, Tokenizer


@dataclass(frozen=True)
class Inputs:
    """Texts as a model reads them.

    Attributes:
        split: All of them; those with a fault are not to be answered.
        faults: Why a text cannot be answered, by its row.
        truncated: Rows of the texts that were cut.
        unknown: The parts of a text that the vocabulary cannot spell, by its row.
    """

    split: EncodedSplit
    faults: dict[int, PlugformerError]
    truncated: frozenset[int]
    unknown: dict[int, tuple[str, ...]]

    @classmethod
    def of(cls, texts: Sequence[str], tokenizer: Tokenizer, task: Task) -> "Inputs":
        """Encodes texts.

        Too long a text is cut if the task truncates long examples, and is a fault if it drops or refuses
        them.

        Args:
            texts: Inputs.
            tokenizer: Of the source.
            task: Says how long a text may be, and what is done with longer ones.
        """
        task_type = TaskType(task.type)
        faults: dict[int, PlugformerError] = {
            row: _not_unicode(text) for row, text in enumerate(texts) if not _is_unicode(text)
        }
        texts = ["" if row in faults else text for row, text in enumerate(texts)]
        tokens = tokenizer.encode(texts)
        room = task.model.max_length - SPECIALS[task_type.columns[0]]
        truncating = task.data.length.over == "truncate"
        limit = min(room, task.data.length.max or room) if truncating else room
        long = [row for row, each in enumerate(tokens) if len(each) > limit]
        if not truncating:
            faults |= {row: _too_long(texts[row], len(tokens[row]), limit) for row in long}
        tokens = [each[:limit] for each in tokens]
        unknown = {
            row: tuple(dict.fromkeys(tokenizer.unknown(texts[row])))
            for row, each in enumerate(tokens)
            if UNKNOWN in each
        }
        split = EncodedSplit.of_tokens(texts, tokens, task_type)
        return cls(split, faults, frozenset(long if truncating else ()), unknown)

    @property
    def answerable(self) -> list[int]:
        """Rows of the texts without a fault."""
        return [row for row in range(len(self.split)) if row not in self.faults]


def _is_unicode(text: str) -> bool:
    """Whether a text is free of the surrogates that Python puts where bytes were not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _not_unicode(text: str) -> DataError:
    place, found = next((place, each) for place, each in enumerate(text) if "\ud800" <= each <= "\udfff")
    byte = ord(found) - 0xDC00
    shown = f"byte 0x{byte:02x}" if 0x80 <= byte <= 0xFF else repr(found)
    beginning = text[:40].encode(errors="replace").decode()
    return DataError(
        f"{beginning!r} is not UTF-8: {shown} at character {place + 1}; convert it, for example with "
        "`iconv -f latin1 -t utf-8`"
    )


def _too_long(text: str, tokens: int, limit: int) -> LengthError:
    return LengthError(
        f"{text[:40]!r}... has {tokens} tokens, the model takes at most {limit}; shorten the text, or train "
        "with a larger model.max_length or with data.length.over=truncate"
    )
