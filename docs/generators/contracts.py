"""The contracts: what the interfaces say about the components of each kind and what those are given."""

import ast
import inspect
from collections.abc import Callable, Iterator

from generators.markdown import code, definition, is_marked, is_property, methods, prose, signature
from plugformer.interfaces import (
    HeadContext,
    Hypothesis,
    ModelContext,
    PerPosition,
    Place,
    Positions,
    Scope,
    Session,
    State,
    Table,
    linear_cross_entropy,
    softmax_attention,
    take_tokens,
)
from plugformer.kinds import INTERFACES
from plugformer.registry.loading import load_attribute

_GIVEN: tuple[type, ...] = (
    ModelContext,
    HeadContext,
    Place,
    Positions,
    Scope,
    State,
    PerPosition,
    Session,
    Hypothesis,
    Table,
)

_SHARED: tuple[Callable[..., object], ...] = (softmax_attention, linear_cross_entropy, take_tokens)


def contracts() -> str:
    """Returns a section for each kind: what it is, what it must define, what it may override."""
    interfaces = {str(kind): load_attribute(target, str(kind)) for kind, target in INTERFACES.items()}
    return "\n\n".join(f"## {kind}\n\n{_interface(interface)}" for kind, interface in interfaces.items())


def collaborators() -> str:
    """Returns a section for each object that the core hands to components, and for each shared function."""
    sections = [f"### {cls.__name__}\n\n{_class(cls)}" for cls in _GIVEN]
    return "\n\n".join([*sections, *map(_function, _SHARED)])


def _function(function: Callable[..., object]) -> str:
    tree = ast.parse(inspect.getsource(function)).body[0]
    if not isinstance(tree, ast.FunctionDef):
        raise TypeError(f"{function} is no function")
    return f"### {tree.name}\n\n{signature(tree)}\n\n{prose(function.__doc__)}"


def _interface(interface: type) -> str:
    """Returns an interface, and the families that it declares beside itself."""
    families = [
        cls
        for cls in interface.__subclasses__()
        if cls.__module__ == interface.__module__ and inspect.isabstract(cls)
    ]
    return "\n\n".join([_class(interface), *(f"### {each.__name__}\n\n{_class(each)}" for each in families)])


def _class(cls: type) -> str:
    tree = definition(cls)
    parts = [code(f"{cls.__module__}.{cls.__name__}"), prose(cls.__doc__)]
    return "\n\n".join([*parts, *_attributes(tree), *(_method(method) for method in methods(tree))])


def _attributes(tree: ast.ClassDef) -> Iterator[str]:
    """Yields the attributes that are followed by a docstring of their own."""
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(after, ast.Expr):
            yield f"**{code(ast.unparse(node))}**. {prose(ast.literal_eval(after.value))}"


def _method(method: ast.FunctionDef) -> str:
    remark = " Must be defined." if is_marked(method, "abstractmethod") else ""
    head = f"**{code(method.name)}**{' (a property)' if is_property(method) else ''}.{remark}"
    return "\n\n".join([head, signature(method), prose(ast.get_docstring(method))])
