"""Span extraction: the part of a text that answers a question about it."""

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from plugformer.errors import ConfigurationError, ExampleError
from plugformer.interfaces import (
    END,
    UNKNOWN,
    Batch,
    Column,
    Example,
    Examples,
    Level,
    Model,
    OutputType,
    Prediction,
    TaskType,
    Tokenizers,
)

NOTHING, FIRST, BEHIND = range(3)
"""Targets: of other words, of an answer's first word, and of the word after its last."""

_WORD = re.compile(r"\w+|[^\w\s]")


class SpanExtraction(TaskType):
    """Finds the answer to a question in a context: SQuAD, Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250.

    The model reads the question, END, the context and END. An answer begins at the first token of a word and
    ends before that of another: as in Devlin et al. 2019, section 4.2, https://arxiv.org/abs/1810.04805.
    Words are letters and digits side by side, or single signs. Of an answer that occurs several times, the
    first one counts; of a context that is cut, the answer may be behind the cut: it has no target then.
    """

    level = Level.TOKEN
    output_type = OutputType.TEXT
    outputs = 3
    columns = (
        Column("question", "text", "input", tokenizer="source"),
        Column("context", "text", "input", tokenizer="source"),
        Column("answer", "text", "output"),
        Column("references", "texts", "output", optional=True),
    )
    check_examples = (
        {"question": "Who sleeps?", "context": "Ann reads, and Bob (11) sleeps.", "answer": "Bob (11)"},
        {"question": "What is red?", "context": "The house is red.", "answer": "The house"},
        {"question": "Where is it?", "context": "north of here", "answer": "north of here"},
    )

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of questions and contexts, and targets at the first token of each word.

        Raises:
            ExampleError: A context does not have the answer.
        """
        inputs, targets = [], []
        answers = examples.get("answer", [None] * len(examples["context"]))
        asked = tokenizers.source.encode(examples["question"])
        for row, (question, context, answer) in enumerate(
            zip(asked, examples["context"], answers, strict=True)
        ):
            words = tokenizers.source.encode_words(_WORD.findall(context))
            cut = [word or [UNKNOWN] for word in [*words, [END]]]
            marks = [NOTHING] * len(cut)
            if answer is not None:
                first, behind = _span(row, context, answer)
                marks[first], marks[behind] = FIRST, BEHIND
            inputs.append([*question, END, *chain.from_iterable(cut)])
            numbers = ([mark] + [None] * (len(word) - 1) for word, mark in zip(cut, marks, strict=True))
            targets.append([None] * (len(question) + 1) + list(chain.from_iterable(numbers)))
        return {"input": inputs, "targets": targets}

    def answer(
        self,
        model: Model,
        batch: Batch,
        tokenizers: Tokenizers,  # noqa: ARG002
        n_best: int,
    ) -> list[Prediction]:
        """Returns the part of each context between the marks; an empty text where one is missing."""
        if n_best > 1:
            raise ConfigurationError(
                f"{n_best} outputs are asked for, but a span has no alternatives; ask for one"
            )
        (outputs, scores), (_, real) = model.best(batch), model.targets(batch)
        answers = []
        for row, score in enumerate(scores.tolist()):
            marks, context = outputs[row][real[row]].tolist(), batch.asked(row)["context"]
            first = marks.index(FIRST) if FIRST in marks else len(marks)
            behind = next((place for place in range(first, len(marks)) if marks[place] == BEHIND), first)
            words = list(_WORD.finditer(context))[first:behind]
            answers.append(Prediction(context[words[0].start() : words[-1].end()] if words else "", score))
        return answers

    def references(self, example: Example) -> list[Any]:
        """Returns the references of an example, or its answer."""
        return example.get("references") or [example["answer"]]

    def example_from_text(self, text: str) -> Example:
        """Returns a question and a context with a tab between."""
        question, tab, context = text.partition("\t")
        if not (tab and question.strip() and _WORD.search(context)):
            raise ConfigurationError(f"{text[:40]!r}: give a question and a context with a tab between")
        return {"question": question, "context": context}


def _span(row: int, context: str, answer: str) -> tuple[int, int]:
    """Returns the numbers of an answer's first word and of the word behind it."""
    start = context.find(answer.strip())
    if start < 0:
        raise ExampleError(row, f"the context does not have the answer {answer!r}, expected a part of it")
    words = list(_WORD.finditer(context))
    first = sum(word.end() <= start for word in words)
    return first, sum(word.start() < start + len(answer.strip()) for word in words)
