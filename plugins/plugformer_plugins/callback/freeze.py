"""Freezing parameters."""

from typing import Annotated

from pydantic import Field

from plugformer.errors import ConfigurationError
from plugformer.hooks import Run, hookimpl
from plugformer.interfaces import Callback
from plugformer.optimizer import matching_paths


class Freeze(Callback):
    """Keeps parameters at the values that they begin with; they get no gradients and no optimizer state.

    How transferable are features in deep neural networks?, Yosinski et al. 2014, section 3:
    https://arxiv.org/abs/1411.1792. With `initialize_from` these are the values of another run. Frozen
    parts keep their dropout.

    Args:
        parameters: Patterns of paths, like those of files: `encoder`, with all that is in it, or `*.norms.*`,
            where `*` matches any characters, dots as well.
    """

    def __init__(self, *, parameters: Annotated[list[str], Field(min_length=1)]) -> None:
        self.parameters = parameters

    @hookimpl(trylast=True)
    def model_built(self, run: Run) -> None:
        """Freezes what matches, after hooks that load weights.

        Raises:
            ConfigurationError: A pattern matches nothing, or nothing is left to be trained.
        """
        named = dict(run.model.named_parameters(remove_duplicate=False))
        for pattern in self.parameters:
            for name in matching_paths(pattern, named):
                named[name].requires_grad_(False)
        if not any(each.requires_grad for each in named.values()):
            raise ConfigurationError("every parameter is frozen, so that there is nothing to be trained")
