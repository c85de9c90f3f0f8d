"""The source of parts of a model as modules that need torch alone."""

import ast
import builtins
import inspect
import re
import symtable
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import nn

from plugformer.errors import ConfigurationError

_ERRORS = ("ConfigurationError", "LengthError", "RegistryError")
_SIZES = {
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "ffn_width": "intermediate_size",
    "max_length": "max_position_embeddings",
}
_SPARED = {("plugformer_plugins.norm.norms", "forward")}
"""Methods that only let a norm of torch compute in a mixed precision."""


class Untranscribable(ConfigurationError):  # noqa: N818 (what it is, as its message says it)
    """The source of a part needs something besides torch."""


class Transcription:
    """The sources of parts, each once, in an order in which they can be executed.

    Annotations are left out. Of the context that sublayers get, only `product` can be written down.

    Args:
        taken: Names that something else has where the sources will stand.

    Attributes:
        imports: The lines that import what the sources use.
        sources: The sources of classes, functions and constants by name.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.imports: dict[str, None] = {"import torch": None, "from torch import nn": None}
        self.sources: dict[str, str] = {}
        self._owners: dict[str, Any] = {**dict.fromkeys(taken), "torch": torch, "nn": nn}

    def add(self, part: Any, options: Mapping[str, Any]) -> str:
        """Adds the class of a part, and what it uses; returns the call that makes the part.

        Raises:
            Untranscribable: It uses something that is neither torch's nor Python's, nor written in a file.
        """
        if not (inspect.isclass(part) and issubclass(part, nn.Module)):
            raise Untranscribable("it is made by a function")
        for key, value in options.items():
            if _literal(value) is None:
                raise Untranscribable(f"its {key} is {value!r}")
        self._define(part.__name__, part)
        return f"{part.__name__}(config{''.join(f', {key}={value!r}' for key, value in options.items())})"

    def execute(self, call: str, model: Any) -> None:
        """Executes the sources, makes a part and calls it, as only this shows that nothing was left out.

        Args:
            call: What makes the part.
            model: Sizes of the model.

        Raises:
            Untranscribable: That fails.
        """
        config = SimpleNamespace(**{theirs: getattr(model, ours) for ours, theirs in _SIZES.items()})
        names: dict[str, Any] = {"config": config}
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                exec("\n".join([*self.imports, *self.sources.values()]), names)  # noqa: S102 (installed parts)
                eval(call, names)(torch.zeros(1, 2, model.width))  # noqa: S307
        except Exception as error:
            raise Untranscribable(
                f"without Plugformer it fails with {type(error).__name__}: {error}"
            ) from error

    def _is_new(self, name: str, owner: Any) -> bool:
        """Returns whether a name is seen for the first time."""
        new = name not in self._owners
        if self._owners.setdefault(name, owner) != owner:
            raise Untranscribable(f"something else is called {name}, too")
        return new

    def _define(self, name: str, value: Any) -> None:
        """Adds the source of a class or function."""
        if not self._is_new(name, value):
            return
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
        except (OSError, TypeError, SyntaxError) as error:
            raise Untranscribable(f"the source of {name} cannot be read") from error
        module = sys.modules[value.__module__]
        written = _Plain(module.__name__).visit(tree)
        if isinstance(written, ast.ClassDef):
            written.bases = [*self._bases(written, value)]
        source = ast.unparse(ast.fix_missing_locations(written))
        for used in _used(source):
            self._use(used, module)
        self.sources[name] = source

    def _bases(self, tree: ast.ClassDef, value: type) -> Iterator[ast.expr]:
        """Yields the bases: nn.Module in place of interfaces, and once."""
        kept = [
            expression
            for expression, base in zip(tree.bases, value.__bases__, strict=False)
            if not base.__module__.startswith("plugformer.")
        ]
        yield from kept or [ast.parse("nn.Module", mode="eval").body]

    def _use(self, name: str, module: ModuleType) -> None:
        """Adds a name that a source reads."""
        if not hasattr(module, name):
            if hasattr(builtins, name) or name in ("nn", "torch"):
                return
            raise Untranscribable(f"it reads {name}, which is not found in {module.__name__}")
        value = getattr(module, name)
        home, member = getattr(value, "__module__", None) or "", getattr(value, "__name__", "")
        if isinstance(value, ModuleType):
            parent, _, last = member.rpartition(".")
            line = f"from {parent} import {last}" if parent and last == name else f"import {member}"
            self._import(name, value, member, line if last == name else f"import {member} as {name}")
        elif _is_known(home) and getattr(sys.modules.get(home), member, None) is value:
            line = f"from {home} import {member}"
            self._import(name, value, home, line if member == name else f"{line} as {name}")
        elif (inspect.isclass(value) or inspect.isfunction(value)) and not home.startswith("plugformer."):
            self._define(name, value)
        elif (text := _literal(value)) is None:
            raise Untranscribable(f"it reads {name} of {home or module.__name__}: {value!r}")
        elif self._is_new(name, text):
            self.sources[name] = f"{name} = {text}"

    def _import(self, name: str, value: Any, module: str, line: str) -> None:
        if not _is_known(module):
            raise Untranscribable(f"it reads the module {module}")
        if self._is_new(name, value):
            self.imports[line] = None


def _is_known(module: str) -> bool:
    """Returns whether a module is torch's or Python's."""
    return module.partition(".")[0] in ("torch", *sys.stdlib_module_names)


def _literal(value: Any) -> str | None:
    """Returns a value as Python writes it; None for objects, infinity and members of enumerations."""
    try:
        return repr(value) if ast.literal_eval(repr(value)) == value else None
    except (SyntaxError, ValueError):
        return None


def _used(source: str) -> Iterator[str]:
    """Yields the names that a source reads from its module."""
    tables = [symtable.symtable(source, "part", "exec")]
    for table in tables:
        tables += table.get_children()
        yield from (
            each.get_name() for each in table.get_symbols() if each.is_referenced() and each.is_global()
        )


class _Plain(ast.NodeTransformer):
    """Takes annotations, the context and Plugformer's errors out of a source."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.models: set[str] = set()
        """Names of the sizes of the model in the function that is visited."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Keeps what else it has."""
        self.generic_visit(node)
        return _tidy(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        """Leaves out annotations, and the parameter `context`."""
        if (self.module, node.name) in _SPARED:
            return None
        node.returns = None
        outside, arguments = self.models, node.args
        names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        self.models = outside - {each.arg for each in names} | {each.arg for each in names if _is_model(each)}
        arguments.args = [each for each in arguments.args if each.arg != "context"]
        self.generic_visit(node)
        self.models = outside
        if any(isinstance(each, ast.Name) and each.id == "context" for each in ast.walk(node)):
            raise Untranscribable(f"its {node.name} reads its context")
        return _tidy(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Keeps values alone."""
        self.generic_visit(node)
        return ast.Pass() if node.value is None else ast.Assign([node.target], node.value)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Writes `context.product(x, a, b)` as the concatenated outputs of a and b."""
        self.generic_visit(node)
        if ast.unparse(node.func) != "context.product":
            return node
        x, *maps = map(ast.unparse, node.args)
        outputs = ", ".join(f"{each}({x})" for each in maps)
        return ast.parse(f"torch.cat([{outputs}], dim=-1)", mode="eval").body

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Names sizes as configurations do."""
        if not (isinstance(node.value, ast.Name) and node.value.id in self.models):
            return self.generic_visit(node)
        if node.attr not in _SIZES:
            raise Untranscribable(f"it reads the model's {node.attr}")
        return ast.Attribute(ast.Name("config", ast.Load()), _SIZES[node.attr], node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """Leaves out the annotation, and calls the sizes of the model `config`."""
        return ast.arg("config" if node.arg in self.models else node.arg)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Writes errors as ValueError."""
        name = "config" if node.id in self.models else "ValueError" if node.id in _ERRORS else node.id
        return ast.Name(name, node.ctx)


def _is_model(parameter: ast.arg) -> bool:
    """Returns whether a parameter has the sizes of the model."""
    if parameter.annotation is None:
        return parameter.arg == "model"
    return ast.unparse(parameter.annotation).strip("'").endswith("ModelContext")


def _tidy(node: ast.ClassDef | ast.FunctionDef) -> ast.AST:
    """Returns a definition without needless statements, and with a docstring in the words of its source."""
    node.body = [each for each in node.body if not isinstance(each, ast.Pass)] or [ast.Pass()]
    if words := ast.get_docstring(node, clean=False):
        for name, size in _SIZES.items():
            words = words.replace(f"model.{name}", f"config.{size}")
        words = re.sub(r"^( +)model:", r"\1config:", words, flags=re.MULTILINE)
        node.body[0] = ast.Expr(ast.Constant(re.sub("|".join(_ERRORS), "ValueError", words)))
    return node
