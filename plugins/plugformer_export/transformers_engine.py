"""Transformers as an engine: scores under teacher forcing, and outputs by its own `generate`."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plugformer.interfaces import END, Batch, Generative, Hypothesis, Level, evaluating
from plugformer.runs import TrainedModel
from plugformer_export.target import Engine, ExportError
from plugformer_export.transformers_tokenizer import Vocabularies


@contextmanager
def quiet() -> Iterator[None]:
    """A context in which Transformers reports nothing: the comparison tells whether it is right."""
    import transformers

    verbosity = transformers.logging.get_verbosity()
    shows = transformers.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity(logging.ERROR)
    transformers.logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers.logging.set_verbosity(verbosity)
        if shows:
            transformers.logging.enable_progress_bar()


class TransformersEngine(Engine):
    """A model that Transformers has loaded. Its tokens have the numbers there.

    Raises:
        ExportError: Its tokenizer cuts texts otherwise than that of the run.
    """

    def __init__(
        self, trained: TrainedModel, folder: Path, class_name: str, vocabularies: Vocabularies
    ) -> None:
        super().__init__(trained)
        import transformers

        with quiet():
            self._model: Any = getattr(transformers, class_name).from_pretrained(folder).eval()
            tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
        self._numbers = torch.tensor(vocabularies.step.tokens)
        self._here = {there: here for here, there in enumerate(vocabularies.step.tokens)}  # END counts last
        texts = vocabularies.texts()
        if vocabularies.encoded() != tokenizer(texts, add_special_tokens=False)["input_ids"]:
            raise ExportError("transformers: the tokenizer of the export cuts texts otherwise than the run's")

    @torch.no_grad()
    def logits(self, batch: Batch) -> Float[Tensor, "batch *length outputs"]:
        """Returns the scores of Transformers, those of tokens in the order of the run's."""
        level = self.trained.model.level
        if level is not Level.NEXT_TOKEN:
            source = batch.source
            inputs = {"input_ids": self._numbers[source.ids], "attention_mask": source.mask.long()}
            segments = source.marks.get("segment")
            if segments is not None:
                most = self._model.config.type_vocab_size - 1
                inputs["token_type_ids"] = segments.clamp(max=most)
            scores: Tensor = self._model(**inputs).logits
            tokens = scores.shape[-1] == self._model.config.vocab_size and self._predicts_tokens
            return scores[..., self._numbers] if tokens else scores
        target = self._numbers[batch.target.ids][:, :-1]
        mask = batch.target.mask.long()[:, :-1]
        if len(self.trained.model.stacks) == 1:
            scores = self._model(input_ids=target, attention_mask=mask).logits
        else:
            scores = self._model(
                input_ids=self._numbers[batch.source.ids],
                attention_mask=batch.source.mask.long(),
                decoder_input_ids=target,
                decoder_attention_mask=mask,
            ).logits
        return scores[..., self._numbers]

    @property
    def _predicts_tokens(self) -> bool:
        return self._model.get_output_embeddings() is not None

    @torch.no_grad()
    def search(self, batch: Batch) -> list[list[Hypothesis]]:
        """Returns each example's best output; scores are not given. Equal limits are searched together."""
        model = cast("Generative", self.trained.model)
        with evaluating(model):
            predictor: Any = self.trained.predictor()
            limits = predictor.constraint.bounds(model.input_lengths(batch), model.room(batch))[1].tolist()
        answers: dict[int, list[Hypothesis]] = {}
        for limit in set(limits):
            rows = [row for row, other in enumerate(limits) if other == limit]
            found = self._generated(batch, torch.tensor(rows), limit)
            answers.update((row, [Hypothesis(tokens, 0.0)]) for row, tokens in zip(rows, found, strict=True))
        return [answers[row] for row in range(len(limits))]

    def _generated(self, batch: Batch, rows: Int[Tensor, " rows"], most: int) -> list[list[int]]:
        """Returns the outputs of some rows, of at most so many tokens."""
        if len(self.trained.model.stacks) == 1:
            ids, mask = _prompts(batch, rows)
            skipped = ids.shape[1]
        else:
            ids, mask = batch.source.ids[rows], batch.source.mask[rows].long()
            skipped = 1
        with quiet():  # it warns of padding tokens that are not masked, where they are
            found = self._model.generate(
                input_ids=self._numbers[ids],
                attention_mask=mask,
                max_new_tokens=most + 1,
                logits_processor=[_EndAt(skipped + most, int(self._numbers[END]))],
            )
        outputs = [[self._here[token] for token in row] for row in found[:, skipped:].tolist()]
        return [row[: row.index(END)] if END in row else row for row in outputs]


class _EndAt:
    """Allows nothing but the end at some length, as the run's search does."""

    def __init__(self, length: int, end: int) -> None:
        self.length = length
        self.end = end

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Returns the scores of the next token."""
        if input_ids.shape[1] < self.length:
            return scores
        masked = torch.full_like(scores, -torch.inf)
        masked[:, self.end] = scores[:, self.end]
        return masked


def _prompts(batch: Batch, rows: Int[Tensor, " rows"]) -> tuple[Int[Tensor, "rows longest"], Tensor]:
    """Returns what is given of some rows, padded on the left, and which tokens are real."""
    given = torch.ones(len(batch.target.ids), dtype=torch.long) if batch.given is None else batch.given
    longest = int(given[rows].max())
    ids, mask = torch.zeros(len(rows), longest, dtype=torch.long), torch.zeros(len(rows), longest).long()
    for place, row in enumerate(rows.tolist()):
        tokens = batch.target.ids[row][batch.target.mask[row]][: int(given[row])]
        ids[place, longest - len(tokens) :] = tokens
        mask[place, longest - len(tokens) :] = 1
    return ids, mask
