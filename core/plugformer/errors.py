"""Every error that Plugformer raises on purpose, and how messages describe other errors.

A message says what is wrong with the offending value in it, what was expected, and what to do.
The command line prints these without a traceback and exits with status 2 (130 when interrupted).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from traceback import walk_tb

_LONGEST = 500
"""Characters of another library's message that are shown; its traceback has all of them."""


class PlugformerError(Exception):
    """Base of all errors that a user, a task file or a plugin can cause."""


class ConfigurationError(PlugformerError):
    """A task file, a --set argument or a component's option is wrong."""


class RegistryError(PlugformerError):
    """A component or plugin is unknown, ambiguous, quarantined or not what its manifest says."""


class DataError(PlugformerError):
    """A data file is missing, empty, malformed or unreadable; the message names file and line."""


class ExampleError(DataError):
    """An example cannot be encoded; `row` is its number among those that were to be encoded together."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


class LengthError(PlugformerError):
    """A sequence is longer than a component or a model can take."""


class RunError(PlugformerError):
    """A run directory exists already, is damaged or incomplete, or comes from another version."""


class InterruptedRunError(PlugformerError):
    """Training was interrupted (Ctrl-C or SIGTERM); the run directory holds everything up to then."""


class NotFiniteError(PlugformerError):
    """Loss, gradients, parameters or scores are infinite or no numbers; the last good checkpoint stays."""


class NotExportableError(PlugformerError):
    """A component cannot be part of an exported model, and raises this while the model is traced."""


@contextmanager
def needing(extra: str, what: str) -> Iterator[None]:
    """Turns a missing package within the block into an error that names the extra to install.

    Args:
        extra: Its name in pyproject.toml.
        what: What needs it, in the user's words, such as "decoding.pattern".
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise ConfigurationError(
            f"{what} needs {package}, which is not installed\n  pip install 'plugformer[{extra}]'"
        ) from error


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns " (did you mean 'x'?)" for the known name closest to `name`, or an empty string."""
    close = get_close_matches(name, list(map(str, known)), n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


def described(error: BaseException) -> str:
    """Returns an error's type and message on one line, even if `str` of the error fails."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # a plugin's own error may have a broken __str__
        text = "its message cannot be shown"
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return f"{type(error).__name__}: {text or 'no message'}"


def raised_in(error: BaseException, package: str) -> str:
    """Returns the innermost frame of a top-level package in an exception's traceback, or an empty text.

    The form is `file:line (function)`.
    """
    for frame, line in reversed(list(walk_tb(error.__traceback__))):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == package:
            return f"{frame.f_code.co_filename}:{line} ({frame.f_code.co_name})"
    return ""


def out_of_memory(error: BaseException) -> bool:
    """Returns whether a process or a device ran out of memory; PyTorch has several messages for it."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    words = ("can't allocate memory", "backend out of memory")  # of the CPU, of Apple's GPUs
    return type(error) is RuntimeError and any(word in described(error) for word in words)
