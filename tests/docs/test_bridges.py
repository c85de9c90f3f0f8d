"""The page of bridges lists all that their manifests offer."""

import re
from pathlib import Path

from plugformer.registry.manifest import parse

ROOT = Path(__file__).resolve().parents[2]


def test_every_part_of_a_bridge_has_a_row() -> None:
    page = (ROOT / "docs" / "bridges.md").read_text(encoding="utf-8")
    offered = []
    for file in sorted(ROOT.glob("bridges/*/plugformer_*/registry.yaml")):
        manifest = parse(file.read_bytes(), str(file))
        assert not manifest.problems
        offered += [(file.parents[1].name, f"{entry.kind}/{entry.name}") for entry in manifest.entries]
    assert len(offered) >= 40
    assert sorted(re.findall(r"^\| `(plugformer-[\w-]+)` \| `(\w+/\w+)` \|$", page, re.MULTILINE)) == sorted(
        offered
    )
