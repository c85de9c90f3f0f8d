"""The registry: names, conflicts, quarantine, and what importing and constructing can do wrong."""

import re
import sys
from dataclasses import replace

import pytest

from plugformer.errors import ConfigurationError, RegistryError
from plugformer.registry import Entry, EntryKind, EntryState, Kind, Registry, catalog
from plugformer.registry.manifest import Plugin, parse

SCHEDULES = """
from typing import Annotated
from pydantic import Field
from plugformer.errors import LengthError
from plugformer.interfaces.training import Schedule

class Flat(Schedule):
    def __init__(self, *context, level: Annotated[float, Field(gt=0)] = 1.0):
        self.context, self.level = context, level
    def factor(self, step, *, steps, width):
        return self.level

class Partial(Schedule):
    pass

class Stranger:
    pass

class Raises(Flat):
    def __init__(self):
        raise ZeroDivisionError("by zero")

class Refuses(Flat):
    def __init__(self):
        raise LengthError("too long")

class Leaves(Flat):
    def __init__(self):
        raise SystemExit(3)

number = 3
"""


def plugin(distribution: str, version: str = "", cause: str = "", **names: str) -> Plugin:
    components = "".join(f"    {name}: {{class: '{target}'}}\n" for name, target in names.items())
    manifest = parse(f"components:\n  schedule:\n{components}".encode(), "registry.yaml")
    assert manifest.problems == ()
    return replace(manifest, distribution=distribution, version=version, problems=(cause,) if cause else ())


def names(entries: list[Entry]) -> list[tuple[str, str, EntryState]]:
    return [(entry.distribution, entry.name, entry.state) for entry in entries]


BUILT_IN = plugin("plugformer", "0.1.0", noam="a:Noam", flat="a:Flat")


def test_a_bare_or_qualified_name_finds_its_component() -> None:
    registry = Registry([BUILT_IN, plugin("plug-x", "2", flat2="b:Flat")])
    assert registry.find("schedule", "noam").target == "a:Noam"
    assert registry.find(Kind.SCHEDULE, "plugformer:noam").target == "a:Noam"
    assert registry.find("schedule", "Plug_X:flat2").distribution == "plug-x"


def test_an_unknown_name_lists_the_known_by_distribution() -> None:
    registry = Registry([plugin("plug-x", "2", zigzag="b:Z"), BUILT_IN])
    expected = (
        "unknown schedule 'noan' (did you mean 'noam'?)\n"
        "known: flat, noam (plugformer 0.1.0); zigzag (plug-x 2)"
    )
    with pytest.raises(RegistryError, match=f"^{re.escape(expected)}$"):
        registry.find("schedule", "noan")


INDEX = [
    {"name": name, "install": f"./{name}", "parts": [{"kind": kind, "name": "zigzag"}]}
    for name, kind in (("plug-x", "schedule"), ("plug-y", "schedule"), ("plug-z", "norm"))
]


def test_an_unknown_name_is_looked_up_in_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is not installed, and read for the message alone."""
    monkeypatch.setattr(catalog, "read_index", lambda: INDEX)
    registry = Registry([BUILT_IN, plugin("Plug_Z", "2", wave="b:Wave")])
    assert [each["name"] for each in registry.available()] == ["plug-x", "plug-y"]

    def hints(name: str) -> list[str]:
        with pytest.raises(RegistryError) as caught:
            registry.find("schedule", name)
        return str(caught.value).splitlines()[2:]

    assert hints("zigzag") == [
        "plug-x has it: pip install ./plug-x",
        "plug-y has it: pip install ./plug-y",
    ]
    assert hints("plug-y:zigzag") == ["plug-y has it: pip install ./plug-y"]
    assert hints("zigzig") == []
    monkeypatch.delattr(catalog, "read_index")
    assert registry.find("schedule", "wave").name == "wave"


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(
        RegistryError, match=r"unknown kind 'schedul' \(did you mean 'schedule'\?\)\nknown: task_type, arch"
    ):
        Registry([BUILT_IN]).find("schedul", "noam")


def test_one_name_from_two_distributions_is_a_conflict_that_the_owner_resolves() -> None:
    registry = Registry([BUILT_IN, plugin("plug-x", "2", flat="b:Flat")])
    assert [entry.state for entry in registry.entries(Kind.SCHEDULE)] == [
        EntryState.CONFLICT,
        EntryState.CONFLICT,
        EntryState.READY,
    ]
    assert "offer the same name" in registry.entries()[0].cause
    with pytest.raises(RegistryError) as caught:
        registry.find("schedule", "flat")
    assert str(caught.value) == (
        "schedule 'flat' is offered by plug-x 2 (b:Flat) and plugformer 0.1.0 (a:Flat)\n"
        "write plug-x:flat or plugformer:flat"
    )
    assert registry.find("schedule", "plug-x:flat").target == "b:Flat"


def test_two_entries_with_the_same_target_are_one() -> None:
    registry = Registry([BUILT_IN, plugin("local", "", flat="a:Flat")])
    assert registry.find("schedule", "flat").state is EntryState.READY
    assert len(registry.entries(Kind.SCHEDULE)) == 2


def test_a_quarantined_component_is_an_error_only_when_used() -> None:
    registry = Registry([BUILT_IN, plugin("plug-x", "2", "needs plugformer >=9", zigzag="b:Z", flat="b:F")])
    assert registry.find("schedule", "flat").distribution == "plugformer"
    with pytest.raises(
        RegistryError, match=r"schedule 'zigzag' \(plug-x 2\) is quarantined: needs plugformer >=9"
    ):
        registry.find("schedule", "zigzag")
    assert [entry.name for entry in registry.entries() if entry.kind is EntryKind.PLUGIN] == ["plug-x"]


@pytest.fixture
def loaded(install) -> Registry:
    targets = ("Flat", "Partial", "Stranger", "Raises", "Refuses", "Leaves", "Flatt", "number")
    lines = "".join(f"{name.lower()}: {{class: 'plug_s.schedules:{name}'}}, " for name in targets)
    faults = "".join(
        f"{name}: {{class: 'plug_s.{name}:X'}}, "
        for name in ("leaving", "syntax", "failing", "refusing", "absent")
    )
    install(
        "plug-s",
        f"components: {{schedule: {{{lines}{faults}}}}}",
        version="3.1",
        schedules=SCHEDULES,
        leaving="import sys; sys.exit('bye')",
        syntax="def (",
        failing="import no_such_module_anywhere",
        refusing="from plugformer.errors import ConfigurationError; raise ConfigurationError('not now')",
    )
    return Registry.discover()


def test_a_component_is_loaded_and_created_with_context_and_options(loaded: Registry) -> None:
    flat = loaded.create("schedule", "flat", "context", level=2)
    assert flat.factor(1, steps=1, width=1) == 2
    assert flat.context == ("context",)
    assert loaded.create("schedule", "flat").level == 1.0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("partial", "plug_s.schedules:Partial does not implement factor"),
        ("stranger", "plug_s.schedules:Stranger is not a Schedule"),
        ("number", "plug_s.schedules:number is not a Schedule"),
        ("flatt", "plug_s/schedules.py) has no 'Flatt' (did you mean 'Flat'?)"),
        ("leaving", "importing plug_s.leaving failed: SystemExit: bye"),
        ("syntax", "importing plug_s.syntax failed: SyntaxError"),
        (
            "failing",
            "importing plug_s.failing failed: ModuleNotFoundError: No module named 'no_such_module_anywhere'",
        ),
        ("refusing", "importing plug_s.refusing failed: ConfigurationError: not now"),
        ("absent", "importing plug_s.absent failed: ModuleNotFoundError"),
    ],
)
def test_what_cannot_be_loaded_names_its_distribution(loaded: Registry, name: str, message: str) -> None:
    with pytest.raises(RegistryError, match=re.escape(message)) as caught:
        loaded.load("schedule", name)
    assert f"schedule '{name}' (plug-s 3.1): " in str(caught.value)


def test_a_component_that_does_not_declare_what_its_interface_asks_for_is_not_loaded(install) -> None:
    install(
        "plug-h",
        "components: {head: {silent: {class: 'plug_h.heads:Silent'}}}",
        heads="from plugformer.interfaces import Head\n\nclass Silent(Head):\n    logits = None",
    )
    with pytest.raises(RegistryError, match=r"plug_h\.heads:Silent does not implement levels\n"):
        Registry.discover().load("head", "silent")


def test_a_constructor_that_raises_is_blamed_by_name(loaded: Registry) -> None:
    with pytest.raises(
        RegistryError, match=r"'raises' \(plug-s 3.1\): constructing it failed: ZeroDivisionError: by"
    ):
        loaded.create("schedule", "raises")
    with pytest.raises(RegistryError, match="constructing it failed: SystemExit: 3"):
        loaded.create("schedule", "leaves")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levle": 1}, "option levle: unknown key 'levle' (did you mean 'level'?)\n  known: level"),
        ({"level": "high"}, "option level: should be a valid number, found 'high'"),
        ({"level": 0}, "option level: should be greater than 0, found 0"),
    ],
)
def test_wrong_options_are_errors(loaded: Registry, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"schedule 'flat' (plug-s 3.1): {message}")):
        loaded.create("schedule", "flat", **options)


@pytest.mark.parametrize(
    ("context", "message"),
    [((), "): missing a required argument: 'model'"), ((1, 2), "too many")],
)
def test_a_wrong_context_is_an_error_of_the_caller(context: tuple[int, ...], message: str) -> None:
    with pytest.raises(RegistryError, match=re.escape(message)) as caught:
        catalog.create("attention", "gqa", *context)
    assert "distribution" not in str(caught.value)


def test_tasks_are_found_without_importing_their_package(install) -> None:
    site = install("plug-t", "tasks: {toy: 'plug_t:toy/task.yaml'}")
    registry = Registry.discover()
    with pytest.raises(
        RegistryError, match=r"task 'toy' \(plug-t 1.0\): there is no file '\S+:toy/task.yaml'"
    ):
        registry.find_task("toy")
    file = site / "plug_t" / "toy" / "task.yaml"
    file.parent.mkdir()
    file.touch()
    assert registry.find_task("toy") == file
    assert registry.find_task("plug-t:toy") == file
    assert "toy" in [entry.name for entry in registry.entries("task")]
    assert "plug_t" not in sys.modules
    with pytest.raises(RegistryError, match=r"unknown task 'toi' \(did you mean 'toy'\?\)"):
        registry.find_task("toi")


def test_hooks_and_commands_are_listed_with_their_state() -> None:
    manifest = parse(b"callbacks: [p.hooks]\ncommands: {probe: 'p:probe'}", "registry.yaml")
    sound = replace(manifest, distribution="plug-h", version="1")
    broken = replace(manifest, distribution="plug-i", version="1", problems=("broken",))
    registry = Registry([sound, broken])
    assert names(registry.entries("callbacks")) == [
        ("plug-h", "p.hooks", EntryState.READY),
        ("plug-i", "p.hooks", EntryState.QUARANTINED),
    ]
    assert names(registry.entries("command")) == [
        ("plug-h", "probe", EntryState.READY),
        ("plug-i", "probe", EntryState.QUARANTINED),
    ]
