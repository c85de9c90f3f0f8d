"""Whether metrics can score the right answers: asked before a training, not at its first evaluation."""

from collections.abc import Iterator

from plugformer.configuration.task import Task
from plugformer.data.encoding import EncodedSplit
from plugformer.errors import PlugformerError
from plugformer.evaluation.validation import spread
from plugformer.interfaces import OutputMetric
from plugformer.kinds import Kind
from plugformer.problems import Key
from plugformer.registry import Registry

ASKED = 200
"""Examples whose right answers are looked at, at most."""


def unscored(task: Task, registry: Registry, split: EncodedSplit) -> Iterator[tuple[tuple[Key, ...], str]]:
    """Yields metrics of outputs that refuse right answers, such as tags in another scheme, and what they say.

    Args:
        task: Fully resolved.
        registry: Knows the metrics.
        split: Its validation examples.
    """
    rows = spread(range(len(split)), ASKED)
    references = [split.references(row) for row in rows]
    answers = [each[0] for each in references]
    for index, block in enumerate(task.evaluation.metrics):
        metric = registry.create(Kind.METRIC, block.name, **block.options)
        if isinstance(metric, OutputMetric):
            try:
                metric.statistics(answers, references)
            except PlugformerError as error:
                yield ("evaluation", "metrics", index), str(error)
