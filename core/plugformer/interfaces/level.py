"""What a hidden state stands for: the one list in which task types, architectures and heads meet."""

from enum import StrEnum


class Level(StrEnum):
    """What a task predicts from."""

    NEXT_TOKEN = "next-token"  # noqa: S105 (no password)
    """One state for each position of the output, which sees what stands before and predicts what follows."""

    TOKEN = "token"  # noqa: S105
    """One state for each token of the input, which sees all of it."""

    SEQUENCE = "sequence"
    """All states of the input together."""
