"""The versions that are declared, and those that CI tests."""

import tomllib
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINNED = {
    canonicalize_name(pin.name): pin.specifier
    for pin in map(Requirement, (ROOT / "constraints.txt").read_text().splitlines())
}


def test_what_is_wanted_is_pinned_within_its_range():
    for wanted in map(Requirement, [*PROJECT["dependencies"], *EXTRAS["dev"]]):
        nested = [each for extra in wanted.extras for each in EXTRAS[extra]]
        for each in map(Requirement, nested) if nested else [wanted]:
            (pin,) = PINNED[canonicalize_name(each.name)]
            assert pin.operator == "=="
            assert each.specifier.contains(pin.version), wanted


def test_what_is_pinned_installs_with_the_oldest_python():
    oldest = PROJECT["requires-python"].removeprefix(">=") + ".0"
    refused = [
        (each.name, each.version, needed)
        for each in distributions()
        if (needed := each.metadata.get("Requires-Python"))
        and canonicalize_name(each.name) in PINNED
        and PINNED[canonicalize_name(each.name)].contains(each.version)
        and oldest not in SpecifierSet(needed)
    ]
    assert refused == []


def test_pytorch_has_no_upper_bound():
    (torch,) = (Requirement(each) for each in PROJECT["dependencies"] if Requirement(each).name == "torch")
    assert [each.operator for each in torch.specifier] == [">="]
