"""Components that take part in a training: what they may change, and that resuming them is exact."""

import json
import textwrap
from pathlib import Path

import pytest
import torch
from tests.training.interrupted import Interrupter, assert_same_end, assert_same_tensors, progress
from tests.training.processes import differences, ends, launched, train_command

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError, InterruptedRunError, RegistryError, RunError
from plugformer.faults import cause_of
from plugformer.hooks import hookimpl
from plugformer.runs.store import load_tensors
from plugformer.training.train import resume, train
from plugformer.validation import validate

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("r_drop", "token_dropout")


@pytest.fixture
def with_examples(registry):
    for name in NAMES:
        registry = registry.with_local(EXAMPLES / name / "registry.yaml")
    return registry


@pytest.fixture
def with_hook(registry, tmp_path):
    """Returns a registry with a component `sample`, whose methods are given as source code."""

    def make(source, state=""):
        number = len(list(tmp_path.glob("sample*.py")))
        module = tmp_path / f"sample_{tmp_path.name.replace('-', '_')}_{number}.py"
        body = textwrap.indent(textwrap.dedent(source), "    ")
        imports = (
            "import torch\nfrom torch.nn import functional\nfrom plugformer.hooks import hookimpl\n"
            "from plugformer.interfaces import Callback\n\n\n"
        )
        module.write_text(f"{imports}class Sample(Callback):\n{body}\n")
        manifest = tmp_path / f"registry{number}.yaml"
        manifest.write_text(f"components: {{callback: {{sample: '{module.stem}:Sample'}}}}\n")
        return registry.with_local(manifest)

    return make


@pytest.fixture
def train_with(short_settings, tmp_path):
    def run(registry, name, hooks, *overrides, **options):
        settings = short_settings(f"training.callbacks={hooks}", *overrides)
        train("dates", overrides=settings, out=tmp_path / name, registry=registry, notify=str, **options)
        return tmp_path / name

    return run


ALL = (
    "[{name: ema, decay: 0.9}, {name: freeze, parameters: [encoder.layers]}, r_drop, "
    "{name: token_dropout, rate: 0.3}]"
)


def test_resuming_is_exact(with_examples, train_with, tmp_path):
    whole = train_with(with_examples, "whole", ALL)
    with pytest.raises(InterruptedRunError):
        train_with(with_examples, "stopped", ALL, callbacks=[Interrupter(3)])
    with pytest.raises(InterruptedRunError):
        resume(tmp_path / "stopped", registry=with_examples, callbacks=[Interrupter(6)], notify=str)
    resume(tmp_path / "stopped", registry=with_examples, notify=str)
    assert_same_end(whole, tmp_path / "stopped")


def test_each_changes_the_training(with_examples, train_with):
    plain = train_with(with_examples, "plain", "[]")
    for name in NAMES:
        changed = load_tensors(train_with(with_examples, name, f"[{name}]") / "model.safetensors")
        unchanged = load_tensors(plain / "model.safetensors")
        assert not all(torch.equal(changed[key], unchanged[key]) for key in changed)
    assert "callbacks" not in (plain / "task.yaml").read_text()


def test_what_draws_nothing_and_changes_nothing_leaves_the_bits(with_hook, train_with, trained):
    registry = with_hook(
        """
        @hookimpl(wrapper=True)
        def training_batch(self):
            self.generator.seed()
            return (yield)

        @hookimpl(wrapper=True)
        def training_loss(self):
            return (yield)

        @hookimpl(wrapper=True)
        def optimizer_step(self):
            return (yield)
        """
    )
    assert_same_tensors(train_with(registry, "run", "[sample]"), trained.directory)


def test_hooks_stand_in_the_task_and_the_lock(with_examples, train_with):
    run = train_with(with_examples, "run", "[r_drop, {name: ema, decay: 0.5}]")
    assert "- name: ema\n    decay: 0.5\n    warm_up: true" in (run / "task.yaml").read_text()
    assert {"callback/r_drop", "callback/ema"} < json.loads((run / "lock.json").read_text())[
        "components"
    ].keys()


def test_random_numbers_come_from_a_stream_named_after_the_hook(with_hook, train_with, registry):
    source = """
        def __init__(self):
            self.drawn = []

        @hookimpl
        def training_batch(self):
            self.drawn.append(torch.rand((), generator=self.generator).item())

        @hookimpl(wrapper=True)
        def training_loss(self):
            self.drawn.append(torch.rand((), generator=self.generator).item())
            return (yield)

        def state_dict(self):
            return {"drawn": self.drawn}
        """

    def drawn(run):
        training = dict(progress(run)["parts"]["mapping"])
        hooks = dict(training["callbacks"]["mapping"])
        return [dict(state["mapping"])["drawn"] for name, state in hooks.items() if "sample" in name]

    known, settings = with_hook(source), ("training.steps=2", "training.batches_per_update=2")
    (alone,) = drawn(train_with(known, "alone", "[sample]", *settings))
    assert len(set(alone)) == 8
    beside = drawn(train_with(known, "beside", "[ema, sample, sample]", *settings))
    assert beside[0] == alone
    assert not set(beside[1]) & set(alone)
    (other,) = drawn(train_with(known, "other", "[sample]", "training.seed=2", *settings))
    assert not set(other) & set(alone)


def test_results_pass_through_in_the_order_of_the_list(with_hook, train_with):
    """Each adds its number to the loss in turn: 0 * 10 + 1, * 10 + 2."""
    registry = with_hook(
        """
        def __init__(self, *, number: int):
            self.number = number
            self.seen = []

        @hookimpl(wrapper=True)
        def training_loss(self, step):
            loss = yield
            before = int(loss.auxiliary)
            self.seen.append(before * 10 + self.number)
            assert step == len(self.seen)
            return loss._replace(auxiliary=loss.auxiliary * 0 + self.seen[-1])

        def state_dict(self):
            return {"seen": self.seen}
        """
    )
    hooks = "[{name: sample, number: 1}, {name: sample, number: 2}]"
    run = train_with(registry, "run", hooks, "training.steps=1")
    training = dict(progress(run)["parts"]["mapping"])
    kept = dict(training["callbacks"]["mapping"])
    assert [dict(kept[name]["mapping"])["seen"] for name in ("sample", "sample#2")] == [[1], [12]]


def test_weighing_examples_with_gradient_accumulation(with_hook, train_with):
    """Examples that are weighed by nothing do not count, whatever batch of an update they are in."""
    registry = with_hook(
        """
        @hookimpl(wrapper=True)
        def training_loss(self, model, batch):
            loss = yield
            weights = torch.tensor([float(row % 2) for row in batch.rows])
            total = -(weights * model.likelihoods(batch).log_probabilities).sum()
            return loss._replace(total=total)
        """
    )
    still = (
        "model.dropout=0.0",
        "training.steps=2",
        "training.optimizer={name: adamw, lr: 0.001, epsilon: 0.01}",
        "data.size=20",  # of which 18 are for training: an update has all of them
    )
    one = train_with(registry, "one", "[sample]", "training.batch_size=18", *still)
    halves = ("training.batch_size=9", "training.batches_per_update=2")
    two = train_with(registry, "two", "[sample]", *halves, *still)
    assert differences(one, two) < 1e-6


MISTAKES = [
    (
        "evaluated_parameters",
        "return {'a': torch.ones(2)}",
        r"evaluated_parameters returns 'a' of shape \(2,\)",
    ),
    ("training_batch", "return 3", "'sample' returns a int from training_batch, expected a Batch"),
]


@pytest.mark.parametrize(("hook", "code", "words"), MISTAKES)
def test_a_wrong_result_ends_the_training_with_the_name(with_hook, train_with, hook, code, words):
    arguments = "self, model" if hook == "evaluated_parameters" else "self"
    registry = with_hook(f"@hookimpl\ndef {hook}({arguments}):\n    {code}")
    with pytest.raises(RegistryError, match=words):
        train_with(registry, "run", "[sample]")


@pytest.mark.parametrize("hook", ["training_batch", "step_ended"])
def test_an_error_ends_the_training_and_is_that_of_the_component(with_hook, train_with, hook):
    registry = with_hook(f"@hookimpl\ndef {hook}(self):\n    1 / 0")
    with pytest.raises(ZeroDivisionError) as caught:
        train_with(registry, "run", "[sample]")
    assert cause_of(caught.value).startswith("callback 'sample'")


def test_those_of_the_session_do_not_take_part(with_examples, train_with):
    class Meddler:
        @hookimpl
        def training_batch(self, batch):
            return batch

    with pytest.raises(RegistryError, match="Meddler changes what training_batch does"):
        train_with(with_examples, "run", "[]", callbacks=[Meddler()])


def test_hooks_are_checked_before_data_are_read(with_hook):
    misspelt = with_hook("@hookimpl\ndef training_batsh(self):\n    pass")
    with pytest.raises(ConfigurationError, match=r"training.callbacks.0: callback 'sample' .*training_batsh"):
        validate(resolve("dates", ["training.callbacks=[sample]"], misspelt))


def test_a_hook_finds_the_components_of_its_run(with_hook, train_with):
    """Also those of a local manifest, which the run of a teacher may need."""
    registry = with_hook(
        """
        @hookimpl
        def model_built(self, run):
            run.registry.find("callback", "sample")
        """
    )
    validate(resolve("dates", ["training.callbacks=[sample]"], registry))
    train_with(registry, "run", "[sample]", "training.steps=1")


def test_a_state_that_no_checkpoint_can_hold(with_hook, train_with):
    hook = "@hookimpl\ndef model_built(self):\n    pass\n\n"
    registry = with_hook(f"{hook}def state_dict(self):\n    return {{'a': {{1, 2}}}}")
    with pytest.raises(RunError, match="a set at training/callbacks/sample/a"):
        train_with(registry, "run", "[sample]")


@pytest.mark.parametrize("sharded", [False, True])
def test_two_processes_train_as_one(with_examples, train_with, short_settings, tmp_path, sharded):
    hooks = "[{name: ema, decay: 0.9}, {name: freeze, parameters: [encoder.layers]}, token_dropout]"
    settings = (
        f"training.callbacks={hooks}",
        "model.dropout=0.0",
        "training.batches_per_update=2",
        "training.optimizer={name: adamw, lr: 0.001, epsilon: 0.01}",
        *(["training.shard=true"] if sharded else []),
    )
    one, two = train_with(with_examples, "one", hooks, *settings), tmp_path / "two"
    manifest = tmp_path / "registry.yaml"
    manifest.write_text((EXAMPLES / "token_dropout/registry.yaml").read_text())
    (tmp_path / "token_dropout.py").write_text((EXAMPLES / "token_dropout/token_dropout.py").read_text())
    arguments = ("--registry", str(manifest))
    with launched(2, *train_command(short_settings(*settings), two, *arguments)) as processes:
        for process in ends(processes):
            assert process.status == 0, process.messages
    if sharded:  # states are joined when they are saved, and shared out when they are read
        longer = "training.steps=12"
        resume(one, overrides=[longer], registry=with_examples, notify=str)
        command = ("-m", "plugformer", "train", "--resume", "--set", longer, "--out", str(two), *arguments)
        with launched(2, *command) as processes:
            for process in ends(processes):
                assert process.status == 0, process.messages
    assert differences(one, two) < 1e-6
    mine, yours = (load_tensors(run / "model.safetensors") for run in (one, two))
    torch.testing.assert_close(mine, yours, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("def training_batch(self, batch):\n    return batch", "training_batch"),
        ("@hookimpl\ndef model_built(self):\n    pass\n\ndef run_ended(self):\n    pass", "run_ended"),
        ("def after_training(self):\n    pass", "no method marked with @hookimpl"),
    ],
)
def test_a_hook_that_nobody_would_call_is_refused_where_it_is_listed(with_hook, source, named):
    task = {"extends": "dates", "training": {"callbacks": ["sample"]}}
    with pytest.raises(ConfigurationError, match=rf"training\.callbacks.*callback 'sample' .*{named}"):
        validate(resolve(task, registry=with_hook(source)), data=False)
