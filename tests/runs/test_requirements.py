"""A run whose components are not installed says which, and of which distribution, where they are needed."""

import json
from dataclasses import replace

import pytest

from plugformer.errors import ConfigurationError, RegistryError, RunError
from plugformer.registry import Registry
from plugformer.registry.discovery import discover_built_in
from plugformer.registry.manifest import parse
from plugformer.runs.directory import RunDirectory
from plugformer.runs.loading import load
from plugformer.runs.lockfile import task_hashes
from plugformer.training.train import resume

PLUGIN = {"distribution": "plugformer-differential", "version": "0.1.0", "source": "0" * 64}


@pytest.fixture
def lost(run_copy):
    """Makes a run one of whose components is not installed, with a lock that says whose it is."""

    def make(name="differential", replaced="attention/mha", **record):
        task, lock = run_copy / "task.yaml", run_copy / "lock.json"
        kind, _, built_in = replaced.partition("/")
        text = task.read_text()
        assert f"name: {built_in}" in text
        task.write_text(text.replace(f"name: {built_in}", f"name: {name}"))
        locked = json.loads(lock.read_text())
        del locked["components"][replaced]
        locked["components"][f"{kind}/{name}"] = {**PLUGIN, **record}
        locked["task"] = task_hashes(RunDirectory(run_copy))
        lock.write_text(json.dumps(locked))
        return run_copy

    return make


@pytest.mark.parametrize("use", [load, resume])
def test_the_locked_distribution_is_named(lost, use):
    run = lost()
    with pytest.raises(RunError) as caught:
        use(run)
    place, component, advice = str(caught.value).splitlines()
    assert str(run) in place
    assert component == "  attention/differential of plugformer-differential 0.1.0"
    assert "--registry FILE" in advice


def test_a_local_manifest_is_asked_for(lost):
    with pytest.raises(RunError, match=r"of local\n.*local manifest with --registry FILE"):
        load(lost(distribution="local", version=""))


@pytest.mark.parametrize("needless", ["optimizer/muon", "data/dates"])
def test_what_answers_needs_nothing_else(lost, trained, needless):
    texts = ["May 1, 2001", "1/2/99"]
    assert load(lost("missing", needless)).predict(texts) == load(trained.directory).predict(texts)


@pytest.mark.parametrize("needed", ["metric/exact_match", "data/dates"])
def test_what_measures_is_missed_when_it_is_needed(lost, needed):
    with pytest.raises(RunError, match=f"{needed.split('/')[0]}/missing of plugformer-differential 0.1.0"):
        load(lost("missing", needed)).evaluate()


def offering(target, distribution):
    """Returns a plugin that offers `attention/differential`."""
    manifest = f"components: {{attention: {{differential: {{class: '{target}'}}}}}}".encode()
    return replace(parse(manifest, "registry.yaml"), distribution=distribution, version="0.1.0")


MHA = "plugformer_plugins.attention.grouped:MultiHeadAttention"
OTHER = "plugformer_plugins.attention.grouped:GroupedQueryAttention"


def test_of_a_name_that_two_offer_a_run_means_that_of_its_lockfile(lost, trained):
    plugins = [discover_built_in(), offering(OTHER, "plug-a"), offering(MHA, "Plugformer_Differential")]
    found = load(lost(), Registry(plugins))
    assert found.predict("May 1, 2001") == load(trained.directory).predict("May 1, 2001")
    mine = found.registry.find("attention", "differential")
    assert mine.distribution == "Plugformer_Differential"
    with pytest.raises(RegistryError, match=r"offered by Plugformer_Differential .* and plug-a"):
        Registry(plugins).find("attention", "differential")


def test_a_name_that_two_others_offer_is_refused_and_both_are_named(lost):
    """`PLUGFORMER_PLUGINS` leaves one of them out."""
    plugins = [discover_built_in(), offering(OTHER, "plug-a"), offering(MHA, "plug-b")]
    with pytest.raises(ConfigurationError, match=r"offered by plug-a .* and plug-b"):
        load(run := lost(distribution="local", version=""), Registry(plugins))
    assert load(run, Registry(plugins[::2])).predict("May 1, 2001")


def test_what_was_local_may_be_installed_by_now(lost, trained):
    run = lost(distribution="local", version="")
    found = load(run, Registry([discover_built_in(), offering(MHA, "plug-a")]))
    assert found.predict("May 1, 2001") == load(trained.directory).predict("May 1, 2001")
