"""The source of parts of a model as modules that need torch alone."""

import ast
import builtins
import inspect
import sys
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from torch import nn

from plugformer.errors import ConfigurationError

_ERRORS = ("ConfigurationError", "LengthError", "RegistryError")
_NAMES = {"model": "config", **dict.fromkeys(_ERRORS, "ValueError")}
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

    Attributes:
        imports: The lines that import what the sources use.
        sources: The sources of classes, functions and constants by name.
    """

    def __init__(self) -> None:
        self.imports: dict[str, None] = {"import torch": None, "from torch import nn": None}
        self.sources: dict[str, str] = {}
        self._owners: dict[str, Any] = {}

    def add(self, part: type) -> str:
        """Adds the class of a part, and what it uses; returns its name.

        Raises:
            Untranscribable: It uses something that is neither torch's nor Python's, nor written in a file.
        """
        return self._defined(part.__name__, part)

    def _defined(self, name: str, value: Any) -> str:
        if self._owners.setdefault(name, value) is not value:
            raise Untranscribable(f"two parts are called {name}")
        if name in self.sources:
            return name
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
        except (OSError, TypeError, SyntaxError) as error:
            raise Untranscribable(f"the source of {name} cannot be read") from error
        module = sys.modules[value.__module__]
        written = _Plain(module.__name__).visit(tree)
        if isinstance(written, ast.ClassDef):
            written.bases = [*self._bases(written, value)]
        ast.fix_missing_locations(written)
        for used in _used(written):
            self._use(used, module)
        self.sources[name] = ast.unparse(written)
        return name

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
        if name in self.sources or hasattr(builtins, name) or name in ("nn", "torch"):
            return
        if not hasattr(module, name):
            raise Untranscribable(f"it reads {name}, which is not found in {module.__name__}")
        value = getattr(module, name)
        home = getattr(value, "__module__", None) or ""
        if isinstance(value, ModuleType):
            self._import(value.__name__, "", name)
        elif home.partition(".")[0] in ("torch", *sys.stdlib_module_names):
            self._import(home, value.__name__, name)
        elif isinstance(value, str | int | float | tuple):
            self.sources[name] = f"{name} = {value!r}"
        elif (inspect.isclass(value) or inspect.isfunction(value)) and not home.startswith("plugformer."):
            self._defined(name, value)
        else:
            raise Untranscribable(f"it reads {name} of {home or module.__name__}")

    def _import(self, module: str, member: str, name: str) -> None:
        if module.partition(".")[0] not in ("torch", *sys.stdlib_module_names):
            raise Untranscribable(f"it reads the module {module}")
        if member:
            self.imports[f"from {module} import {member}"] = None
        else:
            parent, _, last = module.rpartition(".")
            line = f"from {parent} import {last}" if parent else f"import {module}"
            self.imports[line if last == name else f"import {module} as {name}"] = None


def _used(tree: ast.AST) -> list[str]:
    """Returns the names that are read and bound nowhere in a source, in their order."""
    bound = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    bound |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    read = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return [name for name in dict.fromkeys(read) if name not in bound]


class _Plain(ast.NodeTransformer):
    """Takes annotations, the context and Plugformer's errors out of a source."""

    def __init__(self, module: str) -> None:
        self.module = module

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        """Leaves out annotations, and the parameter `context`."""
        if (self.module, node.name) in _SPARED:
            return None
        node.returns = None
        arguments = node.args
        for each in (*arguments.args, *arguments.kwonlyargs, *arguments.posonlyargs):
            each.annotation = None
        arguments.args = [each for each in arguments.args if each.arg != "context"]
        self.generic_visit(node)
        if any(isinstance(each, ast.Name) and each.id == "context" for each in ast.walk(node)):
            raise Untranscribable(f"its {node.name} reads its context")
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """Keeps values alone."""
        if node.value is None:
            return None
        self.generic_visit(node)
        return ast.Assign([node.target], node.value)

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
        if not (isinstance(node.value, ast.Name) and node.value.id == "model"):
            return self.generic_visit(node)
        if node.attr not in _SIZES:
            raise Untranscribable(f"it reads the model's {node.attr}")
        return ast.Attribute(ast.Name("config", ast.Load()), _SIZES[node.attr], node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """Calls the first parameter of a constructor `config`."""
        return ast.arg("config") if node.arg == "model" else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Writes errors as ValueError."""
        return ast.Name(_NAMES.get(node.id, node.id), node.ctx)


def is_module(part: Any) -> bool:
    """Returns whether a part is the class of a module."""
    return inspect.isclass(part) and issubclass(part, nn.Module)
