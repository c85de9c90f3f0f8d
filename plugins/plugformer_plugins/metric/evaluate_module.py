"""Any metric of Hugging Face `evaluate`."""

import json
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from pydantic import Field

from plugformer.errors import ConfigurationError, DataError, described
from plugformer.interfaces import OutputMetric

_ENDED = -1.0
"""Follows the last byte of an example, as often as rows of one length need it."""


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_PUBLISHER = "evaluate-metric"
"""Who owns the metrics of Hugging Face: https://huggingface.co/evaluate-metric."""


class Evaluate(OutputMetric):
    """A metric of Hugging Face `evaluate` by its name: https://huggingface.co/evaluate-metric.

    Its code is downloaded once, and executed when a model is measured. A name always means what Hugging Face
    publishes, never a file: a task that somebody else has written cannot bring code along. A script of your
    own, or of a user of the Hub, is a component like any other: derive from this class, and overload `load`.

    Statistics are the examples themselves, as bytes, because no module tells what its score adds up.
    Therefore every resample of the interval is scored anew: 200 of them, not 1,000.

    Args:
        metric: Its name, such as rouge.
        key: Of the figures that the module computes, the one that counts; if not given, it must be one.
        arguments: What the module is given besides predictions and references.
        higher_is_better: The figure's direction.
        resamples: Of the interval.

    Raises:
        ConfigurationError: The metric is given as something else than a name.
    """

    def __init__(
        self,
        *,
        metric: str,
        key: str | None = None,
        arguments: dict[str, Any] | None = None,
        higher_is_better: bool = True,
        resamples: Annotated[int, Field(ge=1, description="Of the interval.")] = 200,
    ) -> None:
        if not _NAME.fullmatch(metric):
            raise ConfigurationError(
                f"metric 'evaluate': metric: {metric!r} is no name of Hugging Face's metrics, such as rouge; "
                "a script is code: make a metric of it, and name its manifest with --registry FILE"
            )
        self.metric = metric
        self.key = key
        self.arguments = arguments or {}
        self.higher_is_better = higher_is_better
        self.resamples = resamples

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples bytes"]:
        """Returns each example as the bytes of its JSON, and as many ends as the longest one needs."""
        pairs = zip(predictions, references, strict=True)
        rows = [json.dumps([prediction, list(answers)]).encode() for prediction, answers in pairs]
        found = np.full((len(rows), max(map(len, rows))), _ENDED)
        for row, text in zip(found, rows, strict=True):
            row[: len(text)] = np.frombuffer(text, dtype=np.uint8)
        return found

    def aggregate(self, statistics: Float[ndarray, "examples bytes"]) -> float:
        """Returns the module's score of examples.

        Raises:
            ConfigurationError: There is no such key, or there are several and none is given.
            DataError: The module fails, or its figure is no finite number.
        """
        texts = [bytes(row[row != _ENDED].astype(np.uint8)) for row in statistics]
        predictions, references = zip(*map(json.loads, texts), strict=True)
        try:
            found = self._module.compute(
                predictions=self._wanted(predictions, "predictions"),
                references=self._wanted(references, "references"),
                **self.arguments,
            )
        except (ConfigurationError, DataError):
            raise
        except Exception as error:  # it is a stranger's code
            raise DataError(f"metric 'evaluate': {self.metric} fails: {described(error)}") from error
        value = self._figure(found)
        if not math.isfinite(value):
            raise DataError(f"metric 'evaluate': {self.metric} gives {value}, which is not finite")
        return value

    def signature(self, references: Sequence[Sequence[str]]) -> str:
        """Returns the module, what was computed, and the version of `evaluate`."""
        import evaluate

        return f"{self.metric}|key:{self.key}|evaluate:{evaluate.__version__}"

    def load(self, cache: Path) -> Any:
        """Returns the module, an `evaluate.EvaluationModule`.

        Args:
            cache: A folder for what it writes, which is removed.

        Raises:
            ConfigurationError: The working directory has a folder that `evaluate` would prefer to the Hub.
        """
        import evaluate  # slow

        if Path(_PUBLISHER).exists():
            raise ConfigurationError(
                f"metric 'evaluate': {self.metric} means the Hub, but there is a path {_PUBLISHER!r} here, "
                "which `evaluate` would look into; start elsewhere"
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
                    f"metric 'evaluate': {self.metric} cannot be loaded: {described(error)}\n"
                    "a metric of the Hub is downloaded once"
                ) from error

    def _wanted(self, column: Sequence[Any], name: str) -> list[Any]:
        """Returns predictions or references as the module's features want them: a list each, or one."""
        features = self._module.features
        feature = (features[0] if isinstance(features, list) else features)[name]
        several, inner = hasattr(feature, "feature"), getattr(feature, "feature", feature)
        if name == "references" and not several:
            column = [answers[0] for answers in column]
        kind = str(getattr(inner, "dtype", "string"))
        number = int if "int" in kind else float if "float" in kind else str
        try:
            if name == "references" and several:
                return [[number(answer) for answer in answers] for answers in column]
            return [number(each) for each in column]
        except ValueError as error:
            raise DataError(
                f"metric 'evaluate': {self.metric} wants {name} of the type {kind}: {error}; choose a metric "
                "of texts, or a task that answers with numbers"
            ) from error

    def _figure(self, found: Mapping[str, Any]) -> float:
        numbers = {key: value for key, value in found.items() if np.ndim(value) == 0 and _is_number(value)}
        key = next(iter(numbers)) if self.key is None and len(numbers) == 1 else self.key
        if key not in numbers:
            raise ConfigurationError(
                f"metric 'evaluate': key {key!r} is none of the figures of {self.metric}; expected "
                f"{' or '.join(map(repr, sorted(numbers)))}"
            )
        return float(numbers[key])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
