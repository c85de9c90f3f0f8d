"""All figures of a run, as files and as one page."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from plugformer.errors import ConfigurationError, PlugformerError
from plugformer.interfaces import Level, as_text
from plugformer.runs import RunDirectory, TrainedModel, refuse_links, replacing
from plugformer_cli import predictions
from plugformer_cli.drawing import drawing_style
from plugformer_cli.page import render_page, save_figures
from plugformer_inspection.attention import AttentionView, Inspection, inspect_attention
from plugformer_inspection.attention_maps import draw_attention, label, select_layers, title_of
from plugformer_inspection.history import History, draw_history, read_history
from plugformer_inspection.positions import draw_positions, view_positions

Notify = Callable[[str], None]

WORST = 20
"""Number of examples that are listed."""

PROMPT = 16
"""Tokens of a language model's text that it continues."""


def plot(
    trained: TrainedModel,
    out: Path,
    text: str | None,
    notify: Notify,
    layers: Sequence[int] = (),
    worst: str | None = None,
) -> list[Path]:
    """Draws a run's learning curves, positions and attention; returns the files, the page last.

    Attention is drawn for a text, or else the first validation example, and some layers, or else a few; not
    of models that read several texts apart. The validation examples with the worst value of a metric, or of
    `loss`, are listed.

    Raises:
        ConfigurationError: There is no such layer or metric.
        LengthError: The text is longer than the model can process.
        RunError: A file of the run is damaged, `out` cannot be written, or it lies in the run and the run has
            symbolic links.
    """
    run = RunDirectory(trained.directory)
    if out.absolute().is_relative_to(run.path.absolute()):
        refuse_links(run.path)
    examples = [] if worst is None else worst_examples(trained, worst, notify)
    history = History({}, None)
    if run.metrics.exists():
        history = read_history(run.metrics)
    else:
        notify(f"no learning curves: {run.metrics} is missing")
    views = view_positions(trained.model, trained.task)
    inspection = _inspection(trained, text, notify)
    drawn = [] if inspection is None else select_layers(inspection.attentions, layers)
    positions = chain.from_iterable(map(draw_positions, views))
    files: list[Path] = []

    def write(name: str, content: bytes) -> None:
        out.mkdir(parents=True, exist_ok=True)
        with replacing(out / name) as temporary:  # a link of that name is replaced, not followed
            temporary.write_bytes(content)
        files.append(out / name)

    with drawing_style((label(token) for view in drawn for token in (*view.query, *view.key)), notify):
        sections = [
            (title, paragraphs, save_figures(drawings, write))
            for title, paragraphs, drawings in (
                ("Training", () if history.curves else ("The run has no log.",), draw_history(history)),
                ("Positions", () if views else ("The encodings do nothing.",), positions),
                ("Attention", list(_attention_text(inspection, drawn)), draw_attention(drawn)),
            )
        ]
    model = trained.task.model
    parameters = sum(parameter.numel() for parameter in trained.model.parameters())
    size = f"width {model.width}, {model.heads} heads, {parameters:,} parameters"
    page = render_page(
        "plugformer_inspection",
        "plot.html",
        title=f"{trained.directory.name}: {trained.task.description}",
        facts=[
            ("run", trained.directory),
            ("task", trained.task.type.name),
            ("model", f"{model.architecture.name}, {size}"),
        ],
        scores=[
            (split, name, f"{score['value']:.4g}", f"{score['low']:.4g} to {score['high']:.4g}")
            for split, report in run.evaluations().items()
            for name, score in report["metrics"].items()
        ],
        sections=sections,
        examples=examples,
    )
    write("index.html", page.encode())
    return files


def _inspection(trained: TrainedModel, text: str | None, notify: Notify) -> Inspection | None:
    if trained.model.level is Level.VECTOR:
        notify("no attention maps: the model reads each text of an example by itself")
        return None
    if text is None:
        try:
            text = _first_example(trained)
        except PlugformerError as error:
            notify(f"no attention maps: no TEXT given, and the task's data cannot be read: {error}")
            return None
    return inspect_attention(trained, text)


def _first_example(trained: TrainedModel) -> str:
    """Returns the input of the first validation example; of a language model how its text begins."""
    from plugformer.data import prepare  # most figures do not wait for libraries of data

    split = prepare(trained.experiment, trained.processor).splits["validation"]
    if split.example(0):
        return split.input(0)
    (beginning,) = trained.processor.target.decode([split.sequences([0])[0][:PROMPT].tolist()])
    return beginning


def worst_examples(trained: TrainedModel, metric: str, notify: Notify) -> list[tuple[str, ...]]:
    """Returns the worst validation examples by a metric or `loss`: its value, input, references, answer.

    Raises:
        ConfigurationError: The task has no such metric.
    """
    metrics = trained.evaluator().metrics
    if metric not in ("loss", *metrics):
        expected = " or ".join(["loss", *metrics])
        raise ConfigurationError(f"unknown metric {metric!r}; expected {expected}")
    report = trained.evaluate("validation", notify=notify)
    higher = metric != "loss" and metrics[metric].higher_is_better
    table = predictions(trained, report).sort_values(metric, ascending=higher, kind="stable").head(WORST)
    answers = zip(table.index, table[metric], table["references"], table["answer"], strict=True)
    return [
        (f"{value:.4g}", report.encoded.input(row), " / ".join(map(as_text, right)), as_text(answer))
        for row, value, right, answer in answers
    ]


def _attention_text(inspection: Inspection | None, drawn: Sequence[AttentionView]) -> Iterator[str]:
    if inspection is None:
        yield "There is no text that the model reads as one, or the task's data could not be read."
        return
    yield f"Input: {inspection.text}"
    yield f"Output: {inspection.output}"
    if len(drawn) < len(inspection.attentions):
        yield "Only some layers are drawn; plugformer plot --layer N chooses one."
    yield from (f"{title_of(view)} records no weights." for view in drawn if view.weights is None)
