"""Every error that Plugformer raises on purpose.

PlugformerError
├── ConfigurationError   what the user wrote: task files, --set, component options
├── RegistryError        components and plugins: unknown, in conflict, quarantined, not what they claim
├── DataError            examples: missing, empty, malformed or unreadable files
├── LengthError          a sequence longer than a component or a model can take
├── RunError             run directories: existing, damaged, incomplete, from another version
├── InterruptedRunError  training that was stopped from outside and has saved what it had
└── NotFiniteError       loss, gradients, parameters or a model's scores that are infinite or no numbers

A message says what is wrong with the offending value in it, what was expected, and what to do.
The command line prints these without a traceback and exits with status 2 (130 when interrupted).
"""

from collections.abc import Iterable
from difflib import get_close_matches


class PlugformerError(Exception):
    """Base of all errors that a user, a task file or a plugin can cause."""


class ConfigurationError(PlugformerError):
    """A task file, a --set argument or a component's option is wrong."""


class RegistryError(PlugformerError):
    """A component or plugin is unknown, ambiguous, quarantined or not what its manifest says."""


class DataError(PlugformerError):
    """A data file is missing, empty, malformed or unreadable; the message names file and line."""


class LengthError(PlugformerError):
    """A sequence is longer than a component or a model can take."""


class RunError(PlugformerError):
    """A run directory exists already, is damaged or incomplete, or comes from another version."""


class InterruptedRunError(PlugformerError):
    """Training was interrupted (Ctrl-C or SIGTERM); the run directory holds everything up to then."""


class NotFiniteError(PlugformerError):
    """Loss, gradients, parameters or a model's scores are infinite or no numbers.

    A training that ends so keeps its last good checkpoint.
    """


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns " (did you mean 'x'?)" for the known name closest to `name`, or an empty string."""
    close = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""
