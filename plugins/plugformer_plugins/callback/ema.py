"""An exponential moving average of the parameters."""

from collections.abc import Generator, Mapping
from typing import Annotated, Any

from pydantic import Field
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from plugformer.hooks import hookimpl
from plugformer.interfaces import Callback, Model


class ExponentialMovingAverage(Callback):
    """Evaluates and saves an exponential moving average of the parameters.

    average = decay * average + (1 - decay) * parameters, after every update.

    Training continues with the parameters themselves; the average is evaluated and saved. Acceleration of
    stochastic approximation by averaging, Polyak and Juditsky 1992: https://doi.org/10.1137/0330046, with
    exponential weights, as torch.optim.swa_utils has them.
    With `average_checkpoints` the run ends with the mean of these averages at several evaluations.

    Args:
        decay: Share of the average that stays at each update; about 1 / (1 - decay) updates count.
        warm_up: Let the first updates count more, so that the average soon forgets the initial values: after
            n updates the decay is at most (1 + n) / (10 + n), as in TensorFlow's ExponentialMovingAverage
            with `num_updates`.
    """

    def __init__(self, *, decay: Annotated[float, Field(ge=0, lt=1)] = 0.999, warm_up: bool = True) -> None:
        self.decay = decay
        self.warm_up = warm_up
        self.updates = 0
        self.average: dict[str, Tensor] = {}

    @hookimpl(wrapper=True)
    def optimizer_step(self, model: Model) -> Generator[None, object, object]:
        """Moves the average after the step; it begins with the parameters before the first one."""
        trained = {name: each.detach() for name, each in model.named_parameters() if each.requires_grad}
        if not self.average:
            self.average = {name: value.clone() for name, value in trained.items()}
        for name, value in trained.items():  # a checkpoint gives it back in main memory
            self.average[name] = self.average[name].to(value.device)
        result = yield
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates)) if self.warm_up else self.decay
        average = [self.average[name] for name in trained]
        get_ema_multi_avg_fn(decay)(average, list(trained.values()), None)
        return result

    @hookimpl
    def evaluated_parameters(self) -> Mapping[str, Tensor] | None:
        """Returns the average, once there is one."""
        return self.average or None

    def state_dict(self) -> dict[str, Any]:
        """Returns the average and how many updates are in it."""
        return {"updates": self.updates, "average": self.average}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues with an average."""
        self.updates, self.average = state["updates"], dict(state["average"])
