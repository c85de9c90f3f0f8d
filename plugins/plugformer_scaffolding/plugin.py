"""A new plugin: its names, what its kind asks for, and its files."""

import builtins
import keyword
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from packaging.utils import canonicalize_name

from plugformer.errors import ConfigurationError
from plugformer.registry import EntryKind, Kind, parse
from plugformer_scaffolding.templates import Files, filled, template

_NAME = re.compile(r"[A-Z0-9]|[A-Z0-9][A-Z0-9._-]*[A-Z0-9]", re.IGNORECASE)  # PEP 508

_PREFIX = "plugformer-"


@dataclass(frozen=True)
class Outline:
    """The component or command that a new plugin of a kind starts with.

    Attributes:
        summary: What it does, in one sentence.
        source: A link to the paper, or to documentation.
        imports: The distributions that its file imports, besides Plugformer.
        setting: What gives it to the task `dates`, a stand-in for its name included; empty for a command.
    """

    summary: str
    source: str
    imports: tuple[str, ...]
    setting: str


_MODULE = ("jaxtyping", "pydantic", "torch")


OUTLINES: Mapping[Kind | EntryKind, Outline] = {
    Kind.TASK_TYPE: Outline(
        "A text that answers a text.",
        "https://arxiv.org/abs/1409.3215",
        ("pydantic",),
        "type=new_component",
    ),
    Kind.ARCHITECTURE: Outline(
        "An encoder reads the input, a decoder continues the output with it in view.",
        "https://arxiv.org/abs/1706.03762",
        ("jaxtyping", "numpy", "torch"),
        "model.architecture=new_component",
    ),
    Kind.TOKENIZER: Outline(
        "One token for each character that occurs often enough.",
        "https://huggingface.co/docs/tokenizers/api/models",
        ("pydantic", "tokenizers"),
        "tokenizer=new_component",
    ),
    Kind.POSITION: Outline(
        "Sines and cosines of geometrically growing wavelengths, added to the embeddings.",
        "https://arxiv.org/abs/1706.03762",
        _MODULE,
        "model.position=new_component",
    ),
    Kind.ATTENTION: Outline(
        "Multi-head attention.",
        "https://arxiv.org/abs/1706.03762",
        _MODULE,
        "model.attention=new_component",
    ),
    Kind.FEED_FORWARD: Outline(
        "Two linear maps with a rectified linear unit between.",
        "https://arxiv.org/abs/1706.03762",
        _MODULE,
        "model.feed_forward=new_component",
    ),
    Kind.NORM: Outline(
        "Root mean square normalization.",
        "https://arxiv.org/abs/1910.07467",
        _MODULE,
        "model.norm=new_component",
    ),
    Kind.RESIDUAL: Outline(
        "Pre-norm with a learned number for each sublayer.",
        "https://arxiv.org/abs/2002.10444",
        _MODULE,
        "model.residual=new_component",
    ),
    Kind.HEAD: Outline(
        "The next token at every position.",
        "https://arxiv.org/abs/1608.05859",
        _MODULE,
        "model.head=new_component",
    ),
    Kind.INITIALIZATION: Outline(
        "Every matrix normal, with a deviation by its number of inputs.",
        "https://arxiv.org/abs/1502.01852",
        _MODULE,
        "model.initialization=new_component",
    ),
    Kind.DATA: Outline(
        "Random sequences of numbers to be reversed.",
        "https://huggingface.co/docs/datasets/create_dataset",
        ("datasets", "pydantic"),
        "data=new_component",
    ),
    Kind.METRIC: Outline(
        "The share of outputs that equal one of their references, letter case aside.",
        "https://arxiv.org/abs/1606.05250",
        ("jaxtyping", "numpy", "pydantic"),
        "evaluation.metrics=[exact_match,new_component]",
    ),
    Kind.SCHEDULE: Outline(
        "A straight line from the full learning rate to none, or to a share of it.",
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LinearLR.html",
        ("pydantic",),
        "training.schedule=new_component",
    ),
    Kind.OPTIMIZER: Outline(
        "Stochastic gradient descent with momentum.",
        "https://proceedings.mlr.press/v28/sutskever13.html",
        ("pydantic", "torch"),
        "training.optimizer=new_component",
    ),
    Kind.DECODING: Outline(
        "Always takes the most probable token.",
        "https://docs.pytorch.org/docs/stable/generated/torch.argmax.html",
        (),
        "decoding=new_component",
    ),
    Kind.HOOK: Outline(
        "Noise on the gradients, less at each update.",
        "https://arxiv.org/abs/1511.06807",
        ("pydantic", "torch"),
        "training.hooks=[new_component]",
    ),
    EntryKind.COMMAND: Outline(
        "How many parameters each part of a trained model has.",
        "",
        ("typer",),
        "",
    ),
}


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
        f"{package}/__init__.py": f'"""{OUTLINES[kind].summary}"""\n',
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
    sample, distribution = OUTLINES[kind], canonicalize_name(name)
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
    if kind is EntryKind.COMMAND:
        return {**names, "NEW_COMMAND": f"plugformer {own} --help"}
    setting = shlex.quote(filled(sample.setting, names))
    return {**names, "NEW_COMMAND": f"plugformer train dates --set {setting}"}


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
