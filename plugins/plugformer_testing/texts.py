"""Texts that tokenizers stumble over, made anew and the same at every run."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from plugformer.interfaces import SPECIAL_TOKENS

TRAINING = (
    "the quick brown fox jumps over the lazy dog",
    "low lower lowest and new newer newest",
    "a fox and a dog are in the new house , it rains !",
    "ein schöner Tag (wirklich) für Straße und Haus",
    "晚风 摇树 树 还 挺，晨露 润花 花 更 红。",
    "3 10 7; 12.5 - 4 = 8.5 <b> #1 @home",
) * 3
"""What tokenizers are trained on; every word occurs three times at least."""

KNOWN = (
    "fox",
    "the lazy dog",
    "low lower lowest",
    "a new house",
    "the quick brown fox jumps over the lazy dog",
)
"""Made of training words in lower case, with single spaces: whatever a tokenizer tidies up, these stay."""

STRANGE = "☃龘ж"
"""Characters that training never saw."""

_PIECES = (
    *("fox", "dog", "new", "a", "0", "42"),
    *(" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u2028", "\u200b"),
    *(".", ",", "!", "'", '"', "-", "##", "▁", "Ġ", "</w>", "\\", "{}", "%s"),
    *("e\u0301", "é", "ß", "ﬁ", "İ", "中", "文", "ไทย", "עברית", "\u200f", "👩‍👩‍👧", "🏳️‍🌈", "☃"),
    *("\x00", "\x7f", "\ufeff", "\ufffd", "\U0010ffff"),
    *(*SPECIAL_TOKENS, "<unk>", "<s>", "[PAD]", "<padding>"),
)


@dataclass(frozen=True)
class Text:
    """A text, shown with everything invisible spelled out.

    Attributes:
        value: The text.
        whole: Whether it must stay as it is: parts of it are no smaller cases.
    """

    value: str
    whole: bool = False

    def __str__(self) -> str:
        return ascii(self.value) if len(self.value) < 80 else f"{self.value[:70]!a}... ({len(self.value)})"

    def simpler(self) -> Iterator["Text"]:
        """Yields the text with parts left out, large parts first."""
        size = 0 if self.whole else len(self.value) // 2
        while size:
            for start in range(0, len(self.value), size):
                yield Text(self.value[:start] + self.value[start + size :])
            size //= 2


_DRAW = random.Random(1)  # noqa: S311 (examples, not secrets)
_MIXED = {"".join(_DRAW.choices(_PIECES, k=_DRAW.randint(2, 8))) for _ in range(60)}
_LONG = ("x" * 1500, "fox " * 300)

NASTY = tuple(map(Text, sorted({*_PIECES, *_MIXED, *_LONG}, key=lambda value: (len(value), value))))
"""Texts of every kind of trouble: spaces, marks, emoji, control characters, spellings of special tokens.

The shortest come first.
"""
