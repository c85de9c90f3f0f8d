"""The model card of a run: `README.md`, made from nothing but the run and the template `card.md`.

What the run's author has written is shown as it is: it cannot become HTML, code or a section of the card.
"""

import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment
from markupsafe import Markup

import plugformer
from plugformer.errors import PlugformerError, RegistryError
from plugformer_sharing.paths import short_names, shortened

if TYPE_CHECKING:
    from plugformer.runs import TrainedModel

_SHOWN = 20
"""Classes that are named at most."""

_MARKUP = re.compile(r"[\\`\[#~|]")
"""What begins code, links, headings and cells of tables."""


def model_card(
    trained: "TrainedModel",
    *,
    name: str = "",
    license: str = "",  # noqa: A002 (its name on the Hub)
    languages: Sequence[str] = (),
    figures: Mapping[str, str] = {},
    usage: str = "",
) -> str:
    """Returns the model card of a run, with the front matter of the Hugging Face Hub.

    No path of this machine is in it: names of files and folders remain.

    Args:
        trained: The model of a run directory.
        name: Name of the model; by default that of its directory.
        license: Its license as the Hub names it, such as `apache-2.0`.
        languages: Codes of languages, such as `de`; by default those that its tokenizers are made for.
        figures: What else was measured, by what it is: `{"largest difference of logits": "3e-6"}`.
        usage: Markdown that says how to use the model; by default the commands for a run directory.

    Raises:
        RunError: A file of the run is damaged.
    """
    from plugformer.runs import RunDirectory

    directory, name = RunDirectory(trained.place), name or trained.place.name
    lock, evaluations, task = directory.read_lockfile(), directory.evaluations(), trained.task
    records = directory.logged() if directory.metrics.exists() else []
    taken = directory.progress().seconds  # nothing in a published run, which has no checkpoints
    seconds = f"{taken:,.0f} s" if taken else ""
    dataset, data_license = data_source(trained)
    tokenizers = (task.tokenizer.source, task.tokenizer.target)
    languages = languages or sorted(
        {str(block.options["language"]) for block in tokenizers if block.options.get("language")}
    )
    classes = [*map(str, trained.processor.classes or ())]
    more = f" and {len(classes) - _SHOWN} more" if len(classes) > _SHOWN else ""
    columns = trained.experiment.task_type.columns
    environment = lock.get("environment", {})
    text = _template().render(
        front_matter=Markup(front_matter(trained, name, license, languages, dataset, evaluations)),  # noqa: S704 (YAML)
        name=name,
        description=(task.description or "A model trained with Plugformer.").splitlines(),
        usage=Markup(usage or usage_of(trained, name)),  # noqa: S704 (Markdown of whoever publishes)
        evaluations=evaluations,
        figures=figures,
        dataset=dataset,
        license=data_license,
        languages=languages,
        lock={"examples": {}, **lock},
        task=task,
        task_type=trained.experiment.task_type,
        inputs=[column.name for column in columns if column.role == "input"],
        classes=classes and f"{len(classes)}: {', '.join(classes[:_SHOWN])}{more}",
        parameters=sum(parameter.numel() for parameter in trained.model.parameters()),
        layers=", ".join(f"{stack} {len(part.layers)}" for stack, part in trained.model.spec.stacks.items()),
        sizes=trained.model.sizes,
        parts=[*_parts(trained, lock)],
        updates=max((record["step"] for record in records), default=0),
        best=max((record["step"] for record in records if record.get("best") is True), default=None),
        seconds=seconds,
        environment=environment,
        versions={**lock["versions"], **environment.get("versions", {})},
    )
    return str(shortened(text, short_names(task.model_dump(mode="json"), lock)))


def usage_of(trained: "TrainedModel", run: str) -> str:
    """Returns how to use a run that a command can name."""
    inputs = [column.name for column in trained.experiment.task_type.columns if column.role == "input"]
    shell, call = f'plugformer predict {run} "some text"', 'trained.predict(["some text"])'
    if len(inputs) > 1:
        question = json.dumps(dict.fromkeys(inputs, "some text"))
        shell = f"plugformer predict {run} --json-lines {shlex.quote(question)}"
        call = f"trained.predict([{question}])"
    return (
        f"```bash\npip install plugformer\n{shell}\n```\n\n"
        f'```python\nimport plugformer\n\ntrained = plugformer.load("{run}")\n{call}\n```\n\n'
        "Loading executes nothing from these files. A plugin that is missing is named; install it yourself."
    )


def front_matter(
    trained: "TrainedModel",
    name: str,
    license: str,  # noqa: A002 (its name on the Hub)
    languages: Sequence[str],
    dataset: str,
    evaluations: Mapping[str, Any],
) -> str:
    """Returns the metadata of a card: https://huggingface.co/docs/hub/model-cards#model-card-metadata."""
    from huggingface_hub import EvalResult, ModelCardData

    task, tag = trained.task, pipeline_tag(trained)
    results = [
        EvalResult(
            task_type=tag,
            dataset_type=dataset or task.data.name,
            dataset_name=dataset or task.data.name,
            dataset_split=split,
            metric_type=metric,
            metric_name=f"{metric}, 95 % interval {score['low']:.4g} to {score['high']:.4g}",
            metric_value=score["value"],
        )
        for split, report in evaluations.items()
        for metric, score in report["metrics"].items()
        if math.isfinite(score["value"])
    ]
    data = ModelCardData(
        library_name=plugformer.__name__,
        license=license or None,
        language=[*languages] or None,
        pipeline_tag=tag,
        tags=[plugformer.__name__, task.type.name, task.model.architecture.name],
        datasets=[dataset] if dataset else None,
        metrics=sorted({result.metric_type for result in results}) or None,
        model_name=name,
        eval_results=results or None,
    )
    return data.to_yaml()


def pipeline_tag(trained: "TrainedModel") -> str:
    """Returns the Hub's name of what a model does: https://huggingface.co/tasks."""
    from plugformer.interfaces import Level

    names = {
        Level.TOKEN: "fill-mask" if trained.experiment.task_type.mask_tokens else "token-classification",
        Level.NEXT_TOKEN: "text-generation",
        Level.SEQUENCE: "text-classification",
        Level.VECTOR: "sentence-similarity",
    }
    return names[trained.experiment.task_type.level]


def data_source(trained: "TrainedModel") -> tuple[str, str]:
    """Returns the name on the Hub and the license of the data; empty texts where the run does not tell."""
    with suppress(PlugformerError):  # the data component need not be installed here
        data = trained.experiment.data
        return data.dataset, data.license
    return "", ""


def _parts(trained: "TrainedModel", lock: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, str]]:
    """Yields kind, name, lockfile entry and summary of each component."""
    for path, record in lock["components"].items():
        kind, _, name = path.partition("/")
        summary = ""
        with suppress(RegistryError):  # parts that only training needs may be missing here
            summary = trained.registry.find(kind, name).summary
        yield kind, name, record, summary


def _template() -> Any:
    environment = Environment(autoescape=True, finalize=_plain, trim_blocks=True, lstrip_blocks=True)
    environment.globals["json"] = partial(json.dumps, default=str, ensure_ascii=False)
    return environment.from_string(files("plugformer_sharing").joinpath("card.md").read_text("utf-8"))


def _plain(value: Any) -> Markup:
    """Returns a text on one line, in Markdown that shows it as it is; Markdown of this module unchanged."""
    if isinstance(value, Markup):
        return value
    plain = _MARKUP.sub(r"\\\g<0>", re.sub(r"\s+", " ", str(value))).replace("<", "&lt;")
    return Markup(plain)  # noqa: S704 (nothing of it is markup any more)
