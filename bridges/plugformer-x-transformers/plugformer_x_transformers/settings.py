"""Arguments of x-transformers' classes, as options."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn

from plugformer.errors import ConfigurationError
from plugformer_blocks import AdaptedModule

Settings = dict[str, bool | int | float]


def adapted(
    make: Callable[..., nn.Module], *sizes: int, settings: Mapping[str, Any], **given: Any
) -> AdaptedModule:
    """Returns a module of x-transformers with its settings.

    Raises:
        ConfigurationError: The class refuses them.
    """
    try:
        return AdaptedModule(partial(make, *sizes, **given, **settings))
    except (AssertionError, TypeError) as error:
        raise ConfigurationError(
            f"x-transformers refuses {dict(settings)}: {error or 'these sizes'}"
        ) from error
