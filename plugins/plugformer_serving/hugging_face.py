"""The requests and answers of Hugging Face's inference API, by what a model answers.

https://huggingface.co/docs/inference-providers/tasks/index
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from torch.nn.functional import cosine_similarity, normalize

from plugformer.errors import PlugformerError
from plugformer.interfaces import Level, OutputType, Prediction
from plugformer_cli import record
from plugformer_serving.answering import Manner, Question
from plugformer_serving.completion_request import Wanted, read_wanted
from plugformer_serving.completions import Completion
from plugformer_serving.limits import Refused
from plugformer_serving.reading import (
    check_names,
    read_count,
    read_flag,
    read_object,
    read_questions,
    shown,
)
from plugformer_serving.service import Service, json_response

Parameters = dict[str, Any]
Shape = Callable[[Service, list[Question], Parameters], Awaitable[list[Any]]]
"""Answers texts; each answer has the form of a list with a single text."""

_GENERATION = {"max_new_tokens": "max_tokens", "num_return_sequences": "n"}
_COMPLETION = ("stop", "temperature", "top_p", "seed")
_UNUSED = ("details", "decoder_input_details", "do_sample", "watermark")  # sent with their defaults


def hugging_face(service: Service) -> Callable[[Request], Awaitable[Response]]:
    """Returns the endpoint for requests such as {"inputs": TEXT, "parameters": {"top_k": 3}}."""
    shape, one_list = shape_of(service)

    async def infer(request: Request) -> Response:
        """Answers in the shape of Hugging Face's inference API for what the model answers."""
        body = await read_object(request, service.limits)
        check_names(body, ("inputs", "parameters", "options", "stream"))
        inputs, parameters = body.get("inputs"), body.get("parameters") or {}
        if not isinstance(parameters, dict):
            raise Refused(400, f"parameters is {shown(parameters)}, expected an object")
        if read_flag(body.get("stream") or False, "stream"):
            raise Refused(400, "stream: only /v1/completions streams")
        parameters = {name: value for name, value in parameters.items() if value is not None}
        if isinstance(inputs, dict) and inputs.keys() == {"source_sentence", "sentences"}:
            return json_response(await _similarities(service, inputs, parameters))
        answers = await shape(service, read_questions(inputs, service.limits), parameters)
        single = not isinstance(inputs, list) and not one_list
        return json_response(answers[0] if single else answers)

    return infer


def shape_of(service: Service) -> tuple[Shape, bool]:
    """Returns what answers, and whether one text also gets a list of answers."""
    task_type = service.task_type
    if service.continues:
        return _continuations, False
    if service.generates:
        return _texts, True
    if service.finds:
        return _vectors, False
    if service.classes and service.trained.model.head.probabilities:
        return _classes, True
    if task_type.mask_tokens:
        return _masks, False
    if task_type.level is Level.TOKEN and task_type.output_type == OutputType.TAGS:
        return _spans, False
    if task_type.output_type == OutputType.LABELS:
        return _labels, True
    if task_type.output_type == OutputType.NUMBER:
        return _numbers, True
    return _records, True


async def _answered(service: Service, questions: list[Question], manner: Manner) -> list[Prediction]:
    """Returns answers; an error of one refuses the request, as there is no place for it."""
    answers = []
    for place, answer in enumerate(await service.answer(questions, manner)):
        if isinstance(answer, PlugformerError):
            where = f"inputs[{place}]: " if len(questions) > 1 else ""
            raise Refused(400, f"{where}{answer}")
        answers.append(answer)
    return answers


async def _classes(service: Service, questions: list[Question], parameters: Parameters) -> list[Any]:
    """Text classification: all classes with their probabilities, the most probable first."""
    check_names(parameters, ("top_k", "function_to_apply"), " in parameters")
    if parameters.get("function_to_apply", "softmax") != "softmax":
        raise Refused(400, "function_to_apply: probabilities are those of softmax; leave it out")
    most = len(service.classes)
    count = min(read_count(parameters.get("top_k", most), "top_k", 1_000_000), most)
    answers = await _answered(service, questions, Manner(n_best=count))
    return [
        [{"label": each.output, "score": each.probability} for each in (answer, *answer.alternatives)]
        for answer in answers
    ]


async def _labels(service: Service, questions: list[Question], parameters: Parameters) -> list[Any]:
    """Text classification with several labels: each label's own probability."""
    check_names(parameters, ("top_k",), " in parameters")
    count = read_count(parameters.get("top_k", 1_000_000), "top_k", 1_000_000)
    answers = await _answered(service, questions, Manner(probabilities=True))
    return [_ranked(answer.probabilities)[:count] for answer in answers]


def _ranked(probabilities: Any) -> list[dict[str, Any]]:
    """Returns classes with their probabilities, the most probable first."""
    ranked = sorted(probabilities.items(), key=lambda pair: -pair[1])
    return [{"label": label, "score": score} for label, score in ranked]


async def _numbers(service: Service, questions: list[Question], parameters: Parameters) -> list[Any]:
    """Text classification of a number: a single label, the name of its column."""
    check_names(parameters, (), " in parameters")
    label = next(column.name for column in service.task_type.columns if column.role == "output")
    answers = await _answered(service, questions, Manner())
    return [[{"label": label, "score": answer.output}] for answer in answers]


async def _spans(service: Service, questions: list[Question], parameters: Parameters) -> list[Any]:
    """Token classification: parts of the text with their labels, or words with their tags."""
    check_names(parameters, ("aggregation_strategy", "ignore_labels"), " in parameters")
    strategy = parameters.get("aggregation_strategy", "simple")
    if strategy not in ("none", "simple", "first", "average", "max"):
        raise Refused(400, f"aggregation_strategy is {shown(strategy)}, expected simple or none")
    ignored = parameters.get("ignore_labels", ["O"])
    if not isinstance(ignored, list) or not all(isinstance(label, str) for label in ignored):
        raise Refused(400, f"ignore_labels is {shown(ignored)}, expected a list of labels")
    task_type = service.task_type
    answers = await _answered(service, questions, Manner(probabilities=True))
    found = []
    for question, answer in zip(questions, answers, strict=True):
        example = task_type.example_from_text(question) if isinstance(question, str) else question
        text, places = word_places(example)
        tags: Sequence[Any] = answer.output if isinstance(answer.output, list) else []
        scores = [each[tag] for each, tag in zip(_by_word(answer), tags, strict=True)]
        if strategy == "none":
            parts = [
                {"entity": tag, "score": score, "index": index + 1, "word": text[start:end]}
                | {"start": start, "end": end}
                for index, (tag, score, (start, end)) in enumerate(zip(tags, scores, places, strict=False))
            ]
            found.append([part for part in parts if part["entity"] not in ignored])
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
        found.append([group for group in groups if group["entity_group"] not in ignored])
    return found


def _by_word(answer: Prediction) -> Sequence[Mapping[str, float]]:
    return answer.probabilities if isinstance(answer.probabilities, list) else []


def word_places(example: Any) -> tuple[str, list[tuple[int, int]]]:
    """Returns the text of words, and where each begins and ends in it."""
    (words,) = (value for value in example.values() if isinstance(value, str | list))
    if isinstance(words, str):
        return words, [match.span() for match in re.finditer(r"\S+", words)]
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))
    places = [(start, start + len(word)) for start, word in zip(starts, words, strict=False)]
    return " ".join(words), places


async def _masks(service: Service, questions: list[Question], parameters: Parameters) -> list[Any]:
    """Fill-mask: the text with the most probable tokens in place of its masks."""
    check_names(parameters, ("top_k",), " in parameters")
    read_count(parameters.get("top_k", 1), "top_k", 1)
    answers = await _answered(service, questions, Manner())
    return [[_filled(service, *pair)] for pair in zip(questions, answers, strict=True)]


def _filled(service: Service, question: Question, answer: Prediction) -> dict[str, Any]:
    text, sequence = question if isinstance(question, str) else "".join(question.values()), answer.text
    pattern = "(.*)".join(
        map(re.escape, re.split("|".join(map(re.escape, service.task_type.mask_tokens)), text))
    )
    match = re.fullmatch(pattern, sequence, re.DOTALL)
    token = " ".join(part.strip() for part in match.groups()) if match else ""
    return {"sequence": sequence, "token_str": token, "score": answer.probability}


async def _texts(service: Service, questions: list[Question], parameters: Parameters) -> list[Any]:
    """Translation and other answers in text. What they are called is for the client to choose."""
    wanted = _wanted(service, parameters, "")
    most = wanted.most if "max_new_tokens" in parameters else None
    manner = Manner(n_best=wanted.count, most=most, options=wanted.manner.options)
    answers = await _answered(service, questions, manner)
    return [
        {"generated_text": each.output, "translation_text": each.output}
        for answer in answers
        for each in (answer, *answer.alternatives)
    ]


async def _continuations(service: Service, questions: list[Question], parameters: Parameters) -> list[Any]:
    """Text generation: the prompt and its continuation."""
    whole = read_flag(parameters.pop("return_full_text", True), "return_full_text")
    prompts = [
        question if isinstance(question, str) else "".join(question.values()) for question in questions
    ]
    wanted = _wanted(service, parameters, prompts)
    completion = Completion(service, wanted, lambda *_: None)
    completion.end(await service.answer_numbered(completion.texts, wanted.manner))
    texts = [f"{choice.prompt if whole else ''}{choice.text}" for choice in completion.choices]
    return [
        [{"generated_text": text} for text in texts[start : start + wanted.count]]
        for start in range(0, len(texts), wanted.count)
    ]


def _wanted(service: Service, parameters: Parameters, prompts: str | list[str]) -> Wanted:
    """Returns a request for completions with these parameters."""
    known = (*_GENERATION, *_COMPLETION, *_UNUSED)
    check_names(parameters, known, " in parameters")
    if parameters.get("details"):
        raise Refused(400, "details: there are none; leave it out")
    names = {**_GENERATION, **dict(zip(_COMPLETION, _COMPLETION, strict=True))}
    body = {names[name]: value for name, value in parameters.items() if name in names}
    return read_wanted(service, {"prompt": prompts, **body})


async def _vectors(service: Service, questions: list[Question], parameters: Parameters) -> list[Any]:
    """Feature extraction: the vector of each text."""
    check_names(parameters, ("normalize", "input"), " in parameters")
    unit = read_flag(parameters.get("normalize", False), "normalize")
    name = parameters.get("input", "")
    texts = [question for question in questions if isinstance(question, str)]
    if len(texts) < len(questions) or not isinstance(name, str):
        raise Refused(400, "vectors are those of texts; send texts, and the name of one input")
    await service.check_tokens(texts)
    vectors = await service.waited(service.worker.call(lambda model: model.vectors(texts, name)))
    return (normalize(vectors, dim=-1) if unit else vectors).tolist() if texts else []


async def _similarities(service: Service, inputs: dict[str, Any], parameters: Parameters) -> list[float]:
    """Sentence similarity: how similar each of some texts is to one."""
    check_names(parameters, (), " in parameters")
    source, others = inputs["source_sentence"], inputs["sentences"]
    texts: list[Any] = [source, *others] if isinstance(others, list) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise Refused(400, "source_sentence takes a text, and sentences a list of texts")
    read_questions(texts, service.limits)
    names = [part.name for part in service.task_type.inputs]
    if service.task_type.level is not Level.VECTOR or len(names) != 2:
        raise Refused(400, "this model compares no sentences")
    if service.task_type.output_type == OutputType.NUMBER:
        pairs: list[Question] = [dict(zip(names, (source, other), strict=True)) for other in others]
        answers = await _answered(service, pairs, Manner())
        return [float(str(answer.output)) for answer in answers]
    await service.check_tokens(texts)

    def similarities(model: Any) -> list[float]:
        first, second = model.vectors([source], names[0]), model.vectors(others, names[1])
        products: list[float] = cosine_similarity(first, second).tolist()
        return products

    return await service.waited(service.worker.call(similarities)) if others else []


async def _records(service: Service, questions: list[Question], parameters: Parameters) -> list[Any]:
    """Anything else: what /predict returns."""
    check_names(parameters, (), " in parameters")
    answers = await service.answer(questions, Manner())
    return [record(*pair) for pair in zip(questions, answers, strict=True)]
