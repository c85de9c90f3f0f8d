"""HTML pages of figures and tables, which need no network and no other file."""

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

if TYPE_CHECKING:  # matplotlib takes a second
    from plugformer_cli.drawing import Drawing


def render_page(package: str, template: str, **values: Any) -> str:
    """Returns a page from a package's template that extends `page.html`; text in `values` is escaped."""
    loaders = [PackageLoader(package, ""), PackageLoader("plugformer_cli", "")]
    environment = Environment(
        loader=ChoiceLoader(loaders), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(values)


def save_figures(
    drawings: "Iterable[Drawing]", write: Callable[[str, bytes], object]
) -> list[dict[str, str | Markup]]:
    """Writes each drawing as SVG and PNG, one by one, so that only one is in memory.

    Returns what the macro `figure` of `page.html` takes: `name`, `title`, `caption` and `svg`.
    """
    figures: list[dict[str, str | Markup]] = []
    for drawing in drawings:
        svg = drawing.render("svg")
        write(f"{drawing.name}.svg", svg)
        write(f"{drawing.name}.png", drawing.render("png"))
        element = svg.decode()
        element = element[element.index("<svg") :].strip()
        # Identifiers must be unique on the page.
        unique = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{drawing.name}-", element)
        svg_element = Markup(unique)  # noqa: S704 (made by matplotlib, which escapes text)
        figures.append(
            {"name": drawing.name, "title": drawing.title, "caption": drawing.caption, "svg": svg_element}
        )
    return figures
