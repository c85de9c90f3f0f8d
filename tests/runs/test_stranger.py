"""A run from a stranger: nothing in it decides what is imported."""

import pytest

from plugformer.errors import RunError
from plugformer.registry import Registry
from plugformer.runs.loading import load
from plugformer.training.train import resume, train

EVIL = "raise SystemExit('imported')"


@pytest.mark.parametrize("line", ["registry: evil.yaml", "extends: ./evil/task.yaml"])
@pytest.mark.parametrize("use", [load, resume])
def test_a_run_cannot_name_a_manifest_or_another_task(run_copy, line, use) -> None:
    (run_copy / "evil_of_run_tests.py").write_text(EVIL)
    (run_copy / "evil.yaml").write_text(
        "components: {attention: {mha2: {class: 'evil_of_run_tests:Evil', summary: S.}}}"
    )
    task = run_copy / "task.yaml"
    task.write_text(f"{line}\n{task.read_text()}".replace("name: mha", "name: mha2"))
    with pytest.raises(RunError, match=f"task.yaml has the key '{line.partition(':')[0]}'"):
        use(run_copy)


def test_a_run_with_local_components_needs_their_manifest_again(tmp_path) -> None:
    (tmp_path / "copied_of_run_tests.py").write_text(
        "from plugformer_plugins.feed_forward.relu import ReLU\nclass Copied(ReLU): pass\n"
    )
    manifest = tmp_path / "registry.yaml"
    manifest.write_text("components: {feed_forward: {copied: {class: 'copied_of_run_tests:Copied'}}}")
    (tmp_path / "task.yaml").write_text(
        "extends: copying\nregistry: registry.yaml\n"
        "data: {name: copying, size: 40, held_out: 5}\n"
        "model: {width: 16, heads: 2, ffn_width: 16, layers: 1, feed_forward: copied}\n"
        "training: {steps: 1}\n"
    )
    run = train(str(tmp_path / "task.yaml"), out=tmp_path / "run", notify=str).run
    with pytest.raises(RunError, match=r"feed_forward/copied of a local manifest(.|\n)*--registry FILE"):
        load(run)
    assert load(run, Registry.discover(manifest)).predict(["1 2"])
