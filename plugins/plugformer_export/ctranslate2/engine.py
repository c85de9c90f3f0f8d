"""CTranslate2 as an engine: its scores, and outputs that its own search finds."""

from abc import abstractmethod
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
    END,
    PADDING,
    SPECIAL_TOKENS,
    Batch,
    Hypothesis,
    Level,
    Tokens,
)
from plugformer.registry import Kind
from plugformer.runs import TrainedModel
from plugformer_export.engine import LoadedModel, SearchingModel, given_tokens
from plugformer_export.tokenizer_files import spellings


def search_options(trained: TrainedModel) -> dict[str, Any]:
    """Returns the arguments of CTranslate2 that make it search as the task's decoding does."""
    decoding: Any = trained.experiment.create(Kind.DECODING, trained.task.decoding)
    if hasattr(decoding, "size"):
        return {"beam_size": decoding.size, "length_penalty": decoding.length_penalty}
    return {"beam_size": 1, "length_penalty": 0}


NEVER = {"suppress_sequences": [[SPECIAL_TOKENS[PADDING]], [SPECIAL_TOKENS[BEGIN]]]}
"""Its probabilities are then those of the other tokens alone, which matters to sums, not to a maximum."""

_Found = tuple[Sequence[Sequence[int]], Sequence[float]]
"""The outputs of an example as CTranslate2 returns them, and their scores."""


class _Generates(SearchingModel):
    """What translators and generators have in common: search options, and tokens by their spelling."""

    def __init__(self, trained: TrainedModel, folder: Path) -> None:
        super().__init__(trained)
        self._engine = _loaded(type(self).__name__, folder)
        self._spellings = spellings(trained)
        self._numbers = {token: number for number, token in enumerate(self._spellings[-1])}
        self._options = search_options(trained)

    def _spell(self, row: Sequence[int], side: int) -> list[str]:
        return [self._spellings[side][token] for token in row]

    def outputs(self, batch: Batch, rows: list[int], most: int, n_best: int) -> list[list[Hypothesis]]:
        """Returns the best outputs of some rows.

        Where CTranslate2's score is not that of the whole output and END, it is computed again: at the
        longest length, and where a greedy search has to be kept from PADDING and BEGIN.
        """
        beams = self._options["beam_size"]
        options = {**self._options, "num_hypotheses": min(n_best, beams)}
        found = self._found(batch, rows, most, options)
        wrong = [place for place, (each, _) in enumerate(found) if {PADDING, BEGIN} & {*each[0]}]
        if wrong and beams == 1:
            others = self._found(batch, [rows[place] for place in wrong], most, options | NEVER)
            for place, other in zip(wrong, others, strict=True):
                found[place] = other
        penalty, answers = self._options["length_penalty"], []
        for place, (outputs, scores) in enumerate(found):
            sums = [score * (len(each) + 1) ** penalty for each, score in zip(outputs, scores, strict=True)]
            again = [n for n, each in enumerate(outputs) if len(each) == most or place in wrong]
            if again:
                found_sums = self._sums(batch, rows[place], [outputs[n] for n in again])
                for n, score in zip(again, found_sums, strict=True):
                    sums[n] = score
            best = [Hypothesis([*each], score) for each, score in zip(outputs, sums, strict=True)]
            answers.append(sorted(best, key=lambda each: -each.score / (len(each.tokens) + 1) ** penalty))
        return answers

    @abstractmethod
    def _found(self, batch: Batch, rows: list[int], most: int, options: dict[str, Any]) -> list[_Found]:
        """Returns what a search finds for some rows."""

    @abstractmethod
    def _sums(self, batch: Batch, row: int, outputs: list[Sequence[int]]) -> list[float]:
        """Returns the log-probabilities of outputs of a row, END included."""


class Translator(_Generates):
    """Of encoder and decoder; it gives the log-probabilities of right tokens, and no logits."""

    def finds(self, batch: Batch) -> bool:
        """Returns whether all texts have tokens: those without are passed over, and not answered."""
        model: Any = self.trained.model
        return bool((model.input_lengths(batch) > 0).all())

    def logits(self, batch: Batch) -> None:
        """Returns None."""

    def log_probabilities(self, batch: Batch) -> Float[Tensor, "batch length"]:
        """Returns those of the targets, END included; 0 at padding."""
        # Without BEGIN and END, which it adds.
        targets = [self._spell(row[1:-1], -1) for row in _rows(batch.target)]
        found = self._engine.score_batch(self._sources(batch, [*range(len(targets))]), targets)
        scores = batch.target.ids.new_zeros(batch.target.ids[:, 1:].shape, dtype=torch.float32)
        for row, one in enumerate(found):
            scores[row, : len(one.log_probs)] = torch.tensor(one.log_probs)
        return scores

    def _found(self, batch: Batch, rows: list[int], most: int, options: dict[str, Any]) -> list[_Found]:
        results = self._engine.translate_batch(
            self._sources(batch, rows),
            max_decoding_length=most,
            min_decoding_length=0,
            max_input_length=0,
            return_scores=True,
            **options,
        )
        numbers = self._numbers
        return [
            ([[numbers[token] for token in row] for row in each.hypotheses], each.scores) for each in results
        ]

    def _sums(self, batch: Batch, row: int, outputs: list[Sequence[int]]) -> list[float]:
        sources = self._sources(batch, [row]) * len(outputs)
        found = self._engine.score_batch(sources, [self._spell(each, -1) for each in outputs])
        return [sum(each.log_probs) for each in found]

    def _sources(self, batch: Batch, rows: list[int]) -> list[list[str]]:
        return [self._spell(row[:-1], 0) for row in _rows(batch.source.select(torch.tensor(rows)))]


class Generator(_Generates):
    """Of a decoder alone."""

    def finds(self, batch: Batch) -> bool:
        """Returns whether all prompts leave room: it refuses to continue one by no token."""
        model: Any = self.trained.model
        return bool((model.room(batch) > 0).all())

    def logits(self, batch: Batch) -> Float[Tensor, "batch length outputs"]:
        """Returns the logits of all positions but the last."""
        rows = [row[:-1] for row in _rows(batch.target)]
        found = torch.from_numpy(np.array(self._engine.forward_batch(rows)))
        whole = found.new_zeros(*batch.target.ids[:, 1:].shape, found.shape[-1])
        whole[:, : found.shape[1]] = found
        return whole

    def _found(self, batch: Batch, rows: list[int], most: int, options: dict[str, Any]) -> list[_Found]:
        prompts = given_tokens(batch)
        results = self._engine.generate_batch(
            [self._spell(prompts[row], 0) for row in rows],
            max_length=most,
            min_length=0,
            max_batch_size=1,  # in a batch, what prompts are longer than the shortest counts as output
            include_prompt_in_result=False,
            return_scores=True,
            **options,
        )
        return [(each.sequences_ids, each.scores) for each in results]

    def _sums(self, batch: Batch, row: int, outputs: list[Sequence[int]]) -> list[float]:
        prompt = given_tokens(batch)[row]
        whole = [self._spell([*prompt, *each, END], 0) for each in outputs]
        found = self._engine.score_batch(whole)
        return [sum(one.log_probs[-len(each) - 1 :]) for one, each in zip(found, outputs, strict=True)]


class EncoderEngine(LoadedModel):
    """Of an encoder alone: it gives hidden states, which the head of the run reads here."""

    def __init__(self, trained: TrainedModel, folder: Path) -> None:
        super().__init__(trained)
        self._model: Any = deepcopy(trained.model).eval()
        self._model.encoder = _EncoderModule(folder)

    def logits(self, batch: Batch) -> Tensor:
        """Returns the head's scores of CTranslate2's hidden states, at level `vector` the vectors."""
        with torch.inference_mode():  # perhaps no parameter is left
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
