"""Every arm as a task: mistakes of all arms together, before anything runs."""

import pytest
from tests.ablation.studies import declared

from plugformer.errors import ConfigurationError
from plugformer_ablation.design.arms import resolve_arms


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


def test_the_primary_metric_is_one_of_the_tasks(registry):
    message = r"--metric exact_mtch  metric: .*'exact_mtch' \(did you mean 'exact_match'\?\)"
    with pytest.raises(ConfigurationError, match=message):
        resolve_arms(declared(metric="exact_mtch"), registry)
    with pytest.raises(ConfigurationError, match="the task has no metric"):
        resolve_arms(declared(settings=["evaluation.metrics=[]"]), registry)
    study = declared()
    assert resolve_arms(study, registry)[0].metric == "exact_match"


@pytest.mark.parametrize(
    ("wanted", "advice"), [("bleu", "`evaluation.metrics`"), ("loss", "validation loss is always reported")]
)
def test_a_metric_that_the_task_lacks_comes_with_what_to_do(wanted, advice, registry):
    with pytest.raises(ConfigurationError, match=rf"--metric {wanted}  metric: .*{wanted!r}(?s:.)*{advice}"):
        resolve_arms(declared(metric=wanted), registry)
