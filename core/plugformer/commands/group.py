"""The command group: the core's commands, and those that manifests name, which are loaded when called."""

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from plugformer.commands.parameters import examples, installed
from plugformer.errors import InterruptedRunError, PlugformerError, RegistryError, nearest
from plugformer.faults import explained
from plugformer.registry import Entry, Registry, State
from plugformer.registry.discovery import BUILT_IN
from plugformer.registry.loading import LOADED, advice, guarded, label, load_attribute


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
    return [entry for entry in installed(ctx).commands() if entry.state is State.READY]


def _loaded(entry: Entry) -> Any:
    """Imports a command; the examples of a function's --help are the `EXAMPLES` of its module."""
    function = load_attribute(entry.target, label(entry), advice(entry))
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
    command: Any = guarded(label(entry), "reading its parameters", lambda: typer.main.get_command(app))
    return command.commands[entry.name] if isinstance(function, typer.Typer) else command
