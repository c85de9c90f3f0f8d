"""Any metric of Hugging Face `evaluate`."""

import json
import re
import uuid
from collections.abc import Sequence
from functools import cached_property
from numbers import Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from pydantic import Field

from plugformer.errors import ConfigurationError, DataError, described
from plugformer.interfaces import OutputMetric

_PUBLISHER = "evaluate-metric"  # of the metrics of Hugging Face: https://huggingface.co/evaluate-metric


class Evaluate(OutputMetric):
    """A metric of Hugging Face `evaluate` by its name: https://huggingface.co/evaluate-metric.

    Its code is downloaded once, and executed when a model is evaluated. A name always means a metric that
    Hugging Face publishes, never a file: a task file from somebody else cannot execute its own code. To use
    your own script, or that of a user of the Hub, derive a component from this class and override `load`.

    The score may be any function of all examples. The statistics are therefore the examples themselves, as
    bytes, and every resample computes the score again.

    Args:
        metric: Its name, such as rouge.
        key: The value to report, if the module computes several.
        arguments: Further arguments of the module's `compute`.
        higher_is_better: The direction of the value.
        resamples: Number of resamples for the confidence interval.

    Raises:
        ConfigurationError: `metric` is a path, not a name.
    """

    def __init__(
        self,
        *,
        metric: str,
        key: str | None = None,
        arguments: dict[str, Any] | None = None,
        higher_is_better: bool = True,
        resamples: Annotated[int, Field(ge=1)] = 200,
    ) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", metric):
            raise ConfigurationError(
                f"metric 'evaluate': metric: {metric!r} is not the name of a Hugging Face metric such as "
                "rouge; to run your own script, write a metric component that derives from Evaluate"
            )
        self.metric = metric
        self.key = key
        self.arguments = arguments or {}
        self.higher_is_better = higher_is_better
        self.resamples = resamples

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples bytes"]:
        """Returns each example as the bytes of its JSON, padded with spaces to the same length."""
        pairs = zip(predictions, references, strict=True)
        texts = [json.dumps([prediction, list(answers)]).encode() for prediction, answers in pairs]
        length = max(map(len, texts))
        return np.array([list(text.ljust(length)) for text in texts], float)

    def aggregate(self, statistics: Float[ndarray, "examples bytes"]) -> float:
        """Returns the module's score of examples.

        Raises:
            ConfigurationError: `key` is missing or is not a value that the module computes.
            DataError: The module fails.
        """
        examples = [json.loads(row.astype(np.uint8).tobytes()) for row in statistics]
        predictions, references = zip(*examples, strict=True)
        columns = {"predictions": predictions, "references": references}
        try:
            converted = {name: self._converted(name, column) for name, column in columns.items()}
            computed = self._module.compute(**converted, **self.arguments)
        except Exception as error:  # the module may raise anything
            raise DataError(f"metric 'evaluate': {self.metric} fails: {described(error)}") from error
        values = {key: value for key, value in computed.items() if isinstance(value, Real)}
        key = next(iter(values)) if self.key is None and len(values) == 1 else self.key
        if key not in values:
            known = " or ".join(map(repr, sorted(values)))
            raise ConfigurationError(
                f"metric 'evaluate': key: {self.metric} has no value {key!r}; expected {known}"
            )
        return float(values[key])

    def signature(self, references: Sequence[Sequence[str]]) -> str:
        """Returns the module, the key and the version of `evaluate`."""
        import evaluate

        return f"{self.metric}|key:{self.key}|evaluate:{evaluate.__version__}"

    def load(self, cache: Path) -> Any:
        """Returns the module, an `evaluate.EvaluationModule`, with a temporary folder for its files.

        Raises:
            ConfigurationError: `evaluate` would run a script in the working directory instead.
        """
        import evaluate  # slow

        if Path(_PUBLISHER).exists():
            raise ConfigurationError(
                f"metric 'evaluate': the working directory has a path {_PUBLISHER!r}, and `evaluate` would "
                f"run scripts in it instead of {self.metric} from the Hub; use another working directory"
            )
        return evaluate.load(
            f"{_PUBLISHER}/{self.metric}",
            module_type="metric",
            keep_in_memory=True,
            cache_dir=str(cache),
            experiment_id=uuid.uuid4().hex,
        )

    @cached_property
    def _module(self) -> Any:
        with TemporaryDirectory() as folder:
            try:
                return self.load(Path(folder))
            except ConfigurationError:
                raise
            except Exception as error:  # no network, no such metric, or a script that does not run
                raise DataError(
                    f"metric 'evaluate': cannot load {self.metric}: {described(error)}\n"
                    "the first use of a metric of the Hub downloads it"
                ) from error

    def _converted(self, name: str, column: Sequence[Any]) -> list[Any]:
        """Returns predictions or references with the type that the module declares for them."""
        features = self._module.features
        feature = (features[0] if isinstance(features, list) else features)[name]
        dtype = str(getattr(getattr(feature, "feature", feature), "dtype", "string"))
        convert = int if "int" in dtype else float if "float" in dtype else str
        if name == "predictions":
            return list(map(convert, column))
        if hasattr(feature, "feature"):  # a list of references
            return [list(map(convert, answers)) for answers in column]
        return [convert(answers[0]) for answers in column]
