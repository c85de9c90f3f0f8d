"""The commands, with their arguments, options and examples."""

from typing import Any

import typer

from generators.markdown import code, table
from plugformer_cli.main import app


def command_reference() -> str:
    """Returns a section for each command of the program."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("plugformer", ["list"])
    return "\n\n".join(
        _section(name, group.get_command(context, name)) for name in group.list_commands(context)
    )


def _section(name: str, command: Any) -> str:
    """Returns a command's section, or a group's with a smaller one for each of its commands."""
    if not hasattr(command, "commands"):
        return _command(f"## plugformer {name}", name, command)
    parts = [f"## plugformer {name}", command.help]
    for own, member in command.commands.items():
        parts.append(_command(f"### plugformer {name} {own}", f"{name} {own}", member))
    return "\n\n".join(parts)


_STATUSES = {"ablate": "<!-- test status: 3 -->\n\n"}
"""How examples end, if not with 0: one or two seeds decide nothing."""


def _command(heading: str, name: str, command: Any) -> str:
    arguments = [parameter for parameter in command.params if not parameter.opts[0].startswith("-")]
    usage = " ".join(["plugformer", name, "[OPTIONS]", *(_usage(argument) for argument in arguments)])
    rows = [
        (code(_label(parameter)), parameter.help.replace("\n", " "), _default(parameter))
        for parameter in command.params
    ]
    parts = [
        heading,
        " ".join(command.help.split()),
        f"```text\n{usage}\n```",
        table(("argument or option", "meaning", "default"), rows),
        _STATUSES.get(name, "") + _examples(command.epilog),
    ]
    return "\n\n".join(parts)


def _usage(argument: Any) -> str:
    text = _name(argument) if argument.required else f"[{_name(argument)}]"
    return text + ("..." if argument.nargs == -1 else "")


def _label(parameter: Any) -> str:
    if not parameter.opts[0].startswith("-"):
        return _name(parameter)
    return f"{parameter.opts[0]} {parameter.metavar or ''}".strip()


def _name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper()).strip("[]")


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    return "" if parameter.default in (None, False, []) else code(parameter.default)


def _examples(epilog: str) -> str:
    """Returns the examples of `--help`."""
    lines = [f"$ {line.strip()}" for line in epilog.splitlines() if line.startswith("  ")]
    return "\n".join(["```console", *lines, "```"])
