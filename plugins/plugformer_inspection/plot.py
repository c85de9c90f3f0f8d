"""All figures of a run, as files and as one page."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import chain
from pathlib import Path

from plugformer.data import prepare
from plugformer.errors import PlugformerError, RunError
from plugformer.runs import RunDirectory, TrainedModel, refuse_links, replacing
from plugformer_inspection.attention import AttentionView, Inspection, inspect_attention
from plugformer_inspection.attention_maps import chosen, draw_attention, label, place_name
from plugformer_inspection.history import History, draw_history, read_history
from plugformer_inspection.positions import EncodingView, draw_positions, view_positions
from plugformer_reports.drawing import Drawing, looks, rendered
from plugformer_reports.fonts import families_for
from plugformer_reports.page import Rows, document, figure, table

Notify = Callable[[str], None]


def content(paragraphs: Iterable[str], figures: Iterable[str]) -> str:
    """Returns a section of the page: paragraphs of plain text, then figures in HTML."""
    return "\n".join([*(f"<p>{escape(text)}</p>" for text in paragraphs), *figures])


def plot(
    trained: TrainedModel, out: Path, text: str | None, notify: Notify, layers: Sequence[int] = ()
) -> list[Path]:
    """Draws a run's learning curves, positions and attention; returns the files, the page last.

    Args:
        trained: The model of the run.
        out: A folder; files of earlier plots in it are replaced.
        text: What the model is to answer while its attention is watched; None for the first validation
            example.
        notify: Is told what cannot be drawn, and why.
        layers: Whose attention is drawn; a few of each stack if none are given.

    Raises:
        ConfigurationError: There is no such layer.
        LengthError: The text is longer than the model can process.
        RunError: A file of the run is damaged, or `out` cannot be written, or lies in the run and the run
            has symbolic links.
    """
    run = RunDirectory(trained.directory)
    if out.absolute().is_relative_to(run.path.absolute()):
        refuse_links(run.path)
    history = _history(run, notify)
    views = view_positions(trained.model, trained.task)
    text = _first_example(trained, notify) if text is None else text
    inspection = None if text is None else inspect_attention(trained, text)
    drawn = [] if inspection is None else chosen(inspection.attentions, layers)
    scores = _scores(run)
    files: list[Path] = []
    tokens = (label(token) for view in drawn for token in (*view.query, *view.key))
    with looks(families_for(tokens, notify)):
        sections = [
            (title, content(paragraphs, _save(drawings, out, files)))
            for title, paragraphs, drawings in (
                ("Training", _training_text(history), draw_history(history)),
                ("Positions", _positions_text(views), chain.from_iterable(map(draw_positions, views))),
                ("Attention", _attention_text(inspection, drawn), draw_attention(drawn)),
            )
        ]
    header = table((), _facts(trained)) + (table(scores[0], scores[1:]) if scores else "")
    page = document(f"{trained.directory.name}: {trained.task.description}", header, sections)
    files.append(_write(out / "index.html", page.encode()))
    return files


def _history(run: RunDirectory, notify: Notify) -> History:
    if run.metrics.exists():
        return read_history(run.metrics)
    notify(f"no learning curves: {run.metrics} is missing")
    return History({}, None)


def _first_example(trained: TrainedModel, notify: Notify) -> str | None:
    try:
        data = prepare(trained.experiment, trained.vocabularies)
        return data.splits["validation"].input(0)
    except PlugformerError as error:
        notify(f"no attention maps: no TEXT given, and the task's data cannot be read: {error}")
        return None


def _training_text(history: History) -> list[str]:
    return [] if history.curves else ["The run has no log of its training."]


def _positions_text(views: Sequence[EncodingView]) -> list[str]:
    return [] if views else ["No positional encoding adds, rotates or weighs anything."]


def _attention_text(inspection: Inspection | None, drawn: Sequence[AttentionView]) -> list[str]:
    if inspection is None:
        return ["No text was given, and the task's data could not be read."]
    text = [f"Input: {inspection.text}", f"Output: {inspection.output}"]
    if len(drawn) < len(inspection.attentions):
        text.append("Not all layers are drawn; plugformer plot --layer N chooses one.")
    silent = [view for view in drawn if view.weights is None]
    return text + [f"{place_name(view)} records no weights: there is nothing to draw." for view in silent]


def _scores(run: RunDirectory) -> Rows:
    """Returns a table of the final scores; empty if the run has not been evaluated."""
    rows = [
        (split, name, f"{score['value']:.4g}", f"{score['low']:.4g} to {score['high']:.4g}")
        for split, report in run.evaluations().items()
        for name, score in report["metrics"].items()
    ]
    return [("split", "metric", "value", "95 % interval"), *rows] if rows else []


def _facts(trained: TrainedModel) -> Rows:
    model = trained.task.model
    parameters = sum(parameter.numel() for parameter in trained.model.parameters())
    return [
        ("run", str(trained.directory)),
        ("task", trained.task.type.name),
        (
            "model",
            f"{model.architecture.name}, width {model.width}, {model.heads} heads, {parameters:,} parameters",
        ),
    ]


def _save(drawings: Iterable[Drawing], out: Path, files: list[Path]) -> list[str]:
    """Writes drawings one by one, so that only one is in memory, and returns them in HTML."""
    figures = []
    for drawing in drawings:
        svg = rendered(drawing.figure, "svg")
        files.append(_write(out / f"{drawing.name}.svg", svg))
        files.append(_write(out / f"{drawing.name}.png", rendered(drawing.figure, "png")))
        figures.append(figure(drawing, svg))
    return figures


def _write(file: Path, content: bytes) -> Path:
    """Writes a file; a link of that name is replaced, not followed."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary:
            temporary.write_bytes(content)
    except (OSError, RunError) as error:
        reason = getattr(error.__cause__ or error, "strerror", None) or error
        raise RunError(f"{file} cannot be written: {reason}; choose another place with --out") from error
    return file
