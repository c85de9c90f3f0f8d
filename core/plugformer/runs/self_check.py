"""The self-check at the end of every training: the same answers, computed in two ways each.

Answers to made-up questions are recorded, too: they show whether changed code answers alike.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from plugformer.data.encoding import EncodedSplit
from plugformer.errors import PlugformerError
from plugformer.evaluation.predictor import GenerativePredictor
from plugformer.evaluation.report import ConsistencyCheck, SelfCheck, close
from plugformer.interfaces import (
    END,
    SPECIAL_TOKENS,
    Batch,
    Example,
    Generative,
    Hypothesis,
    Level,
    Model,
    Prediction,
    Tokens,
    evaluating,
)
from plugformer.registry import Kind

if TYPE_CHECKING:
    from plugformer.runs.loading import TrainedModel

Differences = Float[ndarray, " examples"]
"""Differences between two ways to compute the same, in nats."""

EXAMPLES = 8
"""Examples whose answers are compared."""

MORE_PADDING = 3

QUESTIONS, TOKENS = 4, 6
"""Made-up questions, and tokens of each."""

_DIVERGED = "the training has diverged, and parameters are not finite: try a lower learning rate"
_NOT_SAVED = "a component has state in neither parameters nor buffers, which is not saved"


class Way(NamedTuple):
    """Two ways to compute the same: names of both, the probable cause of differences, and these."""

    name: str
    likely: str
    compute: Callable[[], Differences]


def check(trained: "TrainedModel", split: EncodedSplit) -> SelfCheck:
    """Compares ways to compute the answers to a few examples."""
    rows = range(len(split))[:EXAMPLES]
    continues = trained.processor.task_type.level is Level.NEXT_TOKEN
    ways = (_continuing if continues else _reading)(trained, split, rows)
    inputs = [split.input(row) for row in rows]
    finite = all(parameter.isfinite().all() for parameter in trained.model.parameters())
    with evaluating(trained.model):
        found = [_compare(way if finite else way._replace(likely=_DIVERGED), inputs) for way in ways]
    return SelfCheck(found, len(rows))


def _compare(way: Way, inputs: Sequence[str]) -> ConsistencyCheck:
    try:
        differences = way.compute()
    except Exception as error:  # raised by a component; the model is saved already
        return ConsistencyCheck(way.name, math.nan, "", way.likely, f"{type(error).__name__}: {error}")
    worst = int(np.argmax(differences))  # NaN counts as the largest
    return ConsistencyCheck(way.name, float(differences[worst]), inputs[worst], way.likely)


def _contracts(*components: str) -> str:
    """Returns the commands that check single components."""
    return " and ".join(f"`plugformer check {component}`" for component in components)


def _suspects(trained: "TrainedModel") -> tuple[str, str]:
    """Returns the attention and the positional encoding of the last stack."""
    settings = trained.task.model
    stack = getattr(settings, trained.experiment.architecture.stacks[-1][0])
    attention, position = stack.attention or settings.attention, stack.position or settings.position
    return f"attention/{attention.name}", f"position/{position.name}"


def _continuing(trained: "TrainedModel", split: EncodedSplit, rows: Sequence[int]) -> list[Way]:
    """Returns comparisons for models that generate.

    Cached decoding uses the search of the task. The other searches are greedy: where two outputs diverge, the
    probabilities of both tokens can be compared.
    """
    whole = [batch_of(split, rows, trained.model)]

    @cache
    def greedy() -> list[Hypothesis]:
        return best(_predictor(trained, "greedy"), whole)

    def apart(predictor: GenerativePredictor, batches: Sequence[Batch] = whole) -> Differences:
        return outputs_apart(_predictor(trained), split, rows, greedy(), best(predictor, batches))

    def alone() -> Differences:
        batches = [batch_of(split, [row], trained.model) for row in rows]
        return apart(_predictor(trained, "greedy"), batches)

    def loaded() -> Differences:
        predictor = _predictor(trained, "greedy")
        predictor.model = cast("Generative", trained.saved_model())
        return apart(predictor)

    contracts = _contracts(*_suspects(trained))
    state = f"the key-value cache of an attention, or positions: {contracts}"
    search = f"the search: {_contracts('decoding/beam')}"
    return [
        Way("cached = uncached", state, lambda: cached_and_uncached(_predictor(trained), split, rows)),
        Way("batch = single", f"padding is read, or rows are mixed: {contracts}", alone),
        Way("beam of 1 = greedy", search, lambda: apart(_predictor(trained, "beam", size=1))),
        Way("saved = loaded", _NOT_SAVED, loaded),
    ]


def _predictor(trained: "TrainedModel", decoding: str = "", **options: int) -> GenerativePredictor:
    """Returns a model's predictor in float32, with its task's decoding or with a built-in one."""
    predictor = cast("GenerativePredictor", trained.predictor())
    predictor.precision = None
    if decoding:
        predictor.decoding = trained.registry.create(Kind.DECODING, f"plugformer:{decoding}", **options)
    return predictor


def _reading(trained: "TrainedModel", split: EncodedSplit, rows: Sequence[int]) -> list[Way]:
    """Returns comparisons for models that predict labels or tags."""
    batch = batch_of(split, rows, trained.model)
    longest = max(tokens.ids.shape[1] for tokens in batch.sequences)
    padded = batch_of(split, rows, trained.model, longest + MORE_PADDING)
    singles = [batch_of(split, [row], trained.model) for row in rows]

    def apart(other: Model, *batches: Batch) -> Differences:
        found = zip(probabilities(trained.model, singles), probabilities(other, batches), strict=True)
        pairs = [(one, two[: len(one)]) for one, two in found]  # without rows that only others have
        # If both are minus infinity, their difference is NaN.
        differences = [torch.where(one == two, 0.0, (one - two).abs()) for one, two in pairs]
        return np.array([float(each.max()) if each.numel() else 0.0 for each in differences])

    contracts = _contracts(_suspects(trained)[0], f"head/{trained.task.model.head.name}")
    padding = f"padding is read: {contracts}"
    return [
        Way("batch = single", f"rows are mixed, or {padding}", lambda: apart(trained.model, batch)),
        Way("padded = unpadded", padding, lambda: apart(trained.model, padded)),
        Way("saved = loaded", _NOT_SAVED, lambda: apart(trained.saved_model(), *singles)),
    ]


def batch_of(
    split: EncodedSplit,
    rows: Sequence[int],
    model: Model,
    padding: int = 0,
    outputs: Sequence[Hypothesis] | None = None,
) -> Batch:
    """Returns examples on the model's device; `outputs` replace the targets, `padding` is a least length."""
    tokens = None if outputs is None else [hypothesis.tokens for hypothesis in outputs]
    lengths = [padding] * split.lengths.shape[1]
    return split.batch(rows, lengths, outputs=tokens).to(model.device)


def best(predictor: GenerativePredictor, batches: Sequence[Batch]) -> list[Hypothesis]:
    """Returns the best output for each example of some batches."""
    return [hypotheses[0] for batch in batches for hypotheses in predictor.search(batch, 0)]


def cached_and_uncached(
    predictor: GenerativePredictor, split: EncodedSplit, rows: Sequence[int]
) -> Differences:
    """Compares probabilities computed token by token, on cached states, with those of one pass over all.

    This is done for all that decoding finds, and for the right answers, since a model that has not learned
    much may find nothing but short outputs. Both ways are about the same tokens, so that a choice between two
    of nearly the same probability makes no difference.
    """
    model = predictor.model
    beams = predictor.search(batch_of(split, rows, model), 0)
    numbers = [number for number, hypotheses in enumerate(beams) for _ in hypotheses]
    hypotheses = [hypothesis for beam in beams for hypothesis in beam]
    scores = np.array([hypothesis.score for hypothesis in hypotheses])
    batch = batch_of(split, [rows[number] for number in numbers], model, outputs=hypotheses)
    answers = batch_of(split, rows, model)
    differences: Differences = np.abs(_cached(model, answers) - _uncached(model, answers))
    np.maximum.at(differences, numbers, np.abs(scores - _uncached(model, batch)))
    return differences


def _uncached(model: Generative, batch: Batch) -> Float[ndarray, " examples"]:
    """Returns the log-probability of each target, by one pass."""
    targets, counted = model.targets(batch)
    scores = model.logits(batch).float().log_softmax(dim=-1).gather(2, targets[..., None])[..., 0]
    log_probabilities: ndarray = scores.masked_fill(~counted, 0.0).sum(dim=1).cpu().double().numpy()
    return log_probabilities


def _cached(model: Generative, batch: Batch) -> Float[ndarray, " examples"]:
    """Returns the log-probability of each example's targets, token by token."""
    targets, counted = model.targets(batch)
    order = (~counted).int().argsort(dim=1, stable=True)[:, : int(counted.sum(dim=1).max())]  # without gaps
    following, counts = targets.gather(1, order), counted.gather(1, order)
    past, hidden = model.begin(batch)
    context = model.head_input(batch, past, hidden)
    total = torch.zeros(len(hidden), dtype=torch.float64)  # on the CPU: not every device has float64
    columns = list(zip(following.split(1, dim=1), counts.split(1, dim=1), strict=True))
    for column, (ids, real) in enumerate(columns):
        if column:  # a sequence of full length has no room for a step after its last token
            hidden = model.step(Tokens(*columns[column - 1]), past)[:, -1]
            context = replace(context, cross_attention=model.take_cross_attention())
        scores = model.head.logits(hidden[:, None], context).float().log_softmax(dim=-1)[:, 0]
        total += scores.gather(1, ids).masked_fill(~real, 0.0)[:, 0].cpu()
    log_probabilities: ndarray = total.numpy()
    return log_probabilities


def outputs_apart(
    predictor: GenerativePredictor,
    split: EncodedSplit,
    rows: Sequence[int],
    outputs: Sequence[Hypothesis],
    others: Sequence[Hypothesis],
) -> Differences:
    """Compares outputs of two greedy searches.

    If the tokens are the same, their scores are compared; otherwise the probabilities of the two tokens at
    which the outputs diverge, since tokens of nearly equal probability may be exchanged.
    """
    triples = zip(rows, outputs, others, strict=True)
    return np.array([_apart(predictor, split, row, one, other) for row, one, other in triples])


def _apart(
    predictor: GenerativePredictor, split: EncodedSplit, row: int, one: Hypothesis, other: Hypothesis
) -> float:
    if one.tokens == other.tokens:
        return abs(one.score - other.score)
    batch = batch_of(split, [row], predictor.model, outputs=[one])
    logits = predictor.model.logits(batch)[0][predictor.model.targets(batch)[1][0]]
    pairs = zip([*one.tokens, END], [*other.tokens, END], strict=False)
    place, tokens = next((place, pair) for place, pair in enumerate(pairs) if len(set(pair)) == 2)
    first, second = logits[place].float().log_softmax(dim=-1)[list(tokens)].tolist()
    return abs(float(first - second))


def probabilities(model: Model, batches: Sequence[Batch]) -> list[Float[Tensor, "..."]]:
    """Returns the head's log-probabilities at the predicted positions of each example.

    Of a head without probabilities it returns the scores: their softmax depends on those of rows that are not
    there. Of a head whose loss depends on the batch it returns the vectors, which do not.
    """
    log_probabilities = []
    for batch in batches:
        if model.head.depends_on == "batch":
            scores = model.head.vectors(model.hidden(batch)).float()
        else:
            logits = model.logits(batch).float()
            probable = model.head.probabilities and logits.shape[-1] > 1
            scores = logits.log_softmax(dim=-1) if probable else logits
        real = model.targets(batch)[1]
        log_probabilities += [row[real[n]] if row.dim() > 1 else row for n, row in enumerate(scores)]
    return log_probabilities


def record_answers(trained: "TrainedModel") -> list[dict[str, Any]]:
    """Returns `input`, `output` and `score` for each question that the model can answer, for JSON."""
    try:
        return _answers(trained, _questions(trained))
    except Exception:  # a type that takes no made-up question, a vocabulary without words: training has ended
        return []


def same_answers(trained: "TrainedModel", recorded: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether a model gives recorded answers: outputs are equal, numbers within the tolerance."""
    now = _answers(trained, [record["input"] for record in recorded])
    return close([dict(record) for record in recorded], now)


def _questions(trained: "TrainedModel") -> list[Example]:
    """Returns made-up questions, with texts from the vocabulary: a published run names none of its data."""
    task_type, tokenizer = trained.experiment.task_type, trained.processor.source
    columns = [column for column in trained.experiment.columns if not column.optional]
    asked = [column.name for column in columns if column.role == "input"] or [columns[0].name]
    examples = list(task_type.check_examples)
    draw, ordinary = random.Random(0), range(len(SPECIAL_TOKENS), tokenizer.size)  # noqa: S311
    for _ in range(0 if examples else QUESTIONS):
        example: dict[str, Any] = {}
        for column in columns:
            value = column.kind.example(draw, example.get(column.along or ""))
            if isinstance(value, str) and column.name in asked:
                tokens = draw.choices(ordinary, k=TOKENS)
                value = " ".join([*tokenizer.decode([tokens]), *task_type.mask_tokens[:1]])
            example[column.name] = value
        examples.append(example)
    return [{name: example[name] for name in asked if name in example} for example in examples]


def _answers(trained: "TrainedModel", questions: Sequence[Example]) -> list[dict[str, Any]]:
    answers: Sequence[Prediction | PlugformerError]
    try:
        if trained.model.head.depends_on == "batch":  # it finds texts among others, by vectors
            texts = [str(next(iter(question.values()))) for question in questions]
            answers = list(map(Prediction, trained.vectors(texts).tolist()))
        else:
            answers = trained.predict_each(questions)
    except PlugformerError:  # scores that are not finite
        return []
    return [
        {"input": question, "output": answer.output, "score": answer.score}
        for question, answer in zip(questions, answers, strict=True)
        if isinstance(answer, Prediction)
    ]
