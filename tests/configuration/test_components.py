"""The second pass: options, their defaults and paths, and components that cannot be imported."""

import re
from pathlib import Path

import pytest

from plugformer.configuration import dump, resolve
from plugformer.configuration.resolving import ResolvedTask, check_components
from plugformer.errors import ConfigurationError
from plugformer.experiment import Experiment
from plugformer.registry import Registry
from plugformer.registry.options import checked_options


def checked(registry: Registry, *overrides: str, file: str = "base.yaml") -> ResolvedTask:
    return check_components(resolve(file, overrides, registry))


def test_defaults_of_all_options_are_filled_in(base, registry) -> None:
    task = checked(registry).task
    assert task.model.attention.options == {"kv_heads": 2, "bias": True}
    assert task.model.position.options["base"] == 10000
    assert task.training.optimizer.options["betas"] == [0.9, 0.999]
    assert task.data.options["rows"] == 10
    assert task.tokenizer.source.options["min_frequency"] == 1
    assert task.tokenizer.source == task.tokenizer.target


def test_settings_of_the_core_stay(base, registry) -> None:
    task = checked(registry, "data.padding=7", "data.split.test=0.1", "decoding.max_length=9").task
    assert task.data.padding == 7
    assert task.data.split is not None
    assert task.data.split.test == 0.1
    assert task.decoding.max_length == 9
    assert "padding" not in task.data.options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "model: {attention: {kvheads: 2}}",
            "top.yaml:2:21  model.attention.kvheads: unknown key 'kvheads' (did you mean 'kv_heads'?)\n"
            "  known: bias, kv_heads, name",
        ),
        ("model: {attention: {kv_heads: 0}}", "top.yaml:2:31  model.attention.kv_heads: .* 1, found 0"),
        ("model: {attention: {bias: no}}", "top.yaml:2:27  model.attention.bias: .*, found 'no'"),
        ("data: {splitt: {test: 0.1}}", "data.splitt: .*(did you mean 'split'?)\n  known: columns,"),
        ("data: files", "top.yaml:2:7  data.train: is missing"),
        ("data: {train: [a, 3]}", "data.train.1: .*, found 3"),
        (
            "tokenizer: {source: words, target: {name: words, minfrequency: 2}}",
            "tokenizer.target.minfrequency: unknown key",
        ),
        ("evaluation: {metrics: [{name: accuracy, as_: b}]}", "metrics.0.as_: .*(did you mean 'as'?)"),
        ("model: {encoder: {per_layer: {0: {norm: {name: rms_norm, eps: 1}}}}}", "per_layer.0.norm.eps: "),
        ("data: {train: '${NO_SUCH}/a'}", "top.yaml:2:15  data.train: .* 'NO_SUCH' is not set"),
    ],
)
def test_mistakes_in_options_have_their_place(write, base, registry, text: str, message: str) -> None:
    write("top.yaml", f"extends: base.yaml\n{text}\n")
    with pytest.raises(ConfigurationError, match=re.escape(message).replace(r"\.\*", ".*")):
        checked(registry, file="top.yaml")


def test_all_components_are_checked_together(base, registry) -> None:
    with pytest.raises(ConfigurationError) as caught:
        checked(registry, "model.attention.x=1", "training.optimizer.lr=fast", "data.rows=0")
    assert len([line for line in str(caught.value).splitlines() if not line.startswith(" ")]) == 3


def test_a_component_that_cannot_be_imported_is_an_error_at_its_name(write, base, registry) -> None:
    write("parts.yaml", "components: {metric: {gone: {class: 'no_such_module_at_all:Gone'}}}")
    with pytest.raises(ConfigurationError) as caught:
        checked(registry, "registry=parts.yaml", "evaluation.metrics=[gone]")
    assert str(caught.value).startswith(
        "--set 'evaluation.metrics=[gone]'  evaluation.metrics.0: metric 'gone' (local): "
        "importing no_such_module_at_all failed: ModuleNotFoundError"
    )


def test_paths_are_relative_to_the_file_that_wrote_them(write, base, registry, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("CORPORA", "/corpora")
    monkeypatch.setenv("HOME", "/home/someone")
    write("inner/middle.yaml", "extends: ../base.yaml\ndata: {test: t.tsv}\n")
    here = tmp_path / "here"
    write("top.yaml", "extends: inner/middle.yaml\ndata: {train: {one: [a, ~/b], two: '${CORPORA}/./c'}}\n")
    assert checked(registry, file="inner/middle.yaml").task.data.options["train"] == str(here / "a.tsv")
    options = checked(registry, file="top.yaml").task.data.options
    assert options["test"] == str(here / "inner" / "t.tsv")
    assert options["train"] == {"one": [str(here / "a"), "/home/someone/b"], "two": "/corpora/c"}
    monkeypatch.chdir(here / "inner")
    options = checked(registry, "data.test=t", file="../top.yaml").task.data.options
    assert options["test"] == str(Path.cwd() / "t")


def test_what_does_not_fit_is_located_where_it_was_written(base, registry) -> None:
    found = [
        (("model", "attention", "kv_heads"), "3 does not divide 4\nuse 1, 2 or 4"),
        (("data",), "is odd"),
    ]
    experiment = Experiment.from_resolved(resolve("base.yaml", ["model.attention.kv_heads=3"], registry))
    with pytest.raises(ConfigurationError) as caught:
        experiment.raise_for(found)
    assert str(caught.value) == (
        "--set model.attention.kv_heads=3  model.attention.kv_heads: 3 does not divide 4\n  use 1, 2 or 4\n"
        "base.yaml:2:7  data: is odd"
    )


ALIASED = """\
from pathlib import Path
from typing import Annotated
from pydantic import BaseModel, Field
from plugformer.interfaces.data import Data

class Part(BaseModel, extra="forbid"):
    share: float = Field(0.5, alias="lambda")
    file: Path = Field(Path("part"), alias="from")

class Aliased(Data):
    def __init__(
        self,
        *,
        size_: Annotated[int, Field(alias="class")],
        part: Part = Part(),
        by_length: dict[int, Path] = {},
        length_: Annotated[int, Field(alias="LENGTH")] = 1,
    ):
        pass

    def load(self, task_type):
        raise NotImplementedError
"""


@pytest.fixture
def aliased(write, base, registry) -> Registry:
    """A registry with data whose options have aliases, in the folder above that of `sub/top.yaml`."""
    write("aliased.py", ALIASED.replace("LENGTH", "long"))
    write("aliased_clashing.py", ALIASED.replace("LENGTH", "length"))
    write("sub/top.yaml", "extends: ../base.yaml\ndata: {name: aliased}\n")
    entries = "aliased: {class: 'aliased:Aliased'}, clashing: {class: 'aliased_clashing:Aliased'}"
    return registry.with_local(write("parts.yaml", f"components: {{data: {{{entries}}}}}"))


def test_options_with_aliases_are_written_and_their_paths_found(write, aliased, tmp_path) -> None:
    text = "{name: aliased, class: 3, part: {lambda: 0.9, from: a}, by_length: {1: b, '20': c}}"
    write("sub/top.yaml", f"extends: ../base.yaml\ndata: {text}\n")
    task = checked(aliased, file="sub/top.yaml").task
    here = tmp_path / "here" / "sub"
    assert task.data.options == {
        "class": 3,
        "part": {"lambda": 0.9, "from": str(here / "a")},
        "by_length": {"1": str(here / "b"), "20": str(here / "c")},
        "long": 1,
    }
    write("saved.yaml", dump(task))
    assert checked(aliased, file="saved.yaml").task == task
    made = aliased.load("data", "aliased")
    read = checked_options(made, task.data.options, "data")
    assert (read["size_"], read["part"].share, read["by_length"]) == (3, 0.9, {1: here / "b", 20: here / "c"})


def test_messages_know_the_keys_of_options_with_aliases(aliased) -> None:
    with pytest.raises(ConfigurationError) as caught:
        checked(aliased, "data.part.lamda=1", "data.long=1.5", file="sub/top.yaml")
    assert str(caught.value).splitlines() == [
        "--set data.long=1.5  data.long: should be a valid integer, found 1.5",
        "--set data.part.lamda=1  data.part.lamda: unknown key 'lamda' (did you mean 'lambda'?)",
        "  known: from, lambda",
        "sub/top.yaml:2:7  data.class: is missing",
    ]


def test_an_alias_that_the_core_has_there_is_the_author_s_to_change(aliased) -> None:
    with pytest.raises(ConfigurationError, match=r"'clashing' has an option 'length', which is a setting"):
        checked(aliased, "data={name: clashing}", file="sub/top.yaml")
