"""The kinds of components, each with a link to the page of its contract, and what their checks demand."""

import inspect

from generators.markdown import first_sentence, table
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
