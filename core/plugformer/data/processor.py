"""Tokenizers and the task's type, which turn examples into numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from plugformer.configuration.task import TokenizerSettings
from plugformer.data.files import files_version
from plugformer.experiment import Experiment
from plugformer.interfaces import (
    Column,
    Encoded,
    Example,
    Level,
    Limits,
    OutputType,
    Ragged,
    Sizes,
    TaskType,
    Tokenizer,
    Tokenizers,
)
from plugformer.registry import Kind


@dataclass(frozen=True)
class Processor:
    """Turns text into numbers and back; learned from the training examples before a model is built.

    Attributes:
        source: Tokenizer of the input.
        target: Tokenizer of the output; the same object if both sides share it, or if there is no output.
        task_type: The task's type with its state.
    """

    source: Tokenizer
    target: Tokenizer
    task_type: TaskType

    @property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers of source and target."""
        return Tokenizers(self.source, self.target)

    @property
    def learned(self) -> Any:
        """What the task's type has learned, such as the names of the classes."""
        return self.task_type.state

    @property
    def classes(self) -> list[str] | None:
        """Names of the classes, in order; None where answers are no labels."""
        return list(self.learned) if self.task_type.output_type is OutputType.LABEL else None

    @property
    def sizes(self) -> Sizes:
        """The sizes that a model is built with."""
        outputs = self.task_type.outputs
        return Sizes(source=self.source.size, outputs=self.target.size if outputs is None else outputs)


class SubwordSampling:
    """Encodes examples with tokenizers that cut texts at random.

    Args:
        processor: Of the task.
        limits: Most tokens of an example.
        truncate: Whether longer texts are cut; if not, an example that becomes too long stays unchanged.
    """

    def __init__(self, processor: Processor, limits: Limits, *, truncate: bool) -> None:
        self._tokenizers = processor.tokenizers
        self._type = processor.task_type
        self._limits = limits
        self._truncate = truncate

    @property
    def active(self) -> bool:
        """Whether a tokenizer samples."""
        return any(type(tokenizer).sampling is not Tokenizer.sampling for tokenizer in self._tokenizers)

    def encode(
        self, encoded: Encoded, examples: Sequence[Example], generators: Sequence[np.random.Generator]
    ) -> Encoded:
        """Returns examples with the tokens that have been drawn.

        Args:
            encoded: The examples without anything drawn.
            examples: What they say.
            generators: One for each.
        """
        drawn = [self._drawn(*each) for each in zip(examples, generators, strict=True)]
        parts: dict[str, Any] = {
            name: Ragged.of(
                [
                    old if new is None else new[name]
                    for new, old in zip(drawn, getattr(encoded, name).rows(), strict=True)
                ]
            )
            for name in ("input", "output", "targets")
            if isinstance(getattr(encoded, name), Ragged)
        }
        return replace(encoded, **parts)

    def _drawn(self, example: Example, generator: np.random.Generator) -> Mapping[str, Any] | None:
        """Returns the numbers of an example; None if they are too many."""
        tokenizers = Tokenizers(*(tokenizer.sampling(generator) for tokenizer in self._tokenizers))
        encoded = self._type.encode({name: [value] for name, value in example.items()}, tokenizers)
        rows = {name: values[0] for name, values in encoded.items()}
        sides = {name: getattr(self._limits, name) for name in ("input", "output") if name in rows}
        if self._truncate:
            rows |= {name: rows[name][:limit] for name, limit in sides.items()}
            if self._type.level is Level.TOKEN:
                rows["targets"] = rows["targets"][: sides["input"]]
        lengths = {name: len(rows[name]) for name in sides}
        fits = all(lengths[name] <= limit for name, limit in sides.items())
        together = len(lengths) < 2 or sum(lengths.values()) <= self._limits.together
        return rows if fits and together else None


def create_tokenizers(experiment: Experiment) -> Tokenizers:
    """Returns new tokenizers of source and target, neither trained nor loaded."""
    blocks, registry = experiment.task.tokenizer, experiment.registry
    source: Tokenizer = registry.create(Kind.TOKENIZER, blocks.source.name, **blocks.source.options)
    if has_one(blocks, experiment.task_type.columns):
        return Tokenizers(source, source)
    target: Tokenizer = registry.create(Kind.TOKENIZER, blocks.target.name, **blocks.target.options)
    return Tokenizers(source, target)


def has_one(blocks: TokenizerSettings, columns: Sequence[Column]) -> bool:
    """Returns whether one tokenizer serves all of a task: it is shared, or there is only one side."""
    return blocks.shared or all(column.tokenizer != "target" for column in columns)


def learned_by(folder: Path, side: str) -> Path:
    """Returns the file of a tokenizer in the folder of a run, or of prepared examples.

    Args:
        folder: The folder.
        side: `source`, `target` or `shared`. If there is no such file, that of `shared` serves a side, and
            that of `source` both.
    """
    file = folder / f"tokenizer-{side}.json"
    fallback = folder / f"tokenizer-{'source' if side == 'shared' else 'shared'}.json"
    return fallback if fallback.exists() and not file.exists() else file


def save_tokenizers(tokenizers: Tokenizers, folder: Path) -> dict[str, str]:
    """Saves tokenizers in a folder and returns a hash of each file by its side."""
    hashes = {}
    for side, tokenizer in _sides(tokenizers).items():
        file = folder / f"tokenizer-{side}.json"
        tokenizer.save(file)
        hashes[side] = files_version([file])
    return hashes


def load_tokenizers(tokenizers: Tokenizers, folder: Path) -> None:
    """Loads tokenizers from a folder of `save_tokenizers` or of a run.

    Raises:
        RunError: A file is missing or damaged.
    """
    for side, tokenizer in _sides(tokenizers).items():
        tokenizer.load(learned_by(folder, side))


def _sides(tokenizers: Tokenizers) -> dict[str, Tokenizer]:
    source, target = tokenizers
    return {"shared": source} if source is target else {"source": source, "target": target}


def load_processor(experiment: Experiment, folder: Path, learned: object) -> Processor:
    """Returns the processor of a run, or of prepared examples.

    Args:
        experiment: Its task type gets what it has learned.
        folder: The folder with the files of the tokenizers.
        learned: What the task's type has learned.

    Raises:
        RunError: A file is missing or damaged.
    """
    experiment.task_type.state = learned
    tokenizers = create_tokenizers(experiment)
    load_tokenizers(tokenizers, folder)
    return Processor(*tokenizers, experiment.task_type)
