"""Studies from end to end, their cells in this process."""

import io
import json
import re
import shutil
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from rich.console import Console
from tests.ablation.studies import Inline, declared, run

from plugformer.errors import ConfigurationError, InterruptedRunError, RunError
from plugformer.runs import RunDirectory
from plugformer_ablation.design.arms import resolve_arms
from plugformer_ablation.design.blocks import TUNING_SEED
from plugformer_ablation.design.matching import matched
from plugformer_ablation.judging.findings import find
from plugformer_ablation.judging.results import StudyResults
from plugformer_ablation.reporting.report import StudyReport
from plugformer_ablation.running import costs
from plugformer_ablation.running.running import run_study, study_lock
from plugformer_ablation.running.status import study_status
from plugformer_ablation.running.training import Message

GQA = "attention=gqa(kv_heads=1), seed"
ALL = ["baseline, seed 1", f"{GQA} 1", f"{GQA} 2", "baseline, seed 2"]


def started(seconds):
    """Returns a fake of the processes of arms, whose blocks take seconds."""

    @contextmanager
    def fake(arms, *_):
        yield lambda name: seconds(arms[name])

    return fake


@pytest.fixture
def said():
    return io.StringIO()


@pytest.fixture
def console(said):
    return Console(file=said, soft_wrap=True)


@pytest.fixture(scope="module")
def done(registry, tmp_path_factory):
    """A finished study, to be looked at and not to be changed."""
    out = tmp_path_factory.mktemp("studies") / "done"
    return out, *run(declared(keep="all"), out, registry)


@pytest.fixture
def copy(done, tmp_path):
    return shutil.copytree(done[0], tmp_path / "study")


def test_every_arm_is_trained_with_every_seed(done):
    _, results, begun = done
    assert begun == ALL
    assert [(cell.arm, cell.seed, cell.failure) for cell in results.cells] == [
        ("baseline", 1, None),
        ("baseline", 2, None),
        ("attention=gqa(kv_heads=1)", 1, None),
        ("attention=gqa(kv_heads=1)", 2, None),
    ]
    assert [arm["baseline"] for arm in results.arms] == [None, "baseline"]


def test_a_result_has_what_the_run_beside_it_says(done):
    _, results, _ = done
    for cell in results.cells:
        report = json.loads(Path(cell.directory, "evaluation.json").read_text())["test"]
        assert cell.metrics == {"exact_match": report["metrics"]["exact_match"]["value"]}
        statistics = cell.statistics["exact_match"]
        assert len(statistics) == report["examples"]
        assert results.metrics[cell.arm]["exact_match"].aggregate(statistics) == cell.metrics["exact_match"]
        assert [each["step"] for each in cell.curve] == [3, 6]
        assert cell.loss == min(each["loss"] for each in cell.curve)
        assert cell.seconds > 0 < cell.peak_memory_mb
        assert cell.tokens == RunDirectory(Path(cell.directory)).progress().tokens > 6 * 8
    for arm in results.arms:
        assert arm["cost"]["parameters"] > 1000 < arm["cost"]["flops"]


@pytest.mark.parametrize(
    ("file", "path"),
    [("cell.json", ["metrics"]), ("evaluation.json", ["test", "metrics", "exact_match"])],
)
def test_a_score_that_was_changed_in_a_file_is_refused(copy, registry, file, path):
    cell = next((copy / "cells").glob("attention*-seed-2-*/"))
    record = json.loads((cell / file).read_text())
    inner = record
    for key in path:
        inner = inner[key]
    inner["exact_match" if file == "cell.json" else "value"] = 0.99
    (cell / file).write_text(json.dumps(record))
    with pytest.raises(RunError, match=rf"{re.escape(str(cell / file))} .*exact_match 0\.99 .*seed 2"):
        run(declared(), copy, registry)


@pytest.mark.parametrize(
    ("keep", "weights", "checkpoints"), [("results", 0, 0), ("best", 1, 0), ("all", 1, 2)]
)
def test_what_stays_of_a_cell(registry, tmp_path, keep, weights, checkpoints):
    results, _ = run(declared(seeds=1, keep=keep), tmp_path, registry)
    for cell in results.cells:
        folder = Path(cell.directory)
        assert len(list(folder.glob("*.safetensors"))) == weights
        assert len(list(folder.glob("checkpoints/*"))) == checkpoints
    assert run(declared(seeds=1, keep=keep), tmp_path, registry)[1] == []


def test_more_seeds_add_cells(copy, registry, console, said):
    _, begun = run(declared(seeds=3), copy, registry, console)
    assert begun == ["baseline, seed 3", f"{GQA} 3"]
    assert "4 of 6 cells are finished already" in said.getvalue()


def test_a_changed_setting_runs_the_affected_cells_again(copy, registry):
    study = declared("model.attention=[mha, {name: gqa, kv_heads: 1, bias: false}]")
    changed = declared(settings=["training.log_every=3"])
    _, begun = run(study, copy, registry)
    assert begun == [f"attention=gqa(kv_heads=1, bias=false), seed {seed}" for seed in (1, 2)]
    _, begun = run(changed, copy, registry)
    assert begun == ALL


def test_changed_code_of_a_component_runs_its_arms_again_alone(copy, registry, monkeypatch):
    from plugformer.registry import source

    real = source.source_hash

    def changed(entry):
        return real(entry) + ("+" if entry.name == "gqa" else "")

    monkeypatch.setattr(source, "source_hash", changed)
    _, begun = run(declared(), copy, registry)
    assert begun == [f"{GQA} 1", f"{GQA} 2"]
    monkeypatch.undo()
    assert run(declared(), copy, registry)[1] == []  # what is as it was is found as it was


def test_a_stopped_study_goes_on(done, registry, tmp_path):
    with pytest.raises(InterruptedRunError, match=r"1 of 4 cells are done.*run the same command again"):
        run(declared(), tmp_path / "s", registry, stop_after=1)
    results, begun = run(declared(), tmp_path / "s", registry)
    assert begun == ALL[1:]
    assert [cell.loss for cell in results.cells] == [cell.loss for cell in done[1].cells]


def test_a_cell_that_was_interrupted_goes_on_from_its_checkpoint(done, copy, registry):
    cell = next((copy / "cells").glob("baseline-seed-1-*/"))
    (cell / "cell.json").unlink()
    newest = max((cell / "checkpoints").iterdir())
    shutil.rmtree(newest)
    before = (cell / "metrics.jsonl").read_text().splitlines()
    results, begun = run(declared(), copy, registry)
    assert begun == ALL[:1]
    assert (cell / "metrics.jsonl").read_text().splitlines()[:2] == before[
        :2
    ]  # times and all: not made again
    assert results.cells[0].loss == done[1].cells[0].loss


def test_a_failing_cell_is_reported_and_the_others_run(registry, console, said, tmp_path):
    results, begun = run(declared(), tmp_path / "s", registry, console, break_in=ALL[:1])
    assert begun == ALL
    assert [cell.failure for cell in results.cells] == ["it broke", None, None, None]
    assert "[1/4] baseline, seed 1: failed: it broke" in said.getvalue()
    results, begun = run(declared(), tmp_path / "s", registry, console)
    assert begun == ALL[:1]  # failed cells are tried again
    assert not any(cell.failure for cell in results.cells)


def test_tuning_gives_all_arms_the_same_trials_and_never_sees_the_test(registry, tmp_path):
    tune = ("training.optimizer.lr=[0.0001, 0.01]",)
    results, begun = run(declared(tune=tune, seeds=1, tuning={"seeds": 1}), tmp_path / "s", registry)
    assert begun[:4] == [
        "baseline, training.optimizer.lr=0.0001",
        "baseline, training.optimizer.lr=0.01",
        "attention=gqa(kv_heads=1), training.optimizer.lr=0.0001",
        "attention=gqa(kv_heads=1), training.optimizer.lr=0.01",
    ]
    assert begun[4] == "baseline, training.optimizer.lr=1.0", "beyond the end that it took"
    assert begun[-2:] == ALL[:2]
    chosen = [arm["tuned"]["training.optimizer.lr"] for arm in results.arms]
    assert chosen == [arm["task"]["training"]["optimizer"]["lr"] for arm in results.arms]
    assert len(results.trials) == len(begun) - 2
    assert find(results).record["trials"] == list(results.trials)
    trials = list((tmp_path / "s/cells").glob(f"*-seed-{TUNING_SEED}-*/evaluation.json"))
    assert len(trials) == len(results.trials)
    assert all(list(json.loads(trial.read_text())) == ["validation"] for trial in trials)


def test_seeds_that_choose_train_nothing_more_and_go_on_at_later_looks(registry, tmp_path):
    tune, looks = ("training.optimizer.lr=[0.0001, 0.02]",), {"looks": [2, 3]}
    study = declared(tune=tune, seeds=looks, tuning={"extend": 0})
    results, begun = run(study, tmp_path / "s", registry)
    assert len(begun) == len({*begun}) == 3 * 2 * 2
    assert {line.rpartition(", ")[2] for line in begun[:8]} == {"seed 1", "seed 2"}
    assert [(cell.arm, cell.seed) for cell in results.cells] == [
        (arm["name"], seed) for arm in results.arms for seed in (1, 2, 3)
    ]
    for cell in results.cells:
        same = f"{Path(cell.directory).name.partition(',')[0]},*-seed-{cell.seed}-*/evaluation.json"
        files = {file.parent.name: json.loads(file.read_text()) for file in tmp_path.glob(f"s/cells/{same}")}
        assert len(files) == 2
        scores = {name: each["validation"]["metrics"]["exact_match"]["value"] for name, each in files.items()}
        name = Path(cell.directory).name
        assert scores[name] == max(scores.values()) == cell.validation["exact_match"]
        assert cell.metrics["exact_match"] == files[name]["test"]["metrics"]["exact_match"]["value"]
        (choice,) = [
            each
            for arm in results.arms
            for each in arm["choices"]
            if arm["name"] == cell.arm and cell.seed in each["seeds"]
        ]
        assert choice["task"]["training"]["optimizer"]["lr"] == choice["tuned"]["training.optimizer.lr"]
    report = StudyReport(find(results))
    report.write(tmp_path / "s", print)
    assert report.findings.record["spent"]["trainings"] == 6 == report.findings.record["spent"]["trials"]
    assert "tuning chose training.optimizer.lr" in repr(report)
    assert "of 3 seeds)" in repr(report)
    assert (
        "Each arm chose training.optimizer.lr on validation, for each seed"
        in (tmp_path / "s/methods.txt").read_text()
    )
    loaded = StudyResults.load(tmp_path / "s", registry)
    assert [arm["choices"] for arm in loaded.arms] == [arm["choices"] for arm in results.arms]
    assert run(study, tmp_path / "s", registry)[1] == []
    assert study_status(tmp_path / "s")["planned"] == len(begun)


def test_equal_time_scales_the_updates_once(registry, console, said, tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "_started", started(lambda arm: 1.0 if arm.name == "baseline" else 1.9))
    study = declared(seeds=1, match="time")
    results, _ = run(study, tmp_path / "s", registry, console)
    assert [arm["task"]["training"]["steps"] for arm in results.arms] == [6, 3]
    assert [arm["task"]["training"]["evaluate_every"] for arm in results.arms] == [3, 2]
    assert "the machine that started the study: not bit-reproducible" in results.arms[1]["notes"][-1]
    monkeypatch.undo()
    assert run(study, tmp_path / "s", registry, console, costs=True)[1] == []
    assert results.arms[1]["cost"]["update"] is None
    again, _ = run(study, tmp_path / "s", registry, console, costs=True)
    assert again.arms[1]["cost"]["update"]["ratio"] == pytest.approx(1.9), "the same costs as before"


def test_learning_rates_that_tuning_tries_have_equal_numbers_of_updates(registry, tmp_path, monkeypatch):
    def seconds(arm):
        training = arm.resolved.task.training
        noise = training.optimizer.options["lr"]
        return (1 if arm.name == "baseline" else 2) * training.batch_size / 4 + noise

    monkeypatch.setattr(costs, "_started", started(seconds))
    tune = ("training.optimizer.lr=[0.3, 0.2]", "training.batch_size=[4, 8]")
    arms = resolve_arms(declared(seeds=1, match="time", tune=tune), registry)
    scaled = costs.with_equal_time(arms, tmp_path, 1, str)
    steps = [arm.resolved.task.training.steps for arm in scaled]
    # With batches of 4 and of 8: 1.3 and 2.3 seconds of the baseline, 2.3 and 4.3 of the other arm.
    assert steps == [6, 3, 6, 3, 3, 2, 3, 2]
    assert [bool(arm.notes) for arm in scaled] == [False, True, False, True, *[True] * 4]


def test_arms_that_are_measured_on_other_examples_are_refused(registry, tmp_path):
    with pytest.raises(ConfigurationError, match="other validation examples than the baseline"):
        run(declared("data.seed=[1, 2]"), tmp_path / "s", registry)


def test_an_unknown_split_is_refused(registry, tmp_path):
    with pytest.raises(ConfigurationError, match=r"unknown split 'tset' \(did you mean 'test'\?\)"):
        run(declared(split="tset"), tmp_path / "s", registry)


def test_tuning_on_the_split_that_decides_is_refused(registry, tmp_path):
    study = declared(split="validation", tune=("training.optimizer.lr=[0.0001, 0.01]",))
    with pytest.raises(ConfigurationError, match=r"--tune .*tune: .*validation, which also decides"):
        run(study, tmp_path / "s", registry)
    assert not list((tmp_path / "s").glob("cells/*"))


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ((), True),
        (("training.callbacks=[{name: average_checkpoints, of: best}]",), True),
        (("training.callbacks=[{name: average_checkpoints, checkpoints: 1}]",), False),
        (("training.evaluate_every=6",), False),
    ],
    ids=["best", "average of the best", "last", "only evaluation"],
)
def test_a_split_that_chooses_parameters_cannot_decide(registry, settings, refused):
    study = declared(split="validation", settings=settings)
    expected = pytest.raises(ConfigurationError, match=r"--split validation .*split: validation decides")
    with expected if refused else nullcontext():
        matched(resolve_arms(study, registry), study, lambda _: None)


def test_two_studies_cannot_run_in_one_folder(registry, tmp_path):
    with study_lock(tmp_path / "s"), pytest.raises(RunError, match="a study is running there"):
        run(declared(), tmp_path / "s", registry)


def test_a_training_that_diverges_counts_as_untrained(registry, tmp_path):
    swap = "training.optimizer.lr=[0.001, 1.0e+30]"
    study = declared(swap)
    results, begun = run(study, tmp_path / "s", registry)
    well, diverged = results.cells[:2], results.cells[2:]
    assert [cell.diverged for cell in well] == [None, None]
    assert all("Update" in cell.diverged for cell in diverged)
    assert all(cell.loss > 2 and cell.statistics["exact_match"].sum() == 0 for cell in diverged)
    (comparison,) = find(results).comparisons
    assert comparison["diverged_seeds"] == {"arm": [1, 2], "baseline": []}
    assert comparison["pairs"] == 2
    assert 0 < comparison["p_diverged"] < 0.5
    assert "diverged: the arm with seeds 1, 2 of 2" in repr(StudyReport(find(results)))
    _, begun = run(study, tmp_path / "s", registry)
    assert begun == [], "it would diverge again"


@pytest.mark.parametrize(("first", "diverged"), [("perplexity", True), ("token_accuracy", False)])
def test_a_training_that_ends_worse_than_untrained_has_diverged(registry, tmp_path, first, diverged):
    settings = [
        "training.gradient_clipping=null",
        "training.evaluate_every=6",  # once
        f"evaluation.metrics=[{first}]",
    ]
    study = declared("training.optimizer.lr=[0.001, 2.0]", settings=settings)
    results, _ = run(study, tmp_path / "s", registry)
    assert [bool(cell.diverged) for cell in results.cells] == [False, False, diverged, diverged]
    worse, better = results.cells[2], results.cells[0]
    assert better.loss < worse.loss <= worse.curve[0]["loss"]
    assert (worse.loss < worse.curve[0]["loss"]) is diverged


class Losing(Inline):
    """Loses the process of a cell, once or for ever."""

    def __init__(self, name, times):
        super().__init__()
        self.name, self.times = name, times

    def start(self, cell):
        if str(cell) == self.name and self.times:
            self.times -= 1
            self.begun.append(str(cell))
            self.running[cell.name] = cell, Message(failure="it was killed", lost=True)
        else:
            super().start(cell)


@pytest.mark.parametrize(("times", "failures"), [(1, 0), (2, 1)])
def test_a_lost_cell_is_trained_once_more(registry, tmp_path, console, said, times, failures):
    executor = Losing(f"{GQA} 1", times)
    results = run_study(declared(), tmp_path / "s", registry, executor, console)
    assert executor.begun.count(f"{GQA} 1") == 2
    assert len([cell for cell in results.cells if cell.failure]) == failures
    assert "1 lost cells are trained again" in said.getvalue()
