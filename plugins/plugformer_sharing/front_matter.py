"""The YAML at the beginning of a model card, which the Hugging Face Hub reads."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import plugformer
from plugformer.errors import PlugformerError

if TYPE_CHECKING:
    from plugformer.interfaces import TaskType
    from plugformer.runs import TrainedModel


@dataclass(frozen=True)
class Statements:
    """What only the author knows.

    Attributes:
        name: Name of the model; empty for that of its directory.
        license: Its license as the Hub names it, such as `apache-2.0`.
        languages: Codes of languages, such as `de`.
    """

    name: str = ""
    license: str = ""
    languages: Sequence[str] = ()


def front_matter(trained: "TrainedModel", stated: Statements, evaluations: dict[str, Any]) -> str:
    """Returns the front matter without its fences.

    Args:
        trained: The model.
        stated: Its license and languages are left out if they are empty.
        evaluations: Reports by split, as in `evaluation.json`.

    Returns:
        YAML: https://huggingface.co/docs/hub/model-cards#model-card-metadata.
    """
    from huggingface_hub import ModelCardData

    task, (dataset, _) = trained.task, data_source(trained)
    results = list(_results(trained, dataset, evaluations))
    data = ModelCardData(
        library_name=plugformer.__name__,
        license=stated.license or None,
        language=list(languages(trained, stated)) or None,
        pipeline_tag=pipeline_tag(trained.experiment.task_type),
        tags=[plugformer.__name__, task.type.name, task.model.architecture.name],
        datasets=[dataset] if dataset else None,
        metrics=sorted({result.metric_type for result in results}) or None,
        model_name=stated.name or trained.place.name,
        eval_results=results or None,
    )
    return data.to_yaml()


def pipeline_tag(task_type: "TaskType") -> str:
    """Returns the Hub's name of what models of a task type do: https://huggingface.co/tasks."""
    from plugformer.interfaces import Level

    if task_type.level is Level.TOKEN:
        return "fill-mask" if task_type.mask_tokens else "token-classification"
    names = {
        Level.NEXT_TOKEN: "text-generation",
        Level.SEQUENCE: "text-classification",
        Level.VECTOR: "sentence-similarity",
    }
    return names[task_type.level]


def languages(trained: "TrainedModel", stated: Statements) -> Sequence[str]:
    """Returns the stated languages, or else those that tokenizers are made for."""
    tokenizers = trained.task.tokenizer
    options = (block.options.get("language") for block in (tokenizers.source, tokenizers.target))
    return stated.languages or sorted({str(language) for language in options if language})


def data_source(trained: "TrainedModel") -> tuple[str, str]:
    """Returns the name on the Hub and the license of the data; empty texts where the run does not tell."""
    with suppress(PlugformerError):  # the data component need not be installed here
        data = trained.experiment.data
        return data.dataset, data.license
    return "", ""


def _results(trained: "TrainedModel", dataset: str, evaluations: dict[str, Any]) -> Any:
    """Yields each metric on each split as the Hub's `EvalResult`."""
    from huggingface_hub import EvalResult

    for split, report in evaluations.items():
        for name, score in report["metrics"].items():
            if math.isfinite(score["value"]):
                yield EvalResult(
                    task_type=pipeline_tag(trained.experiment.task_type),
                    dataset_type=dataset or trained.task.data.name,
                    dataset_name=dataset or trained.task.data.name,
                    dataset_split=split,
                    metric_type=name,
                    metric_name=f"{name}, 95 % interval {score['low']:.4g} to {score['high']:.4g}",
                    metric_value=score["value"],
                )
