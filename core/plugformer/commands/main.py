"""`plugformer`: the commands put together, the core's and those that manifests name, and how each ends.

A command of a manifest is imported when it is called.

Exit status: 0, or 2 for anything that the user or a plugin caused, 130 for Ctrl-C, 1 when whoever reads the
output has gone.
"""

import errno
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import plugformer
from plugformer.commands import evaluate, info, listing, predict, train, validate
from plugformer.commands.parameters import LocalManifest, examples, installed
from plugformer.errors import ConfigurationError, InterruptedRunError, PlugformerError, RegistryError, nearest
from plugformer.faults import explained, unexpected
from plugformer.registry import Entry, EntryState, Registry
from plugformer.registry.discovery import BUILT_IN
from plugformer.registry.loading import LOADED, guarded, label, load_attribute
from plugformer.terminal import clipped, printable

_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_PLACE = re.compile(r"(.+:\d+:\d+|--set \S.*?)  ")
"""How `problems.Origin` begins a line."""

_LONGEST = 2000
"""Characters of a line of a message: it may quote an argument, a cell or a file's name."""


class CommandGroup(TyperGroup):
    """Looks a command up in the core, then in manifests: Plugformer's own and those of plugins.

    A command in a manifest is a function whose annotated parameters are its arguments and options, as Typer
    reads them, or a `typer.Typer` with commands of its own. A plugin's may be given as `distribution:name`,
    and must be where two plugins offer the same one.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of Plugformer's commands: the core's, then those that its manifest names."""
        return [*self.commands, *(entry.name for entry in _ready(ctx) if entry.owner == BUILT_IN)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns a command; one that a manifest names is imported here.

        Raises:
            RegistryError: The command is in conflict or quarantined, or importing it fails.
        """
        if (core := super().get_command(ctx, cmd_name)) is not None:
            return core
        registry = installed(ctx)
        bare = cmd_name.rpartition(":")[2]
        if all(entry.name != bare for entry in registry.commands()):
            return None
        return _loaded(registry.find_command(cmd_name))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the name, the command and its arguments; of an unknown name, the nearest."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            known = [*self.commands, *(entry.name for entry in _ready(ctx))]
            ctx.fail(f"unknown command {name!r}{nearest(name, known)}; known: {', '.join(known)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes Plugformer's own commands, then the plugins' under a heading of their own."""
        problem = ""
        try:
            entries = _ready(ctx)
        except PlugformerError as error:  # help must work whatever is wrong with a manifest
            entries = Registry.built_in().commands()
            problem = f"\nCommands of plugins are not shown: {error}\n"
        own = [entry for entry in entries if entry.owner == BUILT_IN]
        others = [entry for entry in entries if entry.owner != BUILT_IN]
        room = formatter.width - 6 - max(map(len, [*self.commands, *(entry.name for entry in own)]))
        core = [(name, command.get_short_help_str(room)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl([*core, *((entry.name, entry.summary) for entry in own)])
        formatter.write(problem)
        if others:
            with formatter.section("Commands of plugins"):
                formatter.write_dl([(entry.name, f"{entry.summary} ({entry.owner})") for entry in others])

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; Ctrl-C becomes an error of ours, so that every Typer gives it the same status.

        Raises:
            InterruptedRunError: Ctrl-C was pressed.
            RegistryError: A part raised something, SystemExit included, that is no error of Plugformer's.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            first = os.environ.get("RANK", "0") == "0"  # of the processes that a launcher has started
            raise InterruptedRunError("interrupted" if first else "") from None
        except BaseException as error:  # also what Typer would take for a sign of its own, such as EOFError
            if (explanation := explained(error)) is None:
                raise
            raise explanation from error


def _ready(ctx: Any) -> list[Entry]:
    return [entry for entry in installed(ctx).commands() if entry.state is EntryState.READY]


def _loaded(entry: Entry) -> Any:
    """Imports a command; the examples of a function's --help are the `EXAMPLES` of its module."""
    function = load_attribute(entry)
    if not callable(function):
        raise RegistryError(f"{label(entry)}: {entry.target} is not a function\ncorrect the manifest")
    LOADED[entry.target] = entry
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(function, typer.Typer):
        app.add_typer(function, name=entry.name)
    else:
        lines = getattr(sys.modules[entry.target.partition(":")[0]], "EXAMPLES", ())
        epilog = examples(lines) if lines else None
        app.command(entry.name, help=function.__doc__ or entry.summary, epilog=epilog)(function)
    command: Any = guarded(entry, "reading its parameters", lambda: typer.main.get_command(app))
    return command.commands[entry.name] if isinstance(function, typer.Typer) else command


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


def schema(ctx: typer.Context, registry: LocalManifest = None) -> None:
    """Print the JSON Schema of task files, for editors.

    It knows every installed component and its options.
    """
    from plugformer import configuration  # imports pydantic

    typer.echo(json.dumps(configuration.schema(installed(ctx, registry)), ensure_ascii=False, indent=2))


for name, function, lines in (
    ("list", listing.command, listing.EXAMPLES),
    ("info", info.command, info.EXAMPLES),
    ("validate", validate.command, validate.EXAMPLES),
    ("schema", schema, ["plugformer schema > plugformer.schema.json"]),
    ("train", train.command, train.EXAMPLES),
    ("evaluate", evaluate.command, evaluate.EXAMPLES),
    ("predict", predict.command, predict.EXAMPLES),
):
    app.command(name, epilog=examples(lines))(function)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command and exits.

    Args:
        arguments: What follows the program's name; those of this process if None.
    """
    try:
        app(arguments, prog_name="plugformer")
    except PlugformerError as error:
        _leave(130 if isinstance(error, InterruptedRunError) else 2, _message(error))
    except BrokenPipeError:
        _leave(1)
    except OSError as error:  # a full disk behind standard output, a file that vanished
        _leave(2, _format_error(error))
    except SystemExit as end:  # of a command that is done, or of Typer about a mistake
        _leave(end.code)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        _leave(2, unexpected(error))


def _leave(status: str | int | None, message: str = "") -> NoReturn:
    """Flushes standard output, prints an error message and exits."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer has nowhere to go; Python would try again at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        gone = isinstance(error, BrokenPipeError)
        status, message = (1, message) if gone else (2, message or _format_error(error))
    if message:
        lines = (clipped(line, _LONGEST) for line in printable(message).split("\n"))
        typer.echo("\n".join(lines), err=True)
    sys.exit(status)


def _format_error(error: OSError) -> str:
    """Returns the message for a file error; errors of streams that were already open have no file name."""
    if error.filename is None and error.errno in _UNWRITABLE:
        return f"Error: standard output cannot be written: {error.strerror}"
    if error.filename is None and error.errno == errno.ENOENT:  # of os.getcwd
        return "Error: the working directory has been removed: change to another one"
    return f"Error: {error}"


def _message(error: PlugformerError) -> str:
    """Returns an error's message; a file and line come first, so that editors find them."""
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
