"""The script for Slurm in the documentation, under a stub of Slurm."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.ablation.studies import SETTINGS

from plugformer_ablation.running.status import study_status

PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"
SBATCH = """
export SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=$1
touch queue
bash worker.sh & job=$!
until ls -d study/cells/*/checkpoints/step-* 2>/dev/null; do sleep 0.2; done
kill -USR1 $job; wait $job
until [ ! -s queue ]; do sed -i 1d queue; bash worker.sh || exit; done
"""
"""Starts a job, tells it once that its time is over, and then starts what has been queued again."""


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="a script for Bash")
def test_a_job_whose_time_is_over_is_queued_again_and_ends_the_study(tmp_path):
    script = re.search(r'^```bash title="worker.sh"\n(.*?)^```$', PAGE.read_text(), re.MULTILINE | re.DOTALL)[
        1
    ]
    (tmp_path / "worker.sh").write_text(script.replace("/shared/studies/mine", "study"))
    changed = {"training.steps": "400", "training.evaluate_every": "20"}
    settings = dict(each.split("=") for each in SETTINGS) | changed
    given = "\n".join(f"  {key}: {value}" for key, value in settings.items())
    arms = "arms: {mha: {}, mqa: {model.attention: mqa}}\nseeds: 1\n"
    (tmp_path / "study.yaml").write_text(f"task: dates\nset:\n{given}\n{arms}")
    for name, text in {"sbatch": SBATCH, "scontrol": 'echo "$*" | tee -a queue queued'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [tmp_path / "sbatch", "3"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "queued").read_text() == "requeue 7_3\n"
    status = study_status(tmp_path / "study")
    assert (status["planned"], status["done"]) == (2, 2)
    (interrupted,) = [
        log for log in tmp_path.glob("study/cells/*.log") if "Checkpoint saved" in log.read_text()
    ]
    steps = [
        line
        for line in (interrupted.with_suffix("") / "metrics.jsonl").read_text().splitlines()
        if "validation" in line
    ]
    assert len(steps) == 20, "it went on where it was"
