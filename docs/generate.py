"""Rewrites the sections of the documentation that are generated from the code.

python docs/generate.py            writes them
python docs/generate.py --check    names the pages that are stale and exits with status 1

A page marks such a section with two comments, `generated: NAME` and `end of NAME`.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

from generators.commands import command_reference
from generators.components import component_reference, component_table
from generators.contracts import check_list, interface, kind_table, received
from generators.decisions import part_table, probe_tables, scale_table
from generators.files import file_block
from generators.hooks import hook_reference
from generators.plugins import distribution_tables, part_tables, read
from generators.public_names import public_names
from generators.rooms import room_drawing, room_table
from generators.studies import law_table, pair_table, score_table, study_table, trial_table
from generators.task_file import task_keys

from plugformer.registry import Registry
from plugformer_ablation.judging.records import report_schema

ROOT = Path(__file__).resolve().parents[1]
SECTION = re.compile(
    r"(?P<begin><!-- generated: (?P<name>\S+)(?: (?P<argument>\S+))? -->\n)"
    r".*?(?P<end><!-- end of (?P=name) -->)",
    re.DOTALL,
)
WHOLE: dict[Path, Callable[[], str]] = {
    ROOT / "docs" / "code.svg": lambda: room_drawing(ROOT),
    ROOT / "docs" / "reference" / "report.schema.json": lambda: json.dumps(report_schema(), indent=1) + "\n",
}
"""Files that are generated as a whole."""

BUILT_IN = Registry.built_in()

GENERATORS: dict[str, Callable[[str], str]] = {
    "check-list": check_list,
    "command-reference": lambda _: command_reference(),
    "component-reference": lambda _: component_reference(BUILT_IN),
    "component-table": lambda _: component_table(BUILT_IN),
    "decisions-by-parts": lambda _: part_table(ROOT / "docs"),
    "decisions-by-probes": lambda _: probe_tables(ROOT / "docs"),
    "decisions-by-scales": lambda _: scale_table(ROOT / "docs"),
    "file": lambda name: file_block(ROOT, name),
    "interface": interface,
    "kind-table": lambda _: kind_table(),
    "law-table": lambda name: law_table(ROOT / "docs", name),
    "hook-reference": lambda _: hook_reference(),
    "pair-table": lambda name: pair_table(ROOT / "docs", name),
    "score-table": lambda name: score_table(ROOT / "docs", name),
    "plugin-distributions": lambda _: distribution_tables(read(ROOT)),
    "plugin-parts": lambda _: part_tables(read(ROOT)),
    "public-names": lambda _: public_names(),
    "received": received,
    "rooms": lambda _: room_table(ROOT),
    "study-table": lambda name: study_table(ROOT / "docs", name),
    "task-keys": lambda _: task_keys(),
    "trial-table": lambda name: trial_table(ROOT / "docs", name),
}


def pages() -> list[Path]:
    """Returns the pages that may have generated sections."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def filled(text: str) -> str:
    """Returns a page with its generated sections as they should be now."""
    return SECTION.sub(_section, text)


def _section(match: re.Match[str]) -> str:
    content = GENERATORS[match["name"]](match["argument"] or "")
    return f"{match['begin']}\n{content}\n\n{match['end']}"


def main(arguments: list[str]) -> int:
    """Writes or checks all pages; returns the exit status."""
    now = {page: page.read_text(encoding="utf-8") for page in [*pages(), *WHOLE]}
    new = {page: WHOLE[page]() if page in WHOLE else filled(text) for page, text in now.items()}
    stale = {page: text for page, text in new.items() if text != now[page]}
    if "--check" in arguments:
        for page in stale:
            sys.stderr.write(f"{page.relative_to(ROOT)} is stale: run `python docs/generate.py`\n")
        return int(bool(stale))
    for page, text in stale.items():
        page.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{page.relative_to(ROOT)} rewritten\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
