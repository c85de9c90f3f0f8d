"""A hundred plugin distributions, eleven of them broken in different ways.

They are installed by hand into a folder for the import path, as an installer would leave them: metadata,
entry point, package. Every package leaves a file `imported` when Python imports it.
"""

from pathlib import Path

COUNT = 100

MARK = "from pathlib import Path\nPath(__file__).with_name('imported').touch()\n"
NORM = """\
from plugformer.interfaces import Norm

class Plain(Norm):
    def __init__(self, model):
        super().__init__()

    def forward(self, x):
        return x
"""
MANIFEST = """\
plugformer: ">=0.1"
components:
  norm:
    {name}: {package}.part:Plain
"""

SHOWN = {
    "missing-manifest": "has no registry.yaml",
    "invalid-yaml": "is not valid YAML",
    "unknown-kind": "unknown key 'nrom' (did you mean 'norm'?)",
    "wrong-version": "needs plugformer >=99; installed is ",
    "name-conflict": "offer the same name; write plugin-name-conflict:norm-00",
}
"""Faults that metadata and manifest show, and how they do."""

TRIED = {
    "import-error": "ModuleNotFoundError: No module named 'surely_absent'",
    "syntax-error": "SyntaxError",
    "missing-class": "has no 'Plain'",
    "missing-module": "No module named 'plugin_missing_module.part'",
    "wrong-base": "is not a Norm",
    "exits": "SystemExit: 3",
}
"""Faults that only trying shows, and how it does."""

_PARTS = {
    "import-error": "import surely_absent\n" + NORM,
    "syntax-error": "class Plain(:\n",
    "missing-class": NORM.replace("Plain", "Pain"),
    "wrong-base": "class Plain:\n    pass\n",
    "exits": "import sys\nsys.exit(3)\n",
}


def install_plugins(site: Path, count: int = COUNT) -> None:
    """Installs the broken plugins, and sound ones up to that number, into a folder that need not exist."""
    broken = [*SHOWN, *TRIED]
    for name in [*(f"{number:02}" for number in range(count - len(broken))), *broken]:
        _install(site, name)
    _break(site)


def _install(site: Path, name: str) -> None:
    distribution = f"plugin-{name}"
    package = distribution.replace("-", "_")
    folder = site / package
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(MARK)
    (folder / "part.py").write_text(_PARTS.get(name, NORM))
    (folder / "registry.yaml").write_text(MANIFEST.format(name=f"norm-{name}", package=package))
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[plugformer]\nplugin = {package}\n")


def _break(site: Path) -> None:
    """Breaks what is not broken by its code."""
    manifests = {name: site / f"plugin_{name.replace('-', '_')}" / "registry.yaml" for name in SHOWN}
    manifests["missing-manifest"].unlink()
    manifests["invalid-yaml"].write_text("components: [")
    for name, old, new in (
        ("unknown-kind", "norm:\n", "nrom:\n"),
        ("wrong-version", ">=0.1", ">=99"),
        ("name-conflict", "norm-name-conflict", "norm-00"),
    ):
        manifests[name].write_text(manifests[name].read_text().replace(old, new, 1))
    (site / "plugin_missing_module" / "part.py").unlink()
