"""The training loop."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

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
from plugformer.training.stream import BatchStream


@dataclass(frozen=True)
class Monitor:
    """Decides which evaluation is the best.

    Attributes:
        name: `loss`, or a metric's name.
        higher_is_better: Its direction.
    """

    name: str
    higher_is_better: bool

    def improves(self, evaluation: EvaluationResult, progress: TrainingProgress) -> bool:
        """Returns whether an evaluation beats the best value so far, or equals it at a lower loss."""
        if progress.best is None or progress.best_loss is None:
            return True
        return self.rank(evaluation) < self._rank(progress.best, progress.best_loss)

    def value(self, evaluation: EvaluationResult) -> float:
        """Returns the monitored value of an evaluation."""
        return evaluation.loss if self.name == "loss" else evaluation.metrics[self.name]

    def rank(self, evaluation: EvaluationResult) -> tuple[bool, float, float]:
        """Returns a key that sorts evaluations, the best first; NaN comes last, a lower loss breaks ties."""
        return self._rank(self.value(evaluation), evaluation.loss)

    def _rank(self, value: float, loss: float) -> tuple[bool, float, float]:
        if math.isnan(value):
            return True, 0.0, loss
        return False, -value if self.higher_is_better else value, loss


@dataclass(kw_only=True, eq=False)
class Trainer:
    """Updates a model's parameters until its steps are made, it stops improving, or it is interrupted.

    Attributes:
        run: What is trained, where and how long.
        strategy: The model as the processes hold it while they train.
        state: The whole model, the optimizer of `strategy`'s parameters, and progress; restored from a
            checkpoint when a run is resumed.
        schedule: Sets the learning rate.
        stream: Yields the training batches.
        validation: Evaluates the model on the validation split.
        monitor: Decides the best evaluation.
        hooks: Observers, and the components that take part.
        processes: The processes that train together; each has a part of every update's batches.
    """

    run: Run
    strategy: TrainingStrategy
    state: TrainingState
    schedule: Schedule
    stream: BatchStream
    validation: Validation
    monitor: Monitor
    hooks: HookManager
    processes: Processes = SINGLE_PROCESS

    def __post_init__(self) -> None:
        self.settings = self.run.task.training
        self.directory = RunDirectory(self.run.directory)
        self.guard = NotFiniteGuard(self.run, self.state, self.strategy, self.stream.describe, self.processes)
        self.accelerator = self.strategy.accelerator
        self.model = self.strategy.model
        self.optimizer = self.strategy.prepare(self.state.optimizer)
        self.objective = self._objective if self.hooks.changes("training_loss") else None

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
            ConfigurationError: `training.compile` is set, and the compiler fails.
            InterruptedRunError: The training was interrupted; a checkpoint and the best parameters are saved.
            NotFiniteError: Loss, gradients or parameters are not finite; the last good checkpoint is kept.
            RunError: The disk is full or cannot be written; the last checkpoint is kept.
        """
        interruption = Interruption()
        with interruption.watched():
            while not self.has_ended:
                explained = compiler_errors_explained(compiled=self.settings.compile)
                with self.processes.peer_failure_as_error(), explained:
                    update, settled = self._update(interruption)
                evaluate = self._is_time_to_evaluate()
                # Without its evaluation a step is not complete: nothing would make up for it after resuming.
                self._tell("step_ended", complete=not evaluate, together=settled, update=update)
                if evaluate:
                    self._evaluate()
                if settled and self.processes.any(interruption.requested is not None):
                    if self.has_ended:  # after the last evaluation only the average is missing
                        self._average()
                    self._stop(saved=evaluate)
        self._average()

    def _update(self, interruption: Interruption) -> tuple[Update, bool]:
        """Makes one update from `batches_per_update` batches; its loss is the mean over all their targets.

        Returns:
            The update; and whether it is settled: the device has been waited for, and its numbers are known
            to be finite. In between, losses and norms stay on the device.
        """
        started = time.perf_counter()
        generators = generator_states(self.state.device) if self.guard.skips else {}
        batches, dummy = self._draw()
        count = self.run.model.count
        # The only message of most updates: a request to stop travels with it.
        message = [
            sum(count(batch) for batch in batches),
            sum(batch.tokens for batch in batches),
            interruption.requested is not None,
        ]
        targets, tokens, stopping = map(int, self.processes.total(message))
        settled = bool(stopping) or self._is_time_to_settle()
        rate = self._set_learning_rate()
        losses = self._gradients(batches, dummy, max(1, targets))  # without targets the sum of losses is zero
        norm = self._clip(settled=settled)
        step = self.progress.step
        self.guard.pending.append(PendingUpdate(step, losses, norm, targets, batches, generators))
        loss, finite = self.guard.settle() if settled else (None, True)
        if finite:
            self.hooks.seed(self.settings.replicate_seed, "optimizer_step", step)
            self._ask("optimizer_step", optimizer=self.optimizer, step=step)
        self.optimizer.zero_grad()
        seconds = time.perf_counter() - started
        self.progress.seconds += seconds
        update = Update(
            step=step,
            epoch=self.progress.epoch + 1,
            loss=loss,
            targets=targets,
            tokens=tokens,
            token_accuracy=self._accuracy(batches, dummy) if self._is_logged() else None,
            learning_rate=rate,
            seconds=seconds,
            left_out=not finite,
            skipped=self.progress.skipped,
        )
        return update, settled

    def _draw(self) -> tuple[list[Batch], list[Batch]]:
        """Returns this process's batches of the next update after hooks have changed them.

        Where other processes have one batch more, a second list has a dummy batch, which does not count.
        """
        batches, dummy = self.stream.next(self.progress)
        self.progress.step += 1
        changed: list[Batch] = []
        for number, batch in enumerate([*batches, *dummy]):
            self._seed_hooks("training_batch", number)
            arguments = {"run": self.run, "batch": batch, "step": self.progress.step}
            changed.append(self.hooks.ask("training_batch", **arguments))
        return changed[: len(batches)], changed[len(batches) :]

    def _gradients(self, batches: Sequence[Batch], dummy: Sequence[Batch], divisor: int) -> list[Tensor]:
        """Computes the gradients of an update; returns the summed loss of each batch, on the device."""
        self.model.train()
        totals: list[Tensor] = []
        passes = [*batches, *dummy]
        for number, batch in enumerate(passes):
            self._seed_hooks("training_loss", number)
            is_dummy = number >= len(batches)
            last = number == len(passes) - 1
            located = self.run.model.located(batch).to(self.accelerator.device)
            loss = self._backward(located, divisor, last=last, dummy=is_dummy)
            totals += [] if is_dummy else [loss.total.detach()]
        return totals

    def _is_logged(self) -> bool:
        return self.progress.step % self.settings.log_every == 0

    def _is_time_to_settle(self) -> bool:
        return self.guard.every_update or self._is_logged() or self._is_time_to_evaluate()

    def _objective(self, model: Model, batch: Batch) -> Loss:
        """Returns a batch's loss as hooks compute it."""
        loss: Loss = self.hooks.ask("training_loss", run=self.run, model=model, batch=batch)
        return loss

    def _seed_hooks(self, hook: str, number: int) -> None:
        """Lets hooks draw other numbers for each batch of an update, whichever process has it."""
        batch = number * self.processes.count + self.processes.index
        self.hooks.seed(self.settings.replicate_seed, hook, self.progress.step, batch)

    def _ask(self, hook: str, **arguments: object) -> Any:
        return self.hooks.ask(hook, run=self.run, model=self.strategy.trained, **arguments)

    def _backward(self, batch: Batch, divisor: int, *, last: bool, dummy: bool) -> Loss:
        """Adds a batch's gradients, of a dummy one zeros; processes exchange them with the last one."""
        with self.strategy.exchanging(last=last):
            loss = self.strategy.loss(batch, self.objective)
            mean = loss.total / divisor + loss.auxiliary / self.settings.batches_per_update
            # Accelerate exchanges the mean of the processes' gradients; their sum is needed.
            self.accelerator.backward(mean * (0 if dummy else self.processes.count))
        return loss

    def _clip(self, *, settled: bool) -> Tensor:
        """Clips the gradients if the task says so; returns their norm, which is finite only if they are."""
        if self.settings.gradient_clipping is not None:
            limit = self.settings.gradient_clipping
            norm = self.strategy.reduce_norm(self.accelerator.clip_grad_norm_(self.model.parameters(), limit))
        else:
            gradients = [value.grad for value in self.model.parameters() if value.grad is not None]
            norm = self.strategy.reduce_norm(nn.utils.get_total_norm(gradients))
            # Squares overflow earlier. The largest number takes longer to find, but not as long as waiting.
            if not settled or not norm.isfinite():
                norm = self.strategy.reduce_norm(nn.utils.get_total_norm(gradients, norm_type=math.inf))
        scaled = self.accelerator.scaler is not None  # float16: the scaler handles what is not finite
        return torch.zeros_like(norm) if scaled else norm

    def _accuracy(self, batches: Sequence[Batch], dummy: Sequence[Batch]) -> float | None:
        """Returns the accuracy on each process's last batch, in a pass without dropout."""
        with self.strategy.full_model() as model, evaluating(model):
            batch = model.located([*batches, *dummy][len(batches) - 1 if batches else 0])
            likelihoods = model.likelihoods(batch.to(self.accelerator.device))
        if likelihoods.correct is None:
            return None
        sums = [likelihoods.correct.sum(), likelihoods.targets.sum()]
        correct, targets = self.processes.total(torch.stack(sums).tolist() if batches else [0, 0])
        return float(correct / targets) if targets else None

    def _set_learning_rate(self) -> float:
        factor = self.schedule.factor(
            self.progress.step, steps=self.run.steps, width=self.run.task.model.width
        )
        for group in self.optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
            group["lr"] = group["initial_lr"] * factor
        return float(self.optimizer.param_groups[0]["lr"])

    def _is_time_to_evaluate(self) -> bool:
        every = self.settings.evaluate_every or self.run.epoch_steps
        return self.progress.step % every == 0 or self.progress.step == self.run.steps

    def _evaluate(self) -> None:
        with self._evaluated_parameters():
            evaluation = self._measured()
            improved = self.monitor.improves(evaluation, self.progress)
            if improved:
                self.progress.best = self.monitor.value(evaluation)
                self.progress.best_loss = evaluation.loss
                self._save_model()
            with self.processes.raise_everywhere():
                rank = self.monitor.rank(evaluation)
                self.hooks.ask("model_evaluated", run=self.run, step=evaluation.step, rank=rank)
        self.progress.waited = 0 if improved else self.progress.waited + 1
        evaluation = replace(evaluation, best=improved, final=self.has_ended)
        self._tell("evaluation_ended", complete=True, evaluation=evaluation)
        self._save_checkpoint()

    def _measured(self) -> EvaluationResult:
        return self.guard.evaluated(lambda: self.validation.evaluate(self.progress.step))

    @contextmanager
    def _evaluated_parameters(self) -> Iterator[None]:
        """Inside, the model has the values that hooks want evaluated and saved."""
        wanted: Mapping[str, Tensor] | None = self._ask("evaluated_parameters")
        if wanted is None:
            yield
            return
        parameters = dict(self.strategy.trained.named_parameters())
        for name, value in wanted.items():
            if name not in parameters or parameters[name].shape != value.shape:
                raise RegistryError(
                    f"a hook of training.hooks returns {name!r} of shape {tuple(value.shape)} from "
                    "evaluated_parameters, expected parameters of the model, each with its name and shape"
                )
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
        self._tell(
            "average_evaluated",
            complete=False,
            steps=steps,
            evaluation=replace(evaluation, best=self.monitor.improves(evaluation, self.progress)),
            single_best=self.progress.best,
        )

    def _tell(self, hook: str, *, complete: bool, together: bool = True, **arguments: object) -> None:
        """Calls a hook; if one that must not fail does, the run stops, saved as far as it is complete.

        Args:
            hook: Its name.
            complete: Whether a checkpoint can be saved now.
            together: Whether processes ask each other if it has failed; without, nothing is saved.
            **arguments: Of the hook, besides the run.
        """
        if not together:
            self.hooks.call(hook, run=self.run, **arguments)
            return
        try:
            with self.processes.raise_everywhere():
                self.hooks.call(hook, run=self.run, **arguments)
        except (Exception, SystemExit):
            if complete:
                self.strategy.unshard()
                self._save_checkpoint(quietly=True)
            raise

    def _save_model(self) -> None:
        tensors = own_tensors(self.state.model)
        self.processes.on_main(lambda: save_tensors(tensors, self.directory.model))

    def _save_checkpoint(self, *, quietly: bool = False) -> None:
        self.stream.complete(self.progress)
        keep = self.settings.keep_checkpoints
        path = save_checkpoint(self.directory.checkpoints, self.state, keep, self.processes)
        if not quietly:
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
        self.processes.abort(
            InterruptedRunError(
                f"Interrupted at step {self.progress.step}/{self.run.steps}. Checkpoint saved in "
                f"{self.run.directory}. Resume with `plugformer train --resume --out {self.run.directory}"
                f"{self.run.arguments}`."
            )
        )


def _assign(parameters: Mapping[str, nn.Parameter], values: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, value in values.items():
            parameters[name].copy_(value)
