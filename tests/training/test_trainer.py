"""The training loop: what an update is made of, and what decides about its end."""

import math
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.batches import pairs
from tests.training.trainers import make_trainer

from plugformer.callbacks import HookManager
from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.hooks import EvaluationResult, hookimpl
from plugformer.interfaces import Batch, Callback, Model, Tokens
from plugformer.optimizer import JoinedOptimizer
from plugformer.runs.store import load_tensors


def examples(rows: list[list[int]]) -> Batch:
    return pairs(rows, [row[::-1] for row in rows])


ONE = examples([[4, 5, 6], [7, 8]])
OTHER = examples([[9, 10, 11, 4, 5, 6]])
BOTH = examples([[4, 5, 6], [7, 8], [9, 10, 11, 4, 5, 6]])


class Seen:
    def __init__(self):
        self.updates, self.evaluations, self.weights = [], [], []

    @hookimpl
    def step_ended(self, update):
        self.updates.append(update)

    @hookimpl
    def evaluation_ended(self, run, evaluation):
        self.evaluations.append(evaluation)
        self.weights.append(run.model.head.weight.detach().clone())


@pytest.fixture
def trainer(registry, tiny_task, tmp_path):
    """Makes a trainer that goes through batches in order, by plain gradient descent at rate 1."""

    def make(*overrides, batches=(ONE,), steps=1, values=(), processes=SINGLE_PROCESS):
        folder = tmp_path / f"run {len(list(tmp_path.iterdir()))}"
        task, seen = tiny_task("model.embeddings.shared=false", *overrides), Seen()
        options = {"steps": steps, "values": values, "processes": processes}
        made = make_trainer(registry, folder, task, batches, descent=True, callbacks=[seen], **options)
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
    with torch.no_grad():
        losses = [both.state.model.eval()(batch) for batch in (ONE, OTHER)]
    small = moves(both)
    assert big.keys() == small.keys()
    for name, gradient in big.items():
        torch.testing.assert_close(small[name], gradient)
    (update,) = both.seen.updates
    assert update.targets == 4 + 3 + 7
    assert update.tokens == both.state.progress.tokens == BOTH.tokens
    assert update.loss == pytest.approx(sum(loss.total for loss in losses).item() / update.targets)


class Switching(torch.optim.SGD):
    """Evaluates zeros; what it trains comes back only roughly, as from a computation."""

    @torch.no_grad()
    def eval(self):
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["trained"] = parameter + 0.001
            parameter.zero_()

    @torch.no_grad()
    def train(self):
        for parameter in self.param_groups[0]["params"]:
            parameter.copy_(self.state[parameter].pop("trained"))


@pytest.mark.parametrize("joined", [False, True])
def test_an_optimizer_evaluates_other_values_than_it_trains(trainer, joined):
    expected = moves(trainer(steps=3))
    made = trainer("training.evaluate_every=1", steps=3)
    switching = Switching(made.state.model.parameters(), lr=1.0)
    made.optimizer = made.state.optimizer = JoinedOptimizer([switching]) if joined else switching
    found = moves(made)
    for name, move in expected.items():
        assert torch.equal(found[name], move)
    saved = load_tensors(made.directory.model)
    assert len(made.seen.evaluations) == 3
    assert not any(values.any() for values in saved.values())


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


def test_large_gradients_are_finite_though_their_squares_are_not(trainer):
    made = trainer("training.gradient_clipping=null")
    made.state.model.head.weight.register_hook(lambda gradient: torch.full_like(gradient, 1e200))
    assert moves(made)["head.weight"].eq(1e200).all()


def test_an_update_tells_its_rate_its_epoch_and_every_so_often_its_accuracy(trainer):
    schedule = "training.schedule={name: warmup_cosine, warmup_steps: 2}"
    made = trainer(schedule, "training.log_every=2", batches=[ONE, OTHER], steps=5)
    made.fit()
    factors = [made.schedules[""].factor(step, steps=5, width=16) for step in range(1, 6)]
    assert factors[0] == 0.5
    found = [(each.learning_rate, each.epoch, each.token_accuracy is None) for each in made.seen.updates]
    unlogged = [True, False, True, False, True]
    assert found == list(zip(factors, [1, 1, 2, 2, 3], unlogged, strict=True))


class SecondOfTwo(Processes):
    """Keeps what it adds to sums; the first process adds one to each."""

    def __init__(self):
        super().__init__()
        self.index, self.count = 1, 2
        self.added = []

    def total(self, values):
        self.added.append(list(values))
        return np.asarray(values) + 1.0


def test_a_process_without_a_batch_adds_nothing(trainer):
    """Two share an update of one batch: the second computes a dummy."""
    processes = SecondOfTwo()
    made = trainer("training.log_every=1", processes=processes)
    before = made.state.model.head.weight.detach().clone()
    update = made._update()
    assert torch.equal(made.state.model.head.weight, before)
    assert processes.added == [[0, 0, False], [0], [0, 0]]
    assert (update.targets, update.tokens, update.loss, update.token_accuracy) == (1, 1, 1.0, 1.0)


def test_the_best_evaluation_is_kept(trainer):
    made = trainer("training.evaluate_every=1", steps=4, values=[3.0, 1.0, 2.0, 1.0])
    made.fit()
    assert [evaluation.best for evaluation in made.seen.evaluations] == [True, True, False, False]
    assert torch.equal(load_tensors(made.directory.model)["head.weight"], made.seen.weights[1])
    assert (made.progress.best, made.progress.waited) == (1.0, 2)


@pytest.mark.parametrize(
    ("patience", "steps", "values", "end", "final"),
    [
        # Two evaluations without improvement after the second.
        ("{patience: 2}", 100, [3.0, 2.0, 2.5, 2.0, 1.0], 8, [False, False, False, True]),
        ("null", 3, [3.0, 1.0], 3, [False, True]),  # the last update is evaluated
    ],
)
def test_training_ends(trainer, patience, steps, values, end, final):
    settings = ("training.evaluate_every=2", f"training.early_stopping={patience}")
    made = trainer(*settings, steps=steps, values=values)
    made.fit()
    assert made.progress.step == end
    assert [evaluation.final for evaluation in made.seen.evaluations] == final


@pytest.mark.parametrize(
    ("higher", "value", "best", "best_loss", "improves"),
    [
        (False, 0.5, None, None, True),
        (False, 0.5, 0.6, 1.0, True),
        (True, 0.5, 0.6, 3.0, False),
        (True, 0.5, 0.5, 2.1, True),  # the lower loss
        (True, 0.5, 0.5, 2.0, False),
        (True, math.nan, None, None, True),  # something must be saved
        (True, 0.5, math.nan, 1.0, True),
        (False, math.nan, 0.5, 3.0, False),
    ],
)
def test_evaluations_say_whether_they_are_the_best(trainer, higher, value, best, best_loss, improves):
    def evaluation(value, loss):
        return EvaluationResult(1, loss, 0.0, {"exact_match": value}, [], best=False, seconds=0.0)

    made = trainer("training.monitor=exact_match")
    made.higher_is_better = higher
    if best is not None:
        made.progress.best_rank = made._rank(evaluation(best, best_loss))
    assert made._improves(evaluation(value, 2.0)) is improves


@pytest.mark.parametrize(
    ("settings", "decides"),
    [
        ([], 0.5),
        (["training.monitor=loss"], 2.0),
        (["evaluation.metrics=[]"], 2.0),
        (["evaluation.metrics=[bleu, {name: exact_match, as: share}]"], 30.0),
        (["evaluation.metrics=[{name: exact_match, as: share}, bleu]"], 0.7),
    ],
)
def test_the_first_metric_decides_which_evaluation_is_the_best_by_default(trainer, settings, decides):
    made = trainer("training.monitor=null", *settings)
    values = {"exact_match": 0.5, "bleu": 30.0, "share": 0.7}
    assert made._monitored(EvaluationResult(1, 2.0, 0.0, values, [], best=False, seconds=0.0)) == decides


def test_a_run_says_what_decided_in_it(train_tiny, tmp_path):
    train_tiny(tmp_path / "run", "training.monitor=null", "training.steps=1")
    task = (tmp_path / "run/task.yaml").read_text()
    assert "  monitor: exact_match\n" in task
    assert "  token_dropout: 0.0\n" in task


def test_a_skipped_update_leaves_the_parameters_as_they_are(trainer):
    """With one in the middle, training ends as without it."""

    def parameters(made):
        embedding = made.state.model.encoder.embedding
        embedding.register_forward_hook(
            lambda _, inputs, output: output * (torch.nan if wrong(inputs) else 1)
        )
        made.fit()
        return made.state.model.state_dict()

    def wrong(inputs):
        return any(isinstance(each, torch.Tensor) and (each == 11).any() for each in inputs)

    settings = ("training.on_nonfinite=skip", "model.dropout=0.0")
    plain = parameters(trainer(*settings, batches=[ONE, ONE], steps=2))
    interspersed = trainer(*settings, batches=[ONE, OTHER, ONE], steps=3)
    assert all(torch.equal(value, plain[name]) for name, value in parameters(interspersed).items())
    assert [update.left_out for update in interspersed.seen.updates] == [False, True, False]
    assert (interspersed.progress.skipped, interspersed.progress.skipped_in_a_row) == (1, 0)


def test_a_skipped_update_leaves_the_scaler_of_float16_ready_for_the_next(trainer):
    made = trainer("training.on_nonfinite=skip", steps=2)
    made.strategy.scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    made.state.model.encoder.embedding.register_forward_hook(lambda _, __, output: output * torch.inf)
    made.fit()
    assert [update.left_out for update in made.seen.updates] == [True, True]
    assert made.strategy.scaler.get_scale() == 2.0


class Replacing(Callback):
    """Returns another batch."""

    @hookimpl(wrapper=True)
    def training_batch(self):
        yield
        return OTHER


@pytest.mark.parametrize(("hooks", "again"), [({}, False), ({"sample": Replacing()}, True)])
def test_the_thread_of_the_stream_counts(trainer, monkeypatch, hooks, again):
    """The host has nothing to do for a batch while the device waits for it, unless a hook returns another."""
    threads, usual = [], Model.count

    def counting(model, batch):
        threads.append(threading.current_thread())
        return usual(model, batch)

    monkeypatch.setattr(Model, "count", counting)
    made = trainer(steps=2)
    made.hooks = HookManager([made.seen], pytest.fail, hooks)
    made.fit()
    main = [thread for thread in threads if thread is threading.main_thread()]
    assert (len(main), len(threads)) == (2 * again, 3 + 2 * again)
    expected = made.run.model.count(OTHER if again else ONE)
    assert [update.targets for update in made.seen.updates] == [expected, expected]
