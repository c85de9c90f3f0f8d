"""Links inside the repository lead somewhere, and so do the files that pages name."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "tasks").rglob("README.md")),
]
LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?!https?:|mailto:)([^)\s]+)\)")
IMAGE = re.compile(r"!\[[^\]]*\]\((?!https?:)([^)\s]+)\)")
NAMED = re.compile(r"`((?:core|plugins|tasks|tests|docs|examples|benchmarks|\.ci)/[\w./-]+)`")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def prose(page: Path) -> str:
    """Returns a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub and MkDocs make them."""
    headings = HEADING.findall(prose(page))
    described = re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        *(re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings),
        *described,
    }


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        text = prose(page)
        for link in [*LINK.findall(text), *IMAGE.findall(text)]:
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page}: {link}: there is no {target}"
            assert not anchor or anchor in anchors(target), f"{page}: {link}: there is no such heading"


def test_files_that_are_named_exist() -> None:
    missing = [
        (page, name) for page in PAGES for name in NAMED.findall(prose(page)) if not (ROOT / name).exists()
    ]
    assert not missing
