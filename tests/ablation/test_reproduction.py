"""A study trained again from its report: the same scores, and clear words where that cannot be."""

import json
import re
import shutil

import pytest
import torch
from rich.console import Console
from tests.ablation.studies import Inline, declared, run

from plugformer.errors import ConfigurationError, DataError, RunError
from plugformer.registry import Registry
from plugformer_ablation.judging.findings import find
from plugformer_ablation.reporting.report import StudyReport
from plugformer_ablation.running.reproduction import reproduce, reproduction_text

GQA = "attention=gqa(kv_heads=1)"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The folder of a study whose learning rates are tuned, with its report alone."""
    out = tmp_path_factory.mktemp("studies") / "s"
    tuned = declared(tune=["training.optimizer.lr=[0.001, 0.02]"], seeds=2, tuning={"extend": 0})
    results, _ = run(tuned, out, Registry.discover())
    StudyReport(find(results)).write(out, lambda _: None)
    shutil.rmtree(out / "cells")
    return out


def again(study, tmp_path, *, said=None, executor=None, **chosen):
    console = Console(quiet=said is None, file=said, width=200)
    return reproduce(study, tmp_path / "again", Registry.discover(), executor or Inline(), console, **chosen)


def changed(study, tmp_path, change):
    """Returns the folder of a report that a function has changed."""
    folder = shutil.copytree(study, tmp_path / "changed")
    record = json.loads((folder / "report.json").read_text())
    change(record)
    (folder / "report.json").write_text(json.dumps(record))
    return folder


def test_the_same_scores_come_again_without_tuning(study, tmp_path):
    executor = Inline()
    record = again(study, tmp_path, executor=executor)
    begun = [re.sub(r", training.optimizer.lr=[\d.]+", "", each) for each in executor.begun]
    assert sorted(begun) == sorted(f"{arm}, seed {seed}" for arm in ("baseline", GQA) for seed in (1, 2))
    assert [cell["same"] for cell in record["cells"]] == [True] * 4
    assert record["differs"] == []
    assert [verdict["stands"] for verdict in record["verdicts"]] == [True]
    assert json.loads((tmp_path / "again/reproduction.json").read_text()) == record
    assert reproduction_text(record).count("bit by bit as recorded") == 4
    assert "the others as recorded" not in reproduction_text(record)


def test_what_differs_is_said_first_and_a_fallen_verdict_is_told(study, tmp_path, capsys):
    def other(record):
        record["made_of"]["versions"]["torch"] = "1.0"
        record["made_of"]["data"]["test"] = "0" * 64
        record["comparisons"][0]["verdict"] = "better"
        record["cells"][0]["loss"] += 0.5

    record = again(changed(study, tmp_path, other), tmp_path, arms=["baseline"], seeds=[1])
    assert [line.split(":")[0] for line in record["differs"]] == ["versions.torch", "data.test"]
    assert [cell["same"] for cell in record["cells"]] == [False]
    assert not record["verdicts"][0]["stands"]
    assert "better: does not stand, it is not distinguishable" in reproduction_text(record)


def test_trainings_have_the_threads_that_they_had(study, tmp_path):
    """Sums are rounded by them: with others scores are not bit by bit the same."""
    cells = json.loads((study / "report.json").read_text())["cells"]
    assert [cell["threads"] for cell in cells] == [torch.get_num_threads()] * 4
    three = changed(study, tmp_path, lambda record: [cell.update(threads=3) for cell in record["cells"]])
    executor = Inline()
    assert again(three, tmp_path, executor=executor, seeds=[1])["differs"] == []
    assert executor.threads == 3


def _without_threads(record):
    record["cells"][0].pop("threads")


def test_threads_that_are_not_known_are_told(study, tmp_path):
    executor = Inline()
    record = again(changed(study, tmp_path, _without_threads), tmp_path, executor=executor, seeds=[1])
    (line,) = record["differs"]
    assert f"{executor.threads} for unknown and {torch.get_num_threads()}" in line


def _forget_manifest(record):
    record["arms"][1]["task"]["model"]["attention"] = {"name": "gone"}
    record["study"]["registry"] = ["../gone/registry.yaml"]


def _forget_data(record):
    record["arms"][0]["task"]["data"] = {"name": "table", "files": {"train": "/nowhere/rows.csv"}}


def _from_session(record):
    record["made_of"]["components"]["attention/mine"] = {"distribution": "session"}


def _from_memory(record):
    record["arms"][0]["task"]["data"] = {"name": "memory"}


def _bring_code(record):
    record["arms"][0]["task"]["registry"] = ["code.yaml"]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            _forget_manifest,
            ConfigurationError,
            r"attention 'gone'(?s:.)*the arm 'attention=gqa(?s:.)*--registry \(\.\./gone/registry\.yaml",
        ),
        (_forget_data, (ConfigurationError, DataError), r"/nowhere/rows\.csv(?s:.)*in the arm 'baseline'"),
        (_from_session, RunError, r"attention/mine were of a Python session"),
        (_bring_code, RunError, r"report\.json was changed: an arm's task names a manifest"),
        (_from_memory, RunError, r"rows in memory were of a Python session"),
    ],
)
def test_what_cannot_be_reproduced_is_refused(study, tmp_path, change, error, message):
    executor = Inline()
    with pytest.raises(error, match=message):
        again(changed(study, tmp_path, change), tmp_path, executor=executor)
    assert executor.begun == []


def test_arms_that_are_not_there_and_the_folder_of_the_report_are_refused(study, tmp_path):
    with pytest.raises(ConfigurationError, match=r"--arms basline .*did you mean 'baseline'"):
        again(study, tmp_path, arms=["basline"])
    with pytest.raises(ConfigurationError, match=r"--seeds 3 (?s:.)*known: 1, 2"):
        again(study, tmp_path, seeds=[3])
    with pytest.raises(RunError, match="another --out"):
        reproduce(study, study, Registry.discover(), Inline(), Console(quiet=True))
