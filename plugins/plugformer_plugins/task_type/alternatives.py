"""Answers that have no alternatives."""

from plugformer.errors import ConfigurationError


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
