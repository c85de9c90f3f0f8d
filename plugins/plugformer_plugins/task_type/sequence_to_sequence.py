"""Sequence-to-sequence: a text that answers a text."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plugformer.interfaces import Column, Example, Examples, Level, OutputType, TaskType, Tokenizers

if TYPE_CHECKING:
    from datasets import Dataset


class SequenceToSequence(TaskType):
    """Continues a source with its target: translation, rewriting, summarization.

    Examples may have several `references`, which metrics then compare with in place of the target.
    See https://arxiv.org/abs/1409.3215.
    """

    level = Level.NEXT_TOKEN
    output_type = OutputType.TEXT
    baselines = ("copy", "nearest_neighbour", "ngrams")
    columns = (
        Column("source", "text", "input", tokenizer="source"),
        Column("target", "text", "output", tokenizer="target"),
        Column("references", "texts", "output", optional=True),
    )

    def held_out_groups(self, examples: "Dataset") -> "Dataset":
        """Returns an example for each source: its first target, all its references or else targets."""
        from datasets import Dataset, Features, List, Value  # predict does not wait for libraries of data

        targets: dict[str, str] = {}
        references: dict[str, dict[str, None]] = {}
        for row in examples:
            targets.setdefault(row["source"], row["target"])
            right = row.get("references") or [row["target"]]
            references.setdefault(row["source"], {}).update(dict.fromkeys(right))
        joined = {
            "source": list(targets),
            "target": list(targets.values()),
            "references": list(map(list, references.values())),
        }
        text = Value("string")
        features = Features({"source": text, "target": text, "references": List(text)})
        return Dataset.from_dict(joined, features=features)

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of sources and targets."""
        encoded = {"input": tokenizers.source.encode(examples["source"])}
        if "target" in examples:
            encoded["output"] = tokenizers.target.encode(examples["target"])
        return encoded

    def references(self, example: Example) -> list[Any]:
        """Returns the references of an example, or its target."""
        return example.get("references") or [example["target"]]
