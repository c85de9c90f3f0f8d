"""What a probe asks, and a causal stack that answers it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import (
    CAUSAL,
    Batch,
    Column,
    Examples,
    Head,
    Level,
    Model,
    OutputType,
    Prediction,
    TaskType,
    Tokenizers,
)
from plugformer.model import Builder, Encoder, Sizes
from plugformer_plugins.architecture.encoder_only import EncoderModel, EncoderOnly
from plugformer_plugins.task_type.labels import refuse_alternatives

if TYPE_CHECKING:
    from datasets import Dataset

ASKED = "?"
"""The word after which an answer is given."""


class Probe(TaskType):
    """Words, and an answer wherever "?" follows a word.

    The model reads no "?": it answers at the word before. The loss and the metrics are those of the answers
    alone, as in Arora et al. 2023, Zoology, section 4: https://arxiv.org/abs/2312.04927.
    """

    level = Level.TOKEN
    output_type = OutputType.TAGS
    state_type = list[str]
    columns = (
        Column("words", "words", "input", tokenizer="source"),
        Column("answers", "words", "output"),
    )
    check_examples = (
        {"words": ["k1", "v2", "k2", "v1", "k1", "?", "k2", "?"], "answers": ["v2", "v1"]},
        {"words": ["k1", "v1", "k1", "?"], "answers": ["v1"]},
    )

    def learn(self, train: "Dataset") -> list[str]:
        """Returns the different answers, sorted."""
        return sorted({answer for answers in train["answers"] for answer in answers})

    @property
    def outputs(self) -> int:
        """Number of different answers."""
        return len(self.state)

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of the words, and the number of the answer where one is asked."""
        number = {answer: place for place, answer in enumerate(self.state)}
        inputs, targets = [], []
        for row, words in enumerate(examples["words"]):
            answers = iter(examples["answers"][row]) if "answers" in examples else None
            tokens: list[int] = []
            found: list[int | None] = []
            for word, cut in zip(words, tokenizers.source.encode_words(words), strict=True):
                if word != ASKED:
                    tokens += cut
                    found += [None] * len(cut)
                else:
                    found[-1] = 0 if answers is None else number[next(answers)]
            inputs.append(tokens)
            targets.append(found)
        return {"input": inputs, "targets": targets}

    def answer(self, model: Model, batch: Batch, tokenizers: Tokenizers, n_best: int) -> list[Prediction]:
        """Returns the answers of each example.

        Raises:
            ConfigurationError: More than one answer is asked for.
        """
        refuse_alternatives(n_best, "probes have")
        (outputs, scores), (_, asked) = model.best(batch), model.targets(batch)
        return [
            Prediction([self.state[answer] for answer in answers[places].tolist()], score)
            for answers, places, score in zip(outputs, asked, scores.tolist(), strict=True)
        ]


class CausalReader(EncoderOnly):
    """One causal stack that reads words and answers at some of them."""

    levels = frozenset({Level.TOKEN})
    stacks = (("encoder", CAUSAL),)


class BottleneckReader(CausalReader):
    """One causal stack whose answers know nothing but the hidden state of the word before the first question.

    What is asked is known by its number alone: compression, Poli et al. 2024, Mechanistic Architecture
    Design, section 3.1: https://arxiv.org/abs/2403.17844.
    """

    def build(self, builder: Builder, sizes: Sizes, level: Level) -> Model:
        """Returns a stack, a network that answers from one hidden state, and a head."""
        embedding = builder.embedding(sizes.source, tied=builder.spec.tied_embeddings)
        encoder, head = builder.encoder(embedding), builder.head(sizes.outputs, embedding)
        return BottleneckModel(encoder, head, builder.spec.width, builder.spec.max_length)


class BottleneckModel(EncoderModel):
    """Answers all questions from one hidden state."""

    def __init__(self, encoder: Encoder, head: Head, width: int, most: int) -> None:
        super().__init__(encoder, head, Level.TOKEN)
        self.place = nn.Embedding(most, width)
        self.network = nn.Sequential(nn.Linear(2 * width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def hidden(self, batch: Batch) -> Float[Tensor, "batch length width"]:
        """Returns what the network makes of the one hidden state and the number of each question."""
        hidden = super().hidden(batch)
        _, asked = self.targets(batch)
        before_first = (asked.int().argmax(dim=1) - 1).clamp(min=0)
        one = hidden[torch.arange(len(hidden), device=hidden.device), before_first]
        place: Tensor = self.place((asked.cumsum(dim=1) - 1).clamp(min=0))
        answers: Tensor = self.network(torch.cat([one[:, None].expand_as(place), place], dim=-1))
        return answers
