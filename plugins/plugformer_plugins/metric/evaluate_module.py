"""Any metric of Hugging Face `evaluate`."""

import hashlib
import json
import os
import re
import sys
from collections.abc import Sequence
from functools import cached_property
from numbers import Real
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Annotated, Any
from uuid import uuid4

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from pydantic import Field

from plugformer.errors import ConfigurationError, DataError, described
from plugformer.interfaces import OutputMetric

_PUBLISHER = "evaluate-metric"  # of the metrics of Hugging Face: https://huggingface.co/evaluate-metric
_TRUSTED = "PLUGFORMER_TRUST_REMOTE_CODE"


class Evaluate(OutputMetric):
    """A metric of Hugging Face `evaluate` by its name: https://huggingface.co/evaluate-metric.

    A name always means a metric that Hugging Face publishes, never a file. Its code is downloaded once, and
    executed when a model is evaluated, if PLUGFORMER_TRUST_REMOTE_CODE has the SHA-256 of each of its files:
    neither a task nor a cache from somebody else can execute its own code. To use your own script, or that of
    a user of the Hub, derive a component from this class and override `load`.

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
            ConfigurationError: `key` is missing or is not a value that the module computes, or its code is
                not trusted.
            DataError: The module fails, or cannot be loaded.
        """
        examples = [json.loads(row.astype(np.uint8).tobytes()) for row in statistics]
        predictions, references = zip(*examples, strict=True)
        columns, module = {"predictions": predictions, "references": references}, self._module
        try:
            converted = {name: self._converted(name, column) for name, column in columns.items()}
            computed = module.compute(**converted, **self.arguments)
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
        """Returns the module, an `evaluate.EvaluationModule`.

        Args:
            cache: A temporary folder for files of the module.

        Raises:
            ConfigurationError: PLUGFORMER_TRUST_REMOTE_CODE lacks the SHA-256 of one of its files.
        """
        from huggingface_hub import snapshot_download

        name = f"{_PUBLISHER}/{self.metric}"
        folder = Path(snapshot_download(name, repo_type="space", allow_patterns="*.py"))
        scripts = (file for file in sorted(folder.glob("*.py")) if file.name != "app.py")  # the space's page
        files = {file: file.read_bytes() for file in scripts}
        digests = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
        trusted = os.environ.get(_TRUSTED, "").split(",")
        if not {*digests.values()} <= {*trusted}:
            listed = "\n".join(f"    {digest}  {file}" for file, digest in digests.items())
            raise ConfigurationError(
                f"metric 'evaluate': {self.metric} is code from the Hub, executed only if you trust it:\n"
                f"{listed}\n  read it, then set {_TRUSTED}={','.join(digests.values())}"
            )
        for file, content in files.items():
            (cache / file.name).write_bytes(content)
        return load_script(cache / f"{self.metric}.py", cache)

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


def load_script(script: Path, cache: Path) -> Any:
    """Returns the `evaluate.EvaluationModule` of a script, which may import files next to it.

    Unlike `evaluate.load`, it imports nothing from the cache of modules (HF_MODULES_CACHE).

    Args:
        script: A file that defines one subclass of `evaluate.EvaluationModule`.
        cache: A folder for files of the module.
    """
    from evaluate.loading import import_main_class  # slow

    package = ModuleType(f"plugformer_metric_{uuid4().hex}")
    package.__path__ = [str(script.parent)]
    sys.modules[package.__name__] = package
    module = import_main_class(f"{package.__name__}.{script.stem}")(keep_in_memory=True, cache_dir=str(cache))
    module.download_and_prepare()
    return module
