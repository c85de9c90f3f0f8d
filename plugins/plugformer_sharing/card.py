"""The model card of a run: `README.md`, made from nothing but the run.

What the run's author has written is shown as it is: it cannot become HTML, code or a section of the card.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from plugformer.errors import RegistryError, RunError
from plugformer_sharing.front_matter import Statements, data_source, front_matter, languages
from plugformer_sharing.paths import PathShortener

if TYPE_CHECKING:
    from plugformer.configuration import Component
    from plugformer.runs import RunDirectory, TrainedModel

_SHOWN = 20
"""Classes that are named at most."""

_MARKUP = re.compile(r"[\\`\[#~]")
"""What begins code, links and headings."""


class _Markup(str):
    """Markdown that this module has written."""

    __slots__ = ()


def model_card(trained: "TrainedModel", *, figures: Mapping[str, str] = {}, usage: str = "") -> str:
    """Returns the model card of a run, with the front matter of the Hugging Face Hub.

    No path of this machine is in it: names of files and folders remain.

    Args:
        trained: The model of a run directory.
        figures: What else was measured, by what it is: `{"largest difference of logits": "3e-6"}`.
        usage: Markdown that says how to use the model; by default the commands for a run directory.

    Raises:
        RunError: A file of the run is damaged.
    """
    return stated_card(trained, Statements(), figures=figures, usage=usage)


def stated_card(
    trained: "TrainedModel",
    stated: Statements,
    *,
    figures: Mapping[str, str] = {},
    usage: str = "",
) -> str:
    """Returns the model card with what the author states; see `model_card`."""
    from plugformer.runs import RunDirectory

    directory = RunDirectory(trained.place)
    lock, evaluations = directory.read_lockfile(), directory.evaluations()
    name = stated.name or trained.place.name
    sections = {
        "How to use it": [usage or usage_of(trained, name)],
        "Task": _task(trained),
        "Results": _results(evaluations),
        "What was compared": _table(("figure", "value"), list(figures.items())),
        "Data": _data(trained, lock),
        "Model": _model(trained),
        "Parts": _parts(trained, lock),
        "Training": _training(trained, directory, lock),
        "Limits": _limits(trained, stated, evaluations),
    }
    description = trained.task.description or "A model trained with Plugformer."
    lines = [f"# {_plain(name)}", "", *(f"> {_plain(line)}".rstrip() for line in description.splitlines())]
    for heading, content in sections.items():
        if content:
            lines += ["", f"## {heading}", "", *content]
    text = PathShortener.of(trained.task.model_dump(mode="json"), lock).text("\n".join(lines))
    return f"---\n{front_matter(trained, stated, evaluations)}\n---\n\n{text}\n"


def usage_of(trained: "TrainedModel", run: str) -> str:
    """Returns how to use a run that a command can name."""
    python = f'import plugformer\n\ntrained = plugformer.load("{run}")'
    example = trained.experiment.task_type.columns
    inputs = [column.name for column in example if column.role == "input"]
    shell, call = f'plugformer predict {run} "some text"', 'trained.predict(["some text"])'
    if len(inputs) > 1:
        question = json.dumps(dict.fromkeys(inputs, "some text"))
        shell = f"plugformer predict {run} --json-lines {shlex.quote(question)}"
        call = f"trained.predict([{question}])"
    install = "pip install plugformer"
    return (
        f"```bash\n{install}\n{shell}\n```\n\n```python\n{python}\n{call}\n```\n\n"
        "Loading executes nothing from these files. A plugin that is missing is named; install it yourself."
    )


def _task(trained: "TrainedModel") -> list[str]:
    task_type, classes = trained.experiment.task_type, trained.processor.classes
    rows = [
        ("type", _named(trained.task.type)),
        ("predicts from", _Markup(f"level `{task_type.level}`, output {_code(task_type.output_type)}")),
        ("inputs", ", ".join(column.name for column in task_type.columns if column.role == "input")),
        ("outputs", ", ".join(column.name for column in task_type.columns if column.role != "input")),
        ("decoding", _named(trained.task.decoding) if trained.task.decoding.name else ""),
    ]
    if classes:
        more = f" and {len(classes) - _SHOWN} more" if len(classes) > _SHOWN else ""
        rows.append(("classes", f"{len(classes)}: {', '.join(map(str, classes[:_SHOWN]))}{more}"))
    return _table(("", ""), [row for row in rows if row[1]])


def _data(trained: "TrainedModel", lock: Mapping[str, Any]) -> list[str]:
    dataset, license_ = data_source(trained)
    source = f"The data set {_code(dataset)} of the Hugging Face Hub, read" if dataset else "Read"
    known = (
        f"Its license is {_plain(license_)}."
        if license_
        else "The run does not record a license of the data."
    )
    counts = lock.get("examples", {})
    rows = [
        (split, f"{counts[split]:,}" if split in counts else "not recorded", _code(str(digest)))
        for split, digest in lock["data"].items()
    ]
    return [
        f"{source} by {_named(trained.task.data)}. {known}",
        "",
        *_table(("split", "examples", "SHA-256 of its content"), rows),
    ]


def _model(trained: "TrainedModel") -> list[str]:
    settings, sizes = trained.task.model, trained.model.sizes
    stacks = {name: len(stack.layers) for name, stack in trained.model.spec.stacks.items()}
    parameters = sum(parameter.numel() for parameter in trained.model.parameters())
    rows = [
        ("parameters", f"{parameters:,}"),
        ("layers", ", ".join(f"{name} {layers}" for name, layers in stacks.items())),
        ("width, heads, hidden width", f"{settings.width}, {settings.heads}, {settings.ffn_width}"),
        ("vocabulary", f"{sizes.source:,} tokens"),
        ("outputs", f"{sizes.outputs:,}" if sizes.outputs else ""),
        ("longest sequence", f"{settings.max_length:,} tokens"),
    ]
    return _table(("", ""), [row for row in rows if row[1]])


def _parts(trained: "TrainedModel", lock: Mapping[str, Any]) -> list[str]:
    rows = []
    for path, record in lock["components"].items():
        kind, _, name = path.partition("/")
        summary = ""
        with suppress(RegistryError):  # parts that only training needs may be missing here
            summary = trained.registry.find(kind, name).summary
        rows.append((kind, _code(name), f"{record['distribution']} {record['version']}".rstrip(), summary))
    return _table(("kind", "part", "plugin", "what it does"), rows)


def _training(trained: "TrainedModel", directory: "RunDirectory", lock: Mapping[str, Any]) -> list[str]:
    settings, where = trained.task.training, lock.get("environment", {})
    records = directory.logged() if directory.metrics.exists() else []
    best = [record["step"] for record in records if record.get("best") is True]
    seconds = ""
    with suppress(RunError):  # a published run has no checkpoints
        seconds = f"{directory.seconds():,.0f} s"
    versions = {**lock["versions"], **where.get("versions", {})}
    rows = [
        ("updates", f"{max((record['step'] for record in records), default=0):,}"),
        ("best update on validation", f"{best[-1]:,} by {settings.monitor}" if best else ""),
        ("time of the updates", seconds),
        ("optimizer", _named(settings.optimizer)),
        ("schedule", _named(settings.schedule)),
        ("seed", f"{settings.seed}, replicate {settings.replicate}"),
        ("precision", where.get("precision", "")),
        ("device", f"{where['processes']} × {where['device']}" if where else ""),
        ("machine", f"{where['processor']}, {where['system']}" if where else ""),
        ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
    ]
    return _table(("", ""), [row for row in rows if row[1]])


def _results(evaluations: Mapping[str, Any]) -> list[str]:
    rows = []
    for split, report in evaluations.items():
        for label, scores in (("", report["metrics"]), (" without constraints", report.get("unconstrained"))):
            for name, score in (scores or {}).items():
                interval = f"{score['low']:.4g} to {score['high']:.4g}"
                signature = score.get("signature", "")
                rows.append(
                    (
                        split,
                        f"{report['examples']:,}",
                        name + label,
                        f"{score['value']:.4g}",
                        interval,
                        signature,
                    )
                )
    return _table(("split", "examples", "metric", "value", "95 % interval", "settings"), rows)


def _limits(trained: "TrainedModel", stated: Statements, evaluations: Mapping[str, Any]) -> Iterator[str]:
    task, spoken = trained.task, languages(trained, stated)
    length = task.data.length
    beyond = {"truncate": "only the beginning of a longer one is read"}.get(
        length.over, "a longer one is refused"
    )
    yield f"- A sequence has at most {task.model.max_length:,} tokens; {beyond}."
    yield "- Words and characters that its vocabulary lacks are unknown to it; `predict` names them."
    if spoken:
        yield f"- Its languages are {_plain(', '.join(spoken))}; it has not learned others."
    else:
        yield "- The run does not record its languages."
    if evaluations:
        splits = _plain(" and ".join(evaluations))
        yield f"- It was measured on {splits} alone. Other text may give other results."
    else:
        yield "- Its training has not ended: there are no final results."
    yield "- Nobody has examined it for harmful or biased answers; it repeats what is in its data."


def _named(block: "Component") -> _Markup:
    """Returns a component with the options that are set."""
    options = {key: value for key, value in block.options.items() if value not in (None, {}, [])}
    shown = ", ".join(
        f"{key} {json.dumps(value, default=str, ensure_ascii=False)}" for key, value in options.items()
    )
    return _Markup(_code(block.name) + (f" ({_plain(shown)})" if shown else ""))


def _plain(text: str) -> str:
    """Returns a text of the author on one line, in Markdown that shows it as it is."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split())).replace("<", "&lt;")


def _code(text: str) -> _Markup:
    return _Markup(f"`{_plain(text)}`")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a table in Markdown; none without rows. Only `_Markup` is not escaped."""
    if not rows:
        return []
    plain = ([cell if isinstance(cell, _Markup) else _plain(cell) for cell in row] for row in rows)
    cells = [[cell.replace("|", "\\|") for cell in row] for row in plain]
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells)]
