"""Manifests: what a sound one says, and every problem of an unsound one, all at once."""

import pytest

from plugformer.registry import Kind
from plugformer.registry.discovery import discover_built_in
from plugformer.registry.manifest import Entry, EntryKind, parse

SOUND = """
plugformer: ">=0.1"
components:
  attention:
    differential: plug_diff.attention:Differential
tasks: {toy: "plug_diff:toy/task.yaml"}
callbacks: [plug_diff.hooks]
commands: {probe: "plug_diff.probe:command"}
"""


def test_a_sound_manifest_says_what_is_written() -> None:
    manifest = parse(SOUND.encode(), "registry.yaml")
    assert manifest.problems == ()
    assert manifest.requires == ">=0.1"
    assert manifest.entries == (
        Entry(Kind.ATTENTION, "differential", "plug_diff.attention:Differential"),
        Entry(EntryKind.TASK, "toy", "plug_diff:toy/task.yaml"),
        Entry(EntryKind.COMMAND, "probe", "plug_diff.probe:command"),
        Entry(EntryKind.CALLBACKS, "plug_diff.hooks", "plug_diff.hooks"),
    )


def test_expected_failures_have_their_reasons() -> None:
    text = "components: {norm: {a: {class: 'm:A', expected_failures: {shapes: No odd widths.}}}}"
    (entry,) = parse(text.encode(), "registry.yaml").entries
    assert entry.expected_failures == (("shapes", "No odd widths."),)


@pytest.mark.parametrize("text", ["tasks:\n", "components:\n  attention:\n", "components: {attention: {}}"])
def test_empty_sections_are_sound(text: str) -> None:
    assert parse(text.encode(), "registry.yaml").problems == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "componets: {}",
            "registry.yaml:1:1  componets: unknown key 'componets' (did you mean 'components'?)",
        ),
        ("plugformer: 3", "registry.yaml:1:13  plugformer: expected text, found 3"),
        (
            "components: {atention: {}}",
            "registry.yaml:1:14  components.atention: unknown key 'atention' (did you mean 'attention'?)",
        ),
        ("components: []", "registry.yaml:1:13  components: expected a mapping"),
        (
            "components: {norm: {a: b}}",
            "registry.yaml:1:24  components.norm.a: 'b' is not of the form 'module:Class'",
        ),
        ("components: {norm: {a: {}}}", "components.norm.a.class: '' is not of the form 'module:Class'"),
        ("components: {norm: {1: 'a:B'}}", "1 is not a name"),
        ("components: {norm: {a: {class: 'a:B', clas: x}}}", "unknown key 'clas' (did you mean 'class'?)"),
        ("components: {norm: {a: [x]}}", "components.norm.a: expected text, found ['x']"),
        (
            "components: {norm: {a: {class: 'a:B', expected_failures: [shapes]}}}",
            "components.norm.a.expected_failures: expected a mapping",
        ),
        ("tasks: {t: 'a:../x.yaml'}", "'a:../x.yaml' is not of the form 'package:path/in/it.yaml'"),
        ("tasks: {t: 'a.b:x.yaml'}", "'a.b:x.yaml' is not of the form"),
        ("tasks: {t: {file: 'a:x.yaml'}}", "tasks.t: expected text, found {'file': 'a:x.yaml'}"),
        ("commands: {c: f}", "'f' is not of the form 'module:function'"),
        ("callbacks: a", "registry.yaml:1:12  callbacks: expected a list of module names"),
        ("tasks: {t: 'a:x.yaml', t: 'a:y.yaml'}", "key 't' is written twice"),
        ("a: [", "is not valid YAML"),
        ("", "is empty"),
    ],
)
def test_problems_say_where_and_what(text: str, problem: str) -> None:
    problems = parse(text.encode(), "registry.yaml").problems
    assert any(problem in found for found in problems), problems


def test_all_problems_come_together_and_sound_entries_stay() -> None:
    text = "compnents: {}\ncomponents: {norm: {a: {class: x}, b: {class: 'm:B'}}}\nhooks: 3\n"
    manifest = parse(text.encode(), "registry.yaml")
    assert len(manifest.problems) == 3
    assert [entry.name for entry in manifest.entries] == ["b"]


def test_the_built_in_manifest_is_sound_and_complete() -> None:
    manifest = discover_built_in()
    assert manifest.problems == ()
    assert all(entry.summary for entry in manifest.entries if entry.kind != EntryKind.CALLBACKS)
