"""Multiple choice: one of an example's own candidates answers its question, and each is read by itself."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from plugformer.errors import ConfigurationError, ExampleError
from plugformer.interfaces import (
    Batch,
    Column,
    Example,
    Examples,
    Head,
    HeadContext,
    HeadInput,
    Input,
    Level,
    Model,
    OutputType,
    Prediction,
    TaskType,
    Tokenizers,
)

_NEVER = -1e9
"""The score of a candidate that is not there."""


class MultipleChoice(TaskType):
    """Chooses an answer to a question, among any number of candidates.

    Question and candidates have a vector each, as in Humeau et al. 2020, section 4.2:
    https://arxiv.org/abs/1905.01969. Users type a question, a tab, and the candidates with spaces between.
    """

    level = Level.VECTOR
    output_type = OutputType.TEXT
    columns = (
        Column("question", "text", "input", tokenizer="source"),
        Column("candidates", "texts", "input", tokenizer="source"),
        Column("answer", "text", "output"),
    )
    inputs = (Input("question"), Input("candidates", many=True))
    check_examples = (
        {"question": "2 + 1", "candidates": ["3", "4"], "answer": "3"},
        {"question": "7 - 3", "candidates": ["10", "5", "3", "4"], "answer": "4"},
        {"question": "1 + 1", "candidates": ["1", "2", "12"], "answer": "2"},
    )

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of questions and candidates, and the place of the answer among these."""
        encoded: dict[str, Sequence[Any]] = {
            "question": tokenizers.source.encode(examples["question"]),
            "candidates": [tokenizers.source.encode(texts) for texts in examples["candidates"]],
        }
        if "answer" in examples:
            pairs = zip(examples["answer"], examples["candidates"], strict=True)
            encoded["targets"] = [_place(row, *pair) for row, pair in enumerate(pairs)]
        return encoded

    def answer(
        self,
        model: Model,
        batch: Batch,
        tokenizers: Tokenizers,  # noqa: ARG002 (answers are quoted)
        n_best: int,
    ) -> list[Prediction]:
        """Returns the most probable candidates of each question, and their log-probabilities."""
        scores = model.logits(batch).float().log_softmax(dim=1).tolist()
        answers = []
        for row, probabilities in enumerate(scores):
            candidates = batch.asked(row)["candidates"]
            if n_best > len(candidates):
                raise ConfigurationError(f"{n_best} answers are asked for, there are {len(candidates)}")
            pairs = zip(candidates, probabilities, strict=False)
            ranked = sorted(pairs, key=lambda pair: pair[1], reverse=True)[:n_best]
            answers.append(Prediction.of([Prediction(text, score) for text, score in ranked]))
        return answers

    def example_from_text(self, text: str) -> Example:
        """Returns a question and its candidates, between which there is a tab."""
        question, tab, candidates = text.partition("\t")
        if not tab:
            raise ConfigurationError(f"{text[:40]!r} has no candidates; write them behind a tab")
        return {"question": question, "candidates": candidates}


def _place(row: int, answer: str, candidates: Sequence[str]) -> int:
    if answer not in candidates:
        raise ExampleError(row, f"the answer {answer!r} is none of the candidates {candidates}")
    return candidates.index(answer)


class Candidates(Head):
    """Scores each candidate by a bilinear form of its vector and the question's, and a softmax over them.

    See https://arxiv.org/abs/1905.01969.

    Args:
        model: Sizes of the model, and its inputs: the candidates are the last.

    Raises:
        ConfigurationError: There are no candidates among the inputs.
    """

    levels = frozenset({Level.VECTOR})
    output_types = frozenset({OutputType.TEXT})

    def __init__(self, model: HeadContext) -> None:
        super().__init__()
        if len(model.inputs) != 2 or not model.inputs[1].many:
            raise ConfigurationError("it compares a question with candidates; choose another task type")
        self.query = nn.Linear(model.width, model.width, bias=False)

    @classmethod
    def check_case(cls, real: Bool[Tensor, "batch columns"]) -> tuple[Int[Tensor, " batch"], int]:
        """Returns the last candidate of each example, and the most candidates of one."""
        return real.sum(dim=1) - 2, real.shape[1] - 1

    def logits(
        self, hidden: Float[Tensor, "batch columns width"], context: HeadInput
    ) -> Float[Tensor, "batch candidates"]:
        """Returns the scores of the candidates, very low where an example has no further one."""
        question, candidates = hidden[:, :1], hidden[:, 1:]
        scores = (self.query(question) * candidates).sum(dim=-1) / hidden.shape[-1] ** 0.5
        return scores.masked_fill(~context.real[:, 1:], _NEVER)
