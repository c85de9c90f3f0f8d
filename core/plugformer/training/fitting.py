"""Fitting a model to data: what the training loop is made of, and the observers that watch it."""

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import cast

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
from plugformer.hooks.specification import Run
from plugformer.interfaces import Model
from plugformer.registry import Kind, Registry
from plugformer.runs.checkpoint import TrainingState, drop_old, load_checkpoint
from plugformer.runs.loading import TrainedModel
from plugformer.runs.store import load_tensors, restore
from plugformer.training.compilation import CompileTime, compile_layers
from plugformer.training.metrics_log import MetricsLog
from plugformer.training.strategy import TrainingStrategy
from plugformer.training.stream import BatchStream, PreparedBatches, StreamedBatches
from plugformer.training.trainer import Monitor, Trainer

FEW_UPDATES = 500
"""Fewer than these rarely train a model to its end: docs/results.md, defaults beside tuned settings."""

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
    log = MetricsLog()
    observing: list[object] = []
    if processes.main:
        compiling = [CompileTime(notify)] if trained.task.training.compile else []
        observing = [log, *compiling, *observers, *load_observers(trained.registry.hooks(), notify)]
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
        _tell_why_it_ended(trainer, notify)


def _tell_why_it_ended(trainer: Trainer, notify: Callable[[str], None]) -> None:
    """Says that a resumed run makes no update although some are left, and how it would."""
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
    """Returns the strategy for strategy training."""
    if processes.count == 1:
        if settings.shard:
            notify("training.shard: one process alone trains, and has the whole model")
        return TrainingStrategy(model, settings)
    hooks = HookManager(load_observers(registry.hooks(), notify), notify)
    found: TrainingStrategy | None = hooks.first(
        "training_strategy", model=model, settings=settings, processes=processes
    )
    if found is None and settings.shard:
        raise ConfigurationError("training.shard: no installed plugin shares models out")
    return found or TrainingStrategy(model, settings)


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
    evaluator, watched = trained.evaluator(processes), settings.monitor
    return Trainer(
        run=run,
        strategy=strategy,
        state=TrainingState(
            trained.model,
            optimizer.build(strategy.trained.named_parameters()),
            hooks={name: strategy.sharing_out(each) for name, each in hooks.components.items()},
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
        monitor=Monitor(watched, watched != "loss" and evaluator.metrics[watched].higher_is_better),
        hooks=hooks,
        processes=processes,
    )


Epochs = Callable[[int], list[Rows]]
"""The batches of an epoch by its number."""


def epochs_of(settings: TrainingSettings, data: PreparedData) -> Epochs | None:
    """Returns the batches of a training's epochs, keeping those of the last one; None for streamed data."""
    if data.streamed is not None:
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
    if data.streamed is not None:
        return StreamedBatches(data.streamed, partial(order_of, settings), settings, processes)
    return PreparedBatches(data.splits["train"], lambda _: cast("Epochs", epochs), settings, processes)


def order_of(settings: TrainingSettings, lengths: Int[ndarray, "examples sides"]) -> Epochs:
    """Returns an epoch's batches as a function of its number, as the task's batch settings say."""
    if settings.batch_size is not None:
        size = settings.batch_size
        return lambda epoch: sized_batches(len(lengths), size=size, seed=settings.seed, epoch=epoch)
    tokens = settings.batch_tokens or DEFAULT_BATCH_TOKENS
    return lambda epoch: token_batches(lengths, tokens=tokens, seed=settings.seed, epoch=epoch)
