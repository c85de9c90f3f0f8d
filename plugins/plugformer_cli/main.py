"""`plugformer`: finds a command in a manifest, runs it, and turns an error into a message and a status.

The exit status is 0, or 2 for an error that the user or a plugin caused, 130 after Ctrl-C, and 1 for a bug
or if nobody reads the output any more.
"""

import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import plugformer
from plugformer.errors import (
    ConfigurationError,
    InterruptedRunError,
    PlugformerError,
    RegistryError,
    out_of_memory,
)
from plugformer.faults import explained, unexpected
from plugformer.registry import Entry, EntryState, Registry
from plugformer_cli.options import LocalManifest, examples, installed
from plugformer_cli.printing import printable

_PLACE = re.compile(r"(.+:\d+:\d+|--set \S.*?)  ")
"""A file with line and column, or an argument, with which a problem begins."""


class CommandGroup(TyperGroup):
    """Looks commands up in manifests: Plugformer's own and those of plugins.

    A command in a manifest is a function whose annotated parameters are its arguments and options, as Typer
    reads them, or a `typer.Typer` with commands of its own. A plugin's may be given as `distribution:name`,
    and must be where two plugins offer the same one.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of Plugformer's own commands."""
        return [entry.name for entry in _ready(installed(ctx)) if _is_built_in(entry)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Imports a command.

        Raises:
            RegistryError: The command is unknown, in conflict or quarantined, or importing it fails.
        """
        function = installed(ctx).load_command(cmd_name)
        name = cmd_name.rpartition(":")[2]
        group = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        if isinstance(function, typer.Typer):
            group.add_typer(function, name=name)
        else:
            lines = getattr(sys.modules[function.__module__], "EXAMPLES", ())
            group.command(name, epilog=examples(lines) if lines else None)(function)
            group.callback()(lambda: None)  # else Typer makes no group of a single command
        try:
            command: Any = typer.main.get_command(group)
        except RuntimeError as error:  # Typer cannot read a parameter of the function
            raise RegistryError(f"command {name!r}: its parameters cannot be read: {error}") from error
        return command.commands[name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes Plugformer's own commands, then the plugins' under a heading of their own."""
        problem = ""
        try:
            entries = _ready(installed(ctx))
        except PlugformerError as error:  # help must work whatever is wrong with a manifest
            entries = _ready(Registry.built_in())
            problem = f"\nCommands of plugins are not shown: {error}\n"
        own = [(entry.name, entry.summary) for entry in entries if _is_built_in(entry)]
        others = [
            (entry.name, f"{entry.summary} ({entry.owner})") for entry in entries if not _is_built_in(entry)
        ]
        for heading, rows in (("Commands", own), ("Commands of plugins", others)):
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)
        formatter.write(problem)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; errors that Typer would take for signals of its own become Plugformer's.

        Raises:
            InterruptedRunError: Ctrl-C was pressed.
            RegistryError: A component raised an exception, SystemExit included.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            first = os.environ.get("RANK", "0") == "0"  # of the processes that a launcher has started
            raise InterruptedRunError("Interrupted." if first else "") from None
        except BaseException as error:
            if (explanation := explained(error)) is None:
                raise
            raise explanation from error


def _ready(registry: Registry) -> list[Entry]:
    return [entry for entry in registry.entries("command") if entry.state is EntryState.READY]


def _is_built_in(entry: Entry) -> bool:
    return entry.distribution == "plugformer"


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


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command and exits.

    Args:
        arguments: What follows the program's name; those of this process if None.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # tidies up as Ctrl-C does
    status, message = _run(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes again at its exit
        gone = isinstance(error, BrokenPipeError)
        status, message = (1, message) if gone else (2, message or f"Error: {error}")
    if message:
        typer.echo(printable(message), err=True)
    sys.exit(status)


def _run(arguments: Sequence[str] | None) -> tuple[str | int | None, str]:
    """Runs a command; returns its exit status and an error message."""
    try:
        app(arguments, prog_name="plugformer")
    except SystemExit as end:  # of a command that is done, or of Typer about a mistake
        return end.code, ""
    except InterruptedRunError as error:
        return 130, str(error)
    except PlugformerError as error:
        return 2, _message(error)
    except BrokenPipeError:
        return 1, ""
    except OSError as error:  # a full disk, a file that cannot be read
        return 2, f"Error: {error}"
    except BaseException as error:
        return 2 if out_of_memory(error) else 1, unexpected(error)
    return 0, ""


def _message(error: PlugformerError) -> str:
    """Returns an error's message; a file and line come first, so that editors find them."""
    if isinstance(error, ConfigurationError) and _PLACE.match(str(error)):
        return str(error)
    return re.sub(r"\n(?! )", "\n  ", f"Error: {error}")
