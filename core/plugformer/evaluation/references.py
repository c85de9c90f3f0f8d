"""References that no output can equal, counted before a training."""

from collections.abc import Sequence
from itertools import chain

import torch
from jaxtyping import Bool
from torch import Tensor

from plugformer.configuration.task import Task
from plugformer.data.encoding import EncodedSplit
from plugformer.evaluation.evaluator import spread
from plugformer.evaluation.predictor import GenerativePredictor, Predictor
from plugformer.interfaces import END, UNKNOWN, AllowedTokens, OutputType

COUNTED = 200
"""Examples of a split."""


def unreachable(predictor: Predictor, split: EncodedSplit, task: Task) -> list[str]:
    """Returns a notice if half of the references or more can be no output: settings are wrong, not rows.

    Args:
        predictor: Has the tokenizers, and the outputs that are allowed.
        split: Examples with references, of which some are read.
        task: Its settings are named.
    """
    task_type = predictor.processor.task_type
    texts = task_type.output_type is OutputType.TEXT and not task_type.packed
    if not texts or not isinstance(predictor, GenerativePredictor):
        return []
    rows = spread(range(len(split)), COUNTED)
    references = [split.references(row) for row in rows]
    tokens = predictor.processor.target.encode([*chain.from_iterable(references)])
    counts = torch.tensor(list(map(len, tokens)))
    unknown, total = sum([*row].count(UNKNOWN) for row in tokens), int(counts.sum())
    if 0 < total <= 2 * unknown:
        what = f"{unknown:,} of {total:,} tokens of references are unknown to the tokenizer"
        return [f"WARNING: {what}: outputs cannot contain them; correct the options of tokenizer"]
    owners = torch.tensor([place for place, some in enumerate(references) for _ in some])
    batch, model = split.batch(rows), predictor.model
    allowed = predictor.allowed.start(model.input_lengths(batch)[owners], model.room(batch)[owners])
    fits = (allowed.least <= counts) & (counts <= allowed.most)
    key = "max_length" if task.decoding.length is None else "length"
    if task.decoding.output_constraint is not None and 2 * len(owners[fits].unique()) > len(rows):
        fits = _are_allowed(tokens, allowed, predictor.processor.target.size)
        key = task.decoding.constraint_key
    wrong = len(rows) - len(owners[fits].unique())
    if 2 * wrong < len(rows):
        return []
    value = getattr(task.decoding, key)
    setting = f"decoding.{key}={getattr(value, 'name', value)}"
    return [
        f"WARNING: {wrong:,} of {len(rows):,} references can be no output with {setting} and "
        f"model.max_length={task.model.max_length}; correct these settings"
    ]


def _are_allowed(
    tokens: Sequence[Sequence[int]], allowed: AllowedTokens, size: int
) -> Bool[Tensor, " references"]:
    """Returns whether each output is allowed, one token after the other and then END."""
    found = torch.ones(len(tokens), dtype=torch.bool)
    for place in range(max(map(len, tokens)) + 1):
        following = torch.tensor([row[place] if place < len(row) else END for row in tokens])
        scores = allowed.mask(torch.zeros(len(tokens), size)).gather(1, following[:, None])[:, 0]
        found &= scores.isfinite() | torch.tensor([place > len(row) for row in tokens])
        allowed.extend(following)
    return found
