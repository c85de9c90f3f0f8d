"""The kinds of components, each with a link to the page of its contract, and what their checks demand."""

import ast
import re
from importlib import import_module
from pathlib import Path

from generators.markdown import first_sentence, table
from plugformer import interfaces
from plugformer.registry import CONTRACTS, Kind, interface_of
from plugformer_cli.contract import as_written, rules

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
    return "\n".join(f"- `{name}`: {rule}" for name, rule in rules(Kind(kind)))


def interface(kind: str) -> str:
    """Returns the version of a contract, and the class of its kind as it is written."""
    contract = CONTRACTS[kind]
    versions = f"Version {contract.version}; components may be written for version {contract.supported}"
    link = "[Compatibility](../../compatibility.md)"
    return f"{versions}: see {link}.\n\n```py\n{as_written(interface_of(Kind(kind)))}\n```"


def received(page: str) -> str:
    """Returns the names that a page of contracts describes, as they are written."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    names = re.findall(r"^::: (plugformer\.(?:interfaces|model))\.(\w+)$", text, re.MULTILINE)
    return "\n\n".join(f"```py\n{_written(*name)}\n```" for name in names)


def _written(package: str, name: str) -> str:
    """Returns a class, a function without its body, or a constant with its docstring."""
    value = getattr(import_module(package), name)
    if isinstance(value, type):
        return as_written(value)
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
