"""A new plugin: its names, what its kind asks for, and its files."""

import ast
import builtins
import keyword
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from packaging.utils import canonicalize_name

from plugformer.errors import ConfigurationError
from plugformer.registry import EntryKind, Kind, parse
from plugformer_scaffolding.templates import Files, filled, template

_NAME = re.compile(r"[A-Z0-9]|[A-Z0-9][A-Z0-9._-]*[A-Z0-9]", re.IGNORECASE)  # PEP 508

_PREFIX = "plugformer-"


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
"""What gives a component to the task `dates`; one that is missing here is a part of the model."""


def plugin_files(
    name: str, kind: Kind | EntryKind, taken: Iterable[str] = ()
) -> tuple[Mapping[str, str], Files]:
    """Returns the values of the placeholders, and the files of a new plugin.

    Args:
        name: Of the distribution. The package is called like it, with underscores; so is the component, or
            the command, without `plugformer-`.
        kind: Of its component, or `EntryKind.COMMAND`.
        taken: Names of what is installed of this kind.

    Raises:
        ConfigurationError: The name is no distribution's name, or the package's or the component's name would
            be none or is taken.
    """
    component = template(f"components/{kind}.py")
    stencils, test = (
        ("command", "test_command.py") if kind is EntryKind.COMMAND else ("plugin", "test_contract.py")
    )
    names = _names(name, kind, component)
    package = names["new_plugin"]
    texts = {
        "pyproject.toml": template("plugin/pyproject.toml"),
        "README.md": template(f"{stencils}/README.md"),
        f"{package}/__init__.py": f'"""{names["NEW_SUMMARY"]}"""\n',
        f"{package}/py.typed": "",
        f"{package}/registry.yaml": template(f"{stencils}/registry.yaml"),
        f"{package}/{kind}.py": component,
        f"tests/{test}": template(f"{stencils}/{test}"),
    }
    found = {path: filled(text, names) for path, text in texts.items()}
    _require_free(names, kind, taken, found[f"{package}/registry.yaml"])
    return names, found


def _names(name: str, kind: Kind | EntryKind, component: str) -> dict[str, str]:
    """Returns the values of the placeholders."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is not the name of a distribution; "
            "expected letters, digits, -, _ and ., a letter or digit at either end, such as plugformer-mine"
        )
    code, distribution = ast.parse(component), canonicalize_name(name)
    source = re.search(r"https://\S*\w", component)
    own = distribution.removeprefix(_PREFIX).replace("-", "_")
    names = {
        "new-plugin": distribution,
        "new_plugin": distribution.replace("-", "_"),
        "new_kind": str(kind),
        "new_component": own,
        "NewComponent": _class_name(own, component),
        "NEW_SUMMARY": ast.get_docstring(code) or "",
        "NEW_SOURCE": source[0] if source else "",
        "NEW_DEPENDENCIES": '", "'.join(("plugformer>=0.1", *_dependencies(code))),
    }
    if kind is EntryKind.COMMAND:
        return {**names, "NEW_COMMAND": f"plugformer {own} --help"}
    setting = shlex.quote(filled(_SETTINGS.get(kind, f"model.{kind}=new_component"), names))
    return {**names, "NEW_COMMAND": f"plugformer train dates --set {setting}"}


def _dependencies(code: ast.Module) -> list[str]:
    """Returns the distributions that code imports, besides Plugformer and what comes with Python."""
    modules = [node.module or "" for node in ast.walk(code) if isinstance(node, ast.ImportFrom)]
    modules += [name.name for node in ast.walk(code) if isinstance(node, ast.Import) for name in node.names]
    packages = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    return sorted(packages - {"plugformer", "plugformer_blocks", "plugformer_cli"})


def _class_name(own: str, component: str) -> str:
    """Returns the component's name in capitals, and more where its file uses that name for something else."""
    name = "".join(part.capitalize() for part in own.split("_"))
    used = re.search(rf"\b{name}\b", component) or keyword.iskeyword(name) or hasattr(builtins, name)
    return f"{name}Component" if used else name


def _require_free(
    names: Mapping[str, str], kind: Kind | EntryKind, taken: Iterable[str], manifest: str
) -> None:
    """Refuses names that Python or a manifest cannot have, or that belong to something else."""
    package, own = names["new_plugin"], names["new_component"]
    for word in (package, own):
        if not word.isidentifier() or keyword.iskeyword(word):
            raise ConfigurationError(
                f"{word!r}, derived from the distribution's name, cannot be a name in Python; "
                "expected a letter first, and no keyword: choose another name"
            )
    if parse(manifest.encode(), "registry.yaml").problems:
        raise ConfigurationError(f"{own!r} has a meaning of its own in YAML; choose another name")
    if own in set(taken):
        raise ConfigurationError(f"{kind}/{own} is installed already; choose another name")
    if package in sys.stdlib_module_names or find_spec(package) is not None:
        raise ConfigurationError(
            f"a package {package!r} is installed already, which the plugin's would hide; "
            f"choose another name, such as {_PREFIX}{names['new-plugin'].removeprefix(_PREFIX)}-{kind}"
        )
