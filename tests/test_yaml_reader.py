"""The YAML reader: YAML 1.2 scalars, places of nodes, and nothing but ConfigurationError for any input."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from plugformer.errors import ConfigurationError
from plugformer.yaml_reader import read_file, read_mapping
from plugformer.yaml_tree import Origin, Tree


def read(text: str | bytes) -> Tree:
    content = text if isinstance(text, bytes) else text.encode()
    return read_mapping(content, "task.yaml", Path())


# The core schema's table (YAML 1.2.2, section 10.3.2) and what YAML 1.1 would have made of the rest.
@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, None) for text in ("null", "~", "")),
        ("true", True),
        ("False", False),
        *(
            (text, text)
            for text in ("yes", "no", "on", "0b11", "1:30", "1_000", "2024-01-02", "<<", "=", "none")
        ),
        ("-7", -7),
        ("+3", 3),
        ("0o14", 12),
        ("0x1F", 31),
        ("0123", 123),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e-4", 1e-4),
        ("-.Inf", float("-inf")),
    ],
)
def test_plain_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    found = read(f"key: {text}").value["key"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["'12'", '"12"', "|-\n  12"])
def test_quoted_scalars_are_text(text: str) -> None:
    assert read(f"key: {text}").value == {"key": "12"}


def test_nodes_know_their_places() -> None:
    tree = read("model:\n  attention: mha\n  sizes: [1, 2]\n")
    assert str(tree.origin(("model",), key=True)) == "task.yaml:1:1"
    assert str(tree.origin(("model", "attention"), key=True)) == "task.yaml:2:3"
    assert str(tree.origin(("model", "attention"))) == "task.yaml:2:14"
    assert str(tree.origin(("model", "sizes", 1))) == "task.yaml:3:14"
    assert str(tree.origin(("model", "absent", "sizes", 9))) == "task.yaml:3:10"


def test_parts_of_trees_keep_their_places() -> None:
    tree = read("a:\n  b: {c: 1}\n").at(("a", "b"))
    assert tree.value == {"c": 1}
    moved = tree.under(("x", "y")).with_value(("x", "z"), Tree.of(2, Origin("two")))
    assert moved.value == {"x": {"y": {"c": 1}, "z": 2}}
    assert str(moved.origin(("x", "y", "c"))) == "task.yaml:2:10"
    assert str(moved.origin(("x", "z"))) == "two"


def test_aliases_that_stand_for_billions_of_values_are_refused() -> None:
    lines = [f"{name}: &{name} [{', '.join([f'*{below}'] * 9)}]" for below, name in pairwise("abcdefghi")]
    with pytest.raises(ConfigurationError, match="more than 100,000 values"):
        read("\n".join(["a: &a [1, 2]", *lines]))


def test_aliases_and_whole_number_keys() -> None:
    assert read("a: &x {0: 1}\nb: *x\n").value == {"a": {0: 1}, "b": {0: 1}}


@pytest.mark.parametrize("text", ["9" * 5000, f"0x{'f' * 100_000}", f"-{'1' * 400}", f"{'1' * 400}.5"])
def test_numbers_that_python_refuses_are_text(text: str) -> None:
    assert read(f"? {text}\n: [{text}]").value == {text: [text]}


def test_levels_behind_aliases_count() -> None:
    deep = f"a: &a {'[' * 60}{']' * 60}\nb: {'[' * 38}1{']' * 38}\n"
    assert len(read(f"{deep}c: {'[' * 38}*a{']' * 38}").value) == 3
    with pytest.raises(
        ConfigurationError, match=r"task\.yaml:1:6\d  nested too deeply: more than 100 levels"
    ):
        read(f"{deep}c: {'[' * 40}*a{']' * 40}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: " + b"[" * 20_000, "  nested too deeply: more than 100 levels"),
        (b"a: " + b"{b: " * 500, "nested too deeply: more than 100 levels"),
        (b"", "task.yaml:1:1  is empty"),
        (b"# nothing\n", "task.yaml:1:1  is empty"),
        (b"- 1\n", "task.yaml:1:1  expected a mapping of keys to values, found a list"),
        (b"hello", "task.yaml:1:1  expected a mapping of keys to values, found 'hello'"),
        (b"a: 1\nb: x\xe9\n", "task.yaml:2  is not UTF-8"),
        (b"a: 1\nb: 2\na: 3\n", "task.yaml:3:1  key 'a' is written twice; first at task.yaml:1:1"),
        (b"a:\n\tb: 1\n", "task.yaml:2:1  a tab in the indentation"),
        (b"a: [1, 2\n", "task.yaml:2:1  is not valid YAML"),
        (b"a: b: c\n", "task.yaml:1:5  is not valid YAML: mapping values are not allowed"),
        (b"1.5: x\n", "task.yaml:1:1  a key must be text or a whole number, found 1.5"),
        (b"true: x\n", "task.yaml:1:1  a key must be text or a whole number, found True"),
        (b"[1]: x\n", "task.yaml:1:1  a key must be text or a whole number, found [1]"),
        (b"a: *b\n", "task.yaml:1:4  is not valid YAML: found undefined alias"),
        (b"a: &a [*a]\n", "task.yaml:1:4  nested too deeply: more than 100 levels"),
        (
            b"a: !!python/object:os.system x\n",
            "task.yaml:1:4  the tag 'tag:yaml.org,2002:python/object:os.system'",
        ),
        (b"a: !!str 12\n", "task.yaml:1:4  the tag 'tag:yaml.org,2002:str' is not allowed"),
        (b"a: 1\n---\nb: 2\n", "task.yaml:2:1  is not valid YAML: expected a single document"),
        (b"a: \x00\n", "task.yaml:1:1  "),
    ],
)
def test_messages(content: bytes, message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        read(content)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"mine\.yaml: cannot be read: No such file"):
        read_file(tmp_path / "mine.yaml", "mine.yaml")
