"""OpenAI's completions of a model that continues texts."""

import json

import pytest
import torch
from tests.serving.conftest import TEXTS, Served

import plugformer
from plugformer_serving.limits import ServerLimits
from plugformer_serving.service import Service


def complete(server, status=200, **body):
    response = server.post("/v1/completions", **body)
    assert response.status_code == status, response.text
    return response.json()


def streamed(server, **body):
    """Returns the texts of choices by index, and the reasons of their ends, from a stream."""
    texts, reasons, parts = {}, {}, 0
    with server.client.stream("POST", "/v1/completions", json={**body, "stream": True}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line]
    assert lines.pop() == "data: [DONE]"
    for line in lines:
        (choice,) = json.loads(line.removeprefix("data: "))["choices"]
        texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
        reasons[choice["index"]] = choice["finish_reason"]
        parts += 1
    return texts, reasons, parts


def test_a_completion_is_the_answer_of_predict(served):
    server = served("continuation")
    found = complete(server, prompt="rain", max_tokens=12, model="continuation")
    assert found["choices"][0]["text"] == server.trained.predict("rain").output
    assert found["object"] == "text_completion"
    usage = found["usage"]
    assert usage["prompt_tokens"] == 4
    assert usage["completion_tokens"] == len(found["choices"][0]["text"].replace("<unk>", "?"))


def test_choices_of_a_random_decoding_count_from_0(served):
    server = served("continuation")
    found = complete(server, prompt=["rain", "the"], n=2, max_tokens=12)
    texts = [choice["text"] for choice in found["choices"]]
    assert texts == [each.output for each in server.trained.predict(["rain", "rain", "the", "the"])]
    assert [choice["index"] for choice in found["choices"]] == [0, 1, 2, 3]
    assert complete(server, prompt=["rain", "the"], n=2, max_tokens=12)["choices"] == found["choices"]


def test_the_end_is_a_limit_or_a_stop(served):
    server = served("continuation")
    short = complete(server, prompt="rain", max_tokens=3)["choices"][0]
    whole = complete(server, prompt="rain", max_tokens=12)["choices"][0]
    assert short == {"index": 0, "text": whole["text"][:3], "logprobs": None, "finish_reason": "length"}
    stopped = complete(server, prompt="rain", max_tokens=12, stop=[whole["text"][4:6], "####"])["choices"][0]
    assert stopped["text"] == whole["text"][: whole["text"].index(whole["text"][4:6])]
    assert stopped["finish_reason"] == "stop"


def test_a_stream_has_the_same_texts_token_by_token(served):
    server = served("continuation")
    body = {"prompt": TEXTS[:2], "n": 2, "max_tokens": 9, "echo": True}
    texts, reasons, parts = streamed(server, **body)
    found = complete(server, **body)["choices"]
    assert texts == {choice["index"]: choice["text"] for choice in found}
    assert reasons == {choice["index"]: choice["finish_reason"] for choice in found}
    assert parts > 3 * len(found)


def test_a_stream_says_nothing_of_a_stop(served):
    server = served("continuation")
    whole = complete(server, prompt="rain", max_tokens=12)["choices"][0]["text"]
    texts, reasons, _ = streamed(server, prompt="rain", max_tokens=12, stop=whole[5:8])
    assert texts == {0: whole[: whole.index(whole[5:8])]}
    assert reasons == {0: "stop"}


def fail_once(server, monkeypatch, error, *, spoilt=False):
    """Lets the model fail at its fifth step, once; until then it may say something else."""
    model, steps = server.trained.model, []
    step = model.step

    def failing(tokens, past):
        steps.append(tokens)
        if len(steps) == 5:
            raise error
        hidden = step(tokens, past)
        return -hidden if spoilt and len(steps) < 5 else hidden

    monkeypatch.setattr(model, "step", failing)


@pytest.mark.filterwarnings("ignore:memory has run out")
@pytest.mark.parametrize("stream", [False, True])
def test_a_batch_that_is_tried_again_repeats_no_text(served, monkeypatch, stream):
    server = served("continuation")
    body = {"prompt": TEXTS[:2], "max_tokens": 9}
    expected = complete(server, **body)
    fail_once(server, monkeypatch, torch.OutOfMemoryError("CUDA out of memory"))
    if stream:
        texts, _, _ = streamed(server, **body)
        assert texts == {choice["index"]: choice["text"] for choice in expected["choices"]}
    else:
        found = complete(server, **body)
        assert (found["choices"], found["usage"]) == (expected["choices"], expected["usage"])


@pytest.mark.filterwarnings("ignore:memory has run out")
def test_a_text_that_changes_after_it_was_sent_is_an_error(served, monkeypatch):
    server = served("continuation")
    body = {"prompt": TEXTS[:2], "max_tokens": 9}
    expected = complete(server, **body)["choices"]
    fail_once(server, monkeypatch, torch.OutOfMemoryError("CUDA out of memory"), spoilt=True)
    assert complete(server, **body)["choices"] == expected
    monkeypatch.undo()
    fail_once(server, monkeypatch, torch.OutOfMemoryError("CUDA out of memory"), spoilt=True)
    response = server.post("/v1/completions", **body, stream=True)
    *_, last = [line for line in response.text.splitlines() if line]
    assert "choice 0" in json.loads(last.removeprefix("data: "))["error"]["message"]


def test_temperature_seed_and_top_p_are_those_of_the_decoding(served):
    server = served("continuation")
    sure = complete(server, prompt="rain", temperature=0, max_tokens=8)["choices"]
    assert complete(server, prompt="rain", temperature=0, max_tokens=8, seed=7)["choices"] == sure
    drawn = {
        complete(server, prompt="rain", seed=seed, max_tokens=8, top_p=0.99)["choices"][0]["text"]
        for seed in range(4)
    }
    assert len(drawn) > 1


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({"prompt": None}, 400, "prompt: Field required"),
        ({"prompt": "rain", "temperature": -1}, 400, "temperature: "),
        ({"prompt": "rain", "best_of": 2}, 400, "best_of: "),
        ({"prompt": "rain", "model": "other"}, 404, "no model 'other'"),
        ({"prompt": "x" * 99}, 400, "has 99 tokens"),
        ({"prompt": "x" * 99, "stream": True}, 400, "has 99 tokens"),
        ({"prompt": ["rain"] * 99, "n": 99}, 413, "9,801 choices"),
    ],
)
def test_a_wrong_request_is_refused(served, body, status, reason):
    assert reason in complete(served("continuation"), status, **body)["error"]


@pytest.mark.parametrize(
    ("decoding", "statuses"),
    [(["name=greedy"], [200, 400, 400]), (["name=beam", "size=2"], [200, 200, 400])],
)
def test_several_choices_need_chance_or_a_beam_of_their_number(trained, decoding, statuses):
    overrides = [f"decoding.{option}" for option in decoding]
    model = plugformer.load(trained("continuation").directory, overrides=overrides)
    server = Served(Service(model, ServerLimits()))
    found = [server.post("/v1/completions", prompt="rain", n=n).status_code for n in (1, 2, 3)]
    server.service.worker.stop()
    assert found == statuses


def test_models_that_do_not_continue_texts_have_no_completions(served):
    assert served("source").post("/v1/completions", prompt="rain").status_code == 404
    assert served("continuation").client.get("/v1/models").json()["data"][0]["id"] == "continuation"


def test_a_stream_of_a_session_that_looks_rarely_drops_rows(served, monkeypatch):
    server = served("continuation")
    body = {"prompt": TEXTS, "n": 3, "max_tokens": 30}
    found = complete(server, **body)["choices"]
    monkeypatch.setattr("plugformer.interfaces.decoding.Session.every", 4)
    texts, _, _ = streamed(server, **body)
    assert len({len(text) for text in texts.values()}) > 1
    assert texts == {choice["index"]: choice["text"] for choice in found}


def test_the_model_and_no_engine_answers_streams_and_options_of_the_decoding(trained):
    model, asked = plugformer.load(trained("continuation").directory), []

    def answering(predictor):
        asked.append(predictor)
        return predictor

    model.answered_by = answering
    server = Served(Service(model, ServerLimits()))
    body = {"prompt": "rain", "max_tokens": 12}
    complete(server, prompt="rain", max_tokens=3)
    assert not asked  # nobody has compared an engine with this limit
    whole = complete(server, **body)["choices"][0]["text"]
    assert server.post("/predict", inputs="rain").status_code == 200
    assert len(asked) == 2
    texts, _, parts = streamed(server, **body)
    assert (texts, len(asked)) == ({0: whole}, 2)
    assert parts > 1
    complete(server, **body, temperature=2)
    assert len(asked) == 2
    complete(server, **body)
    assert len(asked) == 3
    server.service.worker.stop()
