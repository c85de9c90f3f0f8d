"""The training loop."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from plugformer.distributed import SINGLE_PROCESS, Processes, ReportedByMainProcess
from plugformer.errors import InterruptedRunError, RegistryError
from plugformer.evaluation.validation import Validation
from plugformer.generators import generator_states
from plugformer.hooks.manager import HookManager
from plugformer.hooks.specification import Evaluation, Run, Update
from plugformer.interfaces import Batch, Loss, Model, Schedule, evaluating
from plugformer.runs.averaging_checkpoints import AveragingCheckpoints, rank, step_of
from plugformer.runs.checkpoint import Progress, TrainingState, save_checkpoint
from plugformer.runs.directory import RunDirectory
from plugformer.runs.weights import mean_tensors, own_tensors, restore, save_tensors
from plugformer.training.compilation import compiler_errors_explained
from plugformer.training.interruption import Interruption
from plugformer.training.not_finite import Noted, NotFiniteGuard
from plugformer.training.parallel import Parallel
from plugformer.training.stream import BatchStream


@dataclass(frozen=True)
class Monitor:
    """What decides which evaluation is the best.

    Attributes:
        name: `loss`, or a metric's name.
        higher_is_better: Its direction.
    """

    name: str
    higher_is_better: bool

    def improves(self, evaluation: Evaluation, progress: Progress) -> bool:
        """Returns whether an evaluation beats the best value so far, or equals it at a lower loss."""
        if progress.best is None or progress.best_loss is None:
            return True
        new = rank(self.value(evaluation), evaluation.loss, higher_is_better=self.higher_is_better)
        return new < rank(progress.best, progress.best_loss, higher_is_better=self.higher_is_better)

    def value(self, evaluation: Evaluation) -> float:
        """Returns the monitored figure of an evaluation."""
        return evaluation.loss if self.name == "loss" else evaluation.metrics[self.name]


@dataclass(frozen=True)
class _Drawn:
    """The batches of an update that a process computes.

    Attributes:
        batches: Those that count.
        dummy: One that counts for nothing, where other processes have one more.
    """

    batches: Sequence[Batch]
    dummy: Sequence[Batch]

    @property
    def passes(self) -> list[Batch]:
        """All that are computed."""
        return [*self.batches, *self.dummy]


@dataclass(kw_only=True, eq=False)
class Trainer:
    """Updates a model's parameters until its steps are made, it stops improving, or somebody interrupts.

    Attributes:
        run: What is trained, where and how long.
        parallel: The model as the processes hold it while they train.
        state: The whole model, the optimizer of `parallel`'s parameters, and progress; restored from a
            checkpoint where one is resumed.
        schedule: Moves the learning rate.
        stream: Yields the training batches.
        validation: Evaluates the model on the validation split.
        monitor: Decides the best evaluation.
        hooks: Observers, and the components that take part.
        processes: Those that train together; each has a part of every update's batches.
    """

    run: Run
    parallel: Parallel
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
        self.averaging = AveragingCheckpoints(
            self.directory.averaging_checkpoints,
            self.settings.average,
            higher_is_better=self.monitor.higher_is_better,
        )
        self.guard = NotFiniteGuard(self.run, self.state, self.parallel, self.stream.describe, self.processes)
        self.accelerator = self.parallel.accelerator
        self.model = self.parallel.model
        self.optimizer = self.parallel.prepare(self.state.optimizer)
        self.objective = self._objective if self.hooks.changes("training_loss") else None

    @property
    def progress(self) -> Progress:
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
            ConfigurationError: The task wants layers compiled, and the compiler fails.
            InterruptedRunError: Somebody asked to stop; a checkpoint and the best parameters are saved.
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
                    if self.has_ended:  # after the last evaluation: no update is left, only the average
                        self._average()
                    self._stop(saved=evaluate)
        self._average()

    def _update(self, interruption: Interruption) -> tuple[Update, bool]:
        """Makes one update from `batches_per_update` batches; its loss is the mean over all their targets.

        Returns:
            What it was; and whether it is settled: the device has been waited for, and its numbers are known
            to be finite. In between, losses and norms stay on the device.
        """
        started = time.perf_counter()
        generators = generator_states(self.state.device) if self.guard.skips else {}
        drawn = self._draw()
        model = self.run.model
        counts = [sum(map(model.count, drawn.batches)), sum(each.tokens for each in drawn.batches)]
        # The only message of most updates: a request to stop travels with it, and is acted on afterwards.
        message = [*counts, interruption.requested is not None]
        targets, tokens, stopping = map(int, self.processes.total(message))
        settled = bool(stopping) or self._is_time_to_settle()
        divisor = max(1, targets)  # without any target the sum of losses is zero
        rate = self._set_learning_rate()
        losses = self._gradients(drawn, divisor)
        norm = self._clip(settled=settled)
        self.guard.note(Noted(self.progress.step, losses, norm, targets, drawn.batches, generators))
        found = self.guard.settle() if settled else None
        if allowed := found is None or found.allowed:
            self.hooks.seed(self.settings.replicate_seed, "optimizer_step", self.progress.step)
            self._ask("optimizer_step", optimizer=self.optimizer, step=self.progress.step)
        self.optimizer.zero_grad()
        seconds = time.perf_counter() - started
        self.progress.seconds += seconds
        update = Update(
            step=self.progress.step,
            epoch=self.progress.epoch + 1,
            loss=None if found is None else found.loss,
            targets=targets,
            tokens=tokens,
            token_accuracy=self._accuracy(drawn) if self._is_logged() else None,
            learning_rate=rate,
            seconds=seconds,
            left_out=not allowed,
            skipped=self.progress.skipped,
        )
        return update, settled

    def _draw(self) -> "_Drawn":
        """Returns this process's batches of the next update, as hooks have them."""
        batches, dummy = self.stream.next(self.progress)
        self.progress.step += 1
        changed = [self._changed(batch, number) for number, batch in enumerate([*batches, *dummy])]
        return _Drawn(changed[: len(batches)], changed[len(batches) :])

    def _gradients(self, drawn: "_Drawn", divisor: int) -> list[Tensor]:
        """Computes the gradients of an update; returns the sums of its batches' losses, on the device."""
        model = self.run.model
        self.model.train()
        totals: list[Tensor] = []
        for number, batch in enumerate(drawn.passes):
            self._seed_hooks("training_loss", number)
            is_dummy = number >= len(drawn.batches)
            last = number == len(drawn.passes) - 1
            here = model.located(batch).to(self.accelerator.device)
            loss = self._backward(here, divisor, last=last, dummy=is_dummy)
            totals += [] if is_dummy else [loss.total.detach()]
        return totals

    def _is_logged(self) -> bool:
        return self.progress.step % self.settings.log_every == 0

    def _is_time_to_settle(self) -> bool:
        return self.guard.every_update or self._is_logged() or self._is_time_to_evaluate()

    def _changed(self, batch: Batch, number: int) -> Batch:
        """Returns a batch as hooks have it."""
        self._seed_hooks("training_batch", number)
        changed: Batch = self.hooks.ask("training_batch", run=self.run, batch=batch, step=self.progress.step)
        return changed

    def _objective(self, model: Model, batch: Batch) -> Loss:
        """Returns a batch's loss as hooks have it."""
        loss: Loss = self.hooks.ask("training_loss", run=self.run, model=model, batch=batch)
        return loss

    def _seed_hooks(self, hook: str, number: int) -> None:
        """Lets hooks draw other numbers for each batch of an update, whichever process has it."""
        batch = number * self.processes.count + self.processes.index
        self.hooks.seed(self.settings.replicate_seed, hook, self.progress.step, batch)

    def _ask(self, hook: str, **arguments: object) -> Any:
        return self.hooks.ask(hook, run=self.run, model=self.parallel.trained, **arguments)

    def _backward(self, batch: Batch, divisor: int, *, last: bool, dummy: bool) -> Loss:
        """Adds a batch's gradients, of a dummy one zeros; processes exchange them with the last one."""
        with self.parallel.exchanging(last=last):
            loss = self.parallel.loss(batch, self.objective)
            mean = loss.total / divisor + loss.auxiliary / self.settings.batches_per_update
            # What is exchanged is the mean of the processes' gradients; wanted is their sum.
            self.accelerator.backward(mean * (0 if dummy else self.processes.count))
        return loss

    def _clip(self, *, settled: bool) -> Tensor:
        """Limits the gradients if the task says so; returns their norm, which is finite only if they are."""
        if self.settings.gradient_clipping is not None:
            limit = self.settings.gradient_clipping
            norm = self.parallel.reduce_norm(self.accelerator.clip_grad_norm_(self.model.parameters(), limit))
        else:
            gradients = [each.grad for each in self.model.parameters() if each.grad is not None]
            norm = self.parallel.reduce_norm(nn.utils.get_total_norm(gradients))
            # Squares overflow earlier. The largest number takes longer to find, but not as long as waiting.
            if not settled or not norm.isfinite():
                norm = self.parallel.reduce_norm(nn.utils.get_total_norm(gradients, norm_type=math.inf))
        scaled = self.accelerator.scaler is not None  # float16: the scaler needs to see what is not finite
        return torch.zeros_like(norm) if scaled else norm

    def _accuracy(self, drawn: "_Drawn") -> float | None:
        """Returns the accuracy on each process's last batch; one that has only a dummy adds nothing.

        The pass of the update cannot be used again: it has dropout.
        """
        batches = drawn.batches
        with self.parallel.full_model() as model, evaluating(model):
            batch = model.located((batches or drawn.dummy)[-1]).to(self.accelerator.device)
            found = model.likelihoods(batch)
        if found.correct is None:
            return None
        sums = torch.stack([found.correct.sum(), found.targets.sum()]).tolist() if batches else [0, 0]
        correct, targets = self.processes.total(sums)
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
            value = self.monitor.value(evaluation)
            if improved:
                self.progress.best, self.progress.best_loss = value, evaluation.loss
                self._save_model()
            self.processes.on_main(
                lambda: self.averaging.keep(evaluation.step, value, evaluation.loss, self.state.model)
            )
        self.progress.waited = 0 if improved else self.progress.waited + 1
        evaluation = replace(evaluation, best=improved, final=self.has_ended)
        self._tell("evaluation_ended", complete=True, evaluation=evaluation)
        self._save_checkpoint()

    def _measured(self) -> Evaluation:
        return self.guard.evaluated(lambda: self.validation.evaluate(self.progress.step))

    @contextmanager
    def _evaluated_parameters(self) -> Iterator[None]:
        """Inside, the model has the values that hooks want evaluated and saved."""
        wanted: Mapping[str, Tensor] | None = self._ask("evaluated_parameters")
        if wanted is None:
            yield
            return
        parameters = dict(self.parallel.trained.named_parameters())
        for name, value in wanted.items():
            if name not in parameters or parameters[name].shape != value.shape:
                raise RegistryError(
                    f"a hook of training.hooks returns {name!r} of shape {tuple(value.shape)} from "
                    "evaluated_parameters, expected parameters of the model, each with its name and shape"
                )
        kept = {name: parameters[name].detach().clone() for name in wanted}
        _assign(parameters, wanted)
        self.parallel.unshard()
        try:
            yield
        finally:
            _assign(parameters, kept)
        self.parallel.unshard()  # where all have come this far: it is a collective

    def _average(self) -> None:
        """Ends with the mean of the checkpoints kept for it; none are unless the task asks for an average."""
        if chosen := self.processes.on_main(self.averaging.chosen):
            tensors = mean_tensors(chosen)
            restore(self.state.model, tensors, self.directory.averaging_checkpoints)
            self.parallel.shard_from_full()
            evaluation = self._measured()
            self.processes.on_main(lambda: save_tensors(tensors, self.directory.model))
            self._tell(
                "average_evaluated",
                complete=False,
                steps=[step_of(path) for path in chosen],
                evaluation=replace(evaluation, best=self.monitor.improves(evaluation, self.progress)),
                single_best=self.progress.best,
            )
        self.processes.on_main(self.averaging.remove)

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
        except (Exception, ReportedByMainProcess):
            if complete:
                self.parallel.unshard()
                self._write_checkpoint()
            raise

    def _save_model(self) -> None:
        tensors = own_tensors(self.state.model)
        self.processes.on_main(lambda: save_tensors(tensors, self.directory.model))

    def _write_checkpoint(self) -> Path:
        keep = self.settings.keep_checkpoints
        self.stream.complete(self.progress)
        return save_checkpoint(self.directory.checkpoints, self.state, keep, self.processes)

    def _save_checkpoint(self) -> None:
        path = self._write_checkpoint()
        self.hooks.call("checkpoint_saved", run=self.run, step=self.progress.step, path=path)

    def _stop(self, *, saved: bool) -> None:
        """Saves everything unless that has just been done, then ends the run."""
        if not saved:
            self.parallel.unshard()
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
