import json
import re
import shutil
from pathlib import Path

import pytest
from tests.ablation.studies import SETTINGS, Inline

from plugformer_ablation.command import UNDECIDED
from plugformer_ablation.reproduce import REFUTED


@pytest.fixture
def inline(monkeypatch):
    """Cells run in this process; it returns what they are to do."""

    def use(**options):
        monkeypatch.setattr("plugformer_ablation.command._executor", lambda *_: Inline(**options))

    monkeypatch.setenv("PLUGFORMER_PLUGINS", "plugformer")
    return use


def ablate(run, *arguments):
    given = {argument.partition("=")[0] for argument in arguments}
    settings = [setting for setting in SETTINGS if setting.partition("=")[0] not in given]
    chosen = [word for setting in settings for word in ("--set", setting)]
    swap = ("--swap", "model.attention=[mha, {name: gqa, kv_heads: 1}]")
    return run("ablate", "dates", *swap, "--seeds", "1", "--no-costs", *chosen, *arguments)


def test_a_study_is_reported_and_lies_where_its_name_says(run, inline, tmp_path):
    inline()
    outcome = ablate(run)
    assert outcome.status == UNDECIDED, outcome.err
    assert "attention=gqa(kv_heads=1)" in outcome.out
    assert outcome.out.splitlines()[-1] == "studies/dates-attention/report.html"
    assert (tmp_path / "studies/dates-attention/report.json").exists()
    assert "[2/2] attention=gqa(kv_heads=1), seed 1: done" in outcome.err


def test_the_folder_of_a_finished_study_gets_its_report_again(run, inline, tmp_path):
    inline()
    first = ablate(run, "--out", "s")
    shutil.rmtree(tmp_path / "s/cells")
    (tmp_path / "s/report.html").unlink()
    inline(break_in=["baseline, seed 1"])
    again = run("ablate", "s")
    assert again.status == first.status == UNDECIDED, again.err
    assert again.out == first.out
    assert (tmp_path / "s/report.html").exists()
    other = run("ablate", "s", "--out", "elsewhere", "--json")
    assert json.loads(other.out)["folder"] == "elsewhere"
    assert (tmp_path / "elsewhere/cells.npz").exists()
    refused = run("ablate", "s", "--seeds", "3")
    assert refused.status == 2
    assert "s is the folder of a finished study" in refused.err


def test_more_seeds_after_a_verdict_are_another_look(run, inline):
    inline()
    counts = []
    for seeds in ("2", "2", "3"):
        outcome = ablate(run, "--out", "s", "--seeds", seeds, "--json")
        counts.append([len(look["seeds"]) for look in json.loads(outcome.out)["looks"]])
    assert counts == [[2], [2], [2, 3]]
    assert "2 looks at this study (2, 3 seeds)" in run("ablate", "s").out


def test_a_folder_keeps_the_results_of_another_study(run, inline, tmp_path):
    inline(break_in=["baseline, seed 1", "attention=gqa(kv_heads=1), seed 1", "norm=rms_norm, seed 1"])
    ablate(run, "--out", "s")
    before = (tmp_path / "s/report.json").read_bytes()
    other = run(
        "ablate", "dates", "--swap", "model.norm=[layer_norm, rms_norm]", "--seeds", "1", "--out", "s"
    )
    assert other.status == 2
    assert "s has the results of another study, 'dates: attention': give another --out" in other.err
    assert (tmp_path / "s/report.json").read_bytes() == before


def test_each_gpu_has_a_worker_unless_told_otherwise(monkeypatch):
    from plugformer_ablation.command import _executor
    from plugformer_ablation.running import executors

    monkeypatch.setattr(executors, "available_cores", lambda: 8)
    for gpus, workers, expected in (([], None, (8, 1)), (["4", "6"], None, (2, 4)), (["0"], 2, (2, 4))):
        monkeypatch.setattr(executors, "visible_gpus", lambda gpus=gpus: gpus)
        executor = _executor("local", workers)
        assert (executor.workers, executor.threads, executor.gpus) == (*expected, gpus)


def test_a_failed_training_shows_in_the_exit_status(run, inline):
    inline(break_in=["baseline, seed 1"])
    outcome = ablate(run, "--out", "elsewhere")
    assert outcome.status == 1
    assert "failed: it broke" in outcome.err


@pytest.mark.parametrize(("study", "status"), [("gelu", 0), ("norm", UNDECIDED)])
def test_the_exit_status_says_whether_every_comparison_is_decided(run, study, status):
    """One found a difference, the other one did not."""
    folder = Path(__file__).parents[2] / "docs/studies" / study
    assert run("ablate", str(folder), "--out", "s").status == status


def test_an_interrupted_study_says_how_to_go_on(run, inline):
    inline(stop_after=1)
    outcome = ablate(run)
    assert outcome.status == 130
    assert "1 of 2 cells are done" in outcome.err
    assert "run the same command again" in outcome.err


def test_mistakes_end_before_anything_is_run(run, tmp_path):
    outcome = run("ablate", "dates", "--swap", "model.attention=[mha, gqq]", "--seeds", "1")
    assert outcome.status == 2
    assert "unknown attention 'gqq' (did you mean 'gqa'?)" in outcome.err
    assert not (tmp_path / "studies").exists()


def test_a_dry_run_lists_the_arms_and_makes_nothing(run, tmp_path):
    tuned = ("--seeds", "3", "--tune", "training.optimizer.lr=[0.001, 0.002, 0.004]", "--workers", "2")
    outcome = ablate(run, *tuned, "--dry-run")
    assert outcome.status == 0, outcome.err
    lines = outcome.out.splitlines()
    number = r"[\d,.]+"
    expected = [
        r"dates: attention: 6 trainings, of 2 arms with 3 seeds each",
        r"and at least 12 more, by which settings are chosen",
        rf"  baseline: {number} parameters",
        rf"  attention=gqa\(kv_heads=1\): {number} parameters",
        rf"about {number} \w+ of updates, {number} \w+ with 2 at a time: .* took {number} ms, .*",
        rf"about {number} MB of disk .*",
    ]
    assert [line for line, form in zip(lines, expected, strict=True) if not re.fullmatch(form, line)] == []
    assert not (tmp_path / "studies").exists()


def test_the_plan_of_a_dry_run_counts_trainings_time_and_disk(run):
    steps = ("--swap", "training.steps=[6, 18]", "--set", "training.keep_checkpoints=3")
    plan = json.loads(ablate(run, *steps, "--dry-run", "--json").out)
    baseline, gqa, long = plan["arms"]  # every arm but the last has 6 updates
    assert [arm["name"] for arm in plan["arms"]] == ["baseline", "attention=gqa(kv_heads=1)", "steps=18"]
    assert baseline["values"] == {"attention": "mha", "steps": "6"}
    assert gqa["parameters"] < baseline["parameters"] == long["parameters"]
    assert (plan["seeds"], plan["trainings"], plan["tuning_trainings"]) == ([1], 3, 0)
    running = plan["workers"] * (4 + 3 * 12) * long["parameters"]
    assert plan["bytes"] == running + 4 * sum(arm["parameters"] for arm in plan["arms"]), "weights alone stay"
    assert 6 + 18 < plan["seconds"] / plan["update_seconds"] < 6 + 6 + 18, "gqa has fewer operations"


def test_noise_is_measured_once_and_told_by_plans_from_then_on(run, inline):
    inline()
    study = ("--out", "s", "--set", "evaluation.metrics=[perplexity]")
    measured = ablate(run, *study, "--noise")
    assert measured.status == 0, measured.err
    first, *found, _ = measured.out.splitlines()
    assert re.fullmatch(
        r"noise of baseline: .* differ by [\d.e-]+ in perplexity \(.* in 5 pairs; .*\)", first
    )
    assert [line.split()[0] for line in found] == ["3", "5", "8", "12"]
    assert measured.out.strip() in ablate(run, *study, "--dry-run").out
    other = ablate(run, *study, "--set", "training.steps=7", "--dry-run", "--json")
    assert json.loads(other.out)["noise"] == []


def test_a_dry_run_refuses_what_cannot_be_matched_and_shows_solved_widths(run):
    layers = ("--swap", "model.layers=[1, 8]", "--match", "parameters", "--dry-run")
    outcome = ablate(run, *layers)
    assert outcome.status == 2
    assert "'layers=8'" in outcome.err
    narrow = ablate(run, *layers[2:], "--set", "model.width=64")
    assert re.search(r"  attention=gqa\S+: \S+ parameters; feed-forward width \d+ for 32", narrow.out)


def test_the_exit_status_of_a_reproduction_says_whether_verdicts_stand(run, inline, tmp_path):
    inline()
    ablate(run, "--out", "s")
    again = run("reproduce", "s")
    assert again.status == 0, again.err
    assert again.out.splitlines()[-1].endswith(": no verdict: stands")
    assert (tmp_path / "reproductions/s/reproduction.json").exists()
    report = tmp_path / "s/report.json"
    report.write_text(report.read_text().replace('"verdict": "no verdict"', '"verdict": "better"'))
    assert run("reproduce", "s/report.json", "--json").status == REFUTED
    inline(break_in=["baseline, seed 1"])
    assert run("reproduce", "s", "--seeds", "1", "--out", "other").status == 1
    assert "give the folder of a finished study" in run("reproduce", "other").err
