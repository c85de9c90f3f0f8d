"""The versions that are declared, and those that CI tests."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINNED = {
    canonicalize_name(pin.name): pin.specifier
    for pin in map(Requirement, (ROOT / "constraints.txt").read_text().splitlines())
}


@pytest.mark.parametrize("wanted", [*PROJECT["dependencies"], *(EXTRAS["dev"])], ids=str)
def test_what_is_wanted_is_pinned_within_its_range(wanted):
    requirement = Requirement(wanted)
    nested = [each for extra in requirement.extras for each in EXTRAS[extra]]
    for each in map(Requirement, nested) if nested else [requirement]:
        (pin,) = PINNED[canonicalize_name(each.name)]
        assert pin.operator == "=="
        assert each.specifier.contains(pin.version)


def test_pytorch_has_no_upper_bound():
    (torch,) = (Requirement(each) for each in PROJECT["dependencies"] if Requirement(each).name == "torch")
    assert [each.operator for each in torch.specifier] == [">="]
