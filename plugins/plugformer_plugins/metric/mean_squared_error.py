"""Mean squared error."""

from jaxtyping import Float
from numpy import ndarray

from plugformer_plugins.metric.numbers import NumberMetric


class MeanSquaredError(NumberMetric):
    """The mean of the squared differences; lower is better."""

    higher_is_better = False

    def aggregate(self, statistics: Float[ndarray, "examples 2"]) -> float:
        """Returns the mean."""
        predicted, right = statistics.T
        return float(((predicted - right) ** 2).mean())
