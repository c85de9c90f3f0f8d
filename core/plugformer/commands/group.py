"""The command group: Plugformer's own commands, and those of plugins, which are loaded when called."""

import os
from typing import Any

import typer
from typer.core import TyperGroup

from plugformer.commands.parameters import installed
from plugformer.errors import InterruptedRunError, PlugformerError, RegistryError, nearest
from plugformer.faults import explained
from plugformer.registry import Entry, State
from plugformer.registry.loading import LOADED, advice, guarded, label, load_attribute


class CommandGroup(TyperGroup):
    """Looks a command up among Plugformer's own, then in the manifests of plugins.

    A plugin's command is a function whose annotated parameters are its arguments and options, as Typer reads
    them. Its name may be given as `distribution:name`, and must be where two plugins offer the same one.
    """

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns a command; a plugin's is imported here.

        Raises:
            RegistryError: The command is in conflict or quarantined, or importing it fails.
        """
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        registry = installed(ctx)
        bare = cmd_name.rpartition(":")[2]
        if all(entry.name != bare for entry in registry.commands()):
            return None
        return _loaded(registry.find_command(cmd_name))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the name, the command and its arguments; of an unknown name, the nearest."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            known = [*self.list_commands(ctx), *(entry.name for entry in _ready(ctx))]
            ctx.fail(f"unknown command {name!r}{nearest(name, known)}; known: {', '.join(known)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes Plugformer's own commands, then the plugins' under a heading of their own."""
        super().format_commands(ctx, formatter)
        try:
            entries = _ready(ctx)
        except PlugformerError as error:  # help must work whatever is wrong with a manifest
            formatter.write(f"\nCommands of plugins are not shown: {error}\n")
            return
        if entries:
            with formatter.section("Commands of plugins"):
                formatter.write_dl([(entry.name, f"{entry.summary} ({entry.owner})") for entry in entries])

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
    function = load_attribute(entry.target, label(entry), advice(entry))
    if not callable(function):
        raise RegistryError(f"{label(entry)}: {entry.target} is not a function\ncorrect the manifest")
    LOADED[entry.target] = entry
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(entry.name, help=function.__doc__ or entry.summary)(function)
    return guarded(label(entry), "reading its parameters", lambda: typer.main.get_command(app))
