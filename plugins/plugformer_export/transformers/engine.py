"""Transformers as an engine: scores under teacher forcing, and outputs by its own `generate`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from plugformer.interfaces import END, Batch, Hypothesis, Level
from plugformer.runs import TrainedModel
from plugformer_export.engine import ExportError, SearchingModel, given_tokens, quiet
from plugformer_export.transformers.card import auto_class
from plugformer_export.transformers.vocabulary import ExportedTokenizer


@contextmanager
def without_progress() -> Iterator[None]:
    """A context in which Transformers shows and reports nothing."""
    import transformers

    shows = transformers.logging.is_progress_bar_enabled()
    transformers.logging.disable_progress_bar()
    try:
        with quiet("transformers"):
            yield
    finally:
        if shows:
            transformers.logging.enable_progress_bar()


class TransformersEngine(SearchingModel):
    """A model that Transformers has loaded. Its tokens have the numbers there.

    Raises:
        ExportError: Its tokenizer splits texts differently from that of the run.
    """

    has_scores = False

    def __init__(
        self, trained: TrainedModel, folder: Path, class_name: str, exported: ExportedTokenizer, *, code: bool
    ) -> None:
        super().__init__(trained)
        import transformers

        with without_progress():
            kind: Any = getattr(transformers, auto_class(class_name) if code else class_name)
            self._model: Any = kind.from_pretrained(folder, trust_remote_code=code).eval()
            tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=code)
        numbers = exported.vocabulary.tokens
        self._numbers = torch.tensor(numbers)
        self._here = {there: here for here, there in enumerate(numbers)}  # END counts last
        texts = exported.texts()
        if exported.encoded(texts) != tokenizer(texts, add_special_tokens=False)["input_ids"]:
            raise ExportError("transformers: the tokenizer of the export splits texts differently")

    @torch.no_grad()
    def logits(self, batch: Batch) -> Float[Tensor, "batch *length outputs"]:
        """Returns the scores of Transformers, those of tokens in the order of the run's."""
        level = self.trained.model.level
        if level is not Level.NEXT_TOKEN:
            source = batch.source
            inputs = {"input_ids": self._numbers[source.ids], "attention_mask": source.mask.long()}
            segments = source.marks.get("segment")
            if segments is not None and (types := getattr(self._model.config, "type_vocab_size", 0)):
                inputs["token_type_ids"] = segments.clamp(max=types - 1)
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
    def outputs(self, batch: Batch, rows: list[int], most: int, n_best: int) -> list[list[Hypothesis]]:  # noqa: ARG002
        """Returns the best output of some rows; its score is not given."""
        if len(self.trained.model.stacks) == 1:
            given = given_tokens(batch)
            prompts = [torch.tensor(given[row]) for row in rows]
            ids = pad_sequence(prompts, batch_first=True, padding_side="left")
            mask = pad_sequence([*map(torch.ones_like, prompts)], batch_first=True, padding_side="left")
            skipped = ids.shape[1]
        else:
            ids, mask = batch.source.ids[rows], batch.source.mask[rows].long()
            skipped = 1
        last, end = skipped + most, self._numbers[END]

        def ended(ids: Tensor, scores: Tensor) -> Tensor:
            """Allows nothing but END after the longest output, as the run's search does."""
            others = torch.arange(scores.shape[1]) != end
            return scores if ids.shape[1] < last else scores.masked_fill(others, -torch.inf)

        with without_progress():  # it warns of padding tokens that are not masked, where they are
            found = self._model.generate(
                input_ids=self._numbers[ids],
                attention_mask=mask,
                max_new_tokens=most + 1,
                logits_processor=[ended],
            )
        outputs = [[self._here[token] for token in row] for row in found[:, skipped:].tolist()]
        return [[Hypothesis(row[: row.index(END)] if END in row else row, 0.0)] for row in outputs]
