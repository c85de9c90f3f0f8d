"""Every arm as a task: mistakes of all arms together, before anything runs."""

import re

import pytest
from tests.ablation.studies import declared

from plugformer.errors import ConfigurationError, RegistryError
from plugformer_ablation.design.arms import resolve_arms


def test_every_arm_has_its_parts_and_the_common_settings(registry):
    variants = resolve_arms(declared(), registry)
    assert [each.resolved.task.model.attention.name for each in variants] == ["mha", "gqa"]
    assert [each.resolved.task.model.attention.options["kv_heads"] for each in variants[1:]] == [1]
    assert {each.resolved.task.training.steps for each in variants} == {6}


def test_a_path_inside_a_component_changes_that_option(registry):
    study = declared("model.attention.kv_heads=[1, 2]", settings=["model.attention=gqa"])
    variants = resolve_arms(study, registry)
    assert [each.resolved.task.model.attention.options["kv_heads"] for each in variants] == [1, 2]


@pytest.mark.parametrize(
    ("swaps", "message"),
    [
        (
            ["model.attention=[mha, gqq]"],
            r"unknown attention 'gqq' \(did you mean 'gqa'\?\)(?s:.)*in the arm",
        ),
        (["model.atention=[mha, gqa]"], r"unknown key 'atention' \(did you mean 'attention'\?\)"),
        (["model.attention=[mha, {name: gqa, kv_heads: 3}]"], r"kv_heads"),
        (["model.width=[16, 17]"], r"17"),
        (["model.embeddings=[{shared: true}, {tied: true, shared: 3}]"], r"embeddings\.shared"),
        (
            ["model.attention=[mha, {name: mha}]"],
            r"the arms 'baseline' and .* are the same task",
        ),
    ],
)
def test_an_arm_that_cannot_be_is_refused(swaps, message, registry):
    with pytest.raises(ConfigurationError, match=message):
        resolve_arms(declared(*swaps), registry)


def test_mistakes_of_all_arms_are_told_together_and_once(registry):
    study = declared("model.attention=[mha, gqq, mqq]", "model.postion=[learned, rope]")
    with pytest.raises(ConfigurationError) as error:
        resolve_arms(study, registry)
    message = str(error.value)
    assert message.count("unknown key 'postion'") == 1
    assert "'gqq'" in message
    assert "'mqq'" in message


def test_an_impossible_combination_of_a_grid_names_its_arm(registry):
    study = declared("model.width=[16, 24]", "model.heads=[2, 16]", design="grid")
    with pytest.raises(ConfigurationError, match=r"in the arm 'width=24, heads=16'"):
        resolve_arms(study, registry)


def test_an_unknown_task_is_told(registry):
    from plugformer_ablation.design.reading import read_study

    study = read_study("dtes", swaps=["model.attention=[mha, gqa]"])
    with pytest.raises(RegistryError, match=r"unknown task 'dtes' \(did you mean 'dates'\?\)"):
        resolve_arms(study, registry)


def test_the_primary_metric_is_one_of_the_tasks(registry):
    message = r"--metric exact_mtch  metric: .*'exact_mtch' \(did you mean 'exact_match'\?\)"
    with pytest.raises(ConfigurationError, match=message):
        resolve_arms(declared(metric="exact_mtch"), registry)
    with pytest.raises(ConfigurationError, match="the task has no metric"):
        resolve_arms(declared(settings=["evaluation.metrics=[]"]), registry)
    study = declared()
    assert resolve_arms(study, registry)[0].metric == "exact_match"


@pytest.mark.parametrize("wanted", ["bleu", "loss", "accurcy", "pearson"])
def test_what_an_error_proposes_for_the_primary_metric_is_accepted(wanted, registry):
    with pytest.raises(ConfigurationError, match=rf"--metric {wanted}  metric: .*{wanted!r}") as error:
        resolve_arms(declared(metric=wanted), registry)
    proposed = re.findall(r"`evaluation\.metrics: (\[.*\])`", str(error.value))
    assert proposed == (["[..., bleu]"] if wanted == "bleu" else [])
    assert ("validation loss is always reported" in str(error.value)) is (wanted == "loss")
    assert "pearson," not in str(error.value), "it does not measure texts"
    for metrics in proposed:
        added = f"evaluation.metrics={metrics.replace('...', 'exact_match')}"
        study = declared(metric=wanted, settings=[added])
        assert resolve_arms(study, registry)[0].metric == wanted
