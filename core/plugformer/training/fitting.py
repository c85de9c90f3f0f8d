"""Fitting a model to data: the parts of the training loop, its observers, and the log of a run."""

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, cast

from jaxtyping import Int
from numpy import ndarray

from plugformer.configuration.task import DEFAULT_BATCH_TOKENS, DEFAULT_EPOCHS, TrainingSettings
from plugformer.data.encoding import Rows, sized_batches, token_batches
from plugformer.data.preparation import PreparedData
from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.errors import ConfigurationError
from plugformer.evaluation.evaluator import Validation
from plugformer.generators import seed_generators
from plugformer.hooks.manager import HookManager, create_hooks, load_observers
from plugformer.hooks.specification import EvaluationResult, Run, Update, hookimpl, must_not_fail
from plugformer.interfaces import Model
from plugformer.registry import Kind, Registry
from plugformer.runs.checkpoint import TrainingProgress, TrainingState, drop_old, load_checkpoint
from plugformer.runs.directory import RunDirectory
from plugformer.runs.loading import TrainedModel
from plugformer.runs.store import load_tensors, restore
from plugformer.training.strategy import TrainingStrategy, compile_layers
from plugformer.training.stream import BatchStream, PreparedBatches
from plugformer.training.trainer import Monitor, Trainer

FEW_UPDATES = 500
"""Fewer than these rarely train a model to its end: see docs/results.md."""

STREAMED_EPOCH = 1000
"""Updates between two evaluations where nobody knows how many an epoch has."""


def fit(
    trained: TrainedModel,
    data: PreparedData,
    observers: Iterable[object],
    notify: Callable[[str], None],
    processes: Processes = SINGLE_PROCESS,
) -> None:
    """Trains from the last checkpoint, or from the beginning; the model ends with what the run has saved.

    Args:
        trained: The model, with its task and run directory.
        data: Its examples.
        observers: Objects with hook implementations.
        notify: Receives messages for people.
        processes: Those that train together; the main one alone calls observers.

    Raises:
        InterruptedRunError: Somebody asked to stop; everything so far is saved.
        RunError: The run directory cannot be written.
    """
    if trained.task.training.compile:
        compile_layers(trained.model)
        notify("training.compile: the first update compiles the layers, which can take minutes")
    log = MetricsLog()
    observing: list[object] = []
    if processes.main:
        observing = [log, *observers, *load_observers(trained.registry.entries("hooks"), notify)]
    hooks = HookManager(observing, notify, create_hooks(trained.task.training.hooks, trained.registry))
    trainer = _trainer(trained, data, hooks, notify, processes)
    seed_generators(trained.task.training.replicate_seed, processes.index)  # of dropout
    _restore_checkpoint(trainer, notify)
    trainer.strategy.shard_from_full()
    log.resume_from(trainer.progress)
    try:
        hooks.call("run_started", run=trainer.run)
        if trainer.progress.step == 0:
            _advise(trainer, notify)
            samples = trainer.guard.evaluated(trainer.validation.samples)
            hooks.call("samples_shown", run=trainer.run, samples=samples)
        trainer.fit()
    except BaseException as error:
        hooks.call("run_failed", run=trainer.run, error=error)
        raise
    finally:
        trainer.stream.close()
    for notice in trainer.stream.notices():
        notify(notice)
    hooks.call("run_ended", run=trainer.run)
    saved = trainer.directory.model
    restore(trained.model, load_tensors(saved), saved)
    trained.model.to(trainer.accelerator.device)


def _advise(trainer: Trainer, notify: Callable[[str], None]) -> None:
    """Warns if the default length of a training is short for the data."""
    settings, steps = trainer.settings, trainer.run.steps
    if settings.epochs is None and settings.steps is None and steps < FEW_UPDATES:
        notify(
            f"training.epochs: {DEFAULT_EPOCHS}, because nothing is given, are only {steps} updates with "
            "these data; more epochs, or smaller batches by training.batch_tokens, may teach the model more"
        )


def _restore_checkpoint(trainer: Trainer, notify: Callable[[str], None]) -> None:
    """Restores the last checkpoint, if there is one, and removes what a killed process left behind."""
    directory, processes = trainer.directory, trainer.processes
    processes.on_main(directory.remove_leftovers)
    resumed = load_checkpoint(directory.checkpoints, trainer.state, notify, processes)
    step = trainer.progress.step
    processes.on_main(lambda: drop_old(directory.checkpoints, trainer.settings.keep_checkpoints))
    processes.on_main(lambda: directory.rewind_log(step))
    if resumed:
        notify(f"resumed after update {step} of {trainer.run.steps}")
    if trainer.has_stalled and step < trainer.run.steps:
        waited = trainer.progress.waited
        notify(
            f"early stopping has ended this training after {waited} evaluations without improvement; to "
            f"continue, set a longer patience: --set training.early_stopping.patience={2 * waited}"
        )


def strategy_of(
    model: Model,
    settings: TrainingSettings,
    registry: Registry,
    notify: Callable[[str], None],
    processes: Processes,
) -> TrainingStrategy:
    """Returns how the processes hold the model while they train it."""
    if processes.count == 1:
        if settings.shard:
            notify("training.shard: one process alone trains, and has the whole model")
        return TrainingStrategy(model, settings)
    hooks = HookManager(load_observers(registry.entries("hooks"), notify), notify)
    strategy: TrainingStrategy | None = hooks.first(
        "training_strategy", model=model, settings=settings, processes=processes
    )
    if strategy is None and settings.shard:
        raise ConfigurationError("training.shard: no installed plugin can shard models")
    return strategy or TrainingStrategy(model, settings)


def _trainer(
    trained: TrainedModel,
    data: PreparedData,
    hooks: HookManager,
    notify: Callable[[str], None],
    processes: Processes,
) -> Trainer:
    """Returns the trainer; hooks have been asked before processes distribute the model."""
    task, registry = trained.task, trained.registry
    settings = task.training
    epochs = epochs_of(settings, data)
    steps, epoch_steps = updates(settings, epochs)
    run = Run(trained.directory, task, trained.model, steps, epoch_steps, registry.arguments)
    with processes.raise_everywhere():
        hooks.ask("model_built", run=run)
    strategy = strategy_of(trained.model, settings, registry, notify, processes)
    optimizer = trained.experiment.create(Kind.OPTIMIZER, settings.optimizer)
    evaluator, name = trained.evaluator(processes), settings.monitor
    return Trainer(
        run=run,
        strategy=strategy,
        state=TrainingState(
            trained.model,
            optimizer.build(strategy.trained.named_parameters()),
            hooks={name: strategy.sharing_out(hook) for name, hook in hooks.components.items()},
            scaler=strategy.accelerator.scaler,
            device=strategy.accelerator.device,
        ),
        schedule=trained.experiment.create(Kind.SCHEDULE, settings.schedule),
        stream=_stream(settings, data, epochs, processes),
        validation=Validation(
            evaluator,
            data.splits["validation"],
            limit=task.evaluation.limit,
            samples=task.evaluation.samples,
        ),
        monitor=Monitor(name, name != "loss" and evaluator.metrics[name].higher_is_better),
        hooks=hooks,
        processes=processes,
    )


Epochs = Callable[[int], list[Rows]]
"""The batches of an epoch by its number."""


def epochs_of(settings: TrainingSettings, data: PreparedData) -> Epochs | None:
    """Returns the batches of a training's epochs, keeping those of the last one; None for streamed data."""
    if data.batches is not None:
        return None
    return lru_cache(maxsize=1)(order_of(settings, data.splits["train"].lengths))


def updates(settings: TrainingSettings, epochs: Epochs | None) -> tuple[int, int]:
    """Returns the number of updates of a training that nothing ends earlier, and those that make an epoch."""
    epoch_steps = STREAMED_EPOCH
    if epochs is not None:
        epoch_steps = -(-len(epochs(0)) // settings.batches_per_update)  # rounded up
    return settings.steps or (settings.epochs or DEFAULT_EPOCHS) * epoch_steps, epoch_steps


def _stream(
    settings: TrainingSettings, data: PreparedData, epochs: Epochs | None, processes: Processes
) -> BatchStream:
    """Returns the training batches."""
    if epochs is not None:
        return PreparedBatches(data.splits["train"], epochs, settings, processes)
    stream: BatchStream = cast("Callable[..., Any]", data.batches)(
        partial(order_of, settings), settings, processes
    )
    return stream


def order_of(settings: TrainingSettings, lengths: Int[ndarray, "examples sides"]) -> Epochs:
    """Returns an epoch's batches as a function of its number, as the task's batch settings say."""
    if settings.batch_size is not None:
        size = settings.batch_size
        return lambda epoch: sized_batches(len(lengths), size=size, seed=settings.seed, epoch=epoch)
    tokens = settings.batch_tokens or DEFAULT_BATCH_TOKENS
    return lambda epoch: token_batches(lengths, tokens=tokens, seed=settings.seed, epoch=epoch)


_SUMS = ("loss", "targets", "tokens", "seconds")


class MetricsLog:
    """Writes `metrics.jsonl`, before any other observer can stop the run.

    Lines have "event": "training" (loss and tokens/s since the last such line), "validation" or "average".
    """

    def __init__(self) -> None:
        self._progress = TrainingProgress()
        self._last: Update | None = None
        self._targets = 0  # of updates whose loss is not known yet

    def resume_from(self, progress: TrainingProgress) -> None:
        """Continues the sums of a checkpoint, which may have been saved between two lines."""
        self._progress = progress

    @hookimpl(tryfirst=True)
    @must_not_fail
    def step_ended(self, run: Run, update: Update) -> None:
        """Adds up updates, and writes a line every `training.log_every`."""
        sums = self._progress.unlogged = self._progress.unlogged or dict.fromkeys(_SUMS, 0.0)
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
        if evaluation.final and self._progress.unlogged and self._last is not None:
            self._write(run, self._last)
        record = {"event": "validation", **_figures(evaluation), "best": evaluation.best, **_time(evaluation)}
        RunDirectory(run.directory).log(record)

    @hookimpl(tryfirst=True)
    @must_not_fail
    def average_evaluated(
        self, run: Run, steps: list[int], evaluation: EvaluationResult, single_best: float
    ) -> None:
        """Writes a line about the average, with the best single evaluation."""
        parts = {"steps": steps, "single_best": {run.task.training.monitor: single_best}}
        record = {"event": "average", **_figures(evaluation), **parts, **_time(evaluation)}
        RunDirectory(run.directory).log(record)

    def _write(self, run: Run, update: Update) -> None:
        sums = self._progress.unlogged
        record = {
            "event": "training",
            "step": update.step,
            "epoch": update.epoch,
            "loss": sums["loss"] / sums["targets"] if sums["targets"] else None,
            **_accuracy(update),
            "learning_rate": update.learning_rate,
            "tokens_per_second": round(sums["tokens"] / sums["seconds"], 1),
        }
        if run.task.training.on_nonfinite == "skip":
            record["skipped"] = update.skipped
        RunDirectory(run.directory).log(record)
        self._progress.unlogged = {}


def _figures(evaluation: EvaluationResult) -> dict[str, Any]:
    figures = {"step": evaluation.step, "loss": evaluation.loss}
    return {**figures, **_accuracy(evaluation), **evaluation.metrics}


def _accuracy(measured: Update | EvaluationResult) -> dict[str, float]:
    """Returns the share of right outputs, where one can be right or wrong."""
    return {} if measured.token_accuracy is None else {"token_accuracy": measured.token_accuracy}


def _time(evaluation: EvaluationResult) -> dict[str, float]:
    return {"seconds": round(evaluation.seconds, 3)}
