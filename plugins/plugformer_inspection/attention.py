"""The attention weights with which a model computes; observing costs nothing outside of the context."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Literal, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from plugformer.evaluation import GenerativePredictor
from plugformer.interfaces import (
    BEGIN,
    END,
    UNKNOWN,
    Attention,
    AttentionContext,
    Batch,
    Level,
    Model,
    Tokenizer,
    evaluating,
)
from plugformer.runs import TrainedModel

_SPECIAL = {UNKNOWN: "<unknown>", BEGIN: "<begin>", END: "<end>"}


class AttentionLocation(NamedTuple):
    """Which attention of a model: of a stack, in a layer (from 0), to itself or to the encoder's output."""

    stack: str
    layer: int
    kind: Literal["self", "cross"]


class AttentionRecord(NamedTuple):
    """A tensor that an attention recorded as it was used, and what it calls it.

    The "weights" of a softmax are (batch, maps, query, key).
    """

    place: AttentionLocation
    name: str
    value: Tensor


def attentions(model: Model) -> dict[AttentionLocation, Attention]:
    """Returns the attentions of a model by location, in the order in which they compute."""
    result = {}
    for name, stack in model.stacks.items():
        for number, layer in enumerate(cast("Sequence[nn.Module]", stack.layers)):
            result[AttentionLocation(name, number, "self")] = cast("Attention", layer.attention)
            if (cross := getattr(layer, "cross_attention", None)) is not None:
                result[AttentionLocation(name, number, "cross")] = cross
    return result


@contextmanager
def observing(model: Model) -> Iterator[list[AttentionRecord]]:
    """Inside, what the attentions of a model record is collected, in the order of computation.

    An observed attention takes its plain path (`AttentionContext.observed`) and records the weights that it
    uses. A linear attention has no weights and records nothing. Each call of the model adds to the records,
    and so does each step of incremental decoding.
    """
    records: list[AttentionRecord] = []
    places: dict[nn.Module, dict[int, list[AttentionLocation]]] = {}
    for place in attentions(model):
        layer = getattr(model, place.stack).layers[place.layer]
        places.setdefault(layer, {}).setdefault(place.layer, []).append(place)
    with ExitStack() as hooks:
        for layer, calls in places.items():
            hooks.callback(layer.register_forward_pre_hook(_pre_hook(records, list(calls.values()))).remove)
        yield records


def _pre_hook(
    records: list[AttentionRecord], calls: Sequence[Sequence[AttentionLocation]]
) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
    """Returns a hook that gives each context of a layer's call an observer.

    The layers of a stack share one context, which does not know the layer, so each gets its own copy. A
    decoder layer takes two contexts: of self-attention, then of cross-attention. `calls` are the attentions
    of each call in a pass: several calls where layers share their parameters.
    """
    turns = cycle(calls)

    def recording(place: AttentionLocation, context: AttentionContext) -> AttentionContext:
        def record(name: str, value: Tensor) -> None:
            records.append(AttentionRecord(place, name, value))
            if context.observer is not None:
                context.observer(name, value)

        return context.observed_by(record)

    def hook(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        places = iter(next(turns))
        return tuple(
            recording(next(places), value) if isinstance(value, AttentionContext) else value
            for value in inputs
        )

    return hook


@dataclass(frozen=True)
class AttentionView:
    """How one attention read a text.

    Attributes:
        place: Which attention.
        component: Name of its class.
        query: The tokens that read.
        key: The tokens that are read.
        weights: Of each key for each query, by softmax map (head); each row sums to 1. None if it has none.
    """

    place: AttentionLocation
    component: str
    query: list[str]
    key: list[str]
    weights: Float[Tensor, "maps query key"] | None


@dataclass(frozen=True)
class Inspection:
    """A model's answer to a text, and the attention weights of the pass that computed it.

    The attentions are the encoder's, then layer by layer the decoder's self-attention and cross-attention.
    The decoder reads BEGIN and the model's own output; each row of its weights belongs to the step that
    writes the token after the one named.
    """

    text: str
    output: str
    attentions: list[AttentionView]


def inspect_attention(trained: TrainedModel, text: str) -> Inspection:
    """Lets a model answer a text and returns its attention weights.

    Raises:
        DataError: The text is not valid Unicode.
        LengthError: The text is longer than the model can process, and the task does not truncate.
    """
    model, processor = trained.model, trained.processor
    batch, output = with_answer(trained, text)
    with evaluating(model), observing(model) as records:
        model.hidden(batch)
    source = _tokens(processor.source, batch.source.ids.flatten().tolist())
    target_ids = batch.target.ids.flatten().tolist()
    generated = processor.task_type.level is Level.NEXT_TOKEN
    target = _tokens(processor.target, target_ids[:-1] if generated else target_ids)
    tokens = {"encoder": source, "decoder": target}
    views = []
    for place, attention in attentions(model).items():
        query = tokens[place.stack]
        key = source if place.kind == "cross" else query
        weights = _weights(records, place, (len(query), len(key)))
        views.append(AttentionView(place, type(attention).__name__, query, key, weights))
    return Inspection(text, output, views)


def with_answer(trained: TrainedModel, text: str) -> tuple[Batch, str]:
    """Returns a text as a batch, and the model's answer; one that it generates is in the batch, too.

    `model.hidden(batch)` then computes what the model computed while it answered, in one pass.
    """
    split, predictor = trained.questions([text]), trained.predictor()
    with evaluating(trained.model):
        (batch,) = predictor.batches(split, [0])
        if not isinstance(predictor, GenerativePredictor):
            return batch, predictor.answer(batch, 0)[0].text
        best = predictor.search(batch, 0)[0][0]
    (output,) = trained.processor.target.decode([best.tokens])
    return split.batch([0], outputs=[best.tokens]).to(batch.device), output


def _weights(
    records: Sequence[AttentionRecord], place: AttentionLocation, shape: tuple[int, int]
) -> Float[Tensor, "maps query key"] | None:
    """Returns the weights that an attention recorded between all tokens, all its maps in one tensor."""
    weights = [
        record.value[0].float().cpu()
        for record in records
        if record.place == place and record.name == "weights"
        if record.value.dim() == 4 and record.value.shape[2:] == shape
    ]
    return torch.cat(weights) if weights else None


def _tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Returns tokens as text; special ones have the same name in all vocabularies."""
    return [_SPECIAL.get(number, token) for number, token in zip(ids, tokenizer.tokens(ids), strict=True)]
