"""The contracts: what the interfaces say about the components of each kind, and all that these exchange."""

import ast
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Literal, get_args, get_origin

from torch import nn

import plugformer_blocks
from generators.markdown import (
    code,
    definition,
    first_sentence,
    is_marked,
    is_property,
    methods,
    prose,
    signature,
    source,
    table,
)
from plugformer import interfaces
from plugformer.kinds import Kind
from plugformer.registry import interface_of

_TOPICS = {
    "Task types and heads": ("prediction", "task_type", "batch", "model", "head"),
    "Models": (
        "architecture",
        "spec",
        "context",
        "position",
        "attention_context",
        "attention",
        "residual",
        "initialization",
    ),
    "Data, metrics and decoding": ("data", "metric", "decoding", "tokenizer"),
}
"""The modules of `plugformer.interfaces` in the order of the page."""

_WORD = re.compile(r"\w+")
_FIELD = re.compile(r"^- `(\w+)`: ", re.MULTILINE)


def contracts() -> str:
    """Returns a section for each kind: what it is, what it must define, what it may override."""
    return "\n\n".join(
        "\n\n".join(
            [f"## {kind}", _class(interface), *(f"### {_described(each)}" for each in _families(interface))]
        )
        for kind, interface in _interfaces().items()
    )


def kinds() -> str:
    """Returns the kinds, those first whose components are PyTorch modules."""
    modules = [kind for kind, interface in _interfaces().items() if issubclass(interface, nn.Module)]
    others = [kind for kind in _interfaces() if kind not in modules]
    return (
        f"Parts of a model ({_listed(modules)})\n"
        "are `torch.nn.Module` and are constructed with a context and their options; the others"
        f"\n({_listed(others)})\nwith their options alone."
    )


def kind_table() -> str:
    """Returns a row for each kind, for a page above the reference."""
    rows = [
        (f"[`{kind}`](reference/contracts.md#{kind})", first_sentence(interface.__doc__ or ""))
        for kind, interface in _interfaces().items()
    ]
    return table(("kind", "what it is"), rows)


def collaborators() -> str:
    """Returns sections for what `plugformer.interfaces` offers besides, and for `plugformer_blocks`."""
    by_module: dict[str, list[str]] = {}
    for name in (*_variables(), *_others()):
        by_module.setdefault(_home(name), []).append(name)
    if unknown := by_module.keys() - {each for topic in _TOPICS.values() for each in topic}:
        raise ValueError(f"no topic has the modules {sorted(unknown)} of plugformer.interfaces")
    sections = []
    for topic, modules in _TOPICS.items():
        names = [name for module in modules for name in by_module.get(module, ())]
        shown = [name for name in names if name not in _variables()]
        links = ", ".join(f"[{name}](#{name.lower()})" for name in shown)
        sections += [f"**{topic}.** {links}"]
        sections += [_variable_table([name for name in names if name in _variables()])] * (
            len(shown) < len(names)
        )
        sections += [f"### {_described(getattr(interfaces, name))}" for name in shown]
    blocks = [getattr(plugformer_blocks, name) for name in plugformer_blocks.__all__]
    links = ", ".join(f"[{name}](#{name.lower()})" for name in plugformer_blocks.__all__)
    sections += [f"**What components are built of**, in `plugformer_blocks`. {links}"]
    sections += [f"### {_described(each)}" for each in blocks]
    return "\n\n".join(sections)


def _interfaces() -> dict[str, type]:
    return {str(kind): interface_of(kind) for kind in Kind}


def _families(interface: type) -> list[type]:
    """Returns the classes that components of a kind may derive from instead."""
    return [
        cls
        for cls in interface.__subclasses__()
        if cls.__module__.startswith(f"{interfaces.__name__}.") and inspect.isabstract(cls)
    ]


def _others() -> list[str]:
    """Returns the names of public classes and functions that have no section among the contracts."""
    shown = {cls for each in _interfaces().values() for cls in (each, *_families(each))}
    found = [getattr(interfaces, name) for name in interfaces.__all__ if name not in _variables()]
    if silent := [each for each in found if not isinstance(each, type) and not inspect.isroutine(each)]:
        raise ValueError(f"of plugformer.interfaces have no docstrings: {silent}")
    return sorted(
        (each.__name__ for each in found if each not in shown),
        key=lambda name: (
            getattr(interfaces, name).__code__.co_firstlineno
            if inspect.isfunction(inspect.unwrap(getattr(interfaces, name)))
            else inspect.getsourcelines(getattr(interfaces, name))[1]
        ),
    )


def _home(name: str) -> str:
    """Returns the module that defines a public name."""
    if name in _variables():
        return _variables()[name][0]
    return str(getattr(interfaces, name).__module__).rpartition(".")[2]


@cache
def _variables() -> dict[str, tuple[str, str, str]]:
    """Returns by name the module, value and meaning of public names that are no classes or functions."""
    found = {}
    for module in (each for topic in _TOPICS.values() for each in topic):
        tree = ast.parse(inspect.getsource(import_module(f"{interfaces.__name__}.{module}")))
        for node, meaning in _documented(tree.body):
            if not isinstance(node, ast.Assign):
                continue
            for target in ast.walk(node.targets[0]):
                if isinstance(target, ast.Name) and target.id in interfaces.__all__:
                    value = getattr(interfaces, target.id)
                    made = isinstance(node.value, ast.Call)
                    shown = repr(value) if isinstance(value, int) else source(node.value).replace(" | ", "|")
                    shown = f"a {type(value).__name__}" if made else shown
                    found[target.id] = (module, shown, meaning)
    return found


def _variable_table(names: Iterable[str]) -> str:
    rows = [
        (code(name), code(value), _line(meaning))
        for name in names
        for _, value, meaning in [_variables()[name]]
    ]
    return table(("name", "value", "meaning"), rows)


def _line(docstring: str) -> str:
    return " ".join(prose(docstring).split())


def _described(found: object) -> str:
    """Returns a class or function, its name first."""
    if isinstance(found, type):
        return f"{found.__name__}\n\n{_class(found)}"
    function = inspect.unwrap(found)  # type: ignore[arg-type]  # jaxtyping wraps it
    tree = ast.parse(inspect.getsource(function)).body[0]
    if not isinstance(tree, ast.FunctionDef):
        raise TypeError(f"{function} is no function")
    return f"{tree.name}\n\n{signature(tree)}\n\n{prose(function.__doc__)}"


def _class(cls: type) -> str:
    tree = definition(cls)
    documented = (*interfaces.__all__, *plugformer_blocks.__all__)
    bases = [base for base in cls.__bases__ if base.__name__ in documented]
    derived = [f"Has all of {_listed(base.__name__ for base in bases)}, too."] * bool(bases)
    types = _types(cls, tree)
    text = _FIELD.sub(lambda field: f"- `{types.get(field[1], field[1])}`: ", prose(cls.__doc__))
    described = (_attributes(tree), (_method(method) for method in methods(tree)))
    if issubclass(cls, Enum):
        described = (["\n".join(_members(cls, tree))], described[1])
    return "\n\n".join(
        [code(f"{cls.__module__}.{cls.__name__}"), text, *derived, *described[0], *described[1]]
    )


def _types(cls: type, tree: ast.ClassDef) -> dict[str, str]:
    """Returns each attribute with its type and its default, as far as the class says them."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            for each in (*node.args.args[1:], *node.args.kwonlyargs):
                if each.annotation is not None:
                    found[each.arg] = _annotated(cls, each.arg, each.annotation)
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            made = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "field"
            default = "" if node.value is None or made else f" = {source(node.value)}"
            found[node.target.id] = _annotated(cls, node.target.id, node.annotation) + default
    return found


def _annotated(cls: type, name: str, annotation: ast.expr) -> str:
    """Returns a name and its type, choices in full where their alias is not public."""
    text = str(annotation.value) if isinstance(annotation, ast.Constant) else source(annotation)
    module = vars(sys.modules[cls.__module__])

    def in_full(word: re.Match[str]) -> str:
        value = module.get(word[0])
        if get_origin(value) is not Literal or word[0] in interfaces.__all__:
            return word[0]
        return f"Literal[{', '.join(map(json.dumps, get_args(value)))}]"

    return f"{name}: {_WORD.sub(in_full, text)}"


def _documented(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Yields the statements that are followed by a docstring of their own."""
    for node, after in pairwise(body):
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            yield node, str(after.value.value)


def _attributes(tree: ast.ClassDef) -> Iterator[str]:
    for node, meaning in _documented(tree.body):
        if isinstance(node, ast.AnnAssign):
            yield f"**{code(ast.unparse(node))}**. {prose(meaning)}"


def _members(cls: type, tree: ast.ClassDef) -> Iterator[str]:
    """Yields the members of an enumeration."""
    for node, meaning in _documented(tree.body):
        if isinstance(node, ast.Assign):
            yield f"- `{cls.__name__}.{ast.unparse(node)}`: {_line(meaning)}".replace("'", '"')


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(code, names))


def _method(method: ast.FunctionDef) -> str:
    remark = " Must be defined." if is_marked(method, "abstractmethod") else ""
    head = f"**{code(method.name)}**{' (a property)' if is_property(method) else ''}.{remark}"
    return "\n\n".join([head, signature(method), prose(ast.get_docstring(method))])
