"""The kinds of components, each with a link to the page of its contract."""

from generators.markdown import first_sentence, table
from plugformer.registry import Kind, interface_of


def kind_table() -> str:
    """Returns a row for each kind, for a page above the reference."""
    rows = [
        (f"[`{kind}`](reference/contracts/{kind}.md)", first_sentence(interface_of(kind).__doc__ or ""))
        for kind in Kind
    ]
    return table(("kind", "meaning"), rows)
