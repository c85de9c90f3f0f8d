"""The files of a new plugin."""

import ast
import keyword
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from packaging.utils import InvalidName, canonicalize_name

from plugformer.errors import ConfigurationError
from plugformer.registry import EntryKind, Kind
from plugformer_scaffolding.templates import Files, filled, template

_PROVIDED = {"plugformer", "plugformer_blocks", "plugformer_cli"}
"""Packages of the distribution `plugformer`."""

_SETTINGS: Mapping[Kind | EntryKind, str] = {
    Kind.TASK_TYPE: "type=new_component",
    Kind.TOKENIZER: "tokenizer=new_component",
    Kind.DATA: "data=new_component",
    Kind.METRIC: "evaluation.metrics=[exact_match,new_component]",
    Kind.SCHEDULE: "training.schedule=new_component",
    Kind.OPTIMIZER: "training.optimizer=new_component",
    Kind.DECODING: "decoding=new_component",
    Kind.HOOK: "training.hooks=[new_component]",
}
"""How a task selects a component of each kind; other kinds are parts of the model."""


def plugin_files(
    name: str, kind: Kind | EntryKind, taken: Iterable[str] = ()
) -> tuple[Mapping[str, str], Files]:
    """Returns the values of the placeholders, and the files of a new plugin.

    Args:
        name: Name of the distribution. Its package has the same name with underscores; its component or
            command also lacks `plugformer-`.
        kind: Kind of its component, or `EntryKind.COMMAND`.
        taken: Names of the installed components of this kind, or of the commands.

    Raises:
        ConfigurationError: The name is not a valid name of a distribution or of a package, or is taken.
    """
    try:
        distribution = canonicalize_name(name, validate=True)
    except InvalidName as error:
        raise ConfigurationError(
            f"{name!r} is not the name of a distribution; expected a name such as plugformer-mine"
        ) from error
    package, entry = (
        text.replace("-", "_") for text in (distribution, distribution.removeprefix("plugformer-"))
    )
    for word in (package, entry):
        if not word.isidentifier() or keyword.iskeyword(word):
            raise ConfigurationError(f"{word!r} cannot be a name in Python; choose another name")
    if entry in set(taken):
        raise ConfigurationError(f"{kind}/{entry} is installed already; choose another name")
    if package in sys.stdlib_module_names or find_spec(package) is not None:
        other = f"plugformer-{entry.replace('_', '-')}-{kind}"
        raise ConfigurationError(
            f"a package {package!r} is installed already; choose another name, such as {other}"
        )
    component = template(f"components/{kind}.py")
    code, source = ast.parse(component), re.search(r"https://\S*\w", component)
    setting = _SETTINGS.get(kind, f"model.{kind}=new_component").replace("new_component", entry)
    task = "names" if kind is Kind.ARCHITECTURE else "dates"
    folder, test = "plugin", "test_contract.py"
    command = f"plugformer train {task} --set {shlex.quote(setting)}"
    if kind is Kind.COLUMN:  # a task type names it, not a task
        command = "plugformer list column"
    if kind is EntryKind.COMMAND:
        folder, test, command = "command", "test_command.py", f"plugformer {entry} --help"
    names = {
        "new-plugin": distribution,
        "new_plugin": package,
        "new_kind": str(kind),
        "new_component": entry,
        "NewComponent": "".join(part.capitalize() for part in entry.split("_")) + "Component",
        "NEW_SUMMARY": ast.get_docstring(code) or "",
        "NEW_SOURCE": source[0] if source else "",
        "NEW_DEPENDENCIES": '", "'.join(("plugformer>=0.1", *_dependencies(code))),
        "NEW_COMMAND": command,
    }
    texts = {
        "pyproject.toml": template("plugin/pyproject.toml"),
        "README.md": template(f"{folder}/README.md"),
        f"{package}/__init__.py": '"""NEW_SUMMARY"""\n',
        f"{package}/py.typed": "",
        f"{package}/registry.yaml": template(f"{folder}/registry.yaml"),
        f"{package}/{kind}.py": component,
        f"tests/{test}": template(f"{folder}/{test}"),
    }
    return names, {path: filled(text, names) for path, text in texts.items()}


def _dependencies(code: ast.Module) -> list[str]:
    """Returns the distributions that code imports, besides Plugformer and the standard library."""
    modules = [node.module or "" for node in ast.walk(code) if isinstance(node, ast.ImportFrom)]
    modules += [name.name for node in ast.walk(code) if isinstance(node, ast.Import) for name in node.names]
    packages = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    return sorted(packages - _PROVIDED)
