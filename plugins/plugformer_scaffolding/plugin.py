"""A new plugin: its names, and its files."""

import builtins
import keyword
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from packaging.utils import canonicalize_name

from plugformer.errors import ConfigurationError
from plugformer.registry import Kind, Other, parse
from plugformer_scaffolding.samples import SAMPLES
from plugformer_scaffolding.templates import Files, filled, template

_NAME = re.compile(r"[A-Z0-9]|[A-Z0-9][A-Z0-9._-]*[A-Z0-9]", re.IGNORECASE)  # PEP 508
_PREFIX = "plugformer-"


def plugin_files(name: str, kind: Kind | Other, taken: Iterable[str] = ()) -> tuple[Mapping[str, str], Files]:
    """Returns what stands for each stand-in name, and the files of a new plugin.

    Args:
        name: Of the distribution. The package is called like it, with underscores; so is the component, or
            the command, without `plugformer-`.
        kind: Of its component, or `Other.COMMAND`.
        taken: Names of what is installed of this kind.

    Raises:
        ConfigurationError: The name is no distribution's name, or the package's or the component's name would
            be none or is taken.
    """
    component = template(f"components/{kind}.py")
    stencils, test = (
        ("command", "test_command.py") if kind is Other.COMMAND else ("plugin", "test_contract.py")
    )
    names = _names(name, kind, component)
    package = names["new_plugin"]
    texts = {
        "pyproject.toml": template("plugin/pyproject.toml"),
        "README.md": template(f"{stencils}/README.md"),
        f"{package}/__init__.py": f'"""{SAMPLES[kind].summary}"""\n',
        f"{package}/py.typed": "",
        f"{package}/registry.yaml": template(f"{stencils}/registry.yaml"),
        f"{package}/{kind}.py": component,
        f"tests/{test}": template(f"{stencils}/{test}"),
    }
    found = {path: filled(text, names) for path, text in texts.items()}
    _require_free(names, kind, taken, found[f"{package}/registry.yaml"])
    return names, found


def _names(name: str, kind: Kind | Other, component: str) -> dict[str, str]:
    """Returns what stands for each stand-in name."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is not the name of a distribution; "
            "expected letters, digits, -, _ and ., a letter or digit at either end, such as plugformer-mine"
        )
    sample, distribution = SAMPLES[kind], canonicalize_name(name)
    own = distribution.removeprefix(_PREFIX).replace("-", "_")
    names = {
        "new-plugin": distribution,
        "new_plugin": distribution.replace("-", "_"),
        "new_kind": str(kind),
        "new_component": own,
        "NewComponent": _class_name(own, component),
        "NEW_SUMMARY": sample.summary,
        "NEW_SOURCE": sample.source,
        "NEW_DEPENDENCIES": '", "'.join(("plugformer>=0.1", *sample.imports)),
    }
    if kind is Other.COMMAND:
        return {**names, "NEW_COMMAND": f"plugformer {own} --help"}
    setting = shlex.quote(filled(sample.setting, names))
    return {**names, "NEW_COMMAND": f"plugformer train dates --set {setting}"}


def _class_name(own: str, component: str) -> str:
    """Returns the component's name in capitals, and more where its file uses that name for something else."""
    name = "".join(part.capitalize() for part in own.split("_"))
    used = re.search(rf"\b{name}\b", component) or keyword.iskeyword(name) or hasattr(builtins, name)
    return f"{name}Component" if used else name


def _require_free(names: Mapping[str, str], kind: Kind | Other, taken: Iterable[str], manifest: str) -> None:
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
