"""What is done when a task says `training.shard` and several processes train."""

from plugformer.configuration import TrainingSettings
from plugformer.distributed import Processes
from plugformer.hooks import hookimpl, must_not_fail
from plugformer.interfaces import Model
from plugformer_sharding.sharded import Sharded


@hookimpl
@must_not_fail
def training_strategy(model: Model, settings: TrainingSettings, processes: Processes) -> Sharded | None:
    """Shares the model out if the task says so."""
    return Sharded(model, settings, processes) if settings.shard else None
