"""What single values cannot show: settings of a task that contradict each other."""

from collections.abc import Iterator

from plugformer.configuration.task import Task
from plugformer.errors import nearest
from plugformer.problems import Key

Finding = tuple[tuple[Key, ...], str]
"""A place in the task, and what is wrong there."""

_LOGGED = {"best", "event", "loss", "seconds", "single_best", "step", "steps"}
"""What a line of metrics.jsonl holds beside the metrics and `token_accuracy`, which may be both."""


def contradictions(task: Task) -> Iterator[Finding]:
    """Yields every contradiction in a task whose single values are all right."""
    yield from _streaming(task)
    yield from _layers(task)
    yield from _scores(task)
    yield from _monitor(task)
    yield from _embeddings(task)
    yield from _decoding(task)


def _streaming(task: Task) -> Iterator[Finding]:
    if task.data.streaming is None:
        return
    if task.training.steps is None:
        yield (
            ("data", "streaming"),
            "a stream has no length that epochs could be counted by; give training.steps",
        )
    if task.data.split is not None:
        yield (
            ("data", "split"),
            "of what is streamed nothing can be taken out; name files for validation and test instead",
        )


def _embeddings(task: Task) -> Iterator[Finding]:
    embeddings = task.model.embeddings
    if embeddings.shared and not task.tokenizer.shared:
        yield (
            ("model", "embeddings", "shared"),
            "a shared embedding needs a shared tokenizer: give one tokenizer, or shared: false here",
        )


def _decoding(task: Task) -> Iterator[Finding]:
    settings, longest = task.decoding, task.model.max_length - 1
    if isinstance(settings.length, int):
        if isinstance(settings.max_length, int) and settings.length > settings.max_length:
            yield ("decoding", "length"), f"{settings.length} is more than max_length {settings.max_length}"
        elif settings.length > longest:
            yield (
                ("decoding", "length"),
                f"{settings.length} is more than the {longest} that model.max_length leaves room for",
            )


def _layers(task: Task) -> Iterator[Finding]:
    for name, stack in (("encoder", task.model.encoder), ("decoder", task.model.decoder)):
        layers = stack.layers or task.model.layers
        for index in stack.per_layer:
            if index >= layers:
                yield (
                    ("model", name, "per_layer", index),
                    f"there is no layer {index}: the {name} has {layers}, numbered 0 to {layers - 1}",
                )


def _scores(task: Task) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, metric in enumerate(task.evaluation.metrics):
        name, advice = metric.score_name, f"give this one another name: {{name: {metric.name}, as: NAME}}"
        if name in seen:
            yield ("evaluation", "metrics", index), f"two scores are called {name!r}; {advice}"
        elif name in _LOGGED or (name == "token_accuracy" != metric.name):
            message = f"{name!r} is a figure that every evaluation has; {advice}"
            yield ("evaluation", "metrics", index), message
        seen.add(name)


def _monitor(task: Task) -> Iterator[Finding]:
    known = ["loss", *(metric.score_name for metric in task.evaluation.metrics)]
    monitor = task.training.monitor
    if monitor not in known:
        yield (
            ("training", "monitor"),
            f"unknown metric {monitor!r}{nearest(monitor, known)}; expected {' or '.join(map(repr, known))}, "
            "or add it to evaluation.metrics",
        )
