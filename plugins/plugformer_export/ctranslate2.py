"""Export to CTranslate2: a translator, a generator or an encoder, by what the model is.

https://opennmt.net/CTranslate2
"""

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import (
    BEGIN,
    PADDING,
    SPECIAL_TOKENS,
    Batch,
    Generative,
    Hypothesis,
    Level,
    Tokenizer,
    Tokens,
    evaluating,
)
from plugformer.registry import Kind
from plugformer.runs import TrainedModel, own_tensors, save_tensors
from plugformer_export.ctranslate2_spec import Parts, specification, structure_problems
from plugformer_export.ctranslate2_usage import program
from plugformer_export.target import Engine, Target
from plugformer_export.tokenizer_files import sides, tokenizer_problems


class CTranslate2(Target):
    """CTranslate2's format, with the files of the tokenizers, and of the head where that is not exported."""

    name = "ctranslate2"
    libraries = ("ctranslate2",)
    compute_types = ("float32", "int8", "int8_float32", "int16", "float16", "int8_float16", "bfloat16")

    def problems(self, trained: TrainedModel) -> list[str]:
        """Returns the parts and settings without a counterpart."""
        found = [*Parts(trained).problems(), *structure_problems(trained)]
        if trained.model.level is Level.NEXT_TOKEN:
            decoding = trained.task.decoding
            searches = [
                trained.registry.load(Kind.DECODING, f"plugformer:{name}") for name in ("greedy", "beam")
            ]
            if trained.registry.load(Kind.DECODING, decoding.name) not in searches:
                found.append(f"decoding: {decoding.name!r}")
            for key in ("pattern", "length"):
                if getattr(decoding, key) is not None:
                    without = f"; leave it out with --set decoding.{key}=null"
                    found.append(f"decoding.{key}: {getattr(decoding, key)!r} (a constraint{without})")
        found += tokenizer_problems(trained)
        return found

    def write(self, trained: TrainedModel, folder: Path) -> None:
        """Writes the model, vocabularies and tokenizers."""
        spec = specification(trained)
        vocabularies = []
        for side, tokenizer in sides(trained).items():
            tokenizer.save(folder / f"tokenizer-{side}.json")
            vocabularies.append(spellings(tokenizer))
        if len(trained.model.stacks) == 2:
            spec.register_source_vocabulary(vocabularies[0])
            spec.register_target_vocabulary(vocabularies[-1])
        else:
            spec.register_vocabulary(vocabularies[0])
        spec.validate()
        spec.optimize(quantization=None if self.compute_type == "float32" else self.compute_type)
        spec.save(str(folder))
        if trained.model.level is not Level.NEXT_TOKEN:
            save_tensors(own_tensors(trained.model.head), folder / "head.safetensors")

    def load(self, trained: TrainedModel, folder: Path) -> Engine:
        """Returns the translator, the generator or the encoder."""
        names = set(trained.model.stacks)
        kind = Translator if len(names) == 2 else Generator if "decoder" in names else Encoder
        return kind(trained, folder)

    def usage(self, trained: TrainedModel) -> str:
        """Returns a program that needs `ctranslate2` and `tokenizers` alone."""
        generates = trained.model.level is Level.NEXT_TOKEN
        return program(trained, sides(trained), search_options(trained) if generates else {})


def spellings(tokenizer: Tokenizer) -> list[str]:
    """Returns the vocabulary as its file spells it."""
    spelling: Any = getattr(tokenizer, "spelling", None)
    return [spelling(number) for number in range(tokenizer.size)]


class _Generates(Engine):
    """What translators and generators have in common: search options, and tokens by their spelling."""

    def __init__(self, trained: TrainedModel, folder: Path) -> None:
        super().__init__(trained)
        import ctranslate2

        threads = torch.get_num_threads()
        kind = getattr(ctranslate2, type(self).__name__)
        self._engine = kind(str(folder), device="cpu", compute_type="default", intra_threads=threads)
        self._spellings = [spellings(tokenizer) for tokenizer in sides(trained).values()]

    def _spell(self, row: Sequence[int], side: int) -> list[str]:
        return [self._spellings[side][token] for token in row]

    def search(self, batch: Batch) -> list[list[Hypothesis]]:
        """Returns each example's best output; examples with the same limits are searched together."""
        model = cast("Generative", self.trained.model)
        with evaluating(model):
            most = self.trained.predictor().constraint.bounds(  # type: ignore[attr-defined]
                model.input_lengths(batch), model.room(batch)
            )[1]
        limits = most.tolist()
        answers: dict[int, list[Hypothesis]] = {}
        for limit in set(limits):
            rows = [row for row, other in enumerate(limits) if other == limit]
            answers.update(zip(rows, self._found(batch, rows, limit), strict=True))
        return [answers[row] for row in range(len(limits))]

    def _found(self, batch: Batch, rows: list[int], most: int) -> list[list[Hypothesis]]:
        """Returns the best output of some rows, of at most so many tokens."""
        raise NotImplementedError

    def _hypotheses(
        self, tokens: Sequence[Sequence[int]], scores: Sequence[float], most: int
    ) -> list[Hypothesis]:
        """Returns the outputs of one example, with sums of log-probabilities: without END at the limit."""
        penalty = search_options(self.trained)["length_penalty"]
        lengths = [len(row) + (len(row) < most) for row in tokens]
        return [
            Hypothesis(list(row), score * length**penalty)
            for row, score, length in zip(tokens, scores, lengths, strict=True)
        ]


def search_options(trained: TrainedModel) -> dict[str, Any]:
    """Returns the arguments of CTranslate2 that make it search as the task's decoding does."""
    decoding: Any = trained.experiment.create(Kind.DECODING, trained.task.decoding)
    if hasattr(decoding, "size"):
        return {"beam_size": decoding.size, "length_penalty": decoding.length_penalty}
    # Its probabilities are then those of the other tokens alone, which matters to sums, not to a maximum.
    never = [[SPECIAL_TOKENS[PADDING]], [SPECIAL_TOKENS[BEGIN]]]
    return {"beam_size": 1, "length_penalty": 0, "suppress_sequences": never}


class Translator(_Generates):
    """Of encoder and decoder; it gives the log-probabilities of right tokens, and no logits."""

    def logits(self, batch: Batch) -> None:
        """Returns None."""

    def log_probabilities(self, batch: Batch) -> Float[Tensor, "batch length"]:
        """Returns those of the targets, END included; 0 at padding."""
        sources = [self._spell(row, 0) for row in _rows(batch.source)]
        targets = [row[1:-1] for row in _rows(batch.target)]  # without BEGIN and END, which it adds
        spelled = [self._spell(row, -1) for row in targets]
        found = self._engine.score_batch([row[:-1] for row in sources], spelled)
        scores = batch.target.ids.new_zeros(batch.target.ids[:, 1:].shape, dtype=torch.float32)
        for row, one in enumerate(found):
            numbers = one.log_probs
            scores[row, : len(numbers)] = torch.tensor(numbers)
        return scores

    def _found(self, batch: Batch, rows: list[int], most: int) -> list[list[Hypothesis]]:
        sources = [self._spell(row[:-1], 0) for row in _rows(batch.source)]
        results = self._engine.translate_batch(
            [sources[row] for row in rows],
            max_decoding_length=most,
            min_decoding_length=0,
            max_input_length=0,
            return_scores=True,
            **search_options(self.trained),
        )
        numbers = {token: number for number, token in enumerate(self._spellings[-1])}
        return [
            self._hypotheses(
                [[numbers[token] for token in row] for row in each.hypotheses], each.scores, most
            )
            for each in results
        ]


class Generator(_Generates):
    """Of a decoder alone."""

    def logits(self, batch: Batch) -> Float[Tensor, "batch length outputs"]:
        """Returns the logits of all positions but the last."""
        rows = [row[:-1] for row in _rows(batch.target)]
        found = torch.from_numpy(np.array(self._engine.forward_batch(rows)))
        whole = found.new_zeros(*batch.target.ids[:, 1:].shape, found.shape[-1])
        whole[:, : found.shape[1]] = found
        return whole

    def _found(self, batch: Batch, rows: list[int], most: int) -> list[list[Hypothesis]]:
        prompts = _prompts(batch)
        results = self._engine.generate_batch(
            [self._spell(prompts[row], 0) for row in rows],
            max_length=most,
            min_length=0,
            max_batch_size=1,  # in a batch, what prompts are longer than the shortest counts as output
            include_prompt_in_result=False,
            return_scores=True,
            **search_options(self.trained),
        )
        return [self._hypotheses(each.sequences_ids, each.scores, most) for each in results]


class Encoder(Engine):
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
        import ctranslate2

        threads = torch.get_num_threads()
        self._engine = ctranslate2.Encoder(
            str(folder), device="cpu", compute_type="default", intra_threads=threads
        )

    def forward(self, tokens: Tokens) -> SimpleNamespace:
        found = self._engine.forward_batch(_rows(tokens)).last_hidden_state
        return SimpleNamespace(hidden=torch.from_numpy(np.array(found)))


def _rows(tokens: Tokens) -> list[list[int]]:
    """Returns the real tokens of each row."""
    return [ids[real].tolist() for ids, real in zip(tokens.ids, tokens.mask, strict=True)]


def _prompts(batch: Batch) -> list[list[int]]:
    """Returns the given tokens of each row."""
    given = [1] * len(batch.target.ids) if batch.given is None else batch.given.tolist()
    return [row[:count] for row, count in zip(_rows(batch.target), given, strict=True)]
