"""Answers that are names learned from the training examples, or have no alternatives."""

from collections.abc import Iterable, Sequence

from plugformer.errors import ConfigurationError, DataError, ExampleError, nearest
from plugformer_plugins.data.labels import look_alikes


def learned_names(names: Iterable[str], kind: str) -> list[str]:
    """Returns the names that occur, sorted.

    Args:
        names: As often as they occur in the training examples.
        kind: What they are, such as "labels".

    Raises:
        DataError: Two of them look the same, as those that differ only in a space.
    """
    found = sorted(set(names))
    if (pair := look_alikes(found)) is not None:
        one, other = map(ascii, pair)
        raise DataError(
            f"the {kind} {one} and {other} of the training examples look the same, and the model would learn "
            "to tell them apart; write them alike"
        )
    return found


def number_of(name: str, known: Sequence[str], row: int, kind: str, all_known: str) -> int:
    """Returns the number of a name.

    Args:
        name: Such as of a class.
        known: The names of the training examples.
        row: The number of the example that has it.
        kind: What it is, such as "label".
        all_known: What the others are, such as "classes".

    Raises:
        ExampleError: It is none of the known ones.
    """
    if name not in known:
        raise ExampleError(
            row, f"unknown {kind} {name!r}{nearest(name, known)}; the {all_known} are {list(known)}"
        )
    return known.index(name)


def refuse_alternatives(n_best: int, answers: str) -> None:
    """Refuses to give several answers to one question.

    Args:
        n_best: How many are asked for.
        answers: What has no alternatives, with its verb, as in "tags have".

    Raises:
        ConfigurationError: More than one is asked for.
    """
    if n_best > 1:
        raise ConfigurationError(
            f"{n_best} outputs are asked for, but {answers} no alternatives; ask for one"
        )
