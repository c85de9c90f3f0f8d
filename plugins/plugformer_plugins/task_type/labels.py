"""Labels and tags: their numbers among the names that the training examples have."""

from collections.abc import Sequence

from plugformer.errors import ConfigurationError, ExampleError, nearest


def number_of(name: str, known: Sequence[str], row: int, kind: str) -> int:
    """Returns the number of a name among those of the training examples.

    Raises:
        ExampleError: The name is unknown; with the row of its example and its kind, such as "label".
    """
    if name not in known:
        raise ExampleError(
            row, f"unknown {kind} {name!r}{nearest(name, known)}; the {kind}s are {list(known)}"
        )
    return known.index(name)


def refuse_alternatives(n_best: int, answers: str) -> None:
    """Raises ConfigurationError if more than one answer is requested where `answers` have no alternatives."""
    if n_best > 1:
        raise ConfigurationError(f"n_best is {n_best}, but {answers} no alternatives; use n_best 1")
