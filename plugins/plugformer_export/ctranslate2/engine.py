"""CTranslate2 as an engine: its scores, and outputs that its own search finds."""

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import (
    BEGIN,
    PADDING,
    SPECIAL_TOKENS,
    Batch,
    Hypothesis,
    Level,
    Tokens,
    evaluating,
)
from plugformer.registry import Kind
from plugformer.runs import TrainedModel
from plugformer_export.target import Engine, SearchEngine, given_tokens
from plugformer_export.tokenizer_files import spellings


def search_options(trained: TrainedModel) -> dict[str, Any]:
    """Returns the arguments of CTranslate2 that make it search as the task's decoding does."""
    decoding: Any = trained.experiment.create(Kind.DECODING, trained.task.decoding)
    if hasattr(decoding, "size"):
        return {"beam_size": decoding.size, "length_penalty": decoding.length_penalty}
    # Its probabilities are then those of the other tokens alone, which matters to sums, not to a maximum.
    never = [[SPECIAL_TOKENS[PADDING]], [SPECIAL_TOKENS[BEGIN]]]
    return {"beam_size": 1, "length_penalty": 0, "suppress_sequences": never}


class _Generates(SearchEngine):
    """What translators and generators have in common: search options, and tokens by their spelling."""

    def __init__(self, trained: TrainedModel, folder: Path) -> None:
        super().__init__(trained)
        self._engine = _loaded(type(self).__name__, folder)
        self._spellings = spellings(trained)
        self._options = search_options(trained)

    def _spell(self, row: Sequence[int], side: int) -> list[str]:
        return [self._spellings[side][token] for token in row]

    def _hypotheses(
        self, tokens: Sequence[Sequence[int]], scores: Sequence[float], most: int
    ) -> list[Hypothesis]:
        """Returns the outputs of one example, with sums of log-probabilities: without END at the limit."""
        penalty = self._options["length_penalty"]
        return [
            Hypothesis(list(row), score * (len(row) + (len(row) < most)) ** penalty)
            for row, score in zip(tokens, scores, strict=True)
        ]


class Translator(_Generates):
    """Of encoder and decoder; it gives the log-probabilities of right tokens, and no logits."""

    def logits(self, batch: Batch) -> None:
        """Returns None."""

    def log_probabilities(self, batch: Batch) -> Float[Tensor, "batch length"]:
        """Returns those of the targets, END included; 0 at padding."""
        # Without BEGIN and END, which it adds.
        targets = [self._spell(row[1:-1], -1) for row in _rows(batch.target)]
        found = self._engine.score_batch(self._sources(batch), targets)
        scores = batch.target.ids.new_zeros(batch.target.ids[:, 1:].shape, dtype=torch.float32)
        for row, one in enumerate(found):
            scores[row, : len(one.log_probs)] = torch.tensor(one.log_probs)
        return scores

    def outputs(self, batch: Batch, rows: list[int], most: int) -> list[list[Hypothesis]]:
        """Returns the best outputs of some rows."""
        sources = self._sources(batch)
        results = self._engine.translate_batch(
            [sources[row] for row in rows],
            max_decoding_length=most,
            min_decoding_length=0,
            max_input_length=0,
            return_scores=True,
            **self._options,
        )
        numbers = {token: number for number, token in enumerate(self._spellings[-1])}
        return [
            self._hypotheses(
                [[numbers[token] for token in row] for row in each.hypotheses], each.scores, most
            )
            for each in results
        ]

    def _sources(self, batch: Batch) -> list[list[str]]:
        return [self._spell(row[:-1], 0) for row in _rows(batch.source)]


class Generator(_Generates):
    """Of a decoder alone."""

    def logits(self, batch: Batch) -> Float[Tensor, "batch length outputs"]:
        """Returns the logits of all positions but the last."""
        rows = [row[:-1] for row in _rows(batch.target)]
        found = torch.from_numpy(np.array(self._engine.forward_batch(rows)))
        whole = found.new_zeros(*batch.target.ids[:, 1:].shape, found.shape[-1])
        whole[:, : found.shape[1]] = found
        return whole

    def outputs(self, batch: Batch, rows: list[int], most: int) -> list[list[Hypothesis]]:
        """Returns the best outputs of some rows."""
        prompts = given_tokens(batch)
        results = self._engine.generate_batch(
            [self._spell(prompts[row], 0) for row in rows],
            max_length=most,
            min_length=0,
            max_batch_size=1,  # in a batch, what prompts are longer than the shortest counts as output
            include_prompt_in_result=False,
            return_scores=True,
            **self._options,
        )
        return [self._hypotheses(each.sequences_ids, each.scores, most) for each in results]


class EncoderEngine(Engine):
    """Of an encoder alone: it gives hidden states, which the head of the run reads here."""

    def __init__(self, trained: TrainedModel, folder: Path) -> None:
        super().__init__(trained)
        self._model: Any = deepcopy(trained.model)
        self._model.encoder = _EncoderModule(folder)

    def logits(self, batch: Batch) -> Tensor:
        """Returns the head's scores of CTranslate2's hidden states, at level `vector` the vectors."""
        with evaluating(self._model):
            vector = self._model.level is Level.VECTOR
            scores: Tensor = self._model.hidden(batch) if vector else self._model.logits(batch)
            return scores


class _EncoderModule(nn.Module):
    """CTranslate2's encoder in the place of ours."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._engine = _loaded("Encoder", folder)

    def forward(self, tokens: Tokens) -> SimpleNamespace:
        found = self._engine.forward_batch(_rows(tokens)).last_hidden_state
        return SimpleNamespace(hidden=torch.from_numpy(np.array(found)))


def _loaded(kind: str, folder: Path) -> Any:
    """Returns what CTranslate2 loads, such as its `Translator`."""
    import ctranslate2

    threads = torch.get_num_threads()
    return getattr(ctranslate2, kind)(
        str(folder), device="cpu", compute_type="default", intra_threads=threads
    )


def _rows(tokens: Tokens) -> list[list[int]]:
    """Returns the real tokens of each row."""
    return [ids[real].tolist() for ids, real in zip(tokens.ids, tokens.mask, strict=True)]
