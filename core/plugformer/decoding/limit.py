"""How long an output may become, and must be."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True)
class LengthLimit:
    """A length in tokens: a number, possibly on top of the source's length.

    Attributes:
        tokens: The number.
        on_source: Whether the source's length is added.
        longest: What the model can process; never exceeded (BEGIN takes one position).
    """

    tokens: int
    on_source: bool
    longest: int

    @classmethod
    def parse(cls, setting: int | str, model_max_length: int) -> "LengthLimit":
        """Reads `decoding.max_length` or `decoding.length`: a number, `source`, or `source+N`."""
        on_source = isinstance(setting, str)
        tokens = int(setting.removeprefix("source") or 0) if isinstance(setting, str) else setting
        return cls(tokens, on_source, model_max_length - 1)

    def of(self, lengths: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """Returns the length for each example; `lengths` are those of the inputs, without special tokens."""
        return (lengths * self.on_source + self.tokens).clamp(max=self.longest)


@dataclass(frozen=True)
class LengthRange:
    """The lengths that an output may have.

    Attributes:
        least: The shortest.
        most: The longest.
    """

    least: LengthLimit
    most: LengthLimit

    @classmethod
    def parse(cls, length: int | str | None, max_length: int | str, model_max_length: int) -> "LengthRange":
        """Reads `decoding.length`, which leaves no choice, or else `decoding.max_length`."""
        most = LengthLimit.parse(max_length if length is None else length, model_max_length)
        return cls(LengthLimit(0, on_source=False, longest=0) if length is None else most, most)

    @property
    def longest(self) -> int:
        """The longest output of any source."""
        return self.most.longest if self.most.on_source else min(self.most.tokens, self.most.longest)

    def of(
        self, lengths: Int[Tensor, " batch"], room: Int[Tensor, " batch"]
    ) -> tuple[Int[Tensor, " batch"], Int[Tensor, " batch"]]:
        """Returns the shortest and the longest for each example.

        Args:
            lengths: Of the inputs, without special tokens.
            room: The most that the model can process beside each.
        """
        return self.least.of(lengths).minimum(room), self.most.of(lengths).minimum(room)
