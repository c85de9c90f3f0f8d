"""The contracts of components for a terminal: an interface as it is written, and what its checks try."""

import ast
import inspect
import re
from collections.abc import Iterator
from pkgutil import resolve_name

import typer

from plugformer.errors import ConfigurationError, nearest, needing
from plugformer.registry import Kind
from plugformer_cli.printing import print_json, print_text


def print_contract(name: str, *, as_json: bool) -> None:
    """Prints the contract of a kind, or a class that components receive.

    Raises:
        ConfigurationError: There is none of this name.
    """
    import plugformer.interfaces  # imports torch, for which other commands need not wait
    from plugformer.registry import CONTRACTS, interface_of

    kinds, offered = [kind.value for kind in Kind], plugformer.interfaces
    known = [*kinds, *(each for each in offered.__all__ if isinstance(getattr(offered, each), type))]
    if name not in known:
        advice = f"give a kind of component, or a class of plugformer.interfaces: {', '.join(known)}"
        raise ConfigurationError(f"there is no contract of {name!r}{nearest(name, known)}\n{advice}")
    cls = interface_of(Kind(name)) if name in kinds else getattr(offered, name)
    written, tried = as_written(cls), dict(rules(Kind(name))) if name in kinds else {}
    contract = CONTRACTS[name] if name in kinds else None
    if as_json:
        version = contract and contract.version
        print_json({"name": name, "version": version, "interface": written, "checks": tried}, indent=2)
        return
    typer.echo(written)
    words = set(re.findall(r"\w+", written)) - {cls.__name__}
    if others := [each for each in known if each in words and each not in kinds]:
        print_text(f"\nplugformer info NAME --contract shows {', '.join(others)}")
    if contract is not None:
        print_text(f"\nversion {contract.version}; supported: {contract.supported}")
        print_text(f"plugformer check {name}/NAME tries:")
        for check, rule in tried.items():
            print_text(f"{check}: {rule}", indent=2)


def rules(kind: Kind) -> Iterator[tuple[str, str]]:
    """Yields the names of a kind's checks, each with what it tries.

    Raises:
        ConfigurationError: What the checks need is not installed.
    """
    with needing("test", "the list of checks"):
        checks_of = resolve_name("plugformer_testing.checks:checks_of")  # of a package above, as commands are
    for check in checks_of(kind):
        yield check.name, " ".join((inspect.getdoc(check.function) or "").split())


def as_written(cls: type) -> str:
    """Returns a class without private methods and bodies, after the types that its module gives names."""
    module = inspect.getsource(inspect.getmodule(cls) or cls)
    tree = ast.parse(module).body
    lines, places = module.splitlines(), {node.name: node for node in tree if isinstance(node, ast.ClassDef)}
    definition = places[cls.__name__]
    for function in reversed(definition.body):
        if isinstance(function, ast.FunctionDef):
            first = _first_line(function)
            if not function.name.startswith("_"):
                first = function.body[0].end_lineno or first  # its docstring
            lines[first : function.end_lineno] = [""] * ((function.end_lineno or first) - first)
    text = "\n".join(lines[_first_line(definition) : definition.end_lineno])
    words = re.findall(r"\w+", text)
    types = [
        ast.unparse(node).replace("'", '"')
        for node in tree
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in words
        if isinstance(node.value, ast.Subscript)
    ]
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r" +# (noqa|type:).*", "", text)).rstrip()
    return "\n".join([*types, "", "", text] if types else [text])


def _first_line(node: ast.FunctionDef | ast.ClassDef) -> int:
    return min(each.lineno for each in (node, *node.decorator_list)) - 1
