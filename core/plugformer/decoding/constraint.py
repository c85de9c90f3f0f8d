"""What every output must respect, whatever the search: its length. A plugin can add a pattern of texts."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plugformer.interfaces import BEGIN, END, PADDING, UNKNOWN, Tokenizer


class AllowedTokens:
    """Which tokens may follow each row of a batch, by the length of its output; BEGIN and PADDING never may.

    A subclass that forbids more overrides `mask`, and `extend` and `select` if it keeps a state of each row.

    Args:
        vocabulary: Number of tokens.
        least: Fewest tokens of each row's output, END not counted.
        most: Most tokens of each row's output.
        never: More tokens that no output may have.
    """

    def __init__(
        self,
        vocabulary: int,
        least: Int[Tensor, " rows"],
        most: Int[Tensor, " rows"],
        *,
        never: tuple[int, ...] = (),
    ) -> None:
        self.length = 0
        self.least, self.most = least, most
        # Kept on the host: from the first of these lengths to the second, every row may end or be extended.
        self._free_from, self._free_to = torch.stack([least.max(), most.min()]).tolist()
        penalties = torch.zeros(vocabulary)
        penalties[[PADDING, BEGIN, *never]] = -torch.inf
        self._penalties = penalties.to(least.device)

    def mask(self, log_probabilities: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, "rows vocabulary"]:
        """Returns minus infinity for tokens that may not follow, and the others' values unchanged.

        NaN stays NaN: no search may take it for a token that is not allowed.
        """
        masked = log_probabilities + self._penalties
        if not self._free_from <= self.length < self._free_to:
            masked += torch.where(self.length < self.most, 0.0, -torch.inf)[:, None]
            may_end = torch.where(self.least <= self.length, 0.0, -torch.inf)
            masked[:, END] = log_probabilities[:, END] + may_end
        return masked

    def endless(self, ending: Float[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
        """Returns the rows that no search could end: their scores are NaN, or END is not possible.

        A score that is infinite or NaN makes all log-probabilities of its row NaN, also that of END. A row
        with as many tokens as it may have can only end.

        Args:
            ending: The log-probability of END.
        """
        if self.length < self._free_to:
            return ending.isnan()
        return ending.isnan() | ((self.most <= self.length) & ending.isneginf())

    def extend(self, tokens: Int[Tensor, " rows"]) -> None:  # noqa: ARG002 (for subclasses)
        """Appends one token to every row."""
        self.length += 1

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows, in this order."""
        self.least = self.least.index_select(0, rows)
        self.most = self.most.index_select(0, rows)


class Constraint:
    """The outputs that a task allows: texts of some lengths.

    A plugin can replace it by a subclass with the hook `output_pattern`. Create it once for a model.

    Args:
        tokenizer: Of the output, trained.
        positions: Most positions that the model can process; BEGIN takes one.
        max_length: `decoding.max_length`: the longest output in tokens, a number or `source+N`.
        length: `decoding.length`: the only length of an output, a number or `source`; replaces `max_length`.
    """

    def __init__(
        self, tokenizer: Tokenizer, positions: int, *, max_length: int | str, length: int | str | None = None
    ) -> None:
        setting = max_length if length is None else length
        self._vocabulary = tokenizer.size
        self._exact = length is not None
        self._on_source = isinstance(setting, str)
        self._tokens = int(setting.removeprefix("source") or 0) if isinstance(setting, str) else setting
        self._limit = positions - 1

    @property
    def longest(self) -> int:
        """The longest output of any source."""
        return self._limit if self._on_source else min(self._tokens, self._limit)

    def bounds(
        self, lengths: Int[Tensor, " batch"], room: Int[Tensor, " batch"]
    ) -> tuple[Int[Tensor, " batch"], Int[Tensor, " batch"]]:
        """Returns the fewest and the most tokens of each example's output.

        Args:
            lengths: Of the inputs, without special tokens.
            room: Positions that the model has for each output.
        """
        most = (lengths * self._on_source + self._tokens).clamp(max=self._limit).minimum(room)
        return most if self._exact else torch.zeros_like(most), most

    def start(self, lengths: Int[Tensor, " batch"], room: Int[Tensor, " batch"]) -> AllowedTokens:
        """Returns the tokens that may begin a batch's outputs; arguments as of `bounds`."""
        never = (UNKNOWN,) if self._exact else ()  # the text of an unknown token has no known length
        return AllowedTokens(self._vocabulary, *self.bounds(lengths, room), never=never)
