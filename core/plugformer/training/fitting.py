"""Fitting a model to data: the parts of the training loop, its observers, and the log of a run."""

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, cast

from plugformer.configuration.task import DEFAULT_BATCH_TOKENS, DEFAULT_EPOCHS, TrainingSettings
from plugformer.data.encoding import EncodedSplit
from plugformer.data.ladder import Ladder, PlannedBatch
from plugformer.data.preparation import PreparedData
from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.evaluation.evaluator import Validation
from plugformer.generators import seed_generators
from plugformer.hooks.manager import HookManager, create_hooks, load_observers
from plugformer.hooks.specification import EvaluationResult, Run, Update, hookimpl, must_not_fail
from plugformer.interfaces import Model
from plugformer.optimizer import optimizer_of
from plugformer.registry import Kind
from plugformer.runs.checkpoint import Stateful, TrainingProgress, TrainingState, drop_old, load_checkpoint
from plugformer.runs.directory import RunDirectory
from plugformer.runs.loading import TrainedModel
from plugformer.runs.store import load_tensors, restore
from plugformer.training.strategy import TrainingStrategy, compile_model, compiles
from plugformer.training.stream import BatchStream, PreparedBatches
from plugformer.training.trainer import Monitor, Trainer

Notify = Callable[[str], None]
Epochs = Callable[[int], list[PlannedBatch]]  # the batches of an epoch by its number

STREAMED_EPOCH = 1000
"""Updates between two evaluations where nobody knows how many an epoch has."""


def fit(
    trained: TrainedModel,
    data: PreparedData,
    observers: Iterable[object],
    notify: Notify,
    processes: Processes = SINGLE_PROCESS,
) -> Callable[[str], object]:
    """Trains from the last checkpoint, or from the beginning; the model ends with what the run has saved.

    The main process alone calls observers. Returns the function that calls a hook with the run.

    Raises:
        InterruptedRunError: Somebody asked to stop; everything so far is saved.
        RunError: The run directory cannot be written.
    """
    settings = trained.task.training
    log = MetricsLog()
    loaded = load_observers(trained.registry.entries("hooks"), notify) if processes.main else []
    observing = [log, *observers, *loaded] if processes.main else []
    hooks = HookManager(observing, notify, create_hooks(settings.hooks, trained.registry))
    trainer = _trainer(trained, data, hooks, processes)
    if compiles(settings, processes.device, trainer.run.steps):
        automatic = settings.compile == "auto"
        compile_model(trainer.strategy.trained, processes.device, automatic=automatic)
        notify("training.compile: the first updates compile the model, which can take minutes")
    seed_generators(settings.replicate_seed, processes.index)  # of dropout
    directory, run = trainer.directory, trainer.run
    resumed = load_checkpoint(directory.checkpoints, trainer.state, notify, processes)
    trainer.strategy.shard_from_full()
    log.progress = progress = trainer.progress
    processes.on_main(lambda: drop_old(directory.checkpoints, settings.keep_checkpoints))
    processes.on_main(lambda: directory.rewind(progress.step))
    if resumed:
        notify(f"resumed after update {progress.step} of {run.steps}")
    if trainer.has_stalled and progress.step < run.steps:
        longer = f"--set training.early_stopping.patience={2 * progress.waited}"
        notify(f"early stopping has ended this training; to continue, set a longer patience: {longer}")
    try:
        hooks.call("run_started", run=run)
        if not resumed:
            samples = trainer.guard.evaluated(trainer.validation.samples)
            hooks.call("samples_shown", run=run, samples=samples)
        trainer.fit()
    except BaseException as error:
        hooks.call("run_failed", run=run, error=error)
        raise
    finally:
        trainer.stream.close()
    for notice in trainer.stream.notices():
        notify(notice)
    hooks.call("run_ended", run=run)
    restore(trained.model, load_tensors(directory.model), directory.model)
    trained.model.to(processes.device)
    return partial(hooks.call, run=run)


def strategy_of(model: Model, settings: TrainingSettings, processes: Processes) -> TrainingStrategy:
    """Returns how the processes hold the model while they train it; a single one has the whole."""
    if settings.shard and processes.count > 1:
        from plugformer.training.sharded import Sharded  # and all of torch's FSDP

        return Sharded(model, settings, processes)
    return TrainingStrategy(model, settings, processes)


def _trainer(trained: TrainedModel, data: PreparedData, hooks: HookManager, processes: Processes) -> Trainer:
    """Returns the trainer; hooks have been asked before processes distribute the model."""
    task, experiment, settings = trained.task, trained.experiment, trained.task.training
    epochs = epochs_of(settings, data)
    steps, epoch_steps = updates(settings, epochs)
    run = Run(trained.directory, task, trained.model, steps, epoch_steps, trained.registry.arguments)
    with processes.raise_everywhere():
        hooks.ask("model_built", run=run)
    strategy = strategy_of(trained.model, settings, processes)
    optimizer = optimizer_of(experiment, trained.model)
    evaluator, name, whole = trained.evaluator(processes), settings.monitor, task.evaluation
    stream: BatchStream
    if data.streamed is not None:
        from plugformer.training.streamed import StreamedBatches  # few tasks stream

        ladder = ladder_of(settings, data.streamed.sample)
        stream = StreamedBatches(data.streamed, ladder, settings, processes)
    else:
        stream = PreparedBatches(data.splits["train"], cast("Epochs", epochs), settings, processes)
    return Trainer(
        run=run,
        strategy=strategy,
        state=TrainingState(
            trained.model,
            optimizer.build(strategy.trained.named_parameters()),
            hooks={name: strategy.sharing_out(hook) for name, hook in hooks.components.items()},
            scaler=cast("Stateful | None", strategy.scaler),
            device=strategy.device,
        ),
        schedules={"": experiment.create(Kind.SCHEDULE, settings.schedule), **optimizer.schedules},
        stream=stream,
        validation=Validation(evaluator, data.splits["validation"], limit=whole.limit, samples=whole.samples),
        monitor=Monitor(name, name != "loss" and evaluator.metrics[name].higher_is_better),
        hooks=hooks,
        processes=processes,
    )


def epochs_of(settings: TrainingSettings, data: PreparedData) -> Epochs | None:
    """Returns the batches of a training's epochs, keeping those of the last one; None for streamed data."""
    if data.streamed is not None:
        return None
    train = data.splits["train"]
    batches = partial(ladder_of(settings, train).batches, train.lengths, train.counts, settings.seed)
    return lru_cache(maxsize=1)(batches)


def updates(settings: TrainingSettings, epochs: Epochs | None) -> tuple[int, int]:
    """Returns the number of updates of a training that nothing ends earlier, and those that make an epoch."""
    epoch_steps = STREAMED_EPOCH
    if epochs is not None:
        epoch_steps = -(-len(epochs(0)) // settings.batches_per_update)  # rounded up
    return settings.steps or (settings.epochs or DEFAULT_EPOCHS) * epoch_steps, epoch_steps


def ladder_of(settings: TrainingSettings, split: EncodedSplit) -> Ladder:
    """Returns the shapes of batches of such examples, as the task's batch settings say."""
    tokens = settings.batch_tokens or DEFAULT_BATCH_TOKENS
    return Ladder(split.lengths, split.counts, tokens=tokens, size=settings.batch_size)


class MetricsLog:
    """Writes `metrics.jsonl`, before any other observer can stop the run.

    Lines have "event": "training" (loss and tokens/s since the last such line), "validation" or "average".

    Attributes:
        progress: Of the training; it keeps the sums, since a checkpoint may be saved between two lines.
    """

    def __init__(self) -> None:
        self.progress = TrainingProgress()
        self._last: Update | None = None
        self._targets = 0  # of updates whose loss is not known yet

    @hookimpl(tryfirst=True)
    @must_not_fail
    def step_ended(self, run: Run, update: Update) -> None:
        """Adds up updates, and writes a line every `training.log_every`."""
        names = ("loss", "targets", "tokens", "seconds")
        sums = self.progress.unlogged = self.progress.unlogged or dict.fromkeys(names, 0.0)
        if not update.left_out:
            self._targets += update.targets
            if update.loss is not None:
                sums["loss"] += update.loss * self._targets
                sums["targets"] += self._targets
                self._targets = 0
        sums["tokens"] += update.tokens
        sums["seconds"] += update.seconds
        self._last = update
        if update.step % run.task.training.log_every == 0 or update.step == run.steps:
            self._write(run, update)

    @hookimpl(tryfirst=True)
    @must_not_fail
    def evaluation_ended(self, run: Run, evaluation: EvaluationResult) -> None:
        """Writes a line about the validation split; before the last one, about unlogged updates."""
        if evaluation.final and self.progress.unlogged and self._last is not None:
            self._write(run, self._last)
        RunDirectory(run.directory).log(_record("validation", evaluation, best=evaluation.best))

    @hookimpl(tryfirst=True)
    @must_not_fail
    def average_evaluated(
        self, run: Run, steps: list[int], evaluation: EvaluationResult, single_best: float
    ) -> None:
        """Writes a line about the average, with the best single evaluation."""
        best = {run.task.training.monitor: single_best}
        RunDirectory(run.directory).log(_record("average", evaluation, steps=steps, single_best=best))

    def _write(self, run: Run, update: Update) -> None:
        sums = self.progress.unlogged
        record = {
            "event": "training",
            "step": update.step,
            "epoch": update.epoch,
            "loss": sums["loss"] / sums["targets"] if sums["targets"] else None,
            **_accuracy(update),
            "learning_rate": update.learning_rate,
            **({"learning_rates": update.learning_rates} if update.learning_rates else {}),
            "tokens_per_second": round(sums["tokens"] / sums["seconds"], 1),
        }
        if run.task.training.on_nonfinite == "skip":
            record["skipped"] = update.skipped
        RunDirectory(run.directory).log(record)
        self.progress.unlogged = {}


def _record(event: str, evaluation: EvaluationResult, **details: Any) -> dict[str, Any]:
    figures = {"step": evaluation.step, "loss": evaluation.loss, **_accuracy(evaluation)}
    seconds = round(evaluation.seconds, 3)
    return {"event": event, **figures, **evaluation.metrics, **details, "seconds": seconds}


def _accuracy(measured: Update | EvaluationResult) -> dict[str, float]:
    """Returns the share of right outputs, where one can be right or wrong."""
    return {} if measured.token_accuracy is None else {"token_accuracy": measured.token_accuracy}
