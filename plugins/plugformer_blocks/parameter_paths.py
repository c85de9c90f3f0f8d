"""Which parameters of a model a pattern means."""

from collections.abc import Collection
from fnmatch import fnmatchcase

from plugformer.errors import ConfigurationError, nearest


def matching_paths(pattern: str, paths: Collection[str]) -> list[str]:
    """Returns the paths of parameters that a pattern matches, such as `encoder` or `*.norms.*`.

    Patterns are like those of files; `*` matches any characters, dots as well. A pattern that matches a
    module means all parameters in it.

    Raises:
        ConfigurationError: It matches none.
    """
    matching = [path for path in paths if fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern}.*")]
    if not matching:
        places = sorted({".".join(path.split(".")[:depth]) for path in paths for depth in (1, 2)})
        raise ConfigurationError(
            f"no parameter matches {pattern!r}{nearest(pattern, [*places, *paths])}\n"
            f"there are {', '.join(places)}, and what is in them"
        )
    return matching
