"""The attention weights with which a model computes; observing costs nothing outside of the context."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
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
    Context,
    Example,
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

    The "weights" of a softmax are (batch, maps, query, key). Queries and keys are the tokens at the positions
    of `context`: in a layer that takes some tokens, these alone.
    """

    place: AttentionLocation
    name: str
    value: Tensor
    context: Context


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

    An observed attention takes its plain path (`Context.observed`) and records the weights that it
    uses. A linear attention has no weights and records nothing. Each call of the model adds to the records,
    and so does each step of incremental decoding; layers that a backward pass computes again do not.
    """
    records: list[AttentionRecord] = []
    running: dict[str, Any] = {}  # the place of the layer that computes, and the call of its attention

    def observed(context: Context) -> Context:
        def record(name: str, value: Tensor) -> None:
            if len(running) == 2:
                (stack, number), (kind, seen) = running["place"], running["call"]
                place = AttentionLocation(stack, number, kind)
                records.append(AttentionRecord(place, name, value, seen))
            context.record(name, value)

        return replace(context, observer=record)

    def begin(turns: Iterator[tuple[str, int]], _: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        running.clear()
        running["place"] = next(turns)
        return tuple(observed(each) if isinstance(each, Context) else each for each in arguments)

    def call(kind: str, _: nn.Module, arguments: tuple[Any, ...]) -> None:
        running["call"] = kind, arguments[1]

    def end(*_: object) -> None:
        running.pop("call", None)

    places: dict[Any, list[tuple[str, int]]] = {}  # several where layers share their parameters
    for place in attentions(model):
        layer = cast("Sequence[nn.Module]", model.stacks[place.stack].layers)[place.layer]
        if place.kind == "self":
            places.setdefault(layer, []).append(place[:2])
    with ExitStack() as hooks:
        for layer, at in places.items():
            hooks.enter_context(layer.register_forward_pre_hook(partial(begin, cycle(at))))
            hooks.enter_context(layer.register_forward_hook(lambda *_: running.clear()))
            for kind, name in (("self", "attention"), ("cross", "cross_attention")):
                if (attention := getattr(layer, name, None)) is not None:
                    hooks.enter_context(attention.register_forward_pre_hook(partial(call, kind)))
                    hooks.enter_context(attention.register_forward_hook(end))
        yield records


@dataclass(frozen=True)
class AttentionView:
    """How one attention read a text.

    Attributes:
        place: Which attention.
        component: Name of its class.
        query: The tokens that read.
        key: The tokens that are read.
        weights: Of each key for each query, by softmax map (head). Each row sums to 1, or to 0 if the layer
            does not take its token. None if it has none.
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

    text: str | Example
    output: str
    attentions: list[AttentionView]


def inspect_attention(trained: TrainedModel, text: str | Example) -> Inspection:
    """Lets a model answer a text, or values by column, and returns its attention weights.

    Raises:
        DataError: The text is not valid Unicode.
        LengthError: The text is longer than the model can process, and the task does not truncate.
    """
    model, processor = trained.model, trained.processor
    split, predictor = trained.questions([text]), trained.predictor()
    with evaluating(model):
        (batch,) = predictor.batches(split, [0])
        if isinstance(predictor, GenerativePredictor):
            best = predictor.search(batch, 0)[0][0]
            (output,) = processor.target.decode([best.tokens])
            batch = split.batch([0], outputs=[best.tokens]).to(batch.device)
        else:
            output = predictor.answer(batch, 0)[0].text
        with observing(model) as records:
            model.hidden(batch)  # in one pass, what it computed while it answered
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


def _weights(
    records: Sequence[AttentionRecord], place: AttentionLocation, shape: tuple[int, int]
) -> Float[Tensor, "maps query key"] | None:
    """Returns the weights of all maps of an attention, zero at tokens that its layer did not take."""
    weights = []
    for _, name, value, context in (record for record in records if record.place == place):
        query, key = context.query, context.key
        if name == "weights" and value.dim() == 4 and value.shape[2:] == (query.length, key.length):
            real = [slice(None) if at.mask is None else at.mask[0] for at in (query, key)]
            rows, columns = (at.index[0][there].cpu() for at, there in zip((query, key), real, strict=True))
            seen = value[0][:, real[0]][:, :, real[1]]
            whole = torch.zeros(len(seen), *shape)
            whole[:, rows[:, None], columns] = seen.float().cpu()
            weights.append(whole)
    return torch.cat(weights) if weights else None


def _tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Returns tokens as text; special ones have the same name in all vocabularies."""
    return [_SPECIAL.get(number, token) for number, token in zip(ids, tokenizer.tokens(ids), strict=True)]
