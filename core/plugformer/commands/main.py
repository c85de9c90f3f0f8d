"""`plugformer`: the commands put together, and how each ends.

Exit status: 0, or 2 for anything that the user or a plugin caused, 130 for Ctrl-C, 1 when whoever reads the
output has gone.
"""

import codecs
import contextlib
import errno
import io
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

import plugformer
from plugformer.commands import (
    evaluate,
    info,
    listing,
    predict,
    schema,
    train,
    validate,
)
from plugformer.commands.group import CommandGroup
from plugformer.commands.parameters import LocalManifest, examples
from plugformer.errors import ConfigurationError, InterruptedRunError, PlugformerError
from plugformer.faults import unexpected
from plugformer.terminal import clipped, printable

_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_PLACE = re.compile(r"(.+:\d+:\d+|--set \S.*?)  ")
"""How `problems.Origin` begins a line."""

_LONGEST = 2000
"""Characters of a line of a message: it may quote an argument, a cell or a file's name."""

app = typer.Typer(
    name="plugformer",
    cls=CommandGroup,
    help="Train transformers whose every part is a plugin.",
    epilog="Start with: plugformer train dates",
    no_args_is_help=True,
    rich_markup_mode=None,  # rich's help alone takes longer to import than all the rest
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
for name, module in {
    "list": listing,
    "info": info,
    "validate": validate,
    "schema": schema,
    "train": train,
    "evaluate": evaluate,
    "predict": predict,
}.items():
    app.command(name, epilog=examples(module.EXAMPLES))(module.command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command and exits.

    Args:
        arguments: What follows the program's name; those of this process if None.
    """
    _prepare_streams()
    try:
        app(arguments, prog_name="plugformer")
    except PlugformerError as error:
        _leave(130 if isinstance(error, InterruptedRunError) else 2, _message(error))
    except BrokenPipeError:
        _leave(1)
    except OSError as error:  # a full disk behind standard output, a file that vanished
        _leave(2, _complaint(error))
    except SystemExit as end:  # of a command that is done, or of Typer about a mistake
        _leave(end.code)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        _leave(2, unexpected(error))


def _prepare_streams() -> None:
    """Makes standard output and standard error ones that anything can be written to."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this process
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 (stays open)
    codecs.register_error("json", _escaped)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="json")
    if not os.environ.get("COLUMNS", "1").strip("0 "):  # no terminal is so narrow; rich would print nothing
        del os.environ["COLUMNS"]


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Returns characters that an encoding lacks as JSON escapes them, which keeps JSON valid."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _leave(status: str | int | None, message: str = "") -> NoReturn:
    """Says what went wrong and exits, once everything printed has been taken by whoever reads it."""
    stdout: Any = sys.stdout or sys.__stdout__  # a plugin may have taken it away
    try:
        if stdout is not None:
            stdout.flush()
    except OSError as error:
        # What is left in the buffer has nowhere to go; Python would try again at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
        gone = isinstance(error, BrokenPipeError)
        status, message = (1, message) if gone else (2, message or _complaint(error))
    if message:
        lines = (clipped(line, _LONGEST) for line in printable(message).split("\n"))
        with contextlib.suppress(OSError):  # the status still tells how it ended
            typer.echo("\n".join(lines), err=True)
    sys.exit(status)


def _complaint(error: OSError) -> str:
    """Returns what the user reads about a file; what was open already has no name in the error."""
    if error.filename is None and error.errno in _UNWRITABLE:
        return f"Error: standard output cannot be written: {error.strerror}"
    return f"Error: {error}"


def _message(error: PlugformerError) -> str:
    """Returns what the user reads: a place comes first, so that editors find it."""
    placed = isinstance(error, ConfigurationError) and _PLACE.match(str(error))
    if placed or isinstance(error, InterruptedRunError):
        return str(error)
    return re.sub(r"\n(?! )", "\n  ", f"Error: {error}")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"plugformer {plugformer.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    registry: LocalManifest = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Takes the options that come before a command."""
