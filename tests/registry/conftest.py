"""Distributions made up on the spot, installed into a folder on the import path."""

from collections.abc import Callable
from pathlib import Path

import pytest

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a distribution: metadata, entry point, a package with a manifest and other files."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delenv("PLUGFORMER_REGISTRY", raising=False)
    monkeypatch.delenv("PLUGFORMER_PLUGINS", raising=False)

    def install(
        distribution: str,
        manifest: str | bytes | None,
        *,
        version: str = "1.0",
        package: str | None = None,
        value: str | None = None,
        **modules: str,
    ) -> Path:
        package = package or distribution.replace("-", "_")
        folder = site / package
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text("raise SystemExit('imported too early')" if not modules else "")
        if manifest is not None:
            content = manifest if isinstance(manifest, bytes) else manifest.encode()
            (folder / "registry.yaml").write_bytes(content)
        for name, code in modules.items():
            (folder / f"{name}.py").write_text(code)
        info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[plugformer]\nplugin = {value or package}\n")
        return site

    return install
