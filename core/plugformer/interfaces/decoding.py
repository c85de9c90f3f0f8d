"""Decoding: the search for output sequences."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """One output.

    Attributes:
        tokens: Token ids, without BEGIN and END.
        score: Sum of the natural logarithms of the tokens' probabilities, END included.
    """

    tokens: list[int]
    score: float


class Session(ABC):
    """A batch of sentences being decoded: the model, what it keeps of the past, and the rows still alive.

    What is given has been read once. A row is one unfinished sequence; at the start there is one for each
    sentence. Constraints and length limits are applied to the log-probabilities here, so that they hold for
    every decoding component: a row that has reached its limit can only end.
    """

    @property
    @abstractmethod
    def sentences(self) -> Int[Tensor, " rows"]:
        """The sentence that each row belongs to, 0 for the first of the batch."""

    @property
    @abstractmethod
    def sentence_ids(self) -> list[int]:
        """For each sentence its number in the whole input, whatever the batches: seeds of random choices."""

    @property
    @abstractmethod
    def log_probabilities(self) -> Float[Tensor, "rows vocabulary"]:
        """Natural logarithms of the next token's probabilities, of every row."""

    @abstractmethod
    def extend(self, tokens: Int[Tensor, " rows"]) -> None:
        """Appends one token to every row and computes the next log-probabilities."""

    @abstractmethod
    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Goes on with these rows only, in this order; a row may occur twice (beams) or never (finished)."""


class Decoding(ABC):
    """A search for good outputs.

    A component is constructed as `SomeDecoding(**options)`. It drives a session until every sentence is
    finished, and drops finished rows with `select`, so that nothing is computed for them.
    """

    @abstractmethod
    def search(self, session: Session) -> list[list[Hypothesis]]:
        """Returns each sentence's hypotheses, the best first."""
