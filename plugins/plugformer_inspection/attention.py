"""What a model reads of a text: the weights of all its attentions, and the tokens between which they lie."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plugformer.interfaces import BEGIN, END, UNKNOWN, Level, Tokenizer, evaluating
from plugformer.runs import TrainedModel
from plugformer_inspection.observation import Place, Record, attentions, observing

_SPECIAL = {UNKNOWN: "<unknown>", BEGIN: "<begin>", END: "<end>"}


@dataclass(frozen=True)
class AttentionView:
    """What one attention did with a text.

    Attributes:
        place: Where it stands.
        component: Name of its class.
        query: Tokens that read.
        key: Tokens that are read.
        weights: How much of what a query reads comes from each key, of every softmax map (head); each row
            sums to 1. None of an attention that records no such weights.
    """

    place: Place
    component: str
    query: list[str]
    key: list[str]
    weights: Float[Tensor, "maps query key"] | None


@dataclass(frozen=True)
class Inspection:
    """What a model made of a text, and how its attentions read meanwhile.

    Attributes:
        text: The input.
        output: The model's answer: a text, or a label.
        attentions: The encoder's, then layer by layer the decoder's self-attention and cross-attention. The
            decoder reads BEGIN and the model's own output; each row of its weights belongs to the step that
            writes the token after the one named.
    """

    text: str
    output: str
    attentions: list[AttentionView]


def inspect_attention(trained: TrainedModel, text: str) -> Inspection:
    """Lets a model answer a text and returns what its attentions weighed.

    Raises:
        DataError: The text is no Unicode.
        LengthError: The text is longer than the model can process, and the task does not truncate.
    """
    model, vocabularies = trained.model, trained.vocabularies
    batch, output = trained.with_answer(text)
    with evaluating(model), observing(model) as records:
        model.hidden(batch)
    source = _spelled(vocabularies.source, batch.source.ids.flatten().tolist())
    read = batch.target.ids.flatten().tolist()
    generated = vocabularies.task_type.level is Level.NEXT_TOKEN
    target = _spelled(vocabularies.target, read[:-1] if generated else read)
    sides = {"encoder": source, "decoder": target}
    views = [
        AttentionView(
            place,
            type(attention).__name__,
            query := sides[place.stack],
            key := source if place.kind == "cross" else query,
            _weights(records, place, (len(query), len(key))),
        )
        for place, attention in attentions(model).items()
    ]
    return Inspection(text, output, views)


def _weights(
    records: Sequence[Record], place: Place, shape: tuple[int, int]
) -> Float[Tensor, "maps query key"] | None:
    """Returns the weights that an attention recorded between all tokens; several make one."""
    found = [
        record.value[0].float().cpu()
        for record in records
        if record.place == place and record.name == "weights"
        if record.value.dim() == 4 and record.value.shape[2:] == shape
    ]
    return torch.cat(found) if found else None


def _spelled(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Returns the spellings of tokens, special ones by one name in all vocabularies."""
    return [_SPECIAL.get(number, token) for number, token in zip(ids, tokenizer.tokens(ids), strict=True)]
