"""The kinds of components, each with a link to the page of its contract, and what their checks demand."""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

from generators.markdown import definition, first_sentence, table
from plugformer import interfaces
from plugformer.registry import CONTRACTS, Kind, interface_of
from plugformer_testing.checks import checks_of

PAGES = Path(__file__).resolve().parents[1] / "reference" / "contracts"


def kind_table() -> str:
    """Returns a row for each kind, for a page above the reference."""
    rows = [
        (f"[`{kind}`](reference/contracts/{kind}.md)", first_sentence(interface_of(kind).__doc__ or ""))
        for kind in Kind
    ]
    return table(("kind", "meaning"), rows)


def check_list(kind: str) -> str:
    """Returns the rules that the checks of a kind try, by the names of the checks."""
    rules = []
    for check in checks_of(Kind(kind)):
        rule = " ".join(inspect.getdoc(check.function).split())  # type: ignore[union-attr]
        rules.append(f"- `{check.name}`: {rule}")
    return "\n".join(rules)


def interface(kind: str) -> str:
    """Returns the version of a contract, and the class of its kind as it is written."""
    contract = CONTRACTS[kind]
    versions = f"Version {contract.version}; components may be written for version {contract.supported}"
    link = "[Compatibility](../../compatibility.md)"
    return f"{versions}: see {link}.\n\n```py\n{_class(interface_of(Kind(kind)))}\n```"


def received(page: str) -> str:
    """Returns the names that a page of contracts describes, as they are written."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    names = re.findall(r"^::: (plugformer\.(?:interfaces|model))\.(\w+)$", text, re.MULTILINE)
    return "\n\n".join(f"```py\n{_written(*name)}\n```" for name in names)


def _written(package: str, name: str) -> str:
    """Returns a class, a function without its body, or a constant with its docstring."""
    value = getattr(import_module(package), name)
    if isinstance(value, type):
        return _class(value)
    for module in sorted(Path(str(interfaces.__file__)).parent.glob("*.py")):
        text = module.read_text(encoding="utf-8")
        tree = ast.parse(text).body
        for node, after in zip(tree, [*tree[1:], None], strict=True):
            last: ast.stmt | None = None
            if isinstance(node, ast.FunctionDef) and node.name == name:
                last = node.body[0]
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                last = after if isinstance(after, ast.Expr) else node
            if last is not None:
                return "\n".join(text.splitlines()[_first_line(node) : last.end_lineno])
    raise ValueError(f"plugformer.interfaces.{name} is no class, no function and no constant")


def _first_line(node: ast.stmt) -> int:
    return min(each.lineno for each in (node, *getattr(node, "decorator_list", ()))) - 1


def _class(cls: type) -> str:
    """Returns a class without private methods and the bodies of the others."""
    lines = inspect.getsource(cls).splitlines()
    functions = [node for node in definition(cls).body if isinstance(node, ast.FunctionDef)]
    for function in reversed(functions):
        first = _first_line(function)
        if not function.name.startswith("_"):
            first = function.body[0].end_lineno or first  # its docstring
        del lines[first : function.end_lineno]
    return re.sub(r"\n{3,}", "\n\n", re.sub(r" +# (noqa|type:).*", "", "\n".join(lines))).rstrip()
