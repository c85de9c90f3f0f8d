"""What a hidden state stands for: the one list in which task types, architectures and heads meet."""

from enum import StrEnum


class Level(StrEnum):
    """What a task predicts from.

    A task type has one, architectures and heads serve some: what is combined must have it in common.
    """

    NEXT_TOKEN = "next-token"  # noqa: S105 (no password)
    """One state for each position of the output, which sees what stands before and predicts what follows.

    Translation, language modelling.
    """

    TOKEN = "token"  # noqa: S105
    """One state for each token of the input, which sees all of it: tagging, masked language modelling."""

    SEQUENCE = "sequence"
    """All states of the input together: classification, regression."""
