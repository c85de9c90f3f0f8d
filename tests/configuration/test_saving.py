"""Saving: what is written reads back as the same task."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plugformer.configuration import Task, dump, resolve
from plugformer.configuration.resolving import check_components
from plugformer.registry import Registry
from plugformer.yaml_reader import read_mapping


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["training.gradient_clipping=null", "evaluation.limit=null", "model.final_norm=false"],
        ["tokenizer.shared=false"],
        ["tokenizer={source: characters, target: {name: characters, min_frequency: 2}}"],
        ["model.encoder.per_layer.1.norm=rms_norm", "model.decoder.cross_attention.position=rope"],
        ["data.columns={a: ['1e-4', 'no', '0o7', '', 'null', '12']}", "description='2024-01-01'"],
        ["training.steps=5", "training.batch_size=2", "data.split={test: 0.1}", "data.padding=4"],
        ["evaluation.metrics=[accuracy, exact_match]", "training.monitor=accuracy"],
        ["evaluation.metrics=[bleu, {name: bleu, lowercase: true, as: lower}]", "training.monitor=lower"],
    ],
)
def test_a_task_reads_back_equal(write, base, registry: Registry, overrides: list[str]) -> None:
    resolved = resolve("base.yaml", overrides, registry)
    complete = check_components(resolved)
    for task in (resolved.task, complete.task):
        write("saved.yaml", dump(task))
        assert resolve("saved.yaml", registry=registry).task == task
    assert check_components(resolve("saved.yaml", registry=registry)).task == complete.task


def test_a_run_keeps_the_defaults_that_it_was_trained_with(base, registry: Registry) -> None:
    text = dump(check_components(resolve("base.yaml", [], registry)).task)
    assert "scaled: true\n" in text
    assert "schedule:\n    name: warmup_cosine\n    warmup_steps: 0.1\n    final: 0.0\n" in text


SMALL = {
    "type": "classification",
    "data": {"name": "files"},
    "tokenizer": "words",
    "model": {"architecture": "encoder-only", "head": "classifier"},
}
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"))
)


@settings(max_examples=200, deadline=None)
@example("\x85")
@given(
    SCALARS
    | st.lists(SCALARS, max_size=3)
    | st.dictionaries(st.text("ab1- ", min_size=1), SCALARS, max_size=3)
)
def test_any_option_reads_back_as_itself(value: object) -> None:
    task = Task.model_validate({**SMALL, "data": {"name": "files", "option": value}}, strict=False)
    assert _option(dump(task)) == value


def _option(text: str) -> object:
    return read_mapping(text.encode(), "saved.yaml", Path()).get(("data", "option"))
