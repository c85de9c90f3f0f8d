"""What turns text into numbers and back: kept with a run, and read from it."""

from dataclasses import dataclass

from plugformer.configuration.task import Task
from plugformer.data.preparation import PreparedData
from plugformer.data.tokenizing import create_tokenizers
from plugformer.interfaces import Tokenizer
from plugformer.model.assembly import Sizes
from plugformer.registry import Registry
from plugformer.runs.directory import RunDirectory
from plugformer.runs.files import read_json, write_json
from plugformer.runs.schemas import LABELS


@dataclass(frozen=True)
class Vocabularies:
    """The two ends of a model.

    Attributes:
        source: Tokenizer of the input.
        target: Tokenizer of the output; the same object where both sides share it, or the output is a label.
        labels: Names of the classes; none for sequences.
    """

    source: Tokenizer
    target: Tokenizer
    labels: tuple[str, ...]

    @classmethod
    def of(cls, data: PreparedData) -> "Vocabularies":
        """Returns what was learned from data."""
        return cls(data.source_tokenizer, data.target_tokenizer, data.labels)

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Those of source and target."""
        return self.source, self.target

    @property
    def sizes(self) -> Sizes:
        """What a model must know of them."""
        return Sizes(source=self.source.size, outputs=len(self.labels) or self.target.size)


def save_vocabularies(vocabularies: Vocabularies, directory: RunDirectory) -> None:
    """Writes `tokenizer.json`, or one file for each side, and the labels."""
    if vocabularies.source is vocabularies.target:
        vocabularies.source.save(directory.tokenizer("shared"))
    else:
        vocabularies.source.save(directory.tokenizer("source"))
        vocabularies.target.save(directory.tokenizer("target"))
    write_json(directory.labels, list(vocabularies.labels))


def load_vocabularies(directory: RunDirectory, task: Task, registry: Registry) -> Vocabularies:
    """Reads what `save_vocabularies` wrote.

    Raises:
        RunError: A file is missing or damaged.
    """
    source, target = create_tokenizers(task, registry)
    source.load(directory.tokenizer("shared" if source is target else "source"))
    if target is not source:
        target.load(directory.tokenizer("target"))
    return Vocabularies(source, target, tuple(read_json(directory.labels, LABELS)))
