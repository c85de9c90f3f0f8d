"""The requests and answers of Hugging Face's inference API, by what a model answers.

https://huggingface.co/docs/inference-providers/tasks/index
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import accumulate
from typing import Annotated, Any, Literal, cast

from pydantic import Field
from starlette.exceptions import HTTPException
from torch.nn import functional

from plugformer.errors import PlugformerError
from plugformer.interfaces import Level, OutputType, Prediction, TaskType
from plugformer_cli import record
from plugformer_serving.answering import AnswerOptions, Question
from plugformer_serving.bodies import Body, Count, Questions
from plugformer_serving.completions import Completion, Seed, Stop, Temperature, Tokens, TopP
from plugformer_serving.service import Service, texts_in

TopK = Annotated[int, Field(ge=1)] | None

Shape = Callable[..., Awaitable[list[Any]]]
"""Answers texts, with parameters by name; each answer has the form of a list with a single text."""


async def infer(
    service: Service,
    *,
    inputs: Questions,
    parameters: Body | None = None,
    options: Any = None,
    stream: Literal[False] = False,  # only /v1/completions streams
) -> Any:
    """The request and answer of Hugging Face's inference API."""
    if isinstance(inputs, dict) and inputs.keys() == {"source_sentence", "sentences"}:
        return await _similarities(service, inputs)
    shape, one_list = shape_of(service)
    questions = inputs if isinstance(inputs, list) else [inputs]
    answers = await shape(service, questions, **dict(parameters or ()))
    return answers if isinstance(inputs, list) or one_list else answers[0]


def shape_of(service: Service) -> tuple[Shape, bool]:
    """Returns what answers, and whether one text also gets a list of answers."""
    task_type = service.task_type
    if service.generates:
        return (_continuations, False) if service.continues else (_translations, True)
    if service.finds:
        return _vectors, False
    if service.classes and service.trained.model.head.probabilities:
        return _classes, True
    if task_type.mask_tokens:
        return _masks, False
    has_spans = task_type.output_type == OutputType.TAGS and type(task_type).spans is not TaskType.spans
    if service.has_probabilities and has_spans:
        return _spans, False
    if service.has_probabilities and task_type.output_type == OutputType.LABELS:
        return _labels, True
    if task_type.output_type == OutputType.NUMBER:
        return _numbers, True
    return _records, True


async def _answered(service: Service, questions: list[Question], options: AnswerOptions) -> list[Prediction]:
    """Returns answers; an error of one refuses the request, as there is no place for it."""
    answers = []
    for place, answer in enumerate(await service.answer(questions, options)):
        if isinstance(answer, PlugformerError):
            where = f"inputs[{place}]: " if len(questions) > 1 else ""
            raise HTTPException(400, f"{where}{answer}")
        answers.append(answer)
    return answers


async def _classes(
    service: Service,
    questions: list[Question],
    *,
    top_k: TopK = None,
    function_to_apply: Literal["softmax"] = "softmax",
) -> list[Any]:
    """Text classification: all classes with their probabilities, the most probable first."""
    count = min(top_k or len(service.classes), len(service.classes))
    answers = await _answered(service, questions, AnswerOptions(n_best=count))
    return [
        [{"label": each.output, "score": each.probability} for each in (answer, *answer.alternatives)]
        for answer in answers
    ]


async def _labels(service: Service, questions: list[Question], *, top_k: TopK = None) -> list[Any]:
    """Text classification with several labels: each label's own probability."""
    answers = await _answered(service, questions, AnswerOptions(probabilities=True))
    ranked = [
        sorted(cast("dict[str, float]", answer.probabilities).items(), key=lambda pair: -pair[1])
        for answer in answers
    ]
    return [[{"label": label, "score": score} for label, score in pairs[:top_k]] for pairs in ranked]


async def _numbers(service: Service, questions: list[Question]) -> list[Any]:
    """Text classification of a number: a single label, the name of its column."""
    label = next(column.name for column in service.task_type.columns if column.role == "output")
    answers = await _answered(service, questions, AnswerOptions())
    return [[{"label": label, "score": answer.output}] for answer in answers]


async def _spans(
    service: Service,
    questions: list[Question],
    *,
    aggregation_strategy: Literal["none", "simple", "first", "average", "max"] = "simple",
    ignore_labels: Sequence[str] = ("O",),
) -> list[Any]:
    """Token classification: parts of the text with their labels, or words with their tags."""
    task_type = service.task_type
    kinds = {column.name: column.kind for column in service.trained.experiment.columns}
    answers = await _answered(service, questions, AnswerOptions(probabilities=True))
    found = []
    for question, answer in zip(questions, answers, strict=True):
        given = task_type.example_from_text(question) if isinstance(question, str) else question
        example = {  # inputs first; a text stays as it was given, for the places in it
            name: given[name] if isinstance(given[name], str) else kind.read(given[name])
            for name, kind in kinds.items()
            if name in given
        }
        text, places = word_places(example)
        tags: Sequence[Any] = answer.output if isinstance(answer.output, list) else []
        by_word = cast("Sequence[Mapping[str, float]]", answer.probabilities or [])
        scores = [each[tag] for each, tag in zip(by_word, tags, strict=True)]
        if aggregation_strategy == "none":
            parts = [
                {"entity": tag, "score": score, "index": index + 1, "word": text[start:end]}
                | {"start": start, "end": end}
                for index, (tag, score, (start, end)) in enumerate(zip(tags, scores, places, strict=False))
            ]
            found.append([part for part in parts if part["entity"] not in ignore_labels])
            continue
        groups = []
        for span in task_type.spans(example, answer.output):
            inside = [
                score
                for score, (start, _) in zip(scores, places, strict=False)
                if span["start"] <= start < span["end"]
            ]
            mean = sum(inside) / max(1, len(inside))
            group = {"entity_group": span["label"], "score": mean, "word": span["text"]}
            groups.append(group | {"start": span["start"], "end": span["end"]})
        found.append([group for group in groups if group["entity_group"] not in ignore_labels])
    return found


def word_places(example: Any) -> tuple[str, list[tuple[int, int]]]:
    """Returns the text of words, and where each begins and ends in it."""
    words = next(value for value in example.values() if isinstance(value, str | list))
    if isinstance(words, str):
        return words, [match.span() for match in re.finditer(r"\S+", words)]
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))
    places = [(start, start + len(word)) for start, word in zip(starts, words, strict=False)]
    return " ".join(words), places


async def _masks(service: Service, questions: list[Question], *, top_k: Literal[1] = 1) -> list[Any]:
    """Fill-mask: the text with the most probable tokens in place of its masks."""
    answers = await _answered(service, questions, AnswerOptions())
    return [[_filled(service, *pair)] for pair in zip(questions, answers, strict=True)]


def _filled(service: Service, question: Question, answer: Prediction) -> dict[str, Any]:
    text, sequence = "".join(texts_in(question)), answer.text
    parts = re.split("|".join(map(re.escape, service.task_type.mask_tokens)), text)
    tokenizer = service.trained.processor.source
    written = tokenizer.decode(tokenizer.encode(parts))  # as in the answer, where words may be unknown
    match = re.fullmatch("(.*)".join(map(re.escape, written)), sequence, re.DOTALL)
    token = " ".join(part.strip() for part in match.groups()) if match else ""
    return {"sequence": sequence, "token_str": token, "score": answer.probability}


async def _translations(
    service: Service,
    questions: list[Question],
    *,
    max_new_tokens: Tokens = None,
    num_return_sequences: Count = 1,
    temperature: Temperature = None,
    top_p: TopP = None,
    seed: Seed = None,
    details: Literal[False] = False,
    decoder_input_details: Any = None,
    do_sample: Any = None,
    watermark: Any = None,
) -> list[Any]:
    """Translation and other texts written from an input, by the names that tasks give them."""
    sampling = {"temperature": temperature, "top_p": top_p, "seed": seed}
    options, _ = service.options(num_return_sequences, max_new_tokens, sampling)
    return [
        {"generated_text": each.output, "translation_text": each.output}
        for answer in await _answered(service, questions, options)
        for each in (answer, *answer.alternatives)
    ]


async def _continuations(
    service: Service,
    questions: list[Question],
    *,
    max_new_tokens: Tokens = None,
    num_return_sequences: Count = 1,
    stop: Stop = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    seed: Seed = None,
    return_full_text: bool = True,
    details: Literal[False] = False,
    decoder_input_details: Any = None,
    do_sample: Any = None,
    watermark: Any = None,
) -> list[Any]:
    """Text generation: the prompt and its continuation."""
    count, sampling = num_return_sequences, {"temperature": temperature, "top_p": top_p, "seed": seed}
    completion = Completion(service, questions, count, max_new_tokens, stop, sampling)
    await completion.answer()
    texts = [
        {"generated_text": f"{choice.prompt if return_full_text else ''}{choice.text}"}
        for choice in completion.choices
    ]
    return [texts[start : start + count] for start in range(0, len(texts), count)]


async def _vectors(
    service: Service,
    questions: list[Question],
    *,
    normalize: bool = False,
    input: str = "",  # noqa: A002 (its name in a request)
) -> list[Any]:
    """Feature extraction: the vector of each text."""
    texts = [question for question in questions if isinstance(question, str)]
    if len(texts) < len(questions):
        raise HTTPException(400, "vectors are those of texts; send texts, and the name of one input")
    await service.check_size(texts)
    vectors = await service.result_of(service.worker.call(lambda model: model.vectors(texts, input)))
    return (functional.normalize(vectors, dim=-1) if normalize else vectors).tolist() if texts else []


async def _similarities(service: Service, inputs: dict[str, Any]) -> list[float]:
    """Sentence similarity: how similar each of some texts is to one."""
    source, others = inputs["source_sentence"], inputs["sentences"]
    texts: list[Any] = [source, *others] if isinstance(others, list) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise HTTPException(400, "source_sentence takes a text, and sentences a list of texts")
    names = [part.name for part in service.task_type.inputs]
    if service.task_type.level is not Level.VECTOR or len(names) != 2:
        raise HTTPException(400, "this model compares no sentences")
    if service.task_type.output_type == OutputType.NUMBER:
        pairs: list[Question] = [dict(zip(names, (source, other), strict=True)) for other in others]
        answers = await _answered(service, pairs, AnswerOptions())
        return [float(str(answer.output)) for answer in answers]
    await service.check_size(texts)

    def similarities(model: Any) -> list[float]:
        first, second = model.vectors([source], names[0]), model.vectors(others, names[1])
        products: list[float] = functional.cosine_similarity(first, second).tolist()
        return products

    return await service.result_of(service.worker.call(similarities)) if others else []


async def _records(service: Service, questions: list[Question]) -> list[Any]:
    """Anything else: what /predict returns."""
    answers = await service.answer(questions, AnswerOptions())
    return [record(*pair) for pair in zip(questions, answers, strict=True)]
