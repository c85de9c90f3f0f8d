"""From a model, its settings and data to the trainer that fits it."""

from collections.abc import Iterable
from typing import cast

from plugformer.callbacks import HookManager, create_callbacks, load_callbacks
from plugformer.configuration.task import TrainingSettings
from plugformer.data.preparation import PreparedData
from plugformer.distributed import Processes
from plugformer.evaluation.evaluator import Validation
from plugformer.hooks import Run
from plugformer.interfaces import Model
from plugformer.optimizer import optimizer_of
from plugformer.registry import Kind
from plugformer.runs.checkpoint import TrainingProgress, TrainingState
from plugformer.runs.loading import Notify, TrainedModel
from plugformer.training.metrics_log import MetricsLog
from plugformer.training.strategy import TrainingStrategy, compile_model, compiles
from plugformer.training.stream import (
    BatchStream,
    Epochs,
    PreparedBatches,
    count_updates,
    epochs_of,
    ladder_of,
)
from plugformer.training.trainer import Trainer


def strategy_of(model: Model, settings: TrainingSettings, processes: Processes) -> TrainingStrategy:
    """Returns how the processes hold the model while they train it; a single one has the whole."""
    if settings.shard and processes.count > 1:
        from plugformer.training.sharded import Sharded  # and all of torch's FSDP

        return Sharded(model, settings, processes)
    return TrainingStrategy(model, settings, processes)


def create_trainer(
    trained: TrainedModel,
    data: PreparedData,
    callbacks: Iterable[object],
    notify: Notify,
    processes: Processes,
) -> Trainer:
    """Returns the trainer of a model. The main process alone calls those that only watch."""
    task, experiment, settings = trained.task, trained.experiment, trained.task.training
    progress = TrainingProgress()
    loaded = load_callbacks(trained.registry.entries("callbacks"), notify) if processes.main else []
    watching = [MetricsLog(progress), *callbacks, *loaded] if processes.main else []
    hooks = HookManager(watching, notify, create_callbacks(settings.callbacks, trained.registry))
    epochs = epochs_of(settings, data)
    steps, epoch_steps = count_updates(settings, epochs)
    run = Run(trained.directory, task, trained.model, steps, epoch_steps, trained.registry)
    with processes.raise_everywhere():
        hooks.seed(settings.replicate_seed, "model_built")
        hooks.ask("model_built", run=run)  # before processes distribute the model
    strategy = strategy_of(trained.model, settings, processes)
    optimizer = optimizer_of(experiment, trained.model)
    evaluator, name, whole = trained.evaluator(processes), task.monitor, task.evaluation
    stream: BatchStream
    if data.streamed is not None:
        from plugformer.training.streamed import StreamedBatches  # few tasks stream

        ladder = ladder_of(settings, data.streamed.sample)
        stream = StreamedBatches(data.streamed, ladder, settings, processes)
    else:
        stream = PreparedBatches(data.splits["train"], cast("Epochs", epochs), settings, processes)
    trainer = Trainer(
        run=run,
        strategy=strategy,
        state=TrainingState(
            trained.model,
            optimizer.build(strategy.trained.named_parameters()),
            progress,
            callbacks=hooks.components,
            gather=strategy.gather,
            scatter=strategy.scatter,
            scaler=strategy.scaler,
            device=strategy.device,
        ),
        schedules={"": experiment.create(Kind.SCHEDULE, settings.schedule), **optimizer.schedules},
        stream=stream,
        validation=Validation(evaluator, data.splits["validation"], limit=whole.limit, samples=whole.samples),
        higher_is_better=name != "loss" and evaluator.metrics[name].higher_is_better,
        hooks=hooks,
        processes=processes,
        notify=notify,
    )
    if compiles(settings, processes.device, steps):
        compile_model(strategy.trained, processes.device, automatic=settings.compile == "auto")
        notify("training.compile: the first updates compile the model, which can take minutes")
    return trainer
