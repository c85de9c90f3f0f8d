"""Labels and tags: their names, learned from the training examples, and their numbers."""

from collections.abc import Iterable, Sequence

from plugformer.errors import ConfigurationError, DataError, ExampleError, nearest
from plugformer_plugins.data.labels import look_alikes


def learned_names(names: Iterable[str], kind: str) -> list[str]:
    """Returns the different names of the training examples, sorted.

    Args:
        names: Names, possibly repeated.
        kind: What they are, such as "labels".

    Raises:
        DataError: Two of them look the same; for example, they differ only in a space.
    """
    different = sorted(set(names))
    if (pair := look_alikes(different)) is not None:
        one, other = map(ascii, pair)
        raise DataError(
            f"the {kind} {one} and {other} of the training examples look the same, but would be different "
            f"{kind}; use one spelling"
        )
    return different


def number_of(name: str, known: Sequence[str], row: int, kind: str, all_known: str) -> int:
    """Returns the number of a name.

    Args:
        name: The name, such as that of a class.
        known: The names of the training examples.
        row: The number of the example, for the error.
        kind: What the name is, for the error, such as "label".
        all_known: What the known names are, for the error, such as "classes".

    Raises:
        ExampleError: The name is unknown.
    """
    if name not in known:
        raise ExampleError(
            row, f"unknown {kind} {name!r}{nearest(name, known)}; the {all_known} are {list(known)}"
        )
    return known.index(name)


def refuse_alternatives(n_best: int, answers: str) -> None:
    """Requires that one answer is requested.

    Args:
        n_best: Number of requested answers.
        answers: What has no alternatives, with its verb, as in "tags have".

    Raises:
        ConfigurationError: More than one answer is requested.
    """
    if n_best > 1:
        raise ConfigurationError(f"n_best is {n_best}, but {answers} no alternatives; use n_best 1")
