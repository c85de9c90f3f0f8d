"""Which settings of a run can still be changed: how it answers, what is measured, and how long it trains."""

from collections.abc import Iterator, Sequence

from plugformer.configuration.overrides import read_overrides
from plugformer.documents import Mapping, Node
from plugformer.errors import ConfigurationError
from plugformer.problems import Key, Origin, Problem, dotted, report

AFTER_TRAINING = ("data", "decoding", "evaluation")
DURATION = (("training", "epochs"), ("training", "steps"))


def changeable(overrides: Sequence[str], blocks: Sequence[str]) -> list[str]:
    """Returns `KEY=VALUE` settings that a run is to be used with, and what follows from them.

    Args:
        overrides: The settings.
        blocks: The blocks of a task that they may change.

    Raises:
        ConfigurationError: A setting is of another block: the parameters were trained under it, or it is of
            no use here.
    """
    tree = read_overrides(overrides)
    expected = " or ".join(f"{block}.*" for block in blocks)
    problems = [
        Problem(node.origin, (key,), f"cannot be changed here, only {expected}", "train again to change it")
        for key, node in tree.items.items()
        if key not in blocks
    ]
    if problems:
        raise ConfigurationError(report(problems))
    # Training is over: what it watched need not be among the metrics any more.
    watched = ["training.monitor=loss"] if "evaluation" in tree.items else []
    return [*overrides, *watched]


def duration(overrides: Sequence[str]) -> list[str]:
    """Returns `KEY=VALUE` settings that a run is to be resumed with: how long it trains.

    Args:
        overrides: The settings.

    Raises:
        ConfigurationError: A setting is another one.
    """
    expected = " or ".join(map(dotted, DURATION))
    reason = "the updates so far were made with the run's own; begin a new run to change it"
    problems = [
        Problem(origin, path, f"cannot be changed with --resume, only {expected}", reason)
        for path, origin in _leaves(read_overrides(overrides), ())
        if path not in DURATION
    ]
    if problems:
        raise ConfigurationError(report(problems))
    return list(overrides)


def _leaves(node: Node, path: tuple[Key, ...]) -> Iterator[tuple[tuple[Key, ...], Origin]]:
    if not isinstance(node, Mapping):
        yield path, node.origin
        return
    for key, child in node.items.items():
        yield from _leaves(child, (*path, key))
