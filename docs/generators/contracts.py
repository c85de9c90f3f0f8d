"""The kinds of components, each with a link to the page of its contract, and what their checks demand."""

import ast
import inspect
import re

from generators.markdown import definition, first_sentence, table
from plugformer.registry import Kind, interface_of
from plugformer_testing.runner import checks_of


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
    """Returns the class of a kind as it is written, without private methods and the bodies of the others."""
    cls = interface_of(Kind(kind))
    lines = inspect.getsource(cls).splitlines()
    functions = [node for node in definition(cls).body if isinstance(node, ast.FunctionDef)]
    for function in reversed(functions):
        first = min(node.lineno for node in (function, *function.decorator_list)) - 1
        if not function.name.startswith("_"):
            first = function.body[0].end_lineno or first  # its docstring
        del lines[first : function.end_lineno]
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r" +# (noqa|type:).*", "", "\n".join(lines)))
    return f"```py\n{text.rstrip()}\n```"
