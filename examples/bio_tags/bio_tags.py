"""Names in a text, tagged in the BIO scheme."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plugformer.errors import ConfigurationError, ExampleError, nearest
from plugformer.interfaces import (
    UNKNOWN,
    Batch,
    Column,
    Examples,
    Level,
    Model,
    OutputType,
    Prediction,
    TaskType,
    Tokenizers,
)

if TYPE_CHECKING:
    from datasets import Dataset


class BIOTags(TaskType):
    """Tags each word as the first of a name (B-PER), a further one (I-PER), or of none (O).

    Text Chunking using Transformation-Based Learning, Ramshaw and Marcus 1995, section 4.1:
    https://arxiv.org/abs/cmp-lg/9505040. A word's tag is predicted from its first token.
    """

    level = Level.TOKEN
    output_type = OutputType.TAGS
    state_type = list[str]
    columns = (
        Column("words", "words", "input", tokenizer="source"),
        Column("tags", "tags", "output", along="words"),
    )
    check_examples = (
        {"words": ["Ada", "Lovelace", "met", "Babbage"], "tags": ["B-PER", "I-PER", "O", "B-PER"]},
        {"words": ["in", "London"], "tags": ["O", "B-LOC"]},
    )

    def learn(self, train: "Dataset") -> list[str]:
        """Returns the tags of the training examples, sorted."""
        return sorted({tag for tags in train["tags"] for tag in tags})

    @property
    def outputs(self) -> int:
        """Number of tags."""
        return len(self.state)

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of the words, and the number of a tag at each word's first one."""
        inputs, targets = [], []
        for row, words in enumerate(examples["words"]):
            tags = self._numbers(row, examples["tags"][row]) if "tags" in examples else [0] * len(words)
            tokens = [found or [UNKNOWN] for found in tokenizers.source.encode_words(words)]
            inputs.append([token for word in tokens for token in word])
            pairs = zip(tags, tokens, strict=True)
            targets.append([target for tag, word in pairs for target in (tag, *[None] * (len(word) - 1))])
        return {"input": inputs, "targets": targets}

    def answer(
        self,
        model: Model,
        batch: Batch,
        tokenizers: Tokenizers,  # noqa: ARG002 (for answers that are texts)
        n_best: int,
    ) -> list[Prediction]:
        """Returns the most probable tags of each text, and the logarithm of their probability."""
        if n_best > 1:
            raise ConfigurationError(
                f"{n_best} answers are asked for, tags have no alternatives; ask for one"
            )
        (outputs, scores), (_, real) = model.best(batch), model.targets(batch)
        rows = zip(outputs, real, scores.tolist(), strict=True)
        return [Prediction([self.state[tag] for tag in tags[words]], score) for tags, words, score in rows]

    def _numbers(self, row: int, tags: Sequence[str]) -> list[int]:
        """Returns the numbers of an example's tags, which have to be known and in order."""
        for before, tag in zip(["O", *tags], tags, strict=False):
            if tag not in self.state:
                known = ", ".join(self.state)
                raise ExampleError(row, f"unknown tag {tag!r}{nearest(tag, self.state)}; known: {known}")
            if tag.startswith("I-") and before not in (tag, f"B-{tag[2:]}"):
                raise ExampleError(row, f"{tag!r} follows {before!r}; expected 'B-{tag[2:]}' or {tag!r}")
        return [self.state.index(tag) for tag in tags]
