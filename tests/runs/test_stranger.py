"""A run from a stranger: nothing in it decides what is imported."""

import pytest

from plugformer.configuration import resolve
from plugformer.errors import RunError
from plugformer.registry import Registry
from plugformer.runs.loading import load
from plugformer.training.train import resume, train

EVIL = "raise SystemExit('imported')"


def plant(run, line):
    """Makes a run name a module of its own."""
    (run / "evil_of_run_tests.py").write_text(EVIL)
    (run / "evil.yaml").write_text("components: {attention: {mha2: {class: 'evil_of_run_tests:Evil'}}}")
    task = run / "task.yaml"
    task.write_text(f"{line}\n{task.read_text()}".replace("name: mha", "name: mha2"))


def retrain(run):
    train(str(run / "task.yaml"), out=run.parent / "again", notify=str)


def extend(run):
    (run.parent / "mine.yaml").write_text(f"extends: ./{run.name}/task.yaml\n")
    resolve(str(run.parent / "mine.yaml"))


@pytest.mark.parametrize("line", ["registry: evil.yaml", "extends: ./evil/task.yaml"])
@pytest.mark.parametrize("use", [load, resume, retrain, extend])
def test_a_run_cannot_name_a_manifest_or_another_task(run_copy, line, use) -> None:
    plant(run_copy, line)
    key = line.partition(":")[0]
    with pytest.raises(RunError, match=rf"task\.yaml:1:1  {key}: the file is part of a run"):
        use(run_copy)


def test_a_run_with_local_components_needs_their_manifest_again(tmp_path) -> None:
    (tmp_path / "copied_of_run_tests.py").write_text(
        "from plugformer_plugins.feed_forward.networks import ReLU\nclass Copied(ReLU): pass\n"
    )
    manifest = tmp_path / "registry.yaml"
    manifest.write_text("components: {feed_forward: {copied: {class: 'copied_of_run_tests:Copied'}}}")
    (tmp_path / "task.yaml").write_text(
        "extends: copying\nregistry: registry.yaml\n"
        "data: {name: copying, size: 40, held_out: 5}\n"
        "model: {width: 16, heads: 2, ffn_width: 16, layers: 1, feed_forward: copied}\n"
        "training: {steps: 1}\n"
    )
    run = train(str(tmp_path / "task.yaml"), out=tmp_path / "run", notify=str).report.run
    with pytest.raises(RunError, match=r"feed_forward/copied of local(.|\n)*--registry FILE"):
        load(run)
    assert load(run, Registry.discover(manifest)).predict(["1 2"])
