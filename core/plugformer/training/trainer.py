"""The training loop."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from plugformer.callbacks import HookManager
from plugformer.distributed import SINGLE_PROCESS, Interruption, Processes
from plugformer.errors import InterruptedRunError
from plugformer.evaluation.evaluator import Validation
from plugformer.hooks import EvaluationResult, Run, Update
from plugformer.interfaces import Batch, Loss, Model, Schedule, evaluating
from plugformer.optimizer import evaluated_values
from plugformer.reproducibility import seed_generators
from plugformer.runs.checkpoint import (
    Rank,
    TrainingProgress,
    TrainingState,
    drop_old,
    load_checkpoint,
    save_checkpoint,
)
from plugformer.runs.directory import RunDirectory
from plugformer.runs.store import own_tensors, restore, save_tensors
from plugformer.training.not_finite import NotFiniteGuard, PendingUpdate
from plugformer.training.strategy import TrainingStrategy, compiler_errors_explained
from plugformer.training.stream import BatchStream, CountedBatch


@dataclass(kw_only=True, eq=False)
class Trainer:
    """Updates a model's parameters until its steps are made, it stops improving, or it is interrupted.

    Attributes:
        run: What is trained, where and how long.
        strategy: The model as the processes hold it while they train.
        schedules: Those of parameter groups by their `name`; under an empty name that of all others.
        state: The whole model, the optimizer of `strategy`'s parameters, and progress; restored from the last
            checkpoint of the run.
        higher_is_better: Whether a higher value of `training.monitor` is better; not so of the loss.
        processes: The processes that train together; each has a part of every update's batches.
        notify: Receives messages for people, a line each.
    """

    run: Run
    strategy: TrainingStrategy
    state: TrainingState
    schedules: Mapping[str, Schedule]
    stream: BatchStream
    validation: Validation
    higher_is_better: bool
    hooks: HookManager
    processes: Processes = SINGLE_PROCESS
    notify: Callable[[str], None] = print

    def __post_init__(self) -> None:
        self.settings = self.run.task.training
        self.directory = RunDirectory(self.run.directory)
        self.model = self.strategy.model
        self.optimizer = self.strategy.prepare(self.state.optimizer)
        self.objective = self._objective if self.hooks.changes("training_loss") else None
        self.guard = NotFiniteGuard(self.run, self.state, self.strategy, self.objective, self.processes)
        self.interruption = Interruption()

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
        """Trains from the last checkpoint, or from the beginning, to the end.

        Raises:
            InterruptedRunError: The training was interrupted; a checkpoint and the best parameters are saved.
            NotFiniteError: Loss, gradients or parameters are not finite; the last good checkpoint is kept.
            RunError: The disk is full or cannot be written; the last checkpoint is kept.
        """
        seed_generators(self.settings.replicate_seed, self.processes.index)  # of dropout
        resumed = load_checkpoint(self.directory.checkpoints, self.state, self.notify, self.processes)
        self.strategy.shard_from_full()
        self.processes.on_main(self._tidy_up)
        if resumed:
            self._notify_resumed()
        try:
            self.hooks.call("run_started", run=self.run)
            if not resumed:
                samples = self.guard.evaluated(self.validation.samples)
                self.hooks.call("samples_shown", run=self.run, samples=samples)
            with self.interruption.watched():
                while not self.has_ended:
                    self._advance()
            self._average()
        except BaseException as error:
            self.hooks.call("run_failed", run=self.run, error=error)
            raise
        finally:
            self.stream.close()
        for notice in self.stream.notices():
            self.notify(notice)
        self.hooks.call("run_ended", run=self.run)

    def _tidy_up(self) -> None:
        """Removes what a killed process has left, and what is done again."""
        drop_old(self.directory.checkpoints, self.settings.keep_checkpoints)
        self.directory.rewind(self.progress.step)

    def _notify_resumed(self) -> None:
        self.notify(f"resumed after update {self.progress.step} of {self.run.steps}")
        if self.has_stalled and self.progress.step < self.run.steps:
            words = "early stopping has ended this training; to continue, set a longer patience"
            self.notify(f"{words}: --set training.early_stopping.patience={2 * self.progress.waited}")

    def _advance(self) -> None:
        """Makes an update; evaluates, saves or stops when it is time."""
        with self.processes.peer_failure_as_error(), compiler_errors_explained():
            update = self._update()
        if update.loss is None:  # processes do not ask each other whether a callback has failed
            self.hooks.call("step_ended", run=self.run, update=update)
            return
        self._tell("step_ended", update=update)
        if evaluate := self._is_time_to_evaluate():
            self._evaluate()
        if self.processes.total([self.interruption.requested is not None])[0]:
            if self.has_ended:  # after the last evaluation only the average is missing
                self._average()
            self._stop(saved=evaluate)

    def _update(self) -> Update:
        """Makes an update. Its loss is None if it stays on the device, and is not known to be finite."""
        started = time.perf_counter()
        batches = self._draw()
        # The only message of most updates: a request to stop travels with it.
        message = [
            sum(counted.targets for counted in batches),
            sum(counted.tokens for counted in batches),
            self.interruption.requested is not None,
        ]
        targets, tokens, stopping = map(int, self.processes.total(message))
        step = self.progress.step
        logged = step % self.settings.log_every == 0
        rates = self._set_learning_rates()
        losses = self._gradients(batches, max(1, targets))  # without targets the loss is zero
        real = [counted.batch for counted in batches if not counted.dummy]
        self.guard.pending.append(PendingUpdate(step, torch.stack([self._clip(), *losses]), targets, real))
        loss, finite = None, True
        if stopping or logged or self.guard.every_update or self._is_time_to_evaluate():
            loss, finite = self.guard.check_pending()
        if finite:
            self.hooks.seed(self.settings.replicate_seed, "optimizer_step", step)
            arguments = {"run": self.run, "model": self.strategy.trained, "optimizer": self.optimizer}
            self.hooks.ask("optimizer_step", **arguments, step=step)
        else:
            self.strategy.scaler.update()  # gradients have been unscaled
        self.optimizer.zero_grad()
        seconds = time.perf_counter() - started
        self.progress.seconds += seconds
        self.progress.tokens += tokens
        return Update(
            step=step,
            epoch=self.progress.epoch + 1,
            loss=loss,
            targets=targets,
            tokens=tokens,
            token_accuracy=self._accuracy(batches) if logged else None,
            learning_rate=next(iter(rates.values())),
            seconds=seconds,
            left_out=not finite,
            skipped=self.progress.skipped,
            learning_rates={name: rate for name, rate in rates.items() if name},
        )

    def _draw(self) -> list[CountedBatch]:
        """Returns this process's batches of the next update, after callbacks have changed them."""
        batches = self.stream.next(self.progress, self._counted)
        self.progress.step = step = self.progress.step + 1
        changed = []
        for number, counted in enumerate(batches):
            self._seed_hooks("training_batch", number)
            batch = self.hooks.ask("training_batch", run=self.run, batch=counted.batch, step=step)
            if batch is not counted.batch:
                new = self._counted(batch)
                counted = counted._replace(batch=new.batch) if counted.dummy else new
            changed.append(counted)
        return changed

    def _counted(self, batch: Batch) -> CountedBatch:
        """Returns a batch as the device needs it; the thread of the stream calls it."""
        targets, device = self.run.model.count(batch), self.strategy.device
        tokens = batch.tokens
        if device.type == "cuda":
            with torch.cuda.device(device):  # a thread begins with the first one
                batch = batch.pin_memory()
        return CountedBatch(batch, targets, tokens)

    def _gradients(self, batches: Sequence[CountedBatch], divisor: int) -> list[Tensor]:
        """Adds up the gradients of an update; returns the summed losses of the batches that count."""
        self.model.train()
        losses: list[Tensor] = []
        for number, counted in enumerate(batches):
            self._seed_hooks("training_loss", number)
            with self.strategy.gradient_sync(last=number == len(batches) - 1):
                loss = self.strategy.loss(counted.batch.to(self.strategy.device), self.objective)
                mean = loss.total / divisor + loss.auxiliary / self.settings.batches_per_update
                # The mean of the processes' gradients is exchanged; their sum is needed.
                weight = 0 if counted.dummy else self.processes.count
                self.strategy.scaler.scale(mean * weight).backward()
            if not counted.dummy:
                losses.append(loss.total.detach())
        return losses

    def _objective(self, model: Model, batch: Batch) -> Loss:
        """Returns a batch's loss as callbacks compute it."""
        step = self.progress.step
        loss: Loss = self.hooks.ask("training_loss", run=self.run, model=model, batch=batch, step=step)
        return loss

    def _seed_hooks(self, hook: str, number: int) -> None:
        """Lets callbacks draw other numbers for each batch of an update, whichever process has it."""
        batch = number * self.processes.count + self.processes.index
        self.hooks.seed(self.settings.replicate_seed, hook, self.progress.step, batch)

    def _clip(self) -> Tensor:
        """Clips the gradients if the task says so; returns a norm, which is finite only if they all are."""
        self.strategy.scaler.unscale_(self.state.optimizer)
        if (limit := self.settings.gradient_clipping) is not None:
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        else:  # the sum of sizes: squares overflow earlier, and the largest is slow to find on a CPU
            gradients = [value.grad for value in self.model.parameters() if value.grad is not None]
            norm = nn.utils.get_total_norm(gradients, norm_type=1.0)
        norm = self.strategy.reduce_norm(norm)
        # With float16 the scaler handles gradients that are not finite.
        return torch.zeros_like(norm) if self.strategy.scaler.is_enabled() else norm

    def _accuracy(self, batches: Sequence[CountedBatch]) -> float | None:
        """Returns the accuracy on each process's last batch, in a pass without dropout."""
        counted = next((counted for counted in reversed(batches) if not counted.dummy), batches[0])
        with self.strategy.full_model() as model, evaluating(model):
            likelihoods = model.likelihoods(counted.batch.to(self.strategy.device))
        if likelihoods.correct is None:
            return None
        sums = torch.stack([likelihoods.correct.sum(), likelihoods.targets.sum()])
        correct, targets = self.processes.total([0, 0] if counted.dummy else sums.tolist())
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
        """Evaluates the model, keeps it if it is the best so far, and saves a checkpoint."""
        with self._evaluated_parameters():
            evaluation = self._measured()
            rank, improved = self._rank(evaluation), self._improves(evaluation)
            if improved:
                self.progress.best, self.progress.best_rank = self._monitored(evaluation), rank
                self._save_model()
            with self.processes.raise_everywhere():
                self.hooks.ask("model_evaluated", run=self.run, step=evaluation.step, rank=rank)
        self.progress.waited = 0 if improved else self.progress.waited + 1
        evaluation = replace(evaluation, best=improved, final=self.has_ended)
        self._tell("evaluation_ended", evaluation=evaluation)
        self._save_checkpoint()

    def _measured(self) -> EvaluationResult:
        return self.guard.evaluated(lambda: self.validation.evaluate(self.progress.step))

    def _monitored(self, evaluation: EvaluationResult) -> float:
        name = self.run.task.monitor
        return evaluation.loss if name == "loss" else evaluation.metrics[name]

    def _rank(self, evaluation: EvaluationResult) -> Rank:
        """Returns a key that sorts evaluations, the best first; NaN comes last, a lower loss breaks ties."""
        value = self._monitored(evaluation)
        if math.isnan(value):
            return True, 0.0, evaluation.loss
        return False, -value if self.higher_is_better else value, evaluation.loss

    def _improves(self, evaluation: EvaluationResult) -> bool:
        best = self.progress.best_rank
        return best is None or self._rank(evaluation) < best

    def _evaluated_parameters(self) -> AbstractContextManager[None]:
        """A context in which the model has the parameters of callbacks or the optimizer, if any."""
        wanted = self.hooks.ask("evaluated_parameters", run=self.run, model=self.strategy.trained)
        if wanted is None:
            wanted = evaluated_values(self.state.optimizer, self.strategy.trained)
        return nullcontext() if wanted is None else self.strategy.temporary_values(wanted)

    def _average(self) -> None:
        """Ends with the average of several evaluations' parameters, if a callback makes one."""
        average = self.hooks.ask("averaged_parameters", run=self.run)
        if average is None:
            return
        steps, tensors = average
        restore(self.state.model, tensors, self.directory.path)
        self.strategy.shard_from_full()
        evaluation = self._measured()
        self._save_model()
        evaluation = replace(evaluation, best=self._improves(evaluation))
        self._tell("average_evaluated", steps=steps, evaluation=evaluation, single_best=self.progress.best)

    def _tell(self, hook: str, **arguments: object) -> None:
        """Calls a hook; the error of a callback that must not fail ends all processes."""
        with self.processes.raise_everywhere():
            self.hooks.call(hook, run=self.run, **arguments)

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
        resume = f"Resume with `{self.run.resume_command}`."
        self.processes.abort(InterruptedRunError(f"Interrupted at {place}. {resume}"))
