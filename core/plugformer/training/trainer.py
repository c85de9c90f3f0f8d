"""The training loop."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from plugformer.distributed import SINGLE_PROCESS, Interruption, Processes
from plugformer.errors import InterruptedRunError, RegistryError
from plugformer.evaluation.evaluator import Validation
from plugformer.generators import generator_states
from plugformer.hooks.manager import HookManager
from plugformer.hooks.specification import EvaluationResult, Run, Update
from plugformer.interfaces import Batch, Loss, Model, Schedule, evaluating
from plugformer.runs.checkpoint import TrainingProgress, TrainingState, save_checkpoint
from plugformer.runs.directory import RunDirectory
from plugformer.runs.store import own_tensors, restore, save_tensors
from plugformer.training.not_finite import NotFiniteGuard, PendingUpdate
from plugformer.training.strategy import TrainingStrategy, compiler_errors_explained
from plugformer.training.stream import BatchStream, CountedBatch


@dataclass(frozen=True)
class Monitor:
    """Decides which evaluation is the best, by `loss` or a metric's name."""

    name: str
    higher_is_better: bool

    def improves(self, evaluation: EvaluationResult, progress: TrainingProgress) -> bool:
        """Returns whether an evaluation beats the best value so far, or equals it at a lower loss."""
        if progress.best is None or progress.best_loss is None:
            return True
        rank = self.rank(self.value(evaluation), evaluation.loss)
        return rank < self.rank(progress.best, progress.best_loss)

    def value(self, evaluation: EvaluationResult) -> float:
        """Returns the monitored value of an evaluation."""
        return evaluation.loss if self.name == "loss" else evaluation.metrics[self.name]

    def rank(self, value: float, loss: float) -> tuple[bool, float, float]:
        """Returns a key that sorts evaluations, the best first; NaN comes last, a lower loss breaks ties."""
        if math.isnan(value):
            return True, 0.0, loss
        return False, -value if self.higher_is_better else value, loss


@dataclass(kw_only=True, eq=False)
class Trainer:
    """Updates a model's parameters until its steps are made, it stops improving, or it is interrupted.

    Attributes:
        run: What is trained, where and how long.
        strategy: The model as the processes hold it while they train.
        schedules: Those of parameter groups by their `name`; under an empty name that of all others.
        state: The whole model, the optimizer of `strategy`'s parameters, and progress; restored from a
            checkpoint when a run is resumed.
        processes: The processes that train together; each has a part of every update's batches.
    """

    run: Run
    strategy: TrainingStrategy
    state: TrainingState
    schedules: Mapping[str, Schedule]
    stream: BatchStream
    validation: Validation
    monitor: Monitor
    hooks: HookManager
    processes: Processes = SINGLE_PROCESS

    def __post_init__(self) -> None:
        self.settings = self.run.task.training
        self.directory = RunDirectory(self.run.directory)
        self.model = self.strategy.model
        self.optimizer = self.strategy.prepare(self.state.optimizer)
        self.objective = self._objective if self.hooks.changes("training_loss") else None
        self.guard = NotFiniteGuard(self.run, self.state, self.strategy, self.objective, self.processes)

    @property
    def progress(self) -> TrainingProgress:
        """How far training has come."""
        return self.state.progress

    @property
    def has_stalled(self) -> bool:
        """Whether evaluations have stopped improving."""
        stopping = self.settings.early_stopping
        return stopping is not None and self.progress.waited >= stopping.patience

    @property
    def has_ended(self) -> bool:
        """Whether all updates are made, or evaluations have stopped improving."""
        return self.has_stalled or self.progress.step >= self.run.steps

    def fit(self) -> None:
        """Trains to the end.

        Raises:
            InterruptedRunError: The training was interrupted; a checkpoint and the best parameters are saved.
            NotFiniteError: Loss, gradients or parameters are not finite; the last good checkpoint is kept.
            RunError: The disk is full or cannot be written; the last checkpoint is kept.
        """
        interruption = Interruption()
        with interruption.watched():
            while not self.has_ended:
                with self.processes.peer_failure_as_error(), compiler_errors_explained():
                    update, settled = self._update(interruption)
                # In between, processes do not ask each other whether a hook has failed.
                tell = self._tell if settled else self.hooks.call
                tell("step_ended", run=self.run, update=update)
                if evaluate := self._is_time_to_evaluate():
                    self._evaluate()
                if settled and self.processes.any(interruption.requested is not None):
                    if self.has_ended:  # after the last evaluation only the average is missing
                        self._average()
                    self._stop(saved=evaluate)
        self._average()

    def _update(self, interruption: Interruption) -> tuple[Update, bool]:
        """Makes an update, and returns whether it is settled: its numbers are known to be finite.

        Losses and norms of others stay on the device.
        """
        started = time.perf_counter()
        generators = generator_states(self.state.device) if self.guard.skips else {}
        batches, dummy = self._draw()
        # The only message of most updates: a request to stop travels with it.
        message = [
            sum(counted.targets for counted in batches),
            sum(counted.tokens for counted in batches),
            interruption.requested is not None,
        ]
        targets, tokens, stopping = map(int, self.processes.total(message))
        step = self.progress.step
        logged = step % self.settings.log_every == 0
        settled = stopping or self.guard.every_update or logged or self._is_time_to_evaluate()
        rates = self._set_learning_rates()
        passes = [counted.batch for counted in (*batches, *dummy)]
        losses = self._gradients(passes, len(batches), max(1, targets))  # without targets the loss is zero
        examples = passes[: len(batches)]
        self.guard.pending.append(PendingUpdate(step, losses, self._clip(), targets, examples, generators))
        loss, finite = self.guard.settle() if settled else (None, True)
        if finite:
            self.hooks.seed(self.settings.replicate_seed, "optimizer_step", step)
            arguments = {"run": self.run, "model": self.strategy.trained, "optimizer": self.optimizer}
            self.hooks.ask("optimizer_step", **arguments, step=step)
        else:
            self.strategy.leave_out()
        self.optimizer.zero_grad()
        seconds = time.perf_counter() - started
        self.progress.seconds += seconds
        update = Update(
            step=step,
            epoch=self.progress.epoch + 1,
            loss=loss,
            targets=targets,
            tokens=tokens,
            token_accuracy=self._accuracy(passes, len(batches)) if logged else None,
            learning_rate=next(iter(rates.values())),
            seconds=seconds,
            left_out=not finite,
            skipped=self.progress.skipped,
            learning_rates={name: rate for name, rate in rates.items() if name},
        )
        return update, bool(settled)

    def _draw(self) -> tuple[list[CountedBatch], list[CountedBatch]]:
        """Returns this process's batches of the next update after hooks have changed them, and dummies."""
        batches, dummy = self.stream.next(self.progress, self._counted)
        self.progress.step = step = self.progress.step + 1
        changed: list[CountedBatch] = []
        for number, counted in enumerate([*batches, *dummy]):
            self._seed_hooks("training_batch", number)
            batch = self.hooks.ask("training_batch", run=self.run, batch=counted.batch, step=step)
            changed.append(counted if batch is counted.batch else self._counted(batch))
        return changed[: len(batches)], changed[len(batches) :]

    def _counted(self, batch: Batch) -> CountedBatch:
        """Returns a batch as the device needs it; the thread of the stream calls it."""
        targets, device = self.run.model.count(batch), self.strategy.device
        tokens = batch.tokens
        if device.type == "cuda":
            with torch.cuda.device(device):  # a thread begins with the first one
                batch = batch.pin_memory()
        return CountedBatch(batch, targets, tokens)

    def _gradients(self, passes: Sequence[Batch], real: int, divisor: int) -> list[Tensor]:
        """Adds up the gradients of an update; returns the summed losses of the batches before the dummies."""
        self.model.train()
        totals: list[Tensor] = []
        for number, batch in enumerate(passes):
            self._seed_hooks("training_loss", number)
            with self.strategy.exchanging(last=number == len(passes) - 1):
                loss = self.strategy.loss(batch.to(self.strategy.device), self.objective)
                mean = loss.total / divisor + loss.auxiliary / self.settings.batches_per_update
                # The mean of the processes' gradients is exchanged; their sum is needed.
                self.strategy.backward(mean * (self.processes.count if number < real else 0))
            totals.append(loss.total.detach())
        return totals[:real]

    def _objective(self, model: Model, batch: Batch) -> Loss:
        """Returns a batch's loss as hooks compute it."""
        loss: Loss = self.hooks.ask("training_loss", run=self.run, model=model, batch=batch)
        return loss

    def _seed_hooks(self, hook: str, number: int) -> None:
        """Lets hooks draw other numbers for each batch of an update, whichever process has it."""
        batch = number * self.processes.count + self.processes.index
        self.hooks.seed(self.settings.replicate_seed, hook, self.progress.step, batch)

    def _clip(self) -> Tensor:
        """Clips the gradients if the task says so; returns a norm, which is finite only if they all are."""
        self.strategy.unscale(self.state.optimizer)
        if (limit := self.settings.gradient_clipping) is not None:
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        else:  # the sum of sizes: squares overflow earlier, and the largest is slow to find on a CPU
            gradients = [value.grad for value in self.model.parameters() if value.grad is not None]
            norm = nn.utils.get_total_norm(gradients, norm_type=1.0)
        norm = self.strategy.reduce_norm(norm)
        scaled = self.strategy.scaler is not None  # float16: the scaler handles what is not finite
        return torch.zeros_like(norm) if scaled else norm

    def _accuracy(self, passes: Sequence[Batch], real: int) -> float | None:
        """Returns the accuracy on each process's last batch, in a pass without dropout."""
        with self.strategy.full_model() as model, evaluating(model):
            likelihoods = model.likelihoods(passes[max(real - 1, 0)].to(self.strategy.device))
        if likelihoods.correct is None:
            return None
        sums = [likelihoods.correct.sum(), likelihoods.targets.sum()]
        correct, targets = self.processes.total(torch.stack(sums).tolist() if real else [0, 0])
        return float(correct / targets) if targets else None

    def _set_learning_rates(self) -> dict[str, float]:
        """Returns the rate of the first group of each name."""
        rates: dict[str, float] = {}
        width = self.run.task.model.width
        for group in self.optimizer.param_groups:
            name = group.get("name", "")
            schedule = self.schedules.get(name, self.schedules[""])
            group.setdefault("initial_lr", group["lr"])
            factor = schedule.factor(self.progress.step, steps=self.run.steps, width=width)
            group["lr"] = group["initial_lr"] * factor
            rates.setdefault(name, float(group["lr"]))
        return rates

    def _is_time_to_evaluate(self) -> bool:
        every = self.settings.evaluate_every or self.run.epoch_steps
        return self.progress.step % every == 0 or self.progress.step == self.run.steps

    def _evaluate(self) -> None:
        with self._evaluated_parameters():
            evaluation = self._measured()
            if improved := self.monitor.improves(evaluation, self.progress):
                self.progress.best = self.monitor.value(evaluation)
                self.progress.best_loss = evaluation.loss
                self._save_model()
            rank = self.monitor.rank(self.monitor.value(evaluation), evaluation.loss)
            with self.processes.raise_everywhere():
                self.hooks.ask("model_evaluated", run=self.run, step=evaluation.step, rank=rank)
        self.progress.waited = 0 if improved else self.progress.waited + 1
        evaluation = replace(evaluation, best=improved, final=self.has_ended)
        self._tell("evaluation_ended", run=self.run, evaluation=evaluation)
        self._save_checkpoint()

    def _measured(self) -> EvaluationResult:
        return self.guard.evaluated(lambda: self.validation.evaluate(self.progress.step))

    @contextmanager
    def _evaluated_parameters(self) -> Iterator[None]:
        """Inside, the model has the values that hooks want evaluated and saved."""
        model = self.strategy.trained
        wanted: Mapping[str, Tensor] | None
        if (wanted := self.hooks.ask("evaluated_parameters", run=self.run, model=model)) is None:
            yield
            return
        parameters = dict(model.named_parameters())
        for name, value in wanted.items():
            if name not in parameters or parameters[name].shape != value.shape:
                returned = f"a hook's evaluated_parameters returns {name!r} of shape {tuple(value.shape)}"
                raise RegistryError(f"{returned}, expected parameters of the model, by name, of their shapes")
        kept = {name: parameters[name].detach().clone() for name in wanted}
        _assign(parameters, wanted)
        self.strategy.unshard()
        try:
            yield
        finally:
            _assign(parameters, kept)
        self.strategy.unshard()  # a collective: only if all processes have come this far

    def _average(self) -> None:
        """Ends with the average of several evaluations' parameters, if a hook makes one."""
        average = self.hooks.ask("averaged_parameters", run=self.run)
        if average is None:
            return
        steps, tensors = average
        restore(self.state.model, tensors, self.directory.path)
        self.strategy.shard_from_full()
        evaluation = self._measured()
        self._save_model()
        evaluation = replace(evaluation, best=self.monitor.improves(evaluation, self.progress))
        arguments = {"steps": steps, "evaluation": evaluation, "single_best": self.progress.best}
        self._tell("average_evaluated", run=self.run, **arguments)

    def _tell(self, hook: str, **arguments: object) -> None:
        """Calls a hook; the error of an observer that must not fail ends all processes."""
        with self.processes.raise_everywhere():
            self.hooks.call(hook, **arguments)

    def _save_model(self) -> None:
        tensors = own_tensors(self.state.model)
        self.processes.on_main(lambda: save_tensors(tensors, self.directory.model))

    def _save_checkpoint(self) -> None:
        self.stream.complete(self.progress)
        keep = self.settings.keep_checkpoints
        path = save_checkpoint(self.directory.checkpoints, self.state, keep, self.processes)
        self.hooks.call("checkpoint_saved", run=self.run, step=self.progress.step, path=path)

    def _stop(self, *, saved: bool) -> None:
        """Saves everything unless that has just been done, then ends the run."""
        if not saved:
            self.strategy.unshard()
            self.guard.check_parameters()
            self._save_checkpoint()
        if self.progress.best is None:  # the model is that of an earlier interruption, or there is none
            with self._evaluated_parameters():
                self._save_model()
        where = self.run.directory
        place = f"step {self.progress.step}/{self.run.steps}. Checkpoint saved in {where}"
        resume = f"`plugformer train --resume --out {where}{self.run.arguments}`"
        self.processes.abort(InterruptedRunError(f"Interrupted at {place}. Resume with {resume}."))


def _assign(parameters: Mapping[str, nn.Parameter], values: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, value in values.items():
            parameters[name].copy_(value)
