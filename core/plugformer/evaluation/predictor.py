"""From a model and encoded examples to outputs that people read."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from plugformer.configuration.task import DEFAULT_BATCH_TOKENS, Task
from plugformer.data.encoding import EncodedSplit, evaluation_order
from plugformer.data.processor import Processor
from plugformer.errors import ConfigurationError, RunError, described, out_of_memory
from plugformer.interfaces import (
    AllowedOutputs,
    Batch,
    Decoding,
    Generative,
    Hypothesis,
    Model,
    Prediction,
    Session,
    evaluating,
)
from plugformer.interfaces.decoding import not_finite

T = TypeVar("T")

LOWER = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""The formats that are mixed with float32."""


def evaluation_tokens(task: Task) -> int:
    """Returns the positions of a batch: four times those of the task's training, at most 8,192.

    Without gradients a model keeps the states of one layer, not of all.
    """
    training = task.training
    tokens = training.batch_tokens or DEFAULT_BATCH_TOKENS
    if training.batch_size is not None:
        tokens = training.batch_size * task.model.max_length
    return min(4 * tokens, 8192)


@dataclass(eq=False)
class Predictor:
    """Answers examples with a model, from the hidden states of the input.

    Attributes:
        model: The model.
        processor: Of the model.
        batch_tokens: Maximum positions of a batch, with padding; a longer example is a batch of its own. It
            is halved when memory runs out.
        precision: `training.precision`; float32 if None.
        n_best: Outputs for each example.
        probabilities: Whether answers have the probabilities of all classes.
    """

    model: Model
    processor: Processor
    batch_tokens: int
    precision: str | None = field(default=None, kw_only=True)
    n_best: int = field(default=1, kw_only=True)
    probabilities: bool = field(default=False, kw_only=True)

    @property
    def format(self) -> torch.dtype | None:
        """The format of 16 bits that the precision names, if the device has it (float16: only on a GPU)."""
        device, dtype = self.model.device.type, LOWER.get(self.precision or "")
        there = torch.amp.is_autocast_available(device) and (device, dtype) != ("cpu", torch.float16)
        return dtype if there else None

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Inside, the model is in evaluation mode and computes in the precision."""
        dtype, device = self.format, self.model.device.type
        with nullcontext() if dtype is None else torch.autocast(device, dtype), evaluating(self.model):
            yield

    def answer(self, batch: Batch, first: int) -> list[Prediction]:
        """Returns the outputs for one batch; `first` is the number of the split's first example."""
        task_type, tokenizers = self.processor.task_type, self.processor.tokenizers
        compute = task_type.answer_with_probabilities if self.probabilities else task_type.answer
        answers = compute(self.model, batch, tokenizers, self.n_best)
        for row, answer in sorted(zip(batch.rows, answers, strict=True), key=lambda pair: pair[0]):
            number = answer.output if answer.score is None else answer.score
            if isinstance(number, float) and not math.isfinite(number):
                raise not_finite(first + row)
        return answers

    def predict(
        self, split: EncodedSplit, rows: Sequence[int] | None = None, *, first: int = 0
    ) -> list[Prediction]:
        """Returns the outputs for some rows of a split, or all, in their order.

        `first` is the number of the split's first example in the whole input, for random choices.

        Raises:
            ConfigurationError: `n_best` is less than one, or more than there are outputs.
            NotFiniteError: The model's scores are not finite.
            RunError: There is not enough memory for one example.
        """
        if not isinstance(self.n_best, Integral) or self.n_best < 1:
            raise ConfigurationError(f"{self.n_best!r} outputs are asked for; ask for one or more")
        rows = range(len(split)) if rows is None else rows
        answers = self.computed(split, rows, lambda batch: self.answer(batch, first))
        return answers if self.model.head.probabilities else [*map(_without_scores, answers)]

    def vectors(self, split: EncodedSplit, rows: Sequence[int]) -> list[Float[Tensor, "inputs size"]]:
        """Returns the vectors of each example's inputs, in main memory."""
        head, model = self.model.head, self.model
        return self.computed(split, rows, lambda batch: [*head.vectors(model.hidden(batch)).float().cpu()])

    def batches(self, split: EncodedSplit, rows: Sequence[int]) -> Iterator[Batch]:
        """Yields the batches of some rows, on the model's device."""
        device = self.model.device
        for chosen in evaluation_order(split.lengths, rows, split.counts, tokens=self.batch_tokens):
            yield split.batch(chosen).to(device)

    def computed(
        self, split: EncodedSplit, rows: Sequence[int], compute: Callable[[Batch], Sequence[T]]
    ) -> list[T]:
        """Returns what is computed of each of some rows; batches are halved if memory is full."""
        results: dict[int, T] = {}
        while remaining := [row for row in rows if row not in results]:
            for batch in self.batches(split, remaining):
                try:
                    with self.computing():
                        values = compute(batch)
                except Exception as error:
                    if not out_of_memory(error):
                        raise
                    if len(batch.rows) == 1:
                        message = f"there is not enough memory to answer example {batch.rows[0]} alone"
                        hint = "limit decoding.max_length or decoding.size, or choose another --device"
                        raise RunError(f"{message} ({described(error)})\n  {hint}") from error
                    self.batch_tokens = max(1, self.batch_tokens // 2)
                    warnings.warn(
                        f"memory has run out: evaluation continues with batches of {self.batch_tokens:,} "
                        "positions; training.batch_tokens is large for this machine",
                        RuntimeWarning,
                        stacklevel=2,
                    )
                    break
                results.update(zip(batch.rows, values, strict=True))
        return [results[row] for row in rows]


def _without_scores(answer: Prediction) -> Prediction:
    """Returns an answer of a head that has no probabilities: scores of the task type are none."""
    alternatives = tuple(replace(other, score=None) for other in answer.alternatives)
    return replace(answer, score=None, probabilities=None, alternatives=alternatives)


def in_format(model: Generative, dtype: torch.dtype) -> Generative:
    """Returns a copy of a model for decoding with parameters of another format, and the same buffers."""
    shared: dict[int, Tensor] = {id(each): each for each in model.buffers()}
    for each in model.parameters():
        shared[id(each)] = nn.Parameter(each.detach().to(dtype), requires_grad=False)
    return deepcopy(model, shared).eval()


@dataclass(eq=False)
class GenerativePredictor(Predictor):
    """Continues sequences, with a search for the best outputs that the task allows."""

    model: Generative
    decoding: Decoding
    allowed: AllowedOutputs
    _converted: tuple[list[int], Generative] | None = field(default=None, init=False, repr=False)

    def search(self, batch: Batch, first: int) -> list[list[Hypothesis]]:
        """Returns each sentence's hypotheses, the best first; in 16 bits with converted weights."""
        keys, model = [first + row for row in batch.rows], self.model
        if self.format is not None:
            # How often each parameter has changed; those made in inference mode never do.
            versions = [0 if each.is_inference() else each._version for each in model.parameters()]
            if self._converted is None or self._converted[0] != versions:
                self._converted = versions, in_format(model, self.format)
            model = self._converted[1]
        plain = nullcontext() if self.format is None else torch.autocast(batch.device.type, enabled=False)
        with plain, torch.inference_mode():
            session = Session(model, batch, self.allowed, keys)
            found = self.decoding.search(session)
            session.check()
        return found

    def answer(self, batch: Batch, first: int) -> list[Prediction]:
        """Returns each sentence's best hypotheses."""
        ranked = [hypotheses[: self.n_best] for hypotheses in self.search(batch, first)]
        if (fewest := min(map(len, ranked))) < self.n_best:
            raise ConfigurationError(
                f"{self.n_best} outputs are asked for, but the search found {fewest} for an example; ask for "
                f"fewer, or decode with decoding.name=beam and decoding.size={self.n_best} or more"
            )
        best = [hypothesis for hypotheses in ranked for hypothesis in hypotheses]
        texts = self.processor.target.decode([hypothesis.tokens for hypothesis in best])
        answers = [Prediction(text, hypothesis.score) for text, hypothesis in zip(texts, best, strict=True)]
        return [Prediction.of(answers[at : at + self.n_best]) for at in range(0, len(answers), self.n_best)]
