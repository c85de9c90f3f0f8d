"""The training loop: what an update is made of, and what decides about its end."""

import math
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.batches import pairs, split_of
from tests.operators import Operators

from plugformer.distributed import SINGLE_PROCESS, Interruption, Processes
from plugformer.experiment import Experiment
from plugformer.hooks.manager import HookManager
from plugformer.hooks.specification import EvaluationResult, Run, hookimpl
from plugformer.interfaces import Batch, Hook, Model, Sizes, Tokens
from plugformer.model import build
from plugformer.registry import Kind
from plugformer.runs.checkpoint import TrainingProgress, TrainingState
from plugformer.runs.directory import RunDirectory
from plugformer.runs.store import load_tensors
from plugformer.training.strategy import TrainingStrategy
from plugformer.training.stream import PreparedBatches
from plugformer.training.trainer import Monitor, Trainer


def examples(rows: list[list[int]]) -> Batch:
    return pairs(rows, [row[::-1] for row in rows])


ONE = examples([[4, 5, 6], [7, 8]])
OTHER = examples([[9, 10, 11, 4, 5, 6]])
BOTH = examples([[4, 5, 6], [7, 8], [9, 10, 11, 4, 5, 6]])


class Rates:
    def __init__(self):
        self.updates = []
        self.final = []

    @hookimpl
    def step_ended(self, update):
        self.updates.append(update)

    @hookimpl
    def evaluation_ended(self, evaluation):
        self.final.append(evaluation.final)


@pytest.fixture
def trainer(registry, tiny_task, tmp_path):
    """Makes a trainer that goes through batches in order, by plain gradient descent at rate 1."""

    def make(
        *overrides,
        batches=(ONE,),
        steps=1,
        values=(),
        monitor="loss",
        higher=False,
        order=None,
        processes=SINGLE_PROCESS,
    ):
        directory = RunDirectory(tmp_path / f"run {len(list(tmp_path.iterdir()))}")
        directory.checkpoints.mkdir(parents=True)
        task = tiny_task("model.embeddings.shared=false", *overrides)
        model = build(Experiment.of(task, registry).spec, Sizes(12, 12)).double()
        schedule = task.training.schedule
        seen = Rates()
        evaluations = iter(values)

        def evaluate(step):
            value = next(evaluations, 0.0)
            return EvaluationResult(step, value, 0.0, {"exact_match": value}, [], best=False, seconds=0.0)

        made = Trainer(
            run=Run(directory.path, task, model, steps, epoch_steps=1000),
            strategy=TrainingStrategy(model, task.training),
            state=TrainingState(model, torch.optim.SGD(model.parameters(), lr=1.0)),
            schedules={"": registry.create(Kind.SCHEDULE, schedule.name, **schedule.options)},
            stream=PreparedBatches(
                split_of(batches),
                order or (lambda epoch: [[index] for index in range(len(batches))]),
                task.training,
                processes,
            ),
            validation=SimpleNamespace(evaluate=evaluate),
            monitor=Monitor(monitor, higher_is_better=higher),
            hooks=HookManager([seen], pytest.fail),
            processes=processes,
        )
        made.seen = seen
        return made

    return make


def moves(trainer) -> dict[str, torch.Tensor]:
    """Trains and returns how far each parameter went: with gradient descent at rate 1, its gradient."""
    model = trainer.state.model
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    trainer.fit()
    return {name: before[name] - value.detach() for name, value in model.named_parameters()}


def test_micro_batches_of_different_size_make_one_big_batch(trainer):
    off = "training.gradient_clipping=null"
    big = moves(trainer(off, batches=[BOTH]))
    both = trainer(off, "training.batches_per_update=2", batches=[ONE, OTHER])
    small = moves(both)
    assert big.keys() == small.keys()
    for name, gradient in big.items():
        torch.testing.assert_close(small[name], gradient)
    (update,) = both.seen.updates
    assert update.targets == 4 + 3 + 7
    assert update.tokens == BOTH.tokens


def test_the_loss_is_the_mean_over_all_targets(trainer):
    made = trainer("training.batches_per_update=2", batches=[ONE, OTHER])
    with torch.no_grad():
        losses = [made.state.model.eval()(batch) for batch in (ONE, OTHER)]
    made.fit()
    expected = sum(loss.total for loss in losses) / sum(loss.targets for loss in losses)
    assert made.seen.updates[0].loss == pytest.approx(expected.item())


def test_an_update_without_any_target_moves_nothing(trainer):
    begun = Tokens(ONE.target.ids[:, :2], torch.tensor([[True, False]] * 2))
    made = trainer("training.log_every=1", batches=[replace(ONE, target=begun)])
    assert not any(move.any() for move in moves(made).values())
    (update,) = made.seen.updates
    assert (update.loss, update.targets, update.token_accuracy) == (0.0, 0, None)


def test_auxiliary_losses_are_averaged_over_micro_batches(trainer):
    """The same batch twice is the same as once, the experts' balance loss included."""
    overrides = ["model.feed_forward={name: moe, balance: 1.0}", "training.gradient_clipping=null"]
    once = moves(trainer(*overrides, batches=[ONE]))
    twice = moves(trainer(*overrides, "training.batches_per_update=2", batches=[ONE, ONE]))
    for name, gradient in once.items():
        torch.testing.assert_close(twice[name], gradient)
    router = next(name for name in once if name.endswith("router.weight"))
    without = moves(trainer(overrides[0].replace("1.0", "0.0"), overrides[1], batches=[ONE]))
    assert not torch.allclose(without[router], once[router]), "the balance loss must have had an effect"


@pytest.mark.parametrize("norm", [0.01, 0.5])
def test_gradients_are_clipped_by_their_norm(trainer, norm):
    free = moves(trainer("training.gradient_clipping=null"))
    clipped = moves(trainer(f"training.gradient_clipping={norm}"))
    whole = torch.cat([gradient.flatten() for gradient in free.values()]).norm()
    assert whole > norm
    for name, gradient in free.items():
        torch.testing.assert_close(clipped[name], gradient * norm / whole, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("clipping", "operators"), [("null", 3), ("1.0", 8)])
def test_all_gradients_are_read_at_once(trainer, clipping, operators):
    """Also where they are only looked through for what is not finite."""
    for layers in (1, 3):
        made = trainer(f"training.gradient_clipping={clipping}", f"model.layers={layers}")
        for parameter in made.state.model.parameters():
            parameter.grad = torch.ones_like(parameter)
        with Operators() as found:
            made._clip()
        assert (found.counts.total(), found.counts["_foreach_norm"]) == (operators, 1)


def test_the_learning_rate_follows_the_schedule(trainer, registry):
    made = trainer("training.schedule={name: warmup_cosine, warmup_steps: 2}", steps=5)
    made.fit()
    schedule = registry.create(Kind.SCHEDULE, "warmup_cosine", warmup_steps=2)
    factors = [schedule.factor(step, steps=5, width=16) for step in range(1, 6)]
    assert [update.learning_rate for update in made.seen.updates] == factors
    assert factors[0] == 0.5


def test_epochs_are_counted_from_their_first_update(trainer):
    made = trainer(batches=[ONE, OTHER], steps=5)
    made.fit()
    assert [update.epoch for update in made.seen.updates] == [1, 1, 2, 2, 3]


def test_token_accuracy_is_measured_when_it_is_logged(trainer):
    made = trainer("training.log_every=2", steps=4)
    made.fit()
    assert [update.token_accuracy is None for update in made.seen.updates] == [True, False, True, False]
    assert made.state.model.training


class SecondOfTwo(Processes):
    """Keeps what it adds to sums; the first process adds one to each."""

    def __init__(self):
        super().__init__()
        self.index, self.count = 1, 2
        self.added = []

    def total(self, values):
        self.added.append(list(values))
        return np.asarray(values) + 1.0


def test_a_process_without_a_batch_adds_nothing_to_what_is_logged(trainer):
    """Two share an update of one batch: the second computes a dummy."""
    processes = SecondOfTwo()
    update, settled = trainer("training.log_every=1", processes=processes)._update(Interruption())
    assert processes.added == [[0, 0, False], [0], [0, 0]]
    assert settled
    assert (update.targets, update.tokens, update.loss, update.token_accuracy) == (1, 1, 1.0, 1.0)


def test_the_best_evaluation_is_kept(trainer):
    made = trainer("training.evaluate_every=1", steps=4, values=[3.0, 1.0, 2.0, 1.0])
    model = made.state.model
    after = []
    made.hooks = HookManager([Snapshot(model, after)], pytest.fail)
    made.fit()
    assert [best for best, _ in after] == [True, True, False, False]
    saved = load_tensors(made.directory.model)
    assert torch.equal(saved["head.weight"], after[1][1])
    assert made.progress.best == 1.0
    assert made.progress.waited == 2


class Snapshot:
    def __init__(self, model, after):
        self.model, self.after = model, after

    @hookimpl
    def evaluation_ended(self, evaluation):
        self.after.append((evaluation.best, self.model.head.weight.detach().clone()))


def test_early_stopping(trainer):
    made = trainer(
        "training.evaluate_every=2",
        "training.early_stopping={patience: 2}",
        steps=100,
        values=[3.0, 2.0, 2.5, 2.0, 1.0],
    )
    made.fit()
    assert made.progress.step == 8  # two evaluations without improvement after the second
    assert made.seen.final == [False, False, False, True]


def test_the_last_update_is_evaluated(trainer):
    made = trainer("training.evaluate_every=2", steps=3, values=[3.0, 1.0])
    made.fit()
    assert made.progress.best == 1.0
    assert made.seen.final == [False, True]


@pytest.mark.parametrize("keep", [1, 2])
def test_recent_checkpoints_are_kept(trainer, keep):
    made = trainer("training.evaluate_every=1", f"training.keep_checkpoints={keep}", steps=4)
    made.fit()
    kept = sorted(path.name for path in made.directory.checkpoints.iterdir())
    assert kept == [f"step-{step:08d}" for step in range(5 - keep, 5)]


@pytest.mark.parametrize(
    ("higher", "value", "best", "best_loss", "improves"),
    [
        (False, 0.5, None, None, True),
        (False, 0.5, 0.6, 1.0, True),
        (True, 0.5, 0.4, 1.0, True),
        (True, 0.5, 0.6, 3.0, False),
        (True, 0.5, 0.5, 2.1, True),  # the lower loss
        (True, 0.5, 0.5, 2.0, False),
        (True, math.nan, None, None, True),  # something must be saved
        (True, 0.5, math.nan, 1.0, True),
        (False, math.nan, 0.5, 3.0, False),
        (True, math.nan, math.nan, 2.1, True),
    ],
)
def test_evaluations_say_whether_they_are_the_best(higher, value, best, best_loss, improves):
    evaluation = EvaluationResult(1, 2.0, 0.0, {"exact_match": value}, [], best=False, seconds=0.0)
    monitor = Monitor("exact_match", higher_is_better=higher)
    assert monitor.improves(evaluation, TrainingProgress(best=best, best_loss=best_loss)) is improves


def test_a_skipped_update_leaves_no_trace(trainer):
    """With one in the middle, training ends as without it: parameters and the draws of dropout."""

    def parameters(made):
        embedding = made.state.model.encoder.embedding
        embedding.register_forward_hook(
            lambda _, inputs, output: output * (torch.nan if wrong(inputs) else 1)
        )
        torch.manual_seed(1)
        made.fit()
        return made.state.model.state_dict()

    def wrong(inputs):
        return any(isinstance(each, torch.Tensor) and (each == 11).any() for each in inputs)

    settings = ("training.on_nonfinite=skip", "model.dropout=0.3")
    plain = parameters(trainer(*settings, batches=[ONE, ONE], steps=2))
    interspersed = trainer(*settings, batches=[ONE, OTHER, ONE], steps=3)
    assert all(torch.equal(value, plain[name]) for name, value in parameters(interspersed).items())
    assert [update.left_out for update in interspersed.seen.updates] == [False, True, False]
    assert (interspersed.progress.skipped, interspersed.progress.skipped_in_a_row) == (1, 0)


def test_large_gradients_are_finite_though_their_squares_are_not(trainer):
    made = trainer("training.gradient_clipping=null")
    made.state.model.head.weight.register_hook(lambda gradient: torch.full_like(gradient, 1e200))
    assert moves(made)["head.weight"].eq(1e200).all()


class Replacing(Hook):
    """Returns another batch."""

    @hookimpl(wrapper=True)
    def training_batch(self):
        yield
        return OTHER


class Watching(Hook):
    """Returns the batch that it is given."""

    @hookimpl(wrapper=True)
    def training_batch(self):
        return (yield)


@pytest.mark.parametrize(("hook", "again"), [(None, False), (Watching, False), (Replacing, True)])
def test_the_thread_of_the_stream_counts(trainer, monkeypatch, hook, again):
    """The host has nothing to do for a batch while the device waits for it, unless a hook returns another."""
    threads, usual = [], Model.count

    def counting(model, batch):
        threads.append(threading.current_thread())
        return usual(model, batch)

    monkeypatch.setattr(Model, "count", counting)
    made = trainer(steps=2)
    made.hooks = HookManager([made.seen], pytest.fail, {} if hook is None else {"sample": hook()})
    made.fit()
    main = [thread for thread in threads if thread is threading.main_thread()]
    assert (len(main), len(threads)) == (2 * again, 3 + 2 * again)
    expected = made.run.model.count(OTHER if again else ONE)
    assert [update.targets for update in made.seen.updates] == [expected, expected]


def test_batches_for_a_gpu_are_in_pinned_memory(trainer, monkeypatch):
    """All tensors are, through the device of this process: a thread begins with the first one."""
    devices = []

    @contextmanager
    def chosen(device):
        devices.append(device)
        yield
        devices.append(None)

    monkeypatch.setattr(torch.cuda, "device", chosen)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: devices.append(tensor.shape) or tensor)
    made = trainer()
    monkeypatch.setattr(made.strategy, "device", torch.device("cuda", 1))
    made._counted(replace(ONE, source=replace(ONE.source, marks={"segment": torch.zeros(7)})))
    assert (devices[0], devices[-1]) == (torch.device("cuda", 1), None)
    tokens = [ONE.source.ids.shape, ONE.source.mask.shape, ONE.target.ids.shape, ONE.target.mask.shape]
    assert Counter(devices[1:-1]) >= Counter([*tokens, torch.Size([7])])
