"""Several tasks in a study: a verdict on each and one over all, and trainings that start from others."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from rich.console import Console
from tests.ablation.studies import SETTINGS, Inline, run, with_cells, written

from plugformer.errors import ConfigurationError
from plugformer.runs import RunDirectory, load_tensors
from plugformer_ablation.design.arms import resolve_arms
from plugformer_ablation.judging.comparison import ALPHA
from plugformer_ablation.judging.findings import find
from plugformer_ablation.judging.over_tasks import PERCENT
from plugformer_ablation.judging.results import StudyResults
from plugformer_ablation.reporting.report import StudyReport
from plugformer_ablation.reporting.sentences import explanation, overall_sentences
from plugformer_ablation.running.reproduction import reproduce
from plugformer_plugins.metric.accuracy import ExactMatch

SET = {key: yaml.safe_load(value) for key, value in (each.split("=", 1) for each in SETTINGS)}
ARMS = {"mha": {}, "mqa": {"model.attention": "mqa"}}


def study(registry, **keys):
    return written(registry, **{"arms": ARMS, "set": SET, "seeds": 2, **keys})


@pytest.fixture(scope="module")
def done(registry, tmp_path_factory):
    tasks = {
        "first": "dates",
        "second": {
            "task": "dates",
            "set": {"data.size": 80, "evaluation.metrics": ["perplexity", "exact_match"]},
            "from": {"task": "first", "parts": ["decoder", "embedding"]},
        },
        "third": {"task": "dates", "set": {"data.size": 70}, "metric": "exact_match"},
    }
    declared = study(registry, tasks=tasks, metrics=["exact_match"])
    out = tmp_path_factory.mktemp("tasks") / "study"
    results, begun = run(declared, out, registry)
    return declared, out, results, begun


def test_every_arm_is_trained_on_every_task(done, registry):
    declared, out, results, begun = done
    assert results.study["metric"] == {"first": "exact_match", "second": "perplexity", "third": "exact_match"}
    assert [(each["arm"], each["baseline"]) for each in find(results).comparisons] == [
        (f"{task}: mqa", f"{task}: mha") for task in ("first", "second", "third")
    ]
    assert {cell.failure for cell in results.cells} == {None}
    assert len(begun) == 12
    assert run(declared, out, registry)[1] == [], "nothing is trained again"


def test_a_report_of_several_tasks_is_written_and_read(done, registry, tmp_path):
    found = find(done[2])
    StudyReport(found).write(tmp_path, print)
    assert find(StudyResults.load(tmp_path, registry)).comparisons == found.comparisons
    assert set(found.comparisons[1]["further"]) == {"exact_match"}
    text = StudyReport(found).text(None)
    assert "second: perplexity on test, lower is better" in text
    assert "on second, mqa" in text


def test_each_seed_starts_from_its_own_training(done):
    results = done[2]
    folders = {(cell.arm, cell.seed): RunDirectory(Path(cell.directory)) for cell in results.cells}
    for (arm, seed), folder in folders.items():
        if arm.startswith("second"):
            start = folders[arm.replace("second", "first"), seed]
            (callback,) = yaml.safe_load(folder.task.read_text())["training"]["callbacks"]
            assert callback["run"] == str(start.path)
            (ours,), (theirs,) = (run.path.glob("tokenizer-*.json") for run in (folder, start))
            assert ours.read_text() == theirs.read_text()
            ours, theirs = load_tensors(folder.model), load_tensors(start.model)
            name = next(name for name in ours if name.startswith("decoder") and ours[name].dim() == 2)
            assert torch.dist(ours[name], theirs[name]) < 0.2 * ours[name].norm(), "six updates apart"


def test_weights_that_others_start_from_stay(registry):
    tasks = {"a": "dates", "b": {"task": "dates", "from": {"task": "a", "parts": ["encoder"]}}}
    kept = {
        arm.name: arm.keep for arm in resolve_arms(study(registry, tasks=tasks, keep="results"), registry)
    }
    assert kept == {"a: mha": "best", "a: mqa": "best", "b: mha": "results", "b: mqa": "results"}


def test_a_start_must_come_before(registry):
    tasks = {"a": {"task": "dates", "from": {"task": "b", "parts": ["encoder"]}}, "b": "dates"}
    with pytest.raises(ConfigurationError, match=r"tasks\.a\.from\.task: 'b' is no task before it"):
        study(registry, tasks=tasks)


def test_what_was_spent_counts_what_trials_start_from(registry, tmp_path):
    tasks = {"a": "dates", "b": {"task": "dates", "from": {"task": "a", "parts": ["encoder"]}}}
    tune = {"training.optimizer.lr": [0.001, 0.01]}
    declared = study(registry, tasks=tasks, seeds=1, tune=tune, tuning={"extend": 0, "seeds": 1})
    results, begun = run(declared, tmp_path / "s", registry)
    spent = find(results).record["spent"]
    numbers = [spent[key] for key in ("trainings", "trials", "preparation")]
    assert numbers == [4, 8, 2]
    assert sum(numbers) == len(begun)


@pytest.mark.parametrize("keys", [{"task": "dates", "tasks": {"a": "dates"}}, {}])
def test_a_study_has_a_task_or_several(keys, registry):
    with pytest.raises(ConfigurationError, match=r"task: (expected either|is missing)"):
        study(registry, **keys)


def test_a_further_metric_that_no_task_has_is_refused_at_its_place(registry):
    tasks = {"a": "dates", "b": {"task": "dates", "set": {"evaluation.metrics": ["perplexity"]}}}
    declared = study(registry, tasks=tasks, metrics=["perplexity", "exact_mach"])
    with pytest.raises(ConfigurationError, match=r"metrics\.1: .*'exact_mach'.*exact_match"):
        resolve_arms(declared, registry)


def test_a_ladder_derives_sizes_and_updates(registry):
    ladder = {"layers": [1, 2], "width_per_layer": 16, "head_width": 8, "tokens_per_parameter": 2}
    kept = {"data.size": 60, "training.schedule": "constant"}
    declared = study(
        registry, task="dates", ladder={**ladder, "batch_tokens": 64, "evaluations": 4}, set=kept
    )
    arms = resolve_arms(declared, registry)
    assert [arm.name for arm in arms[::2]] == ["1 layer: mha", "2 layers: mha"]
    for arm, layers in zip(arms[::2], (1, 2), strict=True):
        task, width = arm.resolved.task, 16 * layers
        assert (task.model.layers, task.model.width, task.model.heads) == (layers, width, 2 * layers)
        steps = -(-2 * 12 * layers * width**2 // 64)
        assert (task.training.steps, task.training.evaluate_every) == (steps, -(-steps // 4))
    with pytest.raises(ConfigurationError, match="ladder: expected either"):
        study(registry, task="dates", ladder=ladder, scales={"small": {}}, set=kept)
    with pytest.raises(ConfigurationError, match="evaluations needs tokens_per_parameter"):
        study(registry, task="dates", ladder={"layers": [1, 2], "evaluations": 4}, set=kept)
    with pytest.raises(ConfigurationError, match="a number stands twice"):
        study(registry, task="dates", ladder={"layers": [2, 2]}, set=kept)


def twice(made_up, first, second, metric=None, *, apart=True):
    """Returns a study of two tasks from two of one task."""
    both = [made_up(accuracies, seeds=6, examples=200) for accuracies in (first, second)]
    arms, cells, metrics = [], [], {}
    for name, results in zip("ab", both, strict=True):
        for arm in results.arms:
            baseline = arm["baseline"] and f"{name}: {arm['baseline']}"
            changes = {"name": f"{name}: {arm['name']}", "values": {"task": name, **arm["values"]}}
            changes["test_set"] = name if apart else "shared"
            arms.append({**arm, **changes, "baseline": baseline})
            metrics[f"{name}: {arm['name']}"] = {"exact_match": ExactMatch()}
        cells += [replace(cell, arm=f"{name}: {cell.arm}") for cell in results.cells]
    if metric is not None:
        for arm in arms[len(both[0].arms) :]:
            arm["metric"] = "errors"
            metrics[arm["name"]] = {"errors": metric}
        cells = [
            cell
            if cell.arm.startswith("a")
            else replace(
                cell,
                metrics={"errors": 1 - cell.metrics["exact_match"]},
                statistics={"errors": 1 - cell.statistics["exact_match"]},
            )
            for cell in cells
        ]
    tasks = {name: {"from": None} for name in "ab"}
    return replace(
        both[0],
        study={**both[0].study, "tasks": tasks},
        arms=tuple(arms),
        cells=tuple(cells),
        metrics=metrics,
    )


ERRORS = type("Errors", (ExactMatch,), {"higher_is_better": False})()


def leveled(results, score, *arms):
    """Returns results in which every training of some arms has one score."""

    def level(cell):
        if cell.arm not in arms:
            return {}
        statistics = {"exact_match": np.full_like(cell.statistics["exact_match"], score)}
        return {"metrics": {"exact_match": score}, "statistics": statistics}

    return with_cells(results, level)


def test_a_gain_on_one_task_is_local(made_up):
    found = find(twice(made_up, {"baseline": 0.6, "other": 0.9}, {"baseline": 0.9, "other": 0.6}))
    (overall,) = found.overall
    verdicts = [each["verdict"] for each in found.comparisons]
    assert verdicts == ["better", "worse"]
    mean = sum(each["difference"] for each in found.comparisons) / 2
    assert overall["difference"] == pytest.approx(mean)
    assert overall["verdict"] == "not distinguishable"
    assert (overall["better_on"], overall["worse_on"]) == (["a"], ["b"])
    assert overall["level"] == pytest.approx(1 - ALPHA / 3), "one family"
    (sentence,) = overall_sentences(found)
    assert "better on a alone: a local result" in sentence
    assert any("not the choice of tasks" in line for line in explanation(found))


def test_a_difference_over_all_tasks_has_decimals_as_one_of_them_has(made_up):
    scaled = with_cells(
        twice(made_up, {"baseline": 0.6, "other": 0.9}, {"baseline": 0.6, "other": 0.9}),
        lambda cell: {"metrics": {"exact_match": 100 * cell.metrics["exact_match"]}, "statistics": {}},
    )
    (sentence,) = overall_sentences(find(scaled))
    assert re.search(r"other is \d+\.\d\d better", sentence), sentence


def test_arms_that_score_the_same_on_all_tasks_are_not_called_worse(made_up):
    results = twice(made_up, *[{"baseline": 0.6, "other": 0.6}] * 2)
    scored = {(cell.arm, cell.seed): cell for cell in results.cells}
    cells = [
        replace(scored[cell.arm.replace("other", "baseline"), cell.seed], arm=cell.arm)
        for cell in results.cells
    ]
    (sentence,) = overall_sentences(find(replace(results, cells=tuple(cells))))
    assert sentence == "over 2 tasks, other scores the same as the baseline: no difference shown."


def test_different_metrics_are_compared_as_shares(made_up):
    results = twice(made_up, {"baseline": 0.6, "other": 0.9}, {"baseline": 0.6, "other": 0.9}, ERRORS)
    found = find(results)
    (overall,) = found.overall
    assert (overall["metric"], overall["verdict"]) == (PERCENT, "better")
    shares = [
        100 * each["difference"] / arm["score"]["mean"]
        for each, arm in zip(found.comparisons, found.record["arms"][::2], strict=True)
    ]
    assert overall["difference"] == pytest.approx((shares[0] - shares[1]) / 2)


def test_a_baseline_that_may_score_0_has_no_shares(made_up):
    results = twice(made_up, {"baseline": 0.6, "other": 0.9}, {"baseline": 0.6, "other": 0.9}, ERRORS)
    rarely = {"metrics": {"exact_match": 0.01}}, {"metrics": {"exact_match": 0.0}}
    first = results.arms[0]["name"]
    results = with_cells(results, lambda cell: rarely[cell.seed > 1] if cell.arm == first else {})
    assert find(results).overall[0]["difference"] is None
    assert "or one that may be 0" in overall_sentences(find(results))[0]


def test_two_seeds_far_from_0_have_shares(made_up):
    results = twice(made_up, {"baseline": 0.6, "other": 0.9}, {"baseline": 0.6, "other": 0.9}, ERRORS)
    study = {**results.study, "seeds": [1, 2], "looks": [2]}
    few = tuple(cell for cell in results.cells if cell.seed < 3)
    assert find(replace(results, study=study, cells=few)).overall[0]["difference"] is not None


@pytest.mark.parametrize(("apart", "tolerance"), [(True, 0.05), (False, 1e-9)])
def test_test_sets_are_drawn_independently_unless_tasks_share_one(made_up, apart, tolerance):
    """Examples of one test set vary together: the error over both tasks is that of one."""
    same = {"baseline": 0.6, "other": 0.9}
    found = find(twice(made_up, same, same, apart=apart))
    one, other = (each["standard_error"]["examples"] for each in found.comparisons)
    expected = (one**2 + other**2) ** 0.5 / 2 if apart else one
    assert found.overall[0]["standard_error"]["examples"] == pytest.approx(expected, rel=tolerance)


def test_an_arm_is_reproduced_with_what_it_starts_from(done, registry, tmp_path):
    (tmp_path / "s").mkdir()
    StudyReport(find(done[2])).write(tmp_path / "s", lambda _: None)
    record = reproduce(
        *(tmp_path / "s", tmp_path / "again", registry, Inline(), Console(quiet=True)),
        arms=["second: mqa"],
        seeds=[2],
    )
    assert [(cell["arm"], cell["seed"], cell["same"]) for cell in record["cells"]] == [
        ("first: mqa", 2, True),
        ("second: mqa", 2, True),
    ]
    assert [verdict["arm"] for verdict in record["verdicts"]][3:] == ["mqa"]
    assert all(verdict["stands"] for verdict in record["verdicts"])


def test_a_baseline_without_any_score_above_0_has_no_share(made_up):
    none, usual = {"baseline": 0.2, "other": 0.9}, {"baseline": 0.6, "other": 0.9}
    (overall,) = find(leveled(twice(made_up, none, usual, ERRORS), 0.0, "a: baseline")).overall
    assert overall["difference"] is None
    assert "there is no share of it" in overall["notes"][0]
    (overall,) = find(leveled(twice(made_up, none, usual), 0.0, "a: baseline")).overall
    assert overall["verdict"] == "better", "the mean of one metric needs no shares"


def test_a_task_at_its_ceiling_makes_no_arm_equivalent(made_up):
    results = twice(made_up, {"baseline": 0.90, "other": 0.88}, {"baseline": 0.9, "other": 0.9})
    results = leveled(results, 1.0, "b: baseline", "b: other")
    (overall,) = find(replace(results, study={**results.study, "smallest_effect": 0.2})).overall
    assert abs(overall["difference"]) < 0.05
    assert overall["verdict"] != "equivalent"


def test_a_task_at_its_ceiling_stays_there_for_a_look_whatever_later_seeds_say(made_up):
    results = twice(made_up, {"baseline": 0.9, "other": 0.9}, {"baseline": 0.9, "other": 0.9})
    level = leveled(results, 1.0, "b: baseline", "b: other")
    last = max(results.study["seeds"])
    cells = tuple(
        old if old.seed == last else new for old, new in zip(results.cells, level.cells, strict=True)
    )
    study = {**results.study, "smallest_effect": 0.3, "looks": [last - 1, last]}
    (overall,) = find(replace(results, cells=cells, study=study)).overall
    assert (overall["verdict"], overall["look"]) != ("equivalent", last - 1)
